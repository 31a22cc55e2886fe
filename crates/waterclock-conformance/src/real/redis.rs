//! A Redis server for one test.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use parking_lot::Mutex;
use tempfile::TempDir;

use super::clock::ShiftedClock;
use super::process::Process;
use super::program::Program;
use super::tls::Certificates;
use super::{Connection, Reply, free_port, within};

/// How long a server may take to answer, and a port to become free again.
const START: Duration = Duration::from_secs(10);

/// How often to try other ports when the chosen ones are taken.
const ATTEMPTS: usize = 5;

/// A real `redis-server` on a free loopback port, with an empty directory of its own and no
/// persistence. It is killed, and its directory removed, when this is dropped.
#[derive(Debug)]
pub struct RedisServer {
    // Before `dir`: a process ends before its directory is removed.
    process: Mutex<Option<Process>>,
    dir: TempDir,
    ports: Ports,
    settings: Settings,
    clock: Option<ShiftedClock>,
    certificates: Option<Certificates>,
}

impl RedisServer {
    /// Starts a server and waits until it answers.
    ///
    /// # Panics
    ///
    /// If `redis-server` is not installed or does not start.
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts a server with more lines in its configuration, such as `("maxmemory", "3mb")`. Values are not quoted.
    pub fn start_with(settings: &[(&str, &str)]) -> Self {
        Self::launch(Settings::server().with(settings))
    }

    /// Starts a server of another program, with more lines in its configuration.
    pub fn start_as(program: Program, settings: &[(&str, &str)]) -> Self {
        Self::launch(Settings::server_of(program).with(settings))
    }

    /// Starts a server whose wall clock can be moved: see [`RedisServer::set_clock_offset`].
    pub fn start_with_clock() -> Self {
        let clock = ShiftedClock::new();
        let mut settings = Settings::server();
        settings.environment = clock.environment();
        Self { clock: Some(clock), ..Self::launch(settings) }
    }

    /// Starts a server that takes TLS on a second port: see [`RedisServer::tls_url`].
    pub fn start_with_tls() -> Self {
        let certificates = Certificates::new();
        let mut settings = certificates.configure(Settings::server());
        settings.ports.push("tls-port");
        Self { certificates: Some(certificates), ..Self::launch(settings) }
    }

    pub(super) fn launch(settings: Settings) -> Self {
        for _ in 0..ATTEMPTS {
            let ports = settings.draw_ports();
            let dir = TempDir::with_prefix("waterclock-redis-").expect("a directory can be made");
            let process = Mutex::new(None);
            let settings = settings.clone();
            let server = Self { process, dir, ports, settings, clock: None, certificates: None };
            let text = server.settings.text(&server.ports, server.dir.path());
            fs::write(server.config(), text).expect("the directory can be written");
            match server.spawn() {
                Ok(process) => {
                    *server.process.lock() = Some(process);
                    return server;
                }
                Err(StartError::PortTaken) => {}
                Err(StartError::Other(why)) => panic!("{why}"),
            }
        }
        panic!("no free port in {ATTEMPTS} attempts");
    }

    /// The port for plain connections.
    pub fn port(&self) -> u16 {
        self.port_of("port")
    }

    /// Where it listens: `127.0.0.1:PORT`.
    pub fn addr(&self) -> String {
        format!("127.0.0.1:{}", self.port())
    }

    /// Where it listens, as a URL: `redis://127.0.0.1:PORT`, without a password.
    pub fn url(&self) -> String {
        format!("redis://{}", self.addr())
    }

    /// The port for TLS. Panics if the server was not started with it.
    pub fn tls_port(&self) -> u16 {
        self.port_of("tls-port")
    }

    /// Where it takes TLS, as a URL: `rediss://127.0.0.1:PORT`. Its certificate is for `localhost`
    /// as well.
    pub fn tls_url(&self) -> String {
        format!("rediss://127.0.0.1:{}", self.tls_port())
    }

    /// The certificate of the authority that signed the server's, to be trusted by clients.
    pub fn ca_pem(&self) -> &str {
        self.certificates.as_ref().expect("the server was started with TLS").ca_pem()
    }

    /// Sets its wall clock this many microseconds ahead of the system's, or behind if negative.
    /// Panics if the server was not started with a clock.
    pub fn set_clock_offset(&self, micros: i64) {
        self.clock().set(micros);
    }

    /// Moves its wall clock from where it is, forward or back.
    pub fn step_clock(&self, by: Duration, forward: bool) {
        self.clock().step(by, forward);
    }

    /// The id of its process. Panics while it is killed.
    pub fn pid(&self) -> u32 {
        self.with_process(|process| process.id())
    }

    /// Kills it as a crash would (`SIGKILL`) and waits until it is gone.
    pub fn kill(&self) {
        drop(self.process.lock().take());
    }

    /// Restarts it on the same ports, after killing it if necessary. Its data is lost.
    pub fn restart(&self) {
        self.kill();
        // Other tests try out ports while they look for a free one; ours may be in use for an instant.
        let started = within(START, || match self.spawn() {
            Ok(process) => Some(process),
            Err(StartError::PortTaken) => None,
            Err(StartError::Other(why)) => panic!("{why}"),
        });
        let process = started.unwrap_or_else(|| panic!("port {} was taken", self.port()));
        *self.process.lock() = Some(process);
    }

    /// Pauses it (`SIGSTOP`): connections stay open, nothing is answered.
    pub fn pause(&self) {
        self.with_process(Process::pause);
    }

    /// Resumes it (`SIGCONT`).
    pub fn resume(&self) {
        self.with_process(Process::resume);
    }

    /// Whether it was neither killed nor paused, nor ended by itself.
    pub fn is_up(&self) -> bool {
        self.process
            .lock()
            .as_mut()
            .is_some_and(|process| !process.is_paused() && !process.has_ended())
    }

