//! Which servers asked for a wait, and until when.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use waterclock::Timestamp;

/// The waits of a bounded number of servers. The wait that ends first is evicted first, because that costs the
/// least.
#[derive(Debug)]
pub(super) struct NotBefore {
    capacity: usize,
    waits: Mutex<Waits>,
}

#[derive(Debug, Default)]
struct Waits {
    until: HashMap<Arc<str>, Timestamp>,
    in_order: BTreeSet<(Timestamp, Arc<str>)>,
}

impl NotBefore {
    pub(super) fn new(capacity: usize) -> Self {
        Self { capacity, waits: Mutex::default() }
    }

    /// The rest of this server's wait.
    pub(super) fn wait(&self, authority: &str, now: Timestamp) -> Option<Duration> {
        let mut waits = self.lock();
        let until = *waits.until.get(authority)?;
        if until > now {
            return Some(until.since(now));
        }
        waits.remove(authority);
        None
    }

    /// Sets the end of a server's wait, unless it is known to be later, and returns the later one.
    ///
    /// Responses arrive in any order.
    pub(super) fn extend(&self, authority: &str, until: Timestamp) -> Timestamp {
        let mut waits = self.lock();
        if let Some(known) = waits.until.get(authority)
            && *known >= until
        {
            return *known;
        }
        waits.remove(authority);
        let authority: Arc<str> = authority.into();
        waits.in_order.insert((until, Arc::clone(&authority)));
        waits.until.insert(authority, until);
        while waits.until.len() > self.capacity {
            let Some((_, first)) = waits.in_order.pop_first() else { break };
            waits.until.remove(&first);
        }
        until
    }

    fn lock(&self) -> MutexGuard<'_, Waits> {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waits {
    fn remove(&mut self, authority: &str) {
        if let Some((authority, until)) = self.until.remove_entry(authority) {
            self.in_order.remove(&(until, authority));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(seconds: u64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    fn seconds(seconds: u64) -> Option<Duration> {
        Some(Duration::from_secs(seconds))
    }

    #[test]
    fn the_latest_instant_counts_until_it_has_come() {
        let not_before = NotBefore::new(10);
        assert_eq!(not_before.extend("a", at(5)), at(5));
        assert_eq!(not_before.extend("a", at(9)), at(9));
        assert_eq!(not_before.extend("a", at(7)), at(9));
        assert_eq!(not_before.wait("a", at(2)), seconds(7));
        assert_eq!(not_before.wait("b", at(2)), None);
        assert_eq!(not_before.wait("a", at(9)), None);
        assert!(not_before.lock().until.is_empty() && not_before.lock().in_order.is_empty());
    }

    #[test]
    fn memory_is_bounded_and_the_first_to_end_go_first() {
        let not_before = NotBefore::new(100);
        let mut order: Vec<u64> = (1..=5_000).collect();
        fastrand::Rng::with_seed(7).shuffle(&mut order);
        for until in &order {
            not_before.extend(&format!("host-{until}"), at(*until));
            let waits = not_before.lock();
            assert!(waits.until.len() <= 100 && waits.until.len() == waits.in_order.len());
        }
        for until in 1..=5_000 {
            let known = (until > 4_900).then(|| Duration::from_secs(until));
            assert_eq!(not_before.wait(&format!("host-{until}"), at(0)), known);
        }
    }
}
