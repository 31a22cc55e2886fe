//! Callers in line for a key, in order of arrival. Queues only: no timers, no checks.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;
use waterclock::Cost;

/// The lines of all keys.
#[derive(Default)]
pub(crate) struct Lines {
    /// How many are in line in all, so that checks pay one load where there are none.
    waiting: AtomicUsize,
    /// In an order, so that a simulation that is repeated wakes callers in the same.
    policies: Mutex<BTreeMap<Box<str>, LinesOfPolicy>>,
}

#[derive(Default)]
struct LinesOfPolicy {
    waiting: usize,
    lines: BTreeMap<Box<[u8]>, Line>,
}

/// The line of one key.
#[derive(Default)]
struct Line {
    next: u64,
    callers: BTreeMap<u64, Caller>,
}

struct Caller {
    cost: Cost,
    woken: Arc<Notify>,
}

/// The most callers in one line, and in all lines of one policy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LineBounds {
    pub(crate) of_key: usize,
    pub(crate) of_policy: usize,
}

/// Why a caller gets no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineFull {
    Key,
    Policy,
}

/// Those before a caller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ahead {
    pub(crate) callers: u64,
    /// What they want together.
    pub(crate) cost: Cost,
}

impl Ahead {
    fn of<'a>(callers: impl Iterator<Item = &'a Caller>) -> Ahead {
        callers.fold(Ahead::default(), |ahead, caller| Ahead {
            callers: ahead.callers + 1,
            cost: ahead.cost.plus(&caller.cost),
        })
    }
}

impl Lines {
    /// Whether there are no callers in line, for any key.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.load(Ordering::Acquire) == 0
    }

    /// Whether a check of this key would overtake a caller in line.
    #[inline]
    pub(crate) fn holds_up(&self, policy: &str, key: &[u8]) -> bool {
        !self.is_empty() && self.of(policy, key, |_| ()).is_some()
    }

    /// All callers in line for a key; `None` if there are none.
    pub(crate) fn all(&self, policy: &str, key: &[u8]) -> Option<Ahead> {
        if self.is_empty() {
            return None;
        }
        self.of(policy, key, |line| Ahead::of(line.callers.values()))
    }

    /// How many callers are in line for keys of a policy.
    pub(crate) fn count(&self, policy: &str) -> usize {
        if self.is_empty() {
            return 0;
        }
        self.policies.lock().get(policy).map_or(0, |policy| policy.waiting)
    }

    /// Takes the last place in the line of a key.
    pub(crate) fn join(
        self: &Arc<Self>,
        (policy, key): (&str, &[u8]),
        cost: Cost,
        most: LineBounds,
    ) -> Result<Place, LineFull> {
        let mut policies = self.policies.lock();
        // An entry is made only for a caller that gets a place.
        let known = policies.get(policy);
        if known.is_some_and(|policy| policy.waiting >= most.of_policy) {
            return Err(LineFull::Policy);
        }
        let line = known.and_then(|policy| policy.lines.get(key));
        if line.is_some_and(|line| line.callers.len() >= most.of_key) {
            return Err(LineFull::Key);
        }
        let (policy, key): (Box<str>, Box<[u8]>) = (policy.into(), key.into());
        let of_policy = policies.entry(policy.clone()).or_default();
        of_policy.waiting += 1;
        let line = of_policy.lines.entry(key.clone()).or_default();
        let (number, woken) = (line.next, Arc::new(Notify::new()));
        line.next += 1;
        line.callers.insert(number, Caller { cost, woken: Arc::clone(&woken) });
        self.waiting.fetch_add(1, Ordering::Release);
        Ok(Place { lines: Arc::clone(self), policy, key, number, woken })
    }

    /// Wakes the first in line for a key: units may have been given back.
    pub(crate) fn nudge(&self, policy: &str, key: &[u8]) {
        if !self.is_empty() {
            self.of(policy, key, Line::wake_first);
        }
    }

    /// Wakes the first in every line of a policy, or of all policies.
    pub(crate) fn nudge_all(&self, policy: Option<&str>) {
        if self.is_empty() {
            return;
        }
        for (name, of_policy) in &*self.policies.lock() {
            if policy.is_none_or(|policy| **name == *policy) {
                of_policy.lines.values().for_each(Line::wake_first);
            }
        }
    }

    fn of<T>(&self, policy: &str, key: &[u8], read: impl FnOnce(&Line) -> T) -> Option<T> {
        self.policies.lock().get(policy).and_then(|policy| policy.lines.get(key)).map(read)
    }
}

impl Line {
    fn wake_first(&self) {
        if let Some((_, first)) = self.callers.first_key_value() {
            first.woken.notify_one();
        }
    }
}

/// A place in a line. When it is dropped, the next caller has its turn.
pub(crate) struct Place {
    lines: Arc<Lines>,
    policy: Box<str>,
    key: Box<[u8]>,
    number: u64,
    woken: Arc<Notify>,
}

