//! A server under test: a process on the servers' core, on loopback, gone when we are.

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use std::{fs, process, thread};

use waterclock_bench::remote::cores::Cores;

use crate::Error;

/// How to start a server that listens on this port of 127.0.0.1 and may write to this directory.
pub type Launch = Box<dyn Fn(u16, &Path) -> Result<Command, Error>>;

pub struct Server {
    child: Child,
    directory: PathBuf,
    pub port: u16,
}

impl Server {
    pub fn start(launch: &Launch, cores: Option<Cores>) -> Result<Self, Error> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let directory =
            std::env::temp_dir().join(format!("waterclock-bench-server-{}", process::id()));
        fs::create_dir_all(&directory)?;
        let mut command = mortal(&launch(port, &directory)?);
        let log = fs::File::create(directory.join("log"))?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        // A process inherits its core, and thereby its number of threads, from its parent.
        cores.inspect(|cores| cores.enter_server());
        let child = command.spawn();
        cores.inspect(|cores| cores.enter_clients());
        let child = child.map_err(|error| {
            format!("{} does not start: {error}", command.get_program().display())
        })?;
        let mut server = Self { child, directory, port };
        server.wait_until_it_listens()?;
        Ok(server)
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    fn wait_until_it_listens(&mut self) -> Result<(), Error> {
        for _ in 0..200 {
            if let Some(status) = self.child.try_wait()? {
                return Err(format!("it ended at once, {status}: {}", self.last_words()).into());
            }
            if TcpStream::connect(("127.0.0.1", self.port)).is_ok() {
                return Ok(());
            }
            thread::sleep(Duration::from_millis(50));
        }
        Err(format!("the server does not listen after 10 s: {}", self.last_words()).into())
    }

    fn last_words(&self) -> String {
        let log = fs::read_to_string(self.directory.join("log")).unwrap_or_default();
        log.lines().next_back().unwrap_or("it said nothing").to_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may be gone already; there is nothing else to do about it.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// The same command, but it ends with this process however that ends, where `setpriv` is there to
/// see to it.
fn mortal(command: &Command) -> Command {
    let mut probe = Command::new("setpriv");
    probe.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
    let mut mortal = if probe.status().is_ok_and(|status| status.success()) {
        let mut mortal = Command::new("setpriv");
        mortal.args(["--pdeathsig", "KILL", "--"]).arg(command.get_program());
        mortal
    } else {
        Command::new(command.get_program())
    };
    mortal.args(command.get_args());
    mortal
}
