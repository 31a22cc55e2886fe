//! A Redis with a replica and three sentinels.

use std::net::Ipv4Addr;

use parking_lot::Mutex;

use super::redis::Settings;
use super::{Certificates, Proxy, RedisServer, await_that};

/// What the sentinels call the primary.
const SERVICE: &str = "service-name";

/// Where the replica and the sentinels connect from. Clients connect from the loopback's first address.
const THEIRS: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// A real primary, its replica, and three sentinels of which two must agree.
#[derive(Debug)]
pub struct Sentinel {
    servers: [RedisServer; 2],
    sentinels: [RedisServer; 3],
    /// Before the first primary: everyone knows it by this address.
    gateway: Proxy,
    /// If all of them talk TLS.
    certificates: Option<Certificates>,
    /// The port of the last known primary.
    last_primary: Mutex<u16>,
}

impl Sentinel {
    /// Starts all five and waits until the replica follows and the sentinels know each other.
    pub fn start() -> Self {
        Self::start_with(&[], &[])
    }

    /// The same with more lines in the configurations of the servers, and of the sentinels.
    pub fn start_with(servers: &[(&str, &str)], sentinels: &[(&str, &str)]) -> Self {
        Self::launch(servers, sentinels, None)
    }

    /// The same over TLS, between all of them and for clients.
    pub fn start_with_tls() -> Self {
        Self::launch(&[], &[], Some(Certificates::new()))
    }

    fn launch(
        servers: &[(&str, &str)],
        sentinels: &[(&str, &str)],
        certificates: Option<Certificates>,
    ) -> Self {
        let secured = |settings: Settings| match &certificates {
            Some(certificates) => {
                let mut settings = certificates.configure(settings);
                settings.ports.push("tls-port");
                settings.with(&[("tls-replication", "yes")])
            }
            None => settings,
        };
        let source = THEIRS.to_string();
        // A protected Redis takes their address for another machine's.
        let settings = [("repl-diskless-sync-delay", "0"), ("protected-mode", "no")];
        let settings = secured(Settings::server()).with(&settings).with(servers);
        let first = RedisServer::launch(settings.clone());
        let gateway = Proxy::start(first.port_of(port_name(certificates.as_ref())));
        let port = gateway.port();
        first.command(&["CONFIG", "SET", "replica-announce-port", &port.to_string()]).unwrap();
        let replica = RedisServer::launch(settings.with(&[("bind-source-addr", &source)]));
        let servers = [first, replica];
        // Sentinels ask for replicas every ten seconds, so the replica comes before them.
        servers[1].command(&["REPLICAOF", "127.0.0.1", &port.to_string()]).unwrap();
        await_that("the replica follows", || {
            servers[1].info("replication", "master_link_status").as_deref() == Some("up")
        });
        let sentinel = |line: String| ("sentinel", line);
        let lines = [
            sentinel("announce-ip 127.0.0.1".to_owned()),
            sentinel(format!("monitor {SERVICE} 127.0.0.1 {port} 2")),
            sentinel(format!("down-after-milliseconds {SERVICE} 1000")),
            sentinel(format!("failover-timeout {SERVICE} 3000")),
        ];
        let lines = lines.each_ref().map(|(name, line)| (*name, line.as_str()));
        let settings = secured(Settings::sentinel()).with(&lines).with(sentinels);
        let settings = settings.with(&[("bind-source-addr", &source)]);
        let sentinels = [(); 3].map(|()| RedisServer::launch(settings.clone()));
        let last_primary = Mutex::new(port);
        let started = Self { servers, sentinels, gateway, certificates, last_primary };
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
        let port = port_name(self.certificates.as_ref());
        let addrs =
            self.sentinels.each_ref().map(|each| format!("127.0.0.1:{}", each.port_of(port)));
        let tls = if self.certificates.is_some() { "s" } else { "" };
        format!("redis{tls}-sentinel://{}/{SERVICE}", addrs.join(","))
    }

    /// The certificate of the authority that signed theirs. Panics without TLS.
    pub fn ca_pem(&self) -> &str {
        self.certificates.as_ref().expect("they were started with TLS").ca_pem()
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
        self.servers().iter().zip(self.ports()).find(|(_, of)| *of == port).expect("one of two").0
    }

    /// Cuts the first primary off from its replica and from the sentinels, but not from clients.
    pub fn isolate_first_primary(&self) {
        self.gateway.isolate_from(THEIRS);
    }

    /// Ends that.
    pub fn rejoin_first_primary(&self) {
        self.gateway.rejoin();
    }

    /// The ports by which the two servers are known.
    fn ports(&self) -> [u16; 2] {
        [self.gateway.port(), self.servers[1].port_of(port_name(self.certificates.as_ref()))]
    }

    /// Kills the primary as a crash would.
    pub fn kill_primary(&self) {
        self.primary().kill();
    }

    /// Waits until the replica has replaced a primary that was killed or paused, and every sentinel
    /// that is up says so; returns the new primary's port. Panics if that takes more than three minutes.
    pub fn wait_for_failover(&self) -> u16 {
        let mut last = self.last_primary.lock();
        let mut both = self.servers.iter().zip(self.ports());
        let (successor, port) = both.find(|(_, port)| *port != *last).expect("two servers");
        await_that("the replica takes over", || {
            let mut watchers = self.sentinels.iter().filter(|sentinel| sentinel.is_up());
            watchers.all(|sentinel| primary_port(sentinel) == port)
                && successor.info("replication", "role").as_deref() == Some("master")
        });
        *last = port;
        port
    }
}

/// The setting with the port that others connect to.
fn port_name(certificates: Option<&Certificates>) -> &'static str {
    if certificates.is_some() { "tls-port" } else { "port" }
}

fn primary_port(sentinel: &RedisServer) -> u16 {
    let address = sentinel.command(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE]).unwrap();
    u16::try_from(address.as_array()[1].as_int()).expect("a port")
}
