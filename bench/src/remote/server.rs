//! A redis-server of our own: on loopback, without persistence, gone when we are.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use std::{fs, process, thread};

use super::Error;

pub struct Server {
    child: Child,
    directory: PathBuf,
    pub version: String,
    pub port: u16,
}

impl Server {
    pub fn start(module: Option<&Path>) -> Result<Self, Error> {
        let port = free_port()?;
        let directory =
            std::env::temp_dir().join(format!("waterclock-bench-redis-{}", process::id()));
        fs::create_dir_all(&directory)?;
        let mut command = mortal("redis-server");
        command.args(["--bind", "127.0.0.1", "--port", &port.to_string()]);
        command.args(["--save", "", "--appendonly", "no", "--loglevel", "warning"]);
        command.arg("--dir").arg(&directory);
        if let Some(module) = module {
            command.arg("--loadmodule").arg(module);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().map_err(|error| {
            let _ = fs::remove_dir_all(&directory);
            format!("redis-server: {error}")
        })?;
        let mut server = Self { child, directory, version: String::new(), port };
        server.wait_until_ready()?;
        Ok(server)
    }

    fn wait_until_ready(&mut self) -> Result<(), Error> {
        let client = redis::Client::open(url(self.port))?;
        for _ in 0..100 {
            if let Some(status) = self.child.try_wait()? {
                return Err(
                    format!("redis-server did not start: {status}; is it installed?").into()
                );
            }
            if let Ok(info) = greet(&client) {
                let line = |name: &str| info.lines().find_map(|line| line.strip_prefix(name));
                if line("process_id:") != Some(&self.child.id().to_string()) {
                    return Err("another redis-server took the port".into());
                }
                self.version = line("redis_version:").unwrap_or("?").to_owned();
                return Ok(());
            }
            thread::sleep(Duration::from_millis(50));
        }
        Err("redis-server did not answer within five seconds".into())
    }
}

pub fn url(port: u16) -> String {
    format!("redis://127.0.0.1:{port}/")
}

fn greet(client: &redis::Client) -> redis::RedisResult<String> {
    let mut connection = client.get_connection_with_timeout(Duration::from_secs(1))?;
    redis::cmd("INFO").arg("server").query(&mut connection)
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may be gone already; there is nothing else to do about it.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// A program that ends with this process however that ends, where `setpriv` is there to see to it.
fn mortal(program: &str) -> Command {
    let mut command = Command::new("setpriv");
    if !command.arg("--version").stdout(Stdio::null()).status().is_ok_and(|status| status.success())
    {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--", program]);
    command
}

fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}
