//! A server for one test, and clients that need no runtime.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;

use tokio::runtime::{Builder, Runtime};
use waterclock_config::Config;
use waterclock_server::{Server, Timing};

use super::client::Client;
use crate::at_work::{AtWork, hurried};

/// A few policies for all tests. Nothing refills while a test runs.
pub(super) const POLICIES: &str = r#"
[policies.login]
limits = [{ name = "burst", algorithm = "gcra", limit = 1, per = "1h", capacity = 5 }]
block = ["mallory"]
exempt = ["root"]
overrides = { "alice" = ["100/h"] }

[policies.calm]
limits = [{ algorithm = "min-interval", every = "1h" }]

[policies.watched]
shadow = true
limits = ["1/h"]
"#;

/// Dropped, it takes its threads and connections along.
pub(super) struct Ground {
    pub(super) address: SocketAddr,
    pub(super) server: Arc<Server>,
    at_work: AtWork,
    runtime: Runtime,
}

impl Ground {
    pub(super) fn start() -> Ground {
        Ground::with(POLICIES, hurried())
    }

    /// The same, with a client.
    pub(super) fn with_client() -> (Ground, Client) {
        let ground = Ground::start();
        let client = ground.client();
        (ground, client)
    }

    pub(super) fn with(config: &str, timing: Timing) -> Ground {
        let config =
            Config::read("test.toml", config).unwrap_or_else(|invalid| panic!("{invalid}"));
        Ground::of(|| AtWork::with(config, timing))
    }

    pub(super) fn of<F: Future<Output = AtWork>>(start: impl FnOnce() -> F) -> Ground {
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let at_work = runtime.block_on(async { start().await });
        let server = Arc::clone(at_work.running.server());
        Ground { address: at_work.resp_address(), server, at_work, runtime }
    }

    pub(super) fn client(&self) -> Client {
        Client::connect(self.address)
    }

    pub(super) fn metrics(&self) -> String {
        self.server.metrics_text()
    }

    /// Has it read its file again.
    pub(super) fn reload(&self) {
        self.at_work.running.reload();
    }

    /// Stops the server in good order, while the test goes on.
    pub(super) fn stop(self) -> thread::JoinHandle<()> {
        thread::spawn(move || self.runtime.block_on(self.at_work.running.stop()))
    }
}
