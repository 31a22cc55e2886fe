//! Hostile clients. While each does its worst, a well-behaved client is served normally.

mod bytes;
pub(crate) mod frames;
mod http2;
mod many;
mod slow;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::timeout;
use waterclock_config::Config;
use waterclock_server::observe::Face;
use waterclock_server::{Patience, Timing};

use crate::at_work::{AtWork, hurried};
use crate::client::Client;
use crate::patience::LONG;

const POLICIES: &str = "[policies.p]\nlimits = [\"1000000/s\"]\n";
const CHECK: &str = r#"{"policy":"p","key":"k"}"#;

/// A server that is soon fed up, but not with a decent client of a busy machine.
fn impatient() -> Timing {
    let patience = Patience {
        head: Duration::from_secs(1),
        body: Duration::from_secs(1),
        idle: Duration::from_secs(3),
        ..Patience::default()
    };
    Timing { patience, ..hurried() }
}

/// A server, and a well-behaved client that uses it all the time.
struct Scene {
    server: AtWork,
    done: Arc<AtomicBool>,
    decent: JoinHandle<u32>,
}

impl Scene {
    async fn new(timing: Timing) -> Scene {
        let server = AtWork::with(Config::read("test.toml", POLICIES).unwrap(), timing).await;
        let done = Arc::new(AtomicBool::new(false));
        let decent = tokio::spawn(be_decent(server.http().await, Arc::clone(&done)));
        Scene { server, done, decent }
    }

    async fn client(&self) -> Client {
        self.server.http().await
    }

    /// The decent one saw nothing of it all, and nothing of it is left.
    async fn ends_well(self) {
        self.done.store(true, Ordering::Relaxed);
        let requests = self.decent.await.expect("others were served");
        assert!(requests > 0);
        self.server.has_no_connections(Face::Http).await;
        let mut client = self.server.http().await;
        assert_eq!(client.post("/v1/check", CHECK).await.status, 200);
    }
}

async fn be_decent(mut client: Client, done: Arc<AtomicBool>) -> u32 {
    let mut requests = 0;
    while requests == 0 || !done.load(Ordering::Relaxed) {
        let answer = timeout(LONG, client.post("/v1/check", CHECK)).await;
        let answer = answer.expect("a decent client is served in time");
        assert_eq!(answer.status, 200, "{}", answer.body);
        requests += 1;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    requests
}
