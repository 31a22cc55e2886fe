//! The real `waterclock serve`, with `deploy/waterclock.toml`.

use std::fs;
use std::net::Ipv4Addr;
use std::process::Command;

use tempfile::TempDir;
use waterclock_conformance::real::{await_that, free_port};

use crate::background::Background;
use crate::deployed;
use crate::visitor::{Answer, Visitor};

/// A Waterclock on ports of its own.
pub(crate) struct Server {
    // Before `folder`: a process ends before its folder is removed.
    background: Option<Background>,
    folder: TempDir,
    environment: Vec<(String, String)>,
    pub(crate) http: u16,
    pub(crate) grpc: u16,
    pub(crate) resp: u16,
}

impl Server {
    /// Starts it and waits until it is ready.
    #[track_caller]
    pub(crate) fn start() -> Self {
        Self::start_with(&deployed::text("waterclock.toml"), Vec::new())
    }

    /// Starts it with another configuration, and with more in its environment.
    #[track_caller]
    pub(crate) fn start_with(configuration: &str, environment: Vec<(String, String)>) -> Self {
        let folder = TempDir::with_prefix("waterclock-server-").expect("a folder can be made");
        fs::write(folder.path().join("waterclock.toml"), configuration).expect("a folder of ours");
        let [http, grpc, resp] = [free_port(), free_port(), free_port()];
        let mut server = Self { background: None, folder, environment, http, grpc, resp };
        server.start_again();
        server
    }

    /// Starts it once more on the same ports.
    #[track_caller]
    pub(crate) fn start_again(&mut self) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_waterclock"));
        command.args(["serve", "-c", "waterclock.toml"]).current_dir(self.folder.path());
        let on = |port| format!("{}:{port}", Ipv4Addr::LOCALHOST);
        command.env("WATERCLOCK_HTTP", on(self.http)).env("WATERCLOCK_GRPC", on(self.grpc));
        // The machine may have a store of its own configured.
        command.env("WATERCLOCK_RESP", on(self.resp)).env_remove("WATERCLOCK_STORE_URL");
        command.envs(self.environment.iter().cloned());
        self.background = Some(Background::start(&mut command, self.folder.path(), self.http));
        await_that("waterclock is ready", || self.get("/readyz").status == 200);
    }

    /// Changes its configuration under its feet.
    pub(crate) fn rewrite(&self, configuration: &str) {
        fs::write(self.folder.path().join("waterclock.toml"), configuration)
            .expect("a folder of ours");
    }

    /// Asks its HTTP face.
    #[track_caller]
    pub(crate) fn get(&self, path: &str) -> Answer {
        Visitor::at(1).get(self.http, path)
    }

    /// Ends it as a crash does.
    pub(crate) fn kill(&mut self) {
        self.background = None;
    }

    /// Ends it as an operator does; it must agree that all went well.
    #[track_caller]
    pub(crate) fn stop(mut self) {
        let status = self.running().terminate();
        assert!(status.success(), "waterclock ended with {status}");
    }

    /// Makes it hang: it accepts connections, and says nothing.
    pub(crate) fn pause(&mut self) {
        let background = self.background.as_mut().expect("it runs");
        background.process().pause();
    }

    pub(crate) fn resume(&mut self) {
        let background = self.background.as_mut().expect("it runs");
        background.process().resume();
    }

    fn running(&mut self) -> Background {
        self.background.take().expect("it runs")
    }
}
