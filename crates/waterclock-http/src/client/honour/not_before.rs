//! Which servers want to be left alone, and until when.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use waterclock::Timestamp;

/// At most so many of them. Whose wait ends first is forgotten first, because that costs the least.
#[derive(Debug)]
pub(super) struct NotBefore {
    most: usize,
    told: Mutex<Told>,
}

#[derive(Debug, Default)]
struct Told {
    until: HashMap<Arc<str>, Timestamp>,
    in_order: BTreeSet<(Timestamp, Arc<str>)>,
}

impl NotBefore {
    pub(super) fn new(most: usize) -> Self {
        Self { most, told: Mutex::default() }
    }

    /// How long this server still wants to be left alone.
    pub(super) fn wait(&self, authority: &str, now: Timestamp) -> Option<Duration> {
        let mut told = self.told();
        let until = *told.until.get(authority)?;
        if until > now {
            return Some(until.since(now));
        }
        told.forget(authority);
        None
    }

    /// Responses come in any order: the latest instant counts, and is what this returns.
    pub(super) fn learn(&self, authority: &str, until: Timestamp) -> Timestamp {
        let mut told = self.told();
        if let Some(known) = told.until.get(authority)
            && *known >= until
        {
            return *known;
        }
        told.forget(authority);
        let authority: Arc<str> = authority.into();
        told.in_order.insert((until, Arc::clone(&authority)));
        told.until.insert(authority, until);
        while told.until.len() > self.most {
            let Some((_, first)) = told.in_order.pop_first() else { break };
            told.until.remove(&first);
        }
        until
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Told {
    fn forget(&mut self, authority: &str) {
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
        assert_eq!(not_before.learn("a", at(5)), at(5));
        assert_eq!(not_before.learn("a", at(9)), at(9));
        assert_eq!(not_before.learn("a", at(7)), at(9));
        assert_eq!(not_before.wait("a", at(2)), seconds(7));
        assert_eq!(not_before.wait("b", at(2)), None);
        assert_eq!(not_before.wait("a", at(9)), None);
        assert!(not_before.told().until.is_empty() && not_before.told().in_order.is_empty());
    }

    #[test]
    fn memory_is_bounded_and_the_first_to_end_go_first() {
        let not_before = NotBefore::new(100);
        let mut order: Vec<u64> = (1..=5_000).collect();
        fastrand::Rng::with_seed(7).shuffle(&mut order);
        for until in &order {
            not_before.learn(&format!("host-{until}"), at(*until));
            let told = not_before.told();
            assert!(told.until.len() <= 100 && told.until.len() == told.in_order.len());
        }
        for until in 1..=5_000 {
            let known = (until > 4_900).then(|| Duration::from_secs(until));
            assert_eq!(not_before.wait(&format!("host-{until}"), at(0)), known);
        }
    }
}
