//! What servers and Redis take when no client calls.

use std::fmt;
use std::fs;
use std::thread::sleep;
use std::time::Duration;

use crate::stage::Stage;

/// What one server takes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Taken {
    pub(crate) rss_kib: u64,
    pub(crate) descriptors: u64,
    pub(crate) threads: u64,
}

impl Taken {
    fn of(pid: u32) -> Self {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
        let number = |name: &str| {
            let value = status.lines().find_map(|line| line.strip_prefix(name)).expect("a line");
            value.trim().trim_end_matches(" kB").parse().expect("a number")
        };
        let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).expect("it runs").count();
        Self {
            rss_kib: number("VmRSS:"),
            descriptors: descriptors as u64,
            threads: number("Threads:"),
        }
    }
}

/// What all take.
#[derive(Clone, Debug)]
pub(crate) struct Baseline {
    pub(crate) servers: Vec<Taken>,
    pub(crate) keys: i64,
    pub(crate) redis_clients: u64,
    pub(crate) redis_bytes: u64,
}

/// What an allocator may keep for later.
const MORE_KIB: u64 = 8 * 1_024;
const MORE_REDIS_BYTES: u64 = 8 << 20;
/// Files are looked at every few seconds, by threads that stay for ten seconds afterwards.
const MORE_THREADS: u64 = 2;
/// The definition of the policy that a reload brings is kept, and the names of the servers.
const MORE_KEYS: i64 = 2;

impl Baseline {
    pub(crate) fn of(stage: &Stage) -> Self {
        let info = |section, name| {
            let value = stage.redis.info(section, name).expect("Redis says so");
            value.trim().parse().expect("a number")
        };
        Self {
            servers: stage.servers.iter().map(|server| Taken::of(server.pid())).collect(),
            keys: stage.redis.command(&["DBSIZE"]).as_int(),
            redis_clients: info("clients", "connected_clients"),
            redis_bytes: info("memory", "used_memory"),
        }
    }

    /// Waits until all of it is given back; complains if something is not.
    pub(crate) fn regained(&self, stage: &Stage, patience: Duration) -> (Self, Result<(), String>) {
        let pause = Duration::from_millis(250);
        let mut left = patience;
        loop {
            let now = Self::of(stage);
            let compared = self.compare(&now);
            if compared.is_ok() {
                return (now, compared);
            }
            if left.is_zero() {
                let keys = format!("{:?}", stage.redis.command(&["KEYS", "*"]));
                return (now, compared.map_err(|why| format!("{why}; keys: {keys}")));
            }
            sleep(pause);
            left = left.saturating_sub(pause);
        }
    }

    fn compare(&self, now: &Self) -> Result<(), String> {
        let mut more = Vec::new();
        let mut at_most = |what: &str, now: u64, most: u64| {
            if now > most {
                more.push(format!("{now} {what}, not {most}"));
            }
        };
        for (i, (before, now)) in self.servers.iter().zip(&now.servers).enumerate() {
            let most = before.rss_kib + MORE_KIB;
            at_most(&format!("KiB of memory at server {i}"), now.rss_kib, most);
            at_most(&format!("descriptors at server {i}"), now.descriptors, before.descriptors);
            at_most(&format!("threads at server {i}"), now.threads, before.threads + MORE_THREADS);
        }
        let keys = |keys: i64| u64::try_from(keys).expect("a count");
        at_most("keys in Redis", keys(now.keys), keys(self.keys + MORE_KEYS));
        at_most("connections to Redis", now.redis_clients, self.redis_clients);
        at_most("bytes in Redis", now.redis_bytes, self.redis_bytes + MORE_REDIS_BYTES);
        if more.is_empty() { Ok(()) } else { Err(format!("not given back: {}", more.join(", "))) }
    }
}

impl fmt::Display for Baseline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = |number: fn(&Taken) -> u64| {
            let numbers = self.servers.iter().map(|taken| number(taken).to_string());
            numbers.collect::<Vec<_>>().join("/")
        };
        write!(f, "{} KiB, ", all(|taken| taken.rss_kib))?;
        write!(f, "{} descriptors, ", all(|taken| taken.descriptors))?;
        write!(f, "{} threads; Redis ", all(|taken| taken.threads))?;
        let (keys, clients, bytes) = (self.keys, self.redis_clients, self.redis_bytes);
        write!(f, "{keys} keys, {clients} connections, {} KiB", bytes / 1_024)
    }
}
