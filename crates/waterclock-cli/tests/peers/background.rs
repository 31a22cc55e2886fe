//! A program that runs beside a test.

use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use waterclock_conformance::real::{Process, await_that};

/// A program that listens on a port of the loopback. It is killed when this is dropped, and what it
/// said is shown when the test fails.
pub(crate) struct Background {
    process: Option<Process>,
    log: PathBuf,
}

impl Background {
    /// Starts it, with its output in `folder`, and waits until it listens on the port.
    #[track_caller]
    pub(crate) fn start(command: &mut Command, folder: &Path, port: u16) -> Self {
        let log = folder.join("log");
        let file = File::options().create(true).append(true).open(&log).expect("a folder of ours");
        let error_file = file.try_clone().expect("a file can be open twice");
        command.stdin(Stdio::null()).stdout(file).stderr(error_file);
        let process =
            Process::start(command, &format!("{command:?} is missing: run scripts/peers"));
        let mut background = Self { process: Some(process), log };
        await_that(&format!("{command:?} listens on port {port}"), || {
            assert!(!background.process().has_ended(), "{command:?} ended by itself");
            TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok()
        });
        background
    }

    pub(crate) fn process(&mut self) -> &mut Process {
        self.process.as_mut().expect("it is there until it is terminated")
    }

    /// Asks it to end, and waits until it has.
    pub(crate) fn terminate(mut self) -> ExitStatus {
        self.process.take().expect("it is there until now").terminate()
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let said = fs::read_to_string(&self.log).unwrap_or_default();
            let from = said.len().saturating_sub(4000);
            eprintln!("== {}\n{}", self.log.display(), said.get(from..).unwrap_or(&said));
        }
    }
}
