//! Which keys are refused most, of any number of keys, in a space that does not grow.
//!
//! This is Space-Saving (Metwally, Agrawal, El Abbadi, 2005): a fixed number of counters; a key without
//! one takes over the smallest, and with it the count of the key before, which is remembered as an error.
//! So after `n` refusals a key that was refused more than `n / COUNTERS` times has a counter, whatever
//! the order. A key was refused at least as often as its count without the error, and at most as often as its count
//! and the refusals that were missed because another thread was counting.
//!
//! There are two sketches, one after the other in time. What is reported is the sum of both: of a definite time, since
//! the beginning of the older one. Sums of bounds are bounds.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use serde::{Serialize, Serializer};
use waterclock::Timestamp;

/// Keys that are counted at a time.
const COUNTERS: usize = 128;
/// Keys that are reported.
const MAX_SHOWN: usize = 20;

/// The keys that were refused most in the last minutes.
pub(crate) struct Refused {
    /// Random for each process, so that a hash cannot be matched with keys by trying.
    secret: RandomState,
    sketches: Mutex<Sketches>,
    /// Refusals that the current sketch does not know of.
    missed: AtomicU64,
}

struct Sketches {
    /// Whether keys are kept as they are. Otherwise only their hashes are.
    shows_keys: bool,
    /// When the older one began.
    since: Timestamp,
    current_since: Timestamp,
    older: Sketch,
    current: Sketch,
}

#[derive(Default)]
struct Sketch {
    /// The highest count first, so that the most refused keys are found first.
    counters: Vec<Counter>,
    /// No key without a counter was refused more often.
    floor: u64,
    /// Refusals that were not counted; set when it becomes the older one.
    missed: u64,
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

/// As `/v1/live` and `/v1/refused` tell it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct TopRefused {
    /// `raw` or `hashed`.
    shown: &'static str,
    /// From when on refusals count, in microseconds since the Unix epoch.
    since_us: u64,
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
    /// The fields that form the key, if it is shown as it is.
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "as_map")]
    fields: KeyFields,
    /// At least so many.
    refusals: u64,
    /// At most so many.
    refusals_at_most: u64,
}

/// Names and values, in the order of the policy.
pub(crate) type KeyFields = Vec<(String, String)>;

fn as_map<S: Serializer>(fields: &KeyFields, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(fields.iter().map(|(name, value)| (name, value)))
}

impl Refused {
    pub(crate) fn new(shows_keys: bool, now: Timestamp) -> Refused {
        let sketches = Mutex::new(Sketches::new(shows_keys, now));
        Refused { secret: RandomState::new(), sketches, missed: AtomicU64::new(0) }
    }