    /// A new connection, authenticated if the server asks for a password.
    pub fn connect(&self) -> io::Result<Connection> {
        let mut connection = Connection::open(self.port())?;
        if let Some(password) = self.settings.password()
            && let Reply::Error(why) = connection.command(&["AUTH", password])?
        {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        Ok(connection)
    }

    /// What it replies to a command, sent over a connection of its own. Panics if there is no reply.
    #[track_caller]
    pub fn command<A: AsRef<[u8]>>(&self, command: &[A]) -> Reply {
        match self.try_command(command) {
            Ok(reply) => reply,
            Err(error) => panic!("no reply from {}: {error}", self.addr()),
        }
    }

    /// What it replies to a command, or why there is no reply within 5 seconds.
    pub fn try_command<A: AsRef<[u8]>>(&self, command: &[A]) -> io::Result<Reply> {
        self.connect()?.command(command)
    }

    /// A line of `INFO`, such as `role` in the section `replication`.
    pub fn info(&self, section: &str, name: &str) -> Option<String> {
        match self.try_command(&["INFO", section]).ok()? {
            Reply::Bulk(text) => field(&String::from_utf8_lossy(&text), name),
            _ => None,
        }
    }

    pub(super) fn port_of(&self, name: &str) -> u16 {
        let found = self.ports.iter().find(|(port, _)| *port == name);
        found.unwrap_or_else(|| panic!("this server has no {name}")).1
    }

    fn clock(&self) -> &ShiftedClock {
        self.clock.as_ref().expect("the server was started with a clock")
    }

    fn with_process<T>(&self, act: impl FnOnce(&mut Process) -> T) -> T {
        act(self.process.lock().as_mut().expect("the server was killed"))
    }

    fn config(&self) -> PathBuf {
        self.dir.path().join("redis.conf")
    }

    /// Starts the process and waits until it answers.
    fn spawn(&self) -> Result<Process, StartError> {
        let log_path = self.dir.path().join("log");
        let log = File::create(&log_path).expect("the directory can be written");
        let mut command = self.settings.program.command();
        command.arg(self.config()).envs(self.settings.environment.iter().cloned());
        command.stdin(Stdio::null());
        if self.settings.sentinel {
            command.arg("--sentinel");
        }
        command.stdout(log.try_clone().expect("a file can be shared")).stderr(log);
        let mut process = Process::start(&mut command, self.settings.program.advice());
        let answered = within(START, || {
            if process.has_ended() {
                return Some(false);
            }
            // Another Redis on this port would answer too.
            let id = self.info("server", "process_id")?;
            (id == process.id().to_string()).then_some(true)
        });
        if answered == Some(true) {
            return Ok(process);
        }
        let log = fs::read_to_string(log_path).unwrap_or_default();
        Err(if log.contains("Address already in use") {
            StartError::PortTaken
        } else {
            StartError::Other(format!("redis-server does not start; its log:\n{log}"))
        })
    }
}

/// Why a server did not start.
enum StartError {
    PortTaken,
    Other(String),
}

/// The value of a line `name:value`.
pub(super) fn field(text: &str, name: &str) -> Option<String> {
    let value = |line: &str| line.strip_prefix(name)?.strip_prefix(':').map(str::to_owned);
    text.lines().find_map(value)
}

/// The configuration of a Redis process. Ports are chosen at each attempt to start, because a free port may be taken a
/// moment later.
#[derive(Clone, Debug, Default)]
pub(super) struct Settings {
    pub(super) program: Program,
    /// Settings that take a free port, besides `port`.
    pub(super) ports: Vec<&'static str>,
    lines: Vec<(String, String)>,
    /// Whether this is a sentinel: a Redis that watches others.
    pub(super) sentinel: bool,
    /// Paths in its environment.
    pub(super) environment: Vec<(&'static str, PathBuf)>,
}

/// The ports of one attempt.
pub(super) type Ports = Vec<(&'static str, u16)>;

impl Settings {
    /// A server that keeps nothing on disk.
    pub(super) fn server() -> Self {
        Self::server_of(Program::Redis)
    }

    /// The same of another program.
    pub(super) fn server_of(program: Program) -> Self {
        Self { program, ..Self::default() }.with(&[("save", ""), ("appendonly", "no")])
    }

    /// A sentinel, which stores its state in its configuration file.
    pub(super) fn sentinel() -> Self {
        Self { sentinel: true, ..Self::default() }
    }

    /// Adds lines; the last line with a name counts.
    pub(super) fn with(mut self, lines: &[(&str, &str)]) -> Self {
        self.lines.extend(lines.iter().map(|&(name, value)| (name.into(), value.into())));
        self
    }

    /// The password that clients need.
    pub(super) fn password(&self) -> Option<&str> {
        let line = self.lines.iter().rev().find(|(name, _)| name == "requirepass");
        line.map(|(_, value)| value.as_str()).filter(|password| !password.is_empty())
    }

    /// Free ports for one attempt, that of plain connections first.
    pub(super) fn draw_ports(&self) -> Ports {
        std::iter::once("port")
            .chain(self.ports.iter().copied())
            .map(|name| (name, free_port()))
            .collect()
    }

    /// The configuration file.
    pub(super) fn text(&self, ports: &Ports, dir: &Path) -> String {
        let mut text = format!("bind 127.0.0.1\ndir \"{}\"\n", dir.display());
        for (name, port) in ports {
            text += &format!("{name} {port}\n");
        }
        for (name, value) in &self.lines {
            let value = if value.is_empty() { "\"\"" } else { value };
            text += &format!("{name} {value}\n");
        }
        text
    }
}
