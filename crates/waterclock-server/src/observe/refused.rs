//! Which keys are refused most, of any number of keys, in a space that does not grow.
//!
//! This is Space-Saving (Metwally, Agrawal, El Abbadi, 2005): a fixed number of counters; a key without
//! one takes over the smallest, and with it the count of the key before, which is remembered as an error.
//! So after `n` refusals a key that was refused more than `n / COUNTERS` times has a counter, whatever
//! the order; and no key was refused less often than its count without the error, which is what is reported.
//!
//! Counts are halved every now and then: they speak of the last minutes, not of last week.

use std::hash::{BuildHasher, RandomState};

use parking_lot::Mutex;
use serde::Serialize;

/// Keys that are counted at a time.
const COUNTERS: usize = 128;
/// Keys that are reported.
const MAX_SHOWN: usize = 20;

/// The keys that were refused most in the last minutes.
pub(crate) struct Refused {
    /// Random for each process, so that a hash cannot be matched with keys by trying.
    secret: RandomState,
    sketch: Mutex<Sketch>,
}

#[derive(Default)]
struct Sketch {
    /// Whether keys are kept as they are. Otherwise only their hashes are.
    shows_keys: bool,
    /// The highest count first, so that the most refused keys are found first.
    counters: Vec<Counter>,
}

/// Its texts are written over when another key takes it, so that a flood of keys allocates nothing.
#[derive(Default)]
struct Counter {
    hash: u64,
    policy: String,
    /// Empty unless keys are shown.
    key: Vec<u8>,
    count: u64,
    /// How much of the count may be another key's.
    error: u64,
}

/// As `/v1/live` tells it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct TopRefused {
    /// `raw` or `hashed`.
    shown: &'static str,
    /// Most refusals first.
    keys: Vec<RefusedKey>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct RefusedKey {
    policy: String,
    key: String,
    /// Whether the key is not UTF-8, and `key` only stands for it: with its bytes as `\xff`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    escaped: bool,
    /// At least so many, of late.
    refusals: u64,
}

impl Refused {
    pub(crate) fn new(shows_keys: bool) -> Refused {
        let sketch = Sketch { shows_keys, ..Sketch::default() };
        Refused { secret: RandomState::new(), sketch: Mutex::new(sketch) }
    }

    /// Counts a refusal, unless another thread is counting one: this must not wait.
    #[cold]
    pub(crate) fn note(&self, policy: &str, key: &[u8]) {
        let hash = self.secret.hash_one(key);
        if let Some(mut sketch) = self.sketch.try_lock() {
            sketch.note(hash, policy, key);
        }
    }

    /// Makes what was refused long ago count less.
    pub(crate) fn halve(&self) {
        self.sketch.lock().halve();
    }

    /// Whether keys are shown as they are from now on. Keys kept so far are dropped.
    pub(crate) fn show_keys(&self, shows_keys: bool) {
        let mut sketch = self.sketch.lock();
        if sketch.shows_keys != shows_keys {
            *sketch = Sketch { shows_keys, ..Sketch::default() };
        }
    }

    /// Drops the keys of a removed policy.
    pub(crate) fn forget(&self, policy: &str) {
        self.sketch.lock().counters.retain(|counter| counter.policy != policy);
    }

    /// The most refused keys.
    pub(crate) fn top(&self) -> TopRefused {
        self.sketch.lock().top()
    }
}

impl Sketch {
    fn note(&mut self, hash: u64, policy: &str, key: &[u8]) {
        let is_same = |counter: &Counter| counter.hash == hash && counter.policy == policy;
        let at = self.counters.iter().position(is_same);
        let at = at.unwrap_or_else(|| self.take_smallest(hash, policy, key));
        let Some(count) = self.counters.get(at).map(|counter| counter.count) else { return };
        // To the front of those with the same count: then the order stays when it is counted up.
        let front = self.counters.partition_point(|counter| counter.count > count);
        self.counters.swap(at, front);
        self.counters[front].count += 1;
    }

    /// Gives the key a free counter, or the one with the smallest count; returns its place.
    fn take_smallest(&mut self, hash: u64, policy: &str, key: &[u8]) -> usize {
        if self.counters.len() < COUNTERS {
            self.counters.push(Counter::default());
        }
        let shows_keys = self.shows_keys;
        if let Some(counter) = self.counters.last_mut() {
            counter.hash = hash;
            counter.policy.clear();
            counter.policy.push_str(policy);
            counter.key.clear();
            if shows_keys {
                counter.key.extend_from_slice(key);
            }
            counter.error = counter.count;
        }
        self.counters.len() - 1
    }

    /// The error is rounded up, so that the reported count stays a lower bound.
    fn halve(&mut self) {
        for counter in &mut self.counters {
            counter.count /= 2;
            counter.error = counter.error.div_ceil(2);
        }
        self.counters.retain(|counter| counter.count > 0);
    }

    fn top(&self) -> TopRefused {
        let mut counters: Vec<&Counter> =
            self.counters.iter().filter(|counter| counter.surely() > 0).collect();
        counters.sort_by_key(|counter| std::cmp::Reverse(counter.surely()));
        counters.truncate(MAX_SHOWN);
        let shown_key = |counter: &&Counter| {
            let (key, escaped) = self.shown(counter);
            let policy = counter.policy.clone();
            RefusedKey { policy, key, escaped, refusals: counter.surely() }
        };
        let shown = if self.shows_keys { "raw" } else { "hashed" };
        TopRefused { shown, keys: counters.iter().map(shown_key).collect() }
    }

