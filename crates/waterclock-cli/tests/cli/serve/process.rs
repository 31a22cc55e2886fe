//! A server of one's own.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle, sleep};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::client::Client;
use crate::support::Place;

/// Nothing that works takes this long.
const LONG: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(10);

/// `waterclock serve`, until this is dropped.
pub(crate) struct Serving {
    child: Child,
    /// Lines of standard output.
    lines: Receiver<String>,
    /// All that was said on standard error.
    log: Arc<Mutex<String>>,
    /// Ends when all of it was read.
    logged: Option<JoinHandle<()>>,
    pub(crate) http: SocketAddr,
    place: Place,
}

/// Free ports for every face.
const PORTS: [(&str, &str); 3] = [
    ("WATERCLOCK_HTTP", "127.0.0.1:0"),
    ("WATERCLOCK_GRPC", "127.0.0.1:0"),
    ("WATERCLOCK_RESP", "127.0.0.1:0"),
];

impl Serving {
    /// Serves `waterclock.toml` in the place.
    pub(crate) fn start(place: Place) -> Serving {
        Serving::start_with(place, &["serve", "-c", "waterclock.toml"], &[])
    }

    pub(crate) fn start_with(
        place: Place,
        arguments: &[&str],
        environment: &[(&str, &str)],
    ) -> Serving {
        Serving::spawn(place.command(arguments), place, environment)
    }

    /// Serves by a command of the test's own, which runs in the place.
    pub(super) fn spawn(
        mut command: Command,
        place: Place,
        environment: &[(&str, &str)],
    ) -> Serving {
        command.envs(PORTS).env_remove("WATERCLOCK_LOG").envs(environment.iter().copied());
        let mut child = command.spawn().unwrap();
        let log = Arc::new(Mutex::new(String::new()));
        let logged = Some(keep(child.stderr.take().unwrap(), Arc::clone(&log)));
        let (say, lines) = channel();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        thread::spawn(move || {
            stdout.lines().map_while(Result::ok).all(|line| say.send(line).is_ok())
        });
        let nowhere = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut serving = Serving { child, lines, log, logged, http: nowhere, place };
        serving.until("it listens", |serving| {
            serving.log().contains("protocol=\"resp\"")
                || serving.log().contains("\"protocol\":\"resp\"")
        });
        if let Some(http) = listening(&serving.log(), "http") {
            serving.http = http;
        }
        serving
    }

    /// Where a face listens, with the scheme that names it.
    pub(crate) fn url(&self, face: &str) -> String {
        let scheme = if face == "resp" { "redis" } else { face };
        let address = listening(&self.log(), face).expect("it listens");
        format!("{scheme}://{address}")
    }

    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    pub(crate) fn client(&self) -> Client {
        Client::connect(self.http).expect("it listens")
    }

    /// What was said on standard error so far.
    pub(crate) fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// What was said on standard output so far.
    pub(crate) fn said(&self) -> Vec<String> {
        self.lines.try_iter().collect()
    }

    pub(super) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("it runs");
    }

    /// Waits until something holds.
    #[track_caller]
    pub(crate) fn until(&mut self, what: &str, mut holds: impl FnMut(&Serving) -> bool) {
        for _ in 0..LONG.as_millis() / PAUSE.as_millis() {
            if holds(self) {
                return;
            }
            assert!(self.child.try_wait().unwrap().is_none(), "it ended: {}", self.log());
            sleep(PAUSE);
        }
        panic!("waited in vain: {what}: {}", self.log());
    }

    /// Waits for its end, and for the rest of its log.
    #[track_caller]
    pub(crate) fn ended(&mut self) -> ExitStatus {
        for _ in 0..LONG.as_millis() / PAUSE.as_millis() {
            if let Some(status) = self.child.try_wait().unwrap() {
                self.logged.take().map(JoinHandle::join);
                return status;
            }
            sleep(PAUSE);
        }
        panic!("it does not end: {}", self.log());
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// Where a face listens, as the log has it, for people or for machines.
fn listening(log: &str, face: &str) -> Option<SocketAddr> {
    let is_it = |line: &&str| {
        line.contains(&format!("protocol=\"{face}\""))
            || line.contains(&format!("\"protocol\":\"{face}\""))
    };
    let line = log.lines().filter(|line| line.contains("listening")).find(is_it)?;
    let address = line.split_once("address")?.1.trim_start_matches(['=', '"', ':']);
    address.split(|character: char| !"0123456789.:".contains(character)).next()?.parse().ok()
}

/// Reads until the end, so that the process never blocks on a full pipe.
fn keep(mut stream: impl Read + Send + 'static, text: Arc<Mutex<String>>) -> JoinHandle<()> {
    thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(length @ 1..) = stream.read(&mut bytes) {
            *text.lock().unwrap() += &String::from_utf8_lossy(&bytes[..length]);
        }
    })
}
