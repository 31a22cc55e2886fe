//! The keys that are asked about.

use std::hash::Hash;
use std::net::{IpAddr, Ipv4Addr};

/// A kind of key.
pub trait Key: Hash + Eq + Clone + Send + Sync + 'static {
    fn nth(n: u64) -> Self;
}

impl Key for String {
    /// 15 bytes.
    fn nth(n: u64) -> Self {
        format!("user:{n:010}")
    }
}

impl Key for u64 {
    fn nth(n: u64) -> Self {
        n
    }
}

impl Key for IpAddr {
    /// 10.0.0.0 and what follows it.
    fn nth(n: u64) -> Self {
        let offset = u32::try_from(n).expect("fewer keys than addresses");
        Ipv4Addr::from_bits(Ipv4Addr::new(10, 0, 0, 0).to_bits() + offset).into()
    }
}

/// The one limiter without keys.
impl Key for () {
    fn nth(_: u64) {}
}

/// `len` keys drawn evenly from `keys` different ones, always the same ones.
///
/// They lie in memory in the order in which they are asked about, as the key of a request that has
/// just been read does: no contestant waits for the key itself.
pub fn drawn<K: Key>(keys: usize, len: usize) -> Vec<K> {
    let mut random = fastrand::Rng::with_seed(keys as u64);
    (0..len).map(|_| K::nth(random.u64(0..keys as u64))).collect()
}

/// Keys number `range`, a few at a time so that they take no memory worth counting.
pub fn in_chunks<K: Key>(range: std::ops::Range<usize>) -> impl Iterator<Item = Vec<K>> {
    const CHUNK: usize = 10_000;
    range
        .clone()
        .step_by(CHUNK)
        .map(move |start| (start..range.end.min(start + CHUNK)).map(|n| K::nth(n as u64)).collect())
}
