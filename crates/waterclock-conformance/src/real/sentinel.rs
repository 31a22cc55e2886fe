//! A Redis with a replica and three sentinels.

use parking_lot::Mutex;

use super::redis::Settings;
use super::{RedisServer, await_that};

/// What the sentinels call the primary.
const SERVICE: &str = "service-name";

/// A real primary, its replica, and three sentinels of which two must agree.
#[derive(Debug)]
pub struct Sentinel {
    servers: [RedisServer; 2],
    sentinels: [RedisServer; 3],
    /// The port of the last known primary.
    last_primary: Mutex<u16>,
}

impl Sentinel {
    /// Starts all five and waits until the replica follows and the sentinels know each other.
    pub fn start() -> Self {
        let settings = Settings::server().with(&[("repl-diskless-sync-delay", "0")]);
        let servers = [(); 2].map(|()| RedisServer::launch(settings.clone()));
        let port = servers[0].port();
        // Sentinels ask for replicas every ten seconds, so the replica comes before them.
        servers[1].command(&["REPLICAOF", "127.0.0.1", &port.to_string()]).unwrap();
        await_that("the replica follows", || {
            servers[1].info("replication", "master_link_status").as_deref() == Some("up")
        });
        let sentinel = |line: String| ("sentinel", line);
        let lines = [
            sentinel(format!("monitor {SERVICE} 127.0.0.1 {port} 2")),
            sentinel(format!("down-after-milliseconds {SERVICE} 1000")),
            sentinel(format!("failover-timeout {SERVICE} 3000")),
        ];
        let lines = lines.each_ref().map(|(name, line)| (*name, line.as_str()));
        let settings = Settings::sentinel().with(&lines);
        let sentinels = [(); 3].map(|()| RedisServer::launch(settings.clone()));
        let started = Self { servers, sentinels, last_primary: Mutex::new(port) };
        await_that("the sentinels know each other and the replica", || {
            started.sentinels.iter().all(|sentinel| {
                let master = sentinel.command(&["SENTINEL", "MASTER", SERVICE]).unwrap();
                let has = |name: &str, count: i64| {
                    let pairs = master.as_array().chunks_exact(2);
                    pairs.into_iter().any(|at| at[0].as_text() == name && at[1].as_int() == count)
                };
                has("num-other-sentinels", 2) && has("num-slaves", 1)
            })
        });
        started
    }

    /// Where to find it: `redis-sentinel://127.0.0.1:S1,127.0.0.1:S2,127.0.0.1:S3/service-name`.
    pub fn url(&self) -> String {
        let addrs = self.sentinels.each_ref().map(RedisServer::addr);
        format!("redis-sentinel://{}/{SERVICE}", addrs.join(","))
    }

    /// The two servers; either may be the primary.
    pub fn servers(&self) -> &[RedisServer] {
        &self.servers
    }

    /// The three sentinels.
    pub fn sentinels(&self) -> &[RedisServer] {
        &self.sentinels
    }

    /// The primary that the sentinels name.
    pub fn primary(&self) -> &RedisServer {
        let watcher = self.sentinels.iter().find(|sentinel| sentinel.is_up());
        let port = primary_port(watcher.expect("some sentinel is up"));
        let server = self.servers.iter().find(|server| server.port() == port);
        server.expect("the primary is one of two")
    }

    /// Kills the primary as a crash would.
    pub fn kill_primary(&self) {
        self.primary().kill();
    }

    /// Waits until the replica has replaced a primary that was killed or paused, and every sentinel
    /// that is up says so; returns the new primary's port. Panics if that takes more than a minute.
    pub fn wait_for_failover(&self) -> u16 {
        let mut last = self.last_primary.lock();
        let successor = self.servers.iter().find(|server| server.port() != *last);
        let successor = successor.expect("there are two servers");
        await_that("the replica takes over", || {
            let mut watchers = self.sentinels.iter().filter(|sentinel| sentinel.is_up());
            watchers.all(|sentinel| primary_port(sentinel) == successor.port())
                && successor.info("replication", "role").as_deref() == Some("master")
        });
        *last = successor.port();
        *last
    }
}

fn primary_port(sentinel: &RedisServer) -> u16 {
    let address = sentinel.command(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE]).unwrap();
    u16::try_from(address.as_array()[1].as_int()).expect("a port")
}