impl Place {
    /// Those before this place; `None` if it is the first.
    pub(crate) fn ahead(&self) -> Option<Ahead> {
        let ahead = self.lines.of(&self.policy, &self.key, |line| {
            Ahead::of(line.callers.range(..self.number).map(|(_, caller)| caller))
        });
        ahead.filter(|ahead| ahead.callers > 0)
    }

    pub(crate) fn is_first(&self) -> bool {
        let is_first = |line: &Line| {
            line.callers.first_key_value().is_some_and(|(number, _)| *number == self.number)
        };
        self.lines.of(&self.policy, &self.key, is_first).unwrap_or(true)
    }

    /// Waits until this place is the first, or something changed since it was looked at.
    pub(crate) async fn woken(&self) {
        self.woken.notified().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut policies = self.lines.policies.lock();
        let Some(policy) = policies.get_mut(&self.policy) else { return };
        let Some(line) = policy.lines.get_mut(&self.key) else { return };
        if line.callers.remove(&self.number).is_some() {
            policy.waiting -= 1;
            self.lines.waiting.fetch_sub(1, Ordering::Release);
        }
        line.wake_first();
        if line.callers.is_empty() {
            policy.lines.remove(&self.key);
        }
        if policy.lines.is_empty() {
            policies.remove(&self.policy);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    const MOST: LineBounds = LineBounds { of_key: 3, of_policy: 5 };

    fn join(lines: &Arc<Lines>, key: &[u8], cost: u64) -> Result<Place, LineFull> {
        lines.join(("p", key), cost.into(), MOST)
    }

    #[test]
    fn places_are_in_order_and_the_next_is_woken() {
        let lines = Arc::new(Lines::default());
        let mut places: Vec<Place> = (1..=3).map(|n| join(&lines, b"k", n).ok().unwrap()).collect();
        assert_eq!(lines.all("p", b"k"), Some(Ahead { callers: 3, cost: 6.into() }));
        assert_eq!(lines.all("p", b"l"), None);
        assert_eq!(places[2].ahead(), Some(Ahead { callers: 2, cost: 3.into() }));
        assert!(places[0].is_first() && places[0].ahead().is_none() && !places[1].is_first());
        assert!(places[1].woken().now_or_never().is_none());
        // One that leaves from the middle changes nothing for the first, and one less is before the last.
        drop(places.remove(1));
        assert!(places[1].woken().now_or_never().is_none());
        assert_eq!(places[1].ahead(), Some(Ahead { callers: 1, cost: 1.into() }));
        drop(places.remove(0));
        assert!(places[0].is_first());
        assert!(
            places[0].woken().now_or_never().is_some(),
            "woken, although it was not waiting yet"
        );
        lines.nudge("p", b"k");
        assert!(places[0].woken().now_or_never().is_some());
        drop(places);
        assert!(lines.is_empty() && lines.policies.lock().is_empty());
    }

    #[test]
    fn a_key_and_a_policy_have_their_bounds() {
        let lines = Arc::new(Lines::default());
        let of_key: Vec<_> = (0..3).map(|_| join(&lines, b"k", 1).ok().unwrap()).collect();
        assert_eq!(join(&lines, b"k", 1).err(), Some(LineFull::Key));
        let _others = [join(&lines, b"l", 1).ok().unwrap(), join(&lines, b"m", 1).ok().unwrap()];
        assert_eq!(join(&lines, b"n", 1).err(), Some(LineFull::Policy));
        assert!(lines.join(("q", b"n"), 1.into(), MOST).is_ok(), "another policy has its own");
        assert_eq!((lines.count("p"), lines.count("q")), (5, 0));
        drop(of_key);
        assert!(join(&lines, b"k", 1).is_ok());
    }

    /// In whatever order callers come and go, nothing is left, and there is one first.
    #[test]
    fn nothing_leaks() {
        let lines = Arc::new(Lines::default());
        let most = LineBounds { of_key: 1_000, of_policy: 1_000 };
        let mut random = fastrand::Rng::with_seed(16);
        let mut places = Vec::new();
        for _ in 0..20_000 {
            if random.bool() || places.is_empty() {
                let key = [random.u8(..4)];
                places.push(lines.join(("p", &key), 1.into(), most).ok().unwrap());
            } else {
                places.swap_remove(random.usize(..places.len()));
            }
            let firsts = places.iter().filter(|place| place.is_first()).count();
            let keys: std::collections::HashSet<_> =
                places.iter().map(|place| place.key.clone()).collect();
            assert_eq!((firsts, lines.count("p")), (keys.len(), places.len()));
            if places.len() > 60 {
                places.clear();
            }
        }
        drop(places);
        assert!(lines.is_empty() && lines.policies.lock().is_empty());
    }
}
