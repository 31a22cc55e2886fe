//! What a limit admits at most, as a number.

use core::time::Duration;

use crate::arith::div_ceil;
use crate::{Algorithm, Calendar, CalendarUnit, Limit};

const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);

/// At most `burst + units·D / per_ns` in any window of D nanoseconds.
struct Envelope {
    burst: u64,
    units: u64,
    per_ns: u128,
}

impl Limit {
    /// The most units that it admits in any window of this length, if no cost is above `largest_cost`: the
    /// published bound of its algorithm as a number. `None` for algorithms that bound no rate (concurrency,
    /// error-rate).
    #[must_use]
    pub fn most_within(&self, window: Duration, largest_cost: u64) -> Option<u64> {
        let window = window.as_nanos();
        // A product that saturates is above 2⁶⁴ even divided by the longest period, as is the true one.
        let wide = |units: u64| u128::from(units);
        let periods = |per: Duration| window.div_ceil(per.as_nanos().max(1));
        let most = match self.algorithm() {
            Algorithm::Gcra(gcra) => {
                // A bucket that drips one by one is defined by whole drips.
                let refill = wide(gcra.limit()).saturating_mul(window);
                let per = gcra.period().as_nanos().max(1);
                let refill =
                    if gcra.is_leaky_bucket() { refill.div_ceil(per) } else { refill / per };
                wide(gcra.capacity()).saturating_add(refill)
            }
            Algorithm::LeakyBucket(leaky) => {
                let dripped = wide(leaky.drip()).saturating_mul(periods(leaky.period()));
                wide(leaky.capacity()).saturating_add(dripped)
            }
            Algorithm::FixedWindow(fixed) => {
                wide(fixed.limit()).saturating_mul(periods(fixed.period()) + 1)
            }
            Algorithm::SlidingWindow(sliding) => {
                (2 * wide(sliding.limit()) - 1).saturating_mul(periods(sliding.period()))
            }
            Algorithm::RollingWindow(rolling) => {
                wide(rolling.limit()).saturating_mul(periods(rolling.period()))
            }
            Algorithm::Quota(quota) if window <= quota.period().as_nanos() => {
                let vanished = wide(quota.limit()) * window;
                wide(quota.limit()) + vanished.div_ceil(quota.period().as_nanos().max(1))
            }
            Algorithm::Quota(quota) => {
                (2 * wide(quota.limit())).saturating_mul(periods(quota.period()))
            }
            // Events of any cost, from here on.
            Algorithm::EvenSlots(slots) => {
                let per = slots.period().as_nanos().max(1);
                let half_slots = (2 * wide(slots.limit())).saturating_mul(window);
                let slots = half_slots.saturating_add(per).div_ceil(2 * per);
                slots.saturating_mul(wide(largest_cost))
            }
            Algorithm::MinInterval(gap) => periods(gap.period()).saturating_mul(wide(largest_cost)),
            Algorithm::ErrorRate(_) | Algorithm::Concurrency(_) => return None,
        };
        let debt = if self.overdraft() { largest_cost.saturating_sub(1) } else { 0 };
        Some(u64::try_from(most.saturating_add(wide(debt))).unwrap_or(u64::MAX))
    }

    /// How many units a key gets without a refusal if it asks for no more in all its life, whenever that is.
    #[must_use]
    pub fn never_refuses(&self) -> u64 {
        match self.algorithm() {
            _ if self.min_interval().is_some() => 0,
            Algorithm::Gcra(gcra) => gcra.capacity(),
            Algorithm::LeakyBucket(leaky) => leaky.capacity(),
            Algorithm::FixedWindow(window) => window.limit(),
            Algorithm::SlidingWindow(window) => window.limit(),
            Algorithm::RollingWindow(window) => window.limit(),
            // A quota shrinks with time alone, and the others refuse by time, not by units.
            Algorithm::Quota(_)
            | Algorithm::EvenSlots(_)
            | Algorithm::MinInterval(_)
            | Algorithm::ErrorRate(_)
            | Algorithm::Concurrency(_) => 0,
        }
    }

    /// Whether it certainly admits everything that `other` admits, so that it refuses nothing beside it. `false`
    /// where that is not certain.
    #[must_use]
    pub fn never_binds_beside(&self, other: &Limit) -> bool {
        let comparable = self.unit() == other.unit()
            && !self.is_shadow()
            && !other.is_shadow()
            && self.min_interval().is_none();
        comparable && other.envelope().is_some_and(|most| self.admits_all_of(&most))
    }

    fn envelope(&self) -> Option<Envelope> {
        if self.overdraft() {
            // Debt has no bound.
            return None;
        }
        let (burst, units, per) = match self.algorithm() {
            Algorithm::Gcra(gcra) => (gcra.capacity(), gcra.limit(), gcra.period()),
            Algorithm::LeakyBucket(leaky) => {
                (leaky.capacity() + leaky.drip(), leaky.drip(), leaky.period())
            }
            Algorithm::RollingWindow(window) => (window.limit(), window.limit(), window.period()),
            Algorithm::FixedWindow(window) if self.calendar().is_none() => {
                (2 * window.limit(), window.limit(), window.period())
            }
            Algorithm::SlidingWindow(window) => {
                (2 * window.limit(), window.limit(), window.period())
            }
            Algorithm::Quota(quota) => (2 * quota.limit(), quota.limit(), quota.period()),
            // Windows of a calendar vary, and events have any cost.
            _ => return None,
        };
        Some(Envelope { burst, units, per_ns: per.as_nanos().max(1) })
    }