    /// What stands for a key, and whether it is escaped.
    fn shown(&self, counter: &Counter) -> (String, bool) {
        if !self.shows_keys {
            return (format!("{:016x}", counter.hash), false);
        }
        match std::str::from_utf8(&counter.key) {
            Ok(text) => (text.to_owned(), false),
            // A text with other characters in their place would be another key.
            Err(_) => (counter.key.escape_ascii().to_string(), true),
        }
    }
}

impl Counter {
    /// Refusals that are certainly this key's.
    fn surely(&self) -> u64 {
        self.count.saturating_sub(self.error)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn key(number: usize) -> Vec<u8> {
        format!("key-{number}").into_bytes()
    }

    /// Few keys often, and any number of others once in a while.
    fn skewed(random: &mut fastrand::Rng) -> usize {
        if random.u8(..10) < 6 { random.usize(..30) } else { random.usize(..1_000_000) }
    }

    #[test]
    fn no_count_is_too_high_and_no_frequent_key_is_missed() {
        let refused = Refused::new(true);
        let mut random = fastrand::Rng::with_seed(7);
        let mut truth: HashMap<Vec<u8>, u64> = HashMap::new();
        let refusals = 100_000;
        for _ in 0..refusals {
            let key = key(skewed(&mut random));
            refused.note("p", &key);
            *truth.entry(key).or_default() += 1;
        }
        let sketch = refused.sketch.lock();
        assert_eq!(sketch.counters.len(), COUNTERS);
        assert!(sketch.counters.is_sorted_by(|a, b| a.count >= b.count));
        for counter in &sketch.counters {
            let truth = truth[&counter.key];
            assert!(counter.surely() <= truth && truth <= counter.count, "{truth}");
            assert!(counter.error <= refusals / COUNTERS as u64);
        }
        for (key, times) in truth {
            let is_counted = sketch.counters.iter().any(|counter| counter.key == key);
            assert!(is_counted || times <= refusals / COUNTERS as u64, "{times}");
        }
    }

    #[test]
    fn the_most_refused_come_first() {
        let refused = Refused::new(true);
        for times in 1..=50_usize {
            (0..times).for_each(|_| refused.note("p", &key(times)));
        }
        let top = refused.top();
        assert_eq!(top.keys.len(), MAX_SHOWN);
        let first =
            RefusedKey { policy: "p".into(), key: "key-50".into(), escaped: false, refusals: 50 };
        assert_eq!(top.keys[0], first);
        assert!(top.keys.is_sorted_by_key(|key| std::cmp::Reverse(key.refusals)));
    }

    #[test]
    fn policies_are_told_apart() {
        let refused = Refused::new(false);
        refused.note("a", b"k");
        refused.note("b", b"k");
        let top = refused.top();
        assert_eq!(top.keys.iter().map(|key| key.refusals).collect::<Vec<_>>(), [1, 1]);
        assert_eq!(top.keys[0].key, top.keys[1].key, "the same key has the same hash");
    }

    #[test]
    fn policies_that_are_gone_are_forgotten() {
        let refused = Refused::new(true);
        refused.note("a", b"k");
        refused.note("b", b"k");
        refused.forget("a");
        assert_eq!(refused.top().keys.iter().map(|key| &*key.policy).collect::<Vec<_>>(), ["b"]);
    }

    #[test]
    fn what_was_long_ago_is_forgotten() {
        let refused = Refused::new(true);
        (0..4).for_each(|_| refused.note("p", b"before"));
        refused.halve();
        assert_eq!(refused.top().keys[0].refusals, 2);
        (0..3).for_each(|_| refused.note("p", b"now"));
        assert_eq!(refused.top().keys[0].key, "now");
        (0..2).for_each(|_| refused.halve());
        assert!(refused.top().keys.is_empty());
        assert!(refused.sketch.lock().counters.is_empty(), "not even the key is kept");
    }

    #[test]
    fn halving_never_tells_too_much() {
        let refused = Refused::new(true);
        let mut random = fastrand::Rng::with_seed(8);
        let mut truth: HashMap<Vec<u8>, f64> = HashMap::new();
        for round in 0..20_000 {
            let key = key(skewed(&mut random));
            refused.note("p", &key);
            *truth.entry(key).or_default() += 1.0;
            if round % 1_000 == 999 {
                refused.halve();
                truth.values_mut().for_each(|times| *times /= 2.0);
            }
        }
        for counter in &refused.sketch.lock().counters {
            #[expect(clippy::cast_precision_loss, reason = "small numbers")]
            let surely = counter.surely() as f64;
            assert!(surely <= truth[&counter.key], "{surely} {}", truth[&counter.key]);
        }
    }

    #[test]
    fn keys_are_kept_only_where_they_are_shown() {
        let refused = Refused::new(false);
        refused.note("p", b"secret");
        assert!(refused.sketch.lock().counters.iter().all(|counter| counter.key.is_empty()));
        let told = refused.top();
        assert_eq!((told.shown, told.keys[0].key.len()), ("hashed", 16));
        let elsewhere = Refused::new(false);
        elsewhere.note("p", b"secret");
        assert_ne!(elsewhere.top().keys[0].key, told.keys[0].key, "another process, another hash");
        refused.show_keys(false);
        assert_eq!(refused.top(), told, "nothing has changed");
        refused.show_keys(true);
        assert!(refused.top().keys.is_empty());
        refused.note("p", b"\xffkey\xc3\xa9");
        let told = &refused.top().keys[0];
        assert_eq!((&*told.key, told.escaped), (r"\xffkey\xc3\xa9", true));
        refused.show_keys(false);
        assert!(refused.sketch.lock().counters.is_empty());
    }
}
