//! One `waterclock serve` among several that share a Redis.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use tempfile::TempDir;
use waterclock_conformance::real::{Process, await_that, free_port};

/// For every face and every role.
pub(crate) const TOKEN: &str = "a token of the soak, which is on loopback only";

/// A server on ports of its own, which it keeps when it is started again.
pub(crate) struct Server {
    // Before `folder`: a process ends before its folder is removed.
    process: Mutex<Option<Process>>,
    folder: TempDir,
    pub(crate) http: u16,
    pub(crate) grpc: u16,
    pub(crate) resp: u16,
    /// Counts its starts. A connection to an earlier one may break.
    life: AtomicU64,
    down: AtomicBool,
}

impl Server {
    pub(crate) fn start(configuration: &str) -> Self {
        let folder = TempDir::with_prefix("waterclock-soak-").expect("a folder can be made");
        let [http, grpc, resp] = [free_port(), free_port(), free_port()];
        let process = Mutex::new(None);
        let (life, down) = (AtomicU64::new(0), AtomicBool::new(true));
        let server = Self { process, folder, http, grpc, resp, life, down };
        server.write(configuration);
        server.start_again();
        server
    }

    /// Writes its configuration, which it reloads if it runs.
    pub(crate) fn write(&self, configuration: &str) {
        let path = self.folder.path();
        // Renamed into its place, as an editor does: never half a file.
        fs::write(path.join("new"), configuration).expect("a folder of ours");
        fs::rename(path.join("new"), path.join("waterclock.toml")).expect("a folder of ours");
    }

    pub(crate) fn start_again(&self) {
        let on = |port| format!("{}:{port}", Ipv4Addr::LOCALHOST);
        // While it was down, another process may have tried one of its ports.
        for attempt in 0.. {
            let log = File::create(self.folder.path().join("log")).expect("a folder of ours");
            let mut command = Command::new(env!("CARGO_BIN_EXE_waterclock"));
            command.args(["serve", "-c", "waterclock.toml"]).current_dir(self.folder.path());
            command.env("WATERCLOCK_HTTP", on(self.http)).env("WATERCLOCK_GRPC", on(self.grpc));
            command.env("WATERCLOCK_RESP", on(self.resp)).env_remove("WATERCLOCK_STORE_URL");
            command.env("SOAK_TOKEN", TOKEN).env("WATERCLOCK_LOG", "warn").stdin(Stdio::null());
            command.stdout(Stdio::null()).stderr(log);
            let mut process = Process::start(&mut command, "cargo builds it");
            await_that("a server listens, or ends", || process.has_ended() || self.is_healthy());
            if !process.has_ended() {
                *self.process() = Some(process);
                break;
            }
            assert!(attempt < 5, "a server does not start: {}", self.log());
        }
        self.life.fetch_add(1, Ordering::SeqCst);
        self.down.store(false, Ordering::SeqCst);
    }

    /// Ends it as a crash does.
    pub(crate) fn kill(&self) {
        self.down.store(true, Ordering::SeqCst);
        drop(self.process().take());
    }

    /// Ends it as an operator does; it must agree that all went well.
    pub(crate) fn stop(&self) {
        self.down.store(true, Ordering::SeqCst);
        let process = self.process().take().expect("it runs");
        let status = process.terminate();
        assert!(status.success(), "a server ended with {status}: {}", self.log());
    }

    pub(crate) fn pause(&self) {
        self.process().as_mut().expect("it runs").pause();
    }

    pub(crate) fn resume(&self) {
        self.process().as_mut().expect("it runs").resume();
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process().as_ref().expect("it runs").id()
    }

    /// Which of its lives this is, and whether it is stopped or about to be.
    pub(crate) fn life(&self) -> (u64, bool) {
        (self.life.load(Ordering::SeqCst), self.down.load(Ordering::SeqCst))
    }

    /// What it has logged since it was started.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    fn is_healthy(&self) -> bool {
        let Ok(mut stream) = TcpStream::connect((Ipv4Addr::LOCALHOST, self.http)) else {
            return false;
        };
        _ = stream.set_read_timeout(Some(Duration::from_secs(1)));
        _ = stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: t\r\nconnection: close\r\n\r\n");
        let mut text = [0; 12];
        stream.read_exact(&mut text).is_ok() && text.ends_with(b" 200")
    }

    fn process(&self) -> MutexGuard<'_, Option<Process>> {
        self.process.lock().expect("nobody panics with it")
    }
}
