//! The contestants and their calls.
//!
//! All keyed contestants get the same quota, one unit per hour and [`BURST`] at once: every decision
//! admits and no key becomes fresh while it is measured.

#[cfg(feature = "heavy")]
pub mod limitador;
#[cfg(feature = "heavy")]
pub mod trypema;

pub mod governor;
pub mod mutex_map;
pub mod pingora;
pub mod rater;
pub mod throttlecrab;
pub mod tokio_rate_limit;
pub mod waterclock;

use std::net::IpAddr;
use std::time::Duration;

use crate::keys::Key;

pub const PERIOD: Duration = Duration::from_secs(3_600);
pub const BURST: u32 = 100_000;

/// Decides about one unit for each of the keys in turn and says how many it admitted.
pub type Run<K> = Box<dyn Fn(&[K]) -> usize + Send + Sync>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Ours,
    /// Exact, as we are.
    Peer,
    /// May admit too much or too little.
    Approximate,
    /// What one writes in ten lines.
    Baseline,
}

pub struct Contestant<K> {
    pub name: &'static str,
    pub kind: Kind,
    /// More keys than this are too much for it or for the machine.
    pub most_keys: usize,
    /// Makes one with room for so many keys.
    pub build: fn(usize) -> Run<K>,
}

impl<K> Contestant<K> {
    fn new(name: &'static str, kind: Kind, build: fn(usize) -> Run<K>) -> Self {
        Self { name, kind, most_keys: usize::MAX, build }
    }
}

/// Asks about one key at a time, in a tight loop: a processor that guesses well starts on the next
/// key before it is done with this one.
fn lone<K>(check: impl Fn(&K) -> bool + Send + Sync + 'static) -> Run<K> {
    Box::new(move |keys| keys.iter().filter(|key| check(key)).count())
}

/// One limiter, no keys.
pub fn direct() -> Vec<Contestant<()>> {
    [waterclock::direct(), governor::direct(), rater::direct()].into_iter().flatten().collect()
}

pub fn numbers() -> Vec<Contestant<u64>> {
    [waterclock::keyed(), governor::keyed(), mutex_map::keyed()].into_iter().flatten().collect()
}

/// Client addresses: the only keys that [`rater`] takes.
pub fn addresses() -> Vec<Contestant<IpAddr>> {
    [waterclock::keyed(), governor::keyed(), rater::keyed()].into_iter().flatten().collect()
}

pub fn strings() -> Vec<Contestant<String>> {
    let mut all = waterclock::keyed();
    all.extend(governor::keyed());
    all.extend(tokio_rate_limit::keyed());
    all.extend(throttlecrab::keyed());
    #[cfg(feature = "heavy")]
    all.extend(trypema::keyed());
    #[cfg(feature = "heavy")]
    all.extend(limitador::keyed());
    all.extend(pingora::keyed());
    all.extend(mutex_map::keyed());
    all
}

/// Builds a contestant and shows it every key once.
pub fn filled<K: Key>(contestant: &Contestant<K>, keys: usize) -> Run<K> {
    let run = (contestant.build)(keys);
    crate::keys::in_chunks(0..keys).for_each(|chunk: Vec<K>| {
        run(&chunk);
    });
    run
}
