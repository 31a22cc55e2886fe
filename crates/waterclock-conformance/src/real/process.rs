//! A child process that does not outlive its owner.

use std::process::{Child, Command, ExitStatus};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use super::patience::{await_that, find};

/// A process that this one started. Signals go to it only for as long as its id is its own, which
/// is until it has been waited for.
#[derive(Debug)]
pub struct Process {
    child: Child,
    paused: bool,
}

impl Process {
    /// Starts a program; `missing` is what to say where it is not installed.
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

    /// Whether it was stopped where it stands.
    pub fn is_paused(&self) -> bool {
        self.paused
    }

    /// Whether it ended by itself.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("a child can be waited for").is_some()
    }

    /// Stops it where it stands, and returns when it does.
    pub fn pause(&mut self) {
        self.signal(Signal::STOP);
        let stopped = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
        let pid = Pid::from_child(&self.child);
        await_that("a process that is told to stop, stops", || {
            waitid(WaitId::Pid(pid), stopped).expect("the process is there").is_some()
        });
        self.paused = true;
    }

    /// Lets it go on from there.
    pub fn resume(&mut self) {
        self.signal(Signal::CONT);
        self.paused = false;
    }

    /// Asks it to end (`SIGTERM`), and waits until it has.
    pub fn terminate(mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        find("a process that is asked to end, ends", || {
            self.child.try_wait().expect("a child can be waited for")
        })
    }

    fn signal(&mut self, signal: Signal) {
        assert!(!self.has_ended(), "process {} ended by itself", self.id());
        kill_process(Pid::from_child(&self.child), signal).expect("the process is ours");
    }
}

impl Drop for Process {
    /// Kills it, paused or not, and waits until it is gone. Nothing can be done about errors here,
    /// and there are none to expect: a child that ended already is left alone.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
