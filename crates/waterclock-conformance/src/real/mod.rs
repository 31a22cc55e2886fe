//! Real servers for tests: Redis servers, clusters and sentinels on free loopback ports, and a proxy that simulates a bad
//! network.
//!
//! Each type starts what it needs, waits until it works, and stops and removes it when dropped. Do not keep one in a
//! `static`, which is never dropped. A server that does not start is a panic: a test without its Redis fails, it is not
//! skipped.

mod clock;
mod cluster;
mod connection;
mod process;
mod program;
mod proxy;
mod redis;
mod sentinel;
mod tls;

use std::net::{Ipv4Addr, TcpListener};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

pub use cluster::{Cluster, Move};
pub use connection::{Connection, Reply};
pub use process::Process;
pub use program::Program;
pub use proxy::Proxy;
pub use redis::RedisServer;
pub use sentinel::Sentinel;
pub use tls::Certificates;

/// How long to wait before a test fails. Generous, because machines that run many tests at once are slow.
const TIMEOUT: Duration = Duration::from_secs(180);

/// The pause between two polls.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Polls until there is a value; `None` if there is none within `bound`.
#[expect(clippy::disallowed_methods, reason = "real processes live in real time")]
fn within<T>(bound: Duration, mut poll: impl FnMut() -> Option<T>) -> Option<T> {
    let start = Instant::now();
    loop {
        if let Some(found) = poll() {
            return Some(found);
        }
        if start.elapsed() >= bound {
            return None;
        }
        sleep(POLL_INTERVAL);
    }
}

/// Polls until there is a value; panics after three minutes.
#[track_caller]
fn wait_for<T>(what: &str, poll: impl FnMut() -> Option<T>) -> T {
    let found = within(TIMEOUT, poll);
    found.unwrap_or_else(|| panic!("timed out after {} s: {what}", TIMEOUT.as_secs()))
}

/// Polls until `holds` is true; panics after three minutes.
#[track_caller]
pub fn await_that(what: &str, mut holds: impl FnMut() -> bool) {
    wait_for(what, || holds().then_some(()));
}

/// Below the ephemeral ports. An ephemeral port could be taken by any client while its server is down, even by a client
/// that connects to that port and reaches itself.
const FIRST: u16 = 10_000;
const COUNT: u16 = 20_000;

/// The next port to try. No port is given out twice in this process, and other processes start elsewhere.
static NEXT: LazyLock<AtomicU16> = LazyLock::new(|| AtomicU16::new(fastrand::u16(..)));

/// A listener on a free port.
pub fn listener() -> TcpListener {
    (0..COUNT)
        .map(|_| FIRST + NEXT.fetch_add(1, Ordering::Relaxed) % COUNT)
        .find_map(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok())
        .expect("some port of the loopback is free")
}

/// A port that is free now. Another process may take it first: be ready to try another.
pub fn free_port() -> u16 {
    listener().local_addr().expect("a listener has an address").port()
}
