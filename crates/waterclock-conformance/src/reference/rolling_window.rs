//! rolling-window: a log of what was admitted and until when each entry counts.

use super::meter::{self, Meter, positive};
use super::search::{MOST_UNITS, Time, Units};

/// The entries that still count, oldest first.
#[derive(Clone, Debug)]
pub(super) struct RollingWindow {
    limit: Units,
    per: Time,
    buckets: Option<u128>,
    log: Vec<Entry>,
}

/// Counts while `now < end`.
#[derive(Clone, Copy, Debug)]
struct Entry {
    end: Time,
    size: Units,
}

impl RollingWindow {
    pub(super) fn new(limit: u64, per_ns: u64, buckets: Option<u64>) -> Self {
        let (limit, per) = (positive(limit), positive(per_ns));
        Self { limit, per, buckets: buckets.map(positive), log: Vec::new() }
    }

    fn used(&self, at: Time) -> Units {
        self.log.iter().filter(|entry| at < entry.end).map(|entry| entry.size).sum()
    }

    /// Until when an action at `at` counts: on a grid, as if it were at the end of its bucket.
    fn end(&self, at: Time) -> Time {
        let counted_from = self.buckets.map_or(at, |buckets| {
            let bucket = at * buckets / self.per;
            ((bucket + 1) * self.per).div_ceil(buckets)
        });
        counted_from + self.per
    }

    fn add(&mut self, at: Time, cost: Units) {
        self.log.retain(|entry| at < entry.end);
        let end = self.end(at);
        match self.log.last_mut().filter(|entry| entry.end == end) {
            Some(newest) => newest.size += cost,
            None => self.log.push(Entry { end, size: cost }),
        }
    }
}

impl Meter for RollingWindow {
    fn limit(&self) -> Option<Units> {
        Some(self.limit)
    }

    fn fits(&self, at: Time, cost: Units) -> bool {
        self.used(at) + cost <= self.limit
    }

    fn is_fresh(&self, at: Time) -> bool {
        self.used(at) == 0
    }

    fn charge(&mut self, at: Time, cost: Units) {
        self.add(at, cost);
    }

    fn debit(&mut self, at: Time, units: Units) {
        self.add(at, units.min(MOST_UNITS.saturating_sub(self.used(at))));
    }

    fn record(&mut self, at: Time, cost: Units) {
        // Attempts matter up to twice the limit; what was debited beyond it stays.
        let most = self.used(at).max(2 * self.limit);
        self.add(at, cost.min(2 * self.limit));
        let surplus = self.used(at).saturating_sub(most);
        drop_units(self.log.iter_mut(), surplus);
    }

    fn give_back(&mut self, at: Time, charged_at: Time, units: Units) {
        self.log.retain(|entry| at < entry.end);
        let end = self.end(charged_at);
        drop_units(self.log.iter_mut().filter(|entry| entry.end == end), units);
    }

    fn refund(&mut self, at: Time, units: Units) {
        self.log.retain(|entry| at < entry.end);
        drop_units(self.log.iter_mut().rev(), units);
    }

    fn counter(&self, at: Time) -> Option<i64> {
        meter::counter(self.limit, self.used(at))
    }
}

/// Takes units out of the entries, in the order given.
fn drop_units<'a>(entries: impl Iterator<Item = &'a mut Entry>, mut units: Units) {
    for entry in entries {
        let dropped = units.min(entry.size);
        entry.size -= dropped;
        units -= dropped;
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{policy, uniform};
    use super::super::{Algorithm, Verb};

    fn rolling(buckets: Option<u64>) -> Algorithm {
        Algorithm::RollingWindow { limit: 5, per_ns: 100, buckets }
    }

    #[test]
    fn each_entry_counts_for_exactly_one_period() {
        let mut model = policy(rolling(None));
        model.apply(10, Verb::Check, 2);
        model.apply(50, Verb::Check, 3);
        assert_eq!(model.apply(60, Verb::Check, 2).retry_after_ns, Some(50));
        let third = model.apply(60, Verb::Check, 3);
        assert_eq!((third.retry_after_ns, third.reset_after_ns), (Some(90), 90));
        assert_eq!(model.apply(109, Verb::Peek, 1).remaining, Some(0));
        assert_eq!(model.apply(110, Verb::Peek, 1).remaining, Some(2));
    }

    #[test]
    fn a_grid_counts_until_the_end_of_the_bucket_and_a_period() {
        let mut model = policy(rolling(Some(3)));
        // Buckets end at 33⅓, 66⅔, 100, …, rounded up to the next instant.
        assert_eq!(model.apply(0, Verb::Check, 1).reset_after_ns, 134);
        assert_eq!(model.apply(33, Verb::Check, 1).reset_after_ns, 101);
        assert_eq!(model.apply(34, Verb::Check, 1).reset_after_ns, 133);
        assert_eq!(model.apply(34, Verb::Peek, 4).retry_after_ns, Some(100));
    }

    #[test]
    fn a_refund_takes_the_newest_first() {
        let mut model = policy(rolling(None));
        model.apply(0, Verb::Check, 2);
        model.apply(50, Verb::Check, 2);
        assert_eq!(model.apply(60, Verb::Refund, 1).reset_after_ns, 90);
        assert_eq!(model.apply(60, Verb::Refund, 1).reset_after_ns, 40);
        assert_eq!(model.apply(60, Verb::Refund, 9).reset_after_ns, 0);
    }

    #[test]
    fn uniform_keeps_the_newest_units() {
        let mut model = uniform(rolling(None));
        model.apply(0, Verb::Check, 4);
        assert_eq!(model.apply(10, Verb::Check, 3).counter, Some(-2));
        let hammered = model.apply(20, Verb::Check, u64::MAX);
        assert_eq!((hammered.counter, hammered.next_unit_ns), (Some(-5), Some(100)));
        assert_eq!(model.apply(119, Verb::Peek, 1).counter, Some(-5));
        assert_eq!(model.apply(120, Verb::Peek, 1).counter, Some(5));
    }
}