    /// Counts a refusal, unless another thread is counting one: this must not wait.
    #[cold]
    pub(crate) fn note(&self, policy: &str, key: &[u8]) {
        let hash = self.secret.hash_one(key);
        match self.sketches.try_lock() {
            Some(mut sketches) => {
                let kept = if sketches.shows_keys { key } else { &[] };
                sketches.current.note(hash, policy, kept);
            }
            None => _ = self.missed.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// Begins the next sketch, and drops the older one.
    pub(crate) fn rotate(&self, now: Timestamp) {
        let mut sketches = self.sketches.lock();
        sketches.older = std::mem::take(&mut sketches.current);
        sketches.older.missed = self.missed.swap(0, Ordering::Relaxed);
        sketches.since = std::mem::replace(&mut sketches.current_since, now);
    }

    /// Whether keys are shown as they are from now on. Keys kept so far are dropped.
    pub(crate) fn show_keys(&self, shows_keys: bool, now: Timestamp) {
        let mut sketches = self.sketches.lock();
        if sketches.shows_keys != shows_keys {
            *sketches = Sketches::new(shows_keys, now);
            self.missed.store(0, Ordering::Relaxed);
        }
    }

    /// Drops the keys of a removed policy.
    pub(crate) fn forget(&self, policy: &str) {
        let mut sketches = self.sketches.lock();
        let Sketches { older, current, .. } = &mut *sketches;
        for sketch in [older, current] {
            sketch.counters.retain(|counter| counter.policy != policy);
        }
    }

    /// The most refused keys, of all policies or of one. `fields` names the parts of a policy's key.
    pub(crate) fn top(
        &self,
        policy: Option<&str>,
        fields: impl Fn(&str, &str) -> KeyFields,
    ) -> TopRefused {
        let missed = self.missed.load(Ordering::Relaxed);
        self.sketches.lock().top(policy, missed, fields)
    }
}

impl Sketches {
    fn new(shows_keys: bool, now: Timestamp) -> Sketches {
        let (older, current) = (Sketch::default(), Sketch::default());
        Sketches { shows_keys, since: now, current_since: now, older, current }
    }

    fn top(
        &self,
        policy: Option<&str>,
        missed: u64,
        fields: impl Fn(&str, &str) -> KeyFields,
    ) -> TopRefused {
        let missed = missed + self.older.missed;
        let is_new = |counter: &&Counter| self.current.find(counter).is_none();
        let counters = self.current.counters.iter();
        let counters = counters.chain(self.older.counters.iter().filter(is_new));
        let mut bounded: Vec<(u64, u64, &Counter)> = counters
            .filter(|counter| policy.is_none_or(|policy| counter.policy == policy))
            .map(|counter| {
                let bounds = [&self.older, &self.current].map(|sketch| sketch.bounds(counter));
                let [(least, most), (more, at_most)] = bounds;
                (least + more, most + at_most + missed, counter)
            })
            // What may all be another key's refusals says nothing.
            .filter(|(least, _, _)| *least > 0)
            .collect();
        bounded.sort_by_key(|(least, _, _)| std::cmp::Reverse(*least));
        bounded.truncate(MAX_SHOWN);
        let shown_key = |(refusals, refusals_at_most, counter): (u64, u64, &Counter)| {
            let (key, escaped) = self.shown(counter);
            let policy = counter.policy.clone();
            let is_text = self.shows_keys && !escaped;
            let fields = if is_text { fields(&policy, &key) } else { Vec::new() };
            RefusedKey { policy, key, escaped, fields, refusals, refusals_at_most }
        };
        let shown = if self.shows_keys { "raw" } else { "hashed" };
        let keys = bounded.into_iter().map(shown_key).collect();
        TopRefused { shown, since_us: self.since.as_nanos() / 1_000, keys }
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
            // The key may have had a counter before.
            self.counters.push(Counter { count: self.floor, ..Counter::default() });
        }
        if let Some(counter) = self.counters.last_mut() {
            counter.hash = hash;
            counter.policy.clear();
            counter.policy.push_str(policy);
            counter.key.clear();
            counter.key.extend_from_slice(key);
            counter.error = counter.count;
            self.floor = self.floor.max(counter.count);
        }
        self.counters.len() - 1
    }

    /// The counter of the key of another sketch's.
    fn find(&self, other: &Counter) -> Option<&Counter> {
        let is_same =
            |counter: &&Counter| counter.hash == other.hash && counter.policy == other.policy;
        self.counters.iter().find(is_same)
    }

    /// How often a key was refused, at least and at most, of what was counted.
    fn bounds(&self, key: &Counter) -> (u64, u64) {
        self.find(key)
            .map_or((0, self.floor), |counter| (counter.count - counter.error, counter.count))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn key(number: usize) -> Vec<u8> {
        format!("key-{number}").into_bytes()
    }

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_nanos(seconds * 1_000_000_000)
    }

    fn refused(shows_keys: bool) -> Refused {
        Refused::new(shows_keys, at(0))
    }

    fn top(refused: &Refused) -> TopRefused {
        refused.top(None, |_, _| Vec::new())
    }

    /// Few keys often, and any number of others once in a while.
    fn skewed(random: &mut fastrand::Rng) -> usize {
        if random.u8(..10) < 6 { random.usize(..30) } else { random.usize(..1_000_000) }
    }

    type Truth = HashMap<(&'static str, Vec<u8>), u64>;

    /// Every number that is reported lies on its side of the truth, and every frequent key is reported.
    #[track_caller]
    fn holds(refused: &Refused, truth: &Truth) {
        let sketches = refused.sketches.lock();
        let missed = refused.missed.load(Ordering::Relaxed) + sketches.older.missed;
        for sketch in [&sketches.older, &sketches.current] {
            assert!(sketch.counters.len() <= COUNTERS);
            assert!(sketch.counters.is_sorted_by(|a, b| a.count >= b.count));
        }
        for ((policy, key), times) in truth {
            let hash = refused.secret.hash_one(&**key);
            let wanted = Counter { hash, policy: (*policy).to_owned(), ..Counter::default() };
            let [(least, most), (more, at_most)] =
                [&sketches.older, &sketches.current].map(|sketch| sketch.bounds(&wanted));
            let (least, most) = (least + more, most + at_most + missed);
            assert!(least <= *times && *times <= most, "{least} <= {times} <= {most}");
        }
        drop(sketches);
        for told in top(refused).keys {
            let times = truth
                .iter()
                .find(|((policy, key), _)| *policy == told.policy && *key == told.key.as_bytes());
            let times = times.map_or(0, |(_, times)| *times);
            assert!(told.refusals <= times && times <= told.refusals_at_most, "{told:?} {times}");
        }
    }

    /// Over two sketches, with policies that go and come back.
    #[test]
    fn the_truth_lies_between_the_bounds() {
        for seed in 0..20 {
            let mut random = fastrand::Rng::with_seed(seed);
            let refused = refused(true);
            let mut truths = [Truth::new(), Truth::new()];
            for round in 0..40_000 {
                let policy = if random.u8(..4) == 0 { "q" } else { "p" };
                let key = key(skewed(&mut random));
                refused.note(policy, &key);
                *truths[1].entry((policy, key)).or_default() += 1;
                match random.u32(..15_000) {
                    0 => {
                        refused.rotate(at(round));
                        truths.swap(0, 1);
                        truths[1].clear();
                    }
                    1 => {
                        refused.forget("q");
                        // What was refused before it went is no longer told, and may be.
                        for truth in &mut truths {
                            truth.retain(|(policy, _), _| *policy != "q");
                        }
                    }
                    _ => {}
                }
            }
            let mut truth = Truth::new();
            for ((policy, key), times) in truths.iter().flatten() {
                *truth.entry((*policy, key.clone())).or_default() += times;
            }
            holds(&refused, &truth);
        }
    }

    #[test]
    fn no_frequent_key_is_missed() {
        let refused = refused(true);
        let mut random = fastrand::Rng::with_seed(7);
        let mut truth = Truth::new();
        let refusals = 100_000;
        for _ in 0..refusals {
            let key = key(skewed(&mut random));
            refused.note("p", &key);
            *truth.entry(("p", key)).or_default() += 1;
        }
        holds(&refused, &truth);
        let sketches = refused.sketches.lock();
        let sketch = &sketches.current;
        assert_eq!(sketch.counters.len(), COUNTERS);
        assert!(sketch.floor <= refusals / COUNTERS as u64);
        for ((_, key), times) in truth {
            let is_counted = sketch.counters.iter().any(|counter| counter.key == key);
            assert!(is_counted || times <= refusals / COUNTERS as u64, "{times}");
        }
    }

    /// Where all keys are alike the sketch cannot tell, and says nothing rather than something wrong.
    #[test]
    fn what_cannot_be_told_is_not() {
        let refused = refused(true);
        for number in 0..100 * COUNTERS {
            refused.note("p", &key(number));
        }
        let told = top(&refused).keys;
        assert!(
            told.iter().all(|key| key.refusals == 1 && key.refusals_at_most == 100),
            "{told:?}"
        );
    }

    /// A refusal that was not counted, because another thread held the lock, is in the upper bound.
    #[test]
    fn what_was_missed_is_in_the_upper_bound() {
        let refused = refused(true);
        refused.note("p", b"k");
        let held = refused.sketches.lock();
        (0..3).for_each(|_| refused.note("p", b"k"));
        drop(held);
        let bounds = |refused: &Refused| {
            let told = top(refused).keys;
            (told[0].refusals, told[0].refusals_at_most)
        };
        assert_eq!(bounds(&refused), (1, 4));
        refused.rotate(at(1));
        refused.note("p", b"k");
        assert_eq!(bounds(&refused), (2, 5));
        refused.rotate(at(2));
        assert_eq!(bounds(&refused), (1, 1));
    }

    #[test]
    fn the_most_refused_come_first() {
        let refused = refused(true);
        for times in 1..=50_usize {
            (0..times).for_each(|_| refused.note("p", &key(times)));
        }
        let top = top(&refused);
        assert_eq!(top.keys.len(), MAX_SHOWN);
        let first = &top.keys[0];
        assert_eq!((&*first.key, first.refusals, first.refusals_at_most), ("key-50", 50, 50));
        assert!(top.keys.is_sorted_by_key(|key| std::cmp::Reverse(key.refusals)));
    }

    #[test]
    fn policies_are_told_apart() {
        let refused = refused(false);
        refused.note("a", b"k");
        refused.note("b", b"k");
        let told = top(&refused);
        assert_eq!(told.keys.iter().map(|key| key.refusals).collect::<Vec<_>>(), [1, 1]);
        assert_eq!(told.keys[0].key, told.keys[1].key, "the same key has the same hash");
        let of_one = refused.top(Some("b"), |_, _| Vec::new()).keys;
        assert_eq!(of_one.iter().map(|key| &*key.policy).collect::<Vec<_>>(), ["b"]);
    }

    #[test]
    fn policies_that_are_gone_are_forgotten() {
        let refused = refused(true);
        refused.note("a", b"k");
        refused.rotate(at(1));
        refused.note("a", b"k");
        refused.note("b", b"k");
        refused.forget("a");
        assert_eq!(top(&refused).keys.iter().map(|key| &*key.policy).collect::<Vec<_>>(), ["b"]);
    }

    #[test]
    fn what_was_long_ago_is_forgotten() {
        let refused = refused(true);
        (0..4).for_each(|_| refused.note("p", b"before"));
        refused.rotate(at(300));
        (0..3).for_each(|_| refused.note("p", b"now"));
        let told = top(&refused);
        assert_eq!((told.since_us, &*told.keys[0].key, told.keys[0].refusals), (0, "before", 4));
        refused.rotate(at(600));
        let told = top(&refused);
        assert_eq!((told.since_us, &*told.keys[0].key), (300_000_000, "now"));
        refused.rotate(at(900));
        assert!(top(&refused).keys.is_empty());
        let sketches = refused.sketches.lock();
        let kept = sketches.older.counters.len() + sketches.current.counters.len();
        assert_eq!(kept, 0, "not even the key is kept");
    }

    #[test]
    fn keys_are_kept_only_where_they_are_shown() {
        let refused = refused(false);
        refused.note("p", b"secret");
        let kept = |refused: &Refused| {
            refused.sketches.lock().current.counters.iter().map(|c| c.key.len()).sum::<usize>()
        };
        assert_eq!(kept(&refused), 0);
        let told = top(&refused);
        assert_eq!((told.shown, told.keys[0].key.len()), ("hashed", 16));
        let named = refused.top(None, |_, _| vec![("user".into(), "secret".into())]);
        assert!(named.keys[0].fields.is_empty(), "a hash has no fields");
        let elsewhere = self::refused(false);
        elsewhere.note("p", b"secret");
        assert_ne!(top(&elsewhere).keys[0].key, told.keys[0].key, "another process, another hash");
        refused.show_keys(false, at(9));
        assert_eq!(top(&refused), told, "nothing has changed");
        refused.show_keys(true, at(9));
        assert!(top(&refused).keys.is_empty());
        assert_eq!(top(&refused).since_us, 9_000_000);
        refused.note("p", b"\xffkey\xc3\xa9");
        let told = &top(&refused).keys[0];
        assert_eq!((&*told.key, told.escaped), (r"\xffkey\xc3\xa9", true));
        refused.show_keys(false, at(10));
        assert_eq!(kept(&refused), 0);
        assert!(top(&refused).keys.is_empty());
    }
}