    fn admits_all_of(&self, most: &Envelope) -> bool {
        match self.algorithm() {
            Algorithm::Gcra(gcra) => {
                most.burst <= gcra.capacity() && most.is_no_faster_than(gcra.limit(), gcra.period())
            }
            // A drip of several comes late: what arrives meanwhile must fit too.
            Algorithm::LeakyBucket(leaky) => {
                most.within(leaky.period()) <= u128::from(leaky.capacity())
                    && most.is_no_faster_than(leaky.drip(), leaky.period())
            }
            Algorithm::FixedWindow(window) => {
                let longest = match self.calendar() {
                    Some(calendar) => longest(&**calendar),
                    None => Some(window.period()),
                };
                longest.is_some_and(|longest| most.within(longest) <= u128::from(window.limit()))
            }
            Algorithm::SlidingWindow(window) => {
                most.within(window.period()) <= u128::from(window.limit())
            }
            Algorithm::RollingWindow(window) => {
                let per = window.period();
                let cell = window.buckets().map_or(0, |buckets| div_ceil(per.as_nanos(), buckets));
                most.within(per + Duration::from_nanos(cell)) <= u128::from(window.limit())
            }
            // A quota shrinks with time alone, events are refused whatever they cost, and no rate bounds
            // errors or holders that stay.
            Algorithm::Quota(_)
            | Algorithm::ErrorRate(_)
            | Algorithm::Concurrency(_)
            | Algorithm::EvenSlots(_)
            | Algorithm::MinInterval(_) => false,
        }
    }
}

/// The longest window of a calendar: an hour more where summer time ends.
fn longest(calendar: &dyn Calendar) -> Option<Duration> {
    let days = match calendar.unit()? {
        CalendarUnit::Day => 1,
        CalendarUnit::Week => 7,
        CalendarUnit::Month => 31,
        CalendarUnit::Year => 366,
    };
    Some(days * DAY + HOUR)
}

impl Envelope {
    fn within(&self, time: Duration) -> u128 {
        u128::from(self.burst) + u128::from(self.units) * time.as_nanos() / self.per_ns
    }

    fn is_no_faster_than(&self, units: u64, per: Duration) -> bool {
        u128::from(self.units) * per.as_nanos() <= u128::from(units) * self.per_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        EvenSlots, FixedWindow, Gcra, LeakyBucket, MAX_PERIOD, MAX_UNITS, MinInterval, Quota,
        RollingWindow, SlidingWindow,
    };

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn gcra(limit: u64, per: u64, capacity: u64) -> Limit {
        Gcra::new(limit, seconds(per)).unwrap().with_capacity(capacity).into()
    }

    fn rolling(limit: u64, per: u64) -> Limit {
        RollingWindow::new(limit, seconds(per)).unwrap().into()
    }

    #[test]
    fn an_hourly_limit_above_what_a_second_admits() {
        // 10 + 10·3600 fits, one less does not.
        assert!(rolling(36_010, 3_600).never_binds_beside(&gcra(10, 1, 10)));
        assert!(!rolling(36_009, 3_600).never_binds_beside(&gcra(10, 1, 10)));
    }

    #[test]
    fn a_looser_bucket_beside_a_tighter_one() {
        assert!(gcra(20, 1, 20).never_binds_beside(&gcra(10, 1, 20)));
        assert!(!gcra(20, 1, 19).never_binds_beside(&gcra(10, 1, 20)));
        assert!(!gcra(9, 1, 20).never_binds_beside(&gcra(10, 1, 20)));
        assert!(gcra(1, 1, 60).never_binds_beside(&rolling(60, 60)));
    }

    #[test]
    fn bounds_of_the_longest_window() {
        for per in [seconds(1), MAX_PERIOD] {
            let limits: [Limit; 6] = [
                Gcra::new(MAX_UNITS, per).unwrap().into(),
                LeakyBucket::new(MAX_UNITS, MAX_UNITS, per).unwrap().with_overdraft(true).into(),
                FixedWindow::new(MAX_UNITS, per).unwrap().into(),
                SlidingWindow::new(MAX_UNITS, per).unwrap().into(),
                RollingWindow::bucketed(MAX_UNITS, per, 1).unwrap().into(),
                Quota::new(MAX_UNITS, per).unwrap().into(),
            ];
            let events: [Limit; 2] =
                [EvenSlots::new(1_000, per).unwrap().into(), MinInterval::new(per).unwrap().into()];
            for limit in limits.iter().chain(&events) {
                let most = limit.most_within(Duration::MAX, u64::MAX);
                assert_eq!(most, Some(u64::MAX), "{limit:?}");
            }
        }
    }

    #[test]
    fn bounds_as_numbers() {
        let within = |limit: Limit, time| limit.most_within(seconds(time), 3);
        assert_eq!(within(gcra(10, 1, 20), 2), Some(40));
        let leaky = LeakyBucket::new(5, 2, seconds(10)).unwrap().with_overdraft(true);
        assert_eq!(within(leaky.into(), 15), Some(5 + 4 + 2));
        assert_eq!(within(Quota::new(10, seconds(10)).unwrap().into(), 5), Some(15));
        assert_eq!(within(MinInterval::new(seconds(2)).unwrap().into(), 3), Some(6));
        assert_eq!(gcra(10, 1, 20).never_refuses(), 20);
        assert_eq!(Limit::from(Quota::new(10, seconds(10)).unwrap()).never_refuses(), 0);
    }
}
