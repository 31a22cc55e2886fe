//! Free ports on the loopback.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU16, Ordering};

/// Below the ports that systems give to outgoing connections. A port from there could be taken by
/// any client while its server is down, even by one that dials that very server and reaches itself.
const FIRST: u16 = 10_000;
const COUNT: u16 = 20_000;

/// Where to look next: nobody in this process is told a port twice, and other processes start
/// elsewhere.
static NEXT: LazyLock<AtomicU16> = LazyLock::new(|| AtomicU16::new(fastrand::u16(..)));

/// A listener on a port that nobody else uses.
pub fn listener() -> TcpListener {
    (0..COUNT)
        .map(|_| FIRST + NEXT.fetch_add(1, Ordering::Relaxed) % COUNT)
        .find_map(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok())
        .expect("some port of the loopback is free")
}

/// A port that nobody uses now. Somebody may be faster in taking it: be ready to ask again.
pub fn free_port() -> u16 {
    listener().local_addr().expect("a listener has an address").port()
}
