//! A child process that does not outlive its owner.

use std::process::{Child, Command, ExitStatus};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use super::{await_that, wait_for};

/// A child process. Signals are sent only until it has been waited for, while its id is certainly its own.
#[derive(Debug)]
pub struct Process {
    child: Child,
    paused: bool,
}

impl Process {
    /// Starts a program; panics with `missing` if it is not installed.
    pub fn start(command: &mut Command, missing: &str) -> Self {
        match command.spawn() {
            Ok(child) => Self { child, paused: false },
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => panic!("{missing}"),
            Err(error) => panic!("{command:?} does not start: {error}"),
        }
    }

    /// Its id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether it is paused.
    pub fn is_paused(&self) -> bool {
        self.paused
    }

    /// Whether it ended by itself.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("a child can be waited for").is_some()
    }

    /// Pauses it (`SIGSTOP`) and waits until it has stopped.
    pub fn pause(&mut self) {
        self.signal(Signal::STOP);
        let stopped = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
        let pid = Pid::from_child(&self.child);
        await_that("a paused process stops", || {
            waitid(WaitId::Pid(pid), stopped).expect("the process is there").is_some()
        });
        self.paused = true;
    }

    /// Resumes it (`SIGCONT`).
    pub fn resume(&mut self) {
        self.signal(Signal::CONT);
        self.paused = false;
    }

    /// Terminates it (`SIGTERM`) and waits until it has ended.
    pub fn terminate(mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        wait_for("a terminated process ends", || {
            self.child.try_wait().expect("a child can be waited for")
        })
    }

    fn signal(&mut self, signal: Signal) {
        assert!(!self.has_ended(), "process {} ended by itself", self.id());
        kill_process(Pid::from_child(&self.child), signal).expect("the process is ours");
    }
}

impl Drop for Process {
    /// Kills it, paused or not, and waits until it is gone. Errors are ignored: none are expected.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
