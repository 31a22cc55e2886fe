//! Everything a limit was defined by, read back; and the same limit with other numbers.

use alloc::sync::Arc;
use core::time::Duration;

use crate::arith::{div_ceil, mul};
use crate::{
    Algorithm, Align, Calendar, Concurrency, EvenSlots, FixedWindow, Gcra, LeakyBucket, Limit,
    LimitError, Quota, RollingWindow, SlidingWindow,
};

/// Getters return `None` where the algorithm has no such number, so that all of them together say what the
/// limit was defined by:
///
/// | algorithm | numbers |
/// |---|---|
/// | gcra | `limit`, `period`, `capacity`, `overdraft` |
/// | leaky-bucket | `capacity`, `drip`, `every`, `overdraft` |
/// | fixed-window | `limit`, `align`, and `period` or `calendar` |
/// | sliding-window, quota, even-slots | `limit`, `period` |
/// | rolling-window | `limit`, `period`, `buckets` |
/// | min-interval | `every` |
/// | concurrency | `limit`, `lease` |
/// | error-rate | `threshold`, `period`, `min_samples`, `cool_down` |
impl Limit {
    /// Units per period, or at once for a concurrency limit.
    #[must_use]
    pub fn limit(&self) -> Option<u64> {
        match self.algorithm() {
            Algorithm::Gcra(gcra) if gcra.is_leaky_bucket() => None,
            Algorithm::Gcra(gcra) => Some(gcra.limit()),
            Algorithm::FixedWindow(window) => Some(window.limit()),
            Algorithm::SlidingWindow(window) => Some(window.limit()),
            Algorithm::RollingWindow(window) => Some(window.limit()),
            Algorithm::Quota(quota) => Some(quota.limit()),
            Algorithm::EvenSlots(slots) => Some(slots.limit()),
            Algorithm::Concurrency(slots) => Some(slots.limit()),
            Algorithm::LeakyBucket(_) | Algorithm::MinInterval(_) | Algorithm::ErrorRate(_) => None,
        }
    }

    /// The period. Windows on a [calendar](Limit::calendar) have none: their lengths vary.
    #[must_use]
    pub fn period(&self) -> Option<Duration> {
        match self.algorithm() {
            Algorithm::Gcra(gcra) if gcra.is_leaky_bucket() => None,
            Algorithm::Gcra(gcra) => Some(gcra.period()),
            Algorithm::FixedWindow(_) if self.calendar().is_some() => None,
            Algorithm::FixedWindow(window) => Some(window.period()),
            Algorithm::SlidingWindow(window) => Some(window.period()),
            Algorithm::RollingWindow(window) => Some(window.period()),
            Algorithm::Quota(quota) => Some(quota.period()),
            Algorithm::EvenSlots(slots) => Some(slots.period()),
            Algorithm::ErrorRate(breaker) => Some(breaker.period()),
            Algorithm::LeakyBucket(_) | Algorithm::MinInterval(_) | Algorithm::Concurrency(_) => {
                None
            }
        }
    }

    /// How much may be used at once.
    #[must_use]
    pub fn capacity(&self) -> Option<u64> {
        match self.algorithm() {
            Algorithm::Gcra(gcra) => Some(gcra.capacity()),
            Algorithm::LeakyBucket(leaky) => Some(leaky.capacity()),
            _ => None,
        }
    }

    /// How many units leave a leaky bucket at once.
    #[must_use]
    pub fn drip(&self) -> Option<u64> {
        match self.algorithm() {
            Algorithm::Gcra(gcra) if gcra.is_leaky_bucket() => Some(1),
            Algorithm::LeakyBucket(leaky) => Some(leaky.drip()),
            _ => None,
        }
    }

    /// How often a leaky bucket drips, or how far a min-interval keeps two events apart.
    #[must_use]
    pub fn every(&self) -> Option<Duration> {
        match self.algorithm() {
            Algorithm::Gcra(gcra) if gcra.is_leaky_bucket() => Some(gcra.period()),
            Algorithm::LeakyBucket(leaky) => Some(leaky.period()),
            Algorithm::MinInterval(gap) => Some(gap.period()),
            _ => None,
        }
    }

    /// Whether any cost is admitted whenever one unit would pass.
    #[must_use]
    pub fn overdraft(&self) -> bool {
        match self.algorithm() {
            Algorithm::Gcra(gcra) => gcra.overdraft(),
            Algorithm::LeakyBucket(leaky) => leaky.overdraft(),
            _ => false,
        }
    }

    /// How many cells a rolling window samples its times on; `None` for the exact log.
    #[must_use]
    pub fn buckets(&self) -> Option<u64> {
        if let Algorithm::RollingWindow(window) = self.algorithm() {
            window.buckets()
        } else {
            None
        }
    }

    /// Where a fixed window starts.
    #[must_use]
    pub fn align(&self) -> Option<&Align> {
        if let Algorithm::FixedWindow(window) = self.algorithm() {
            Some(window.align())
        } else {
            None
        }
    }

    /// The calendar of a fixed window that has one.
    #[must_use]
    pub fn calendar(&self) -> Option<&Arc<dyn Calendar>> {
        if let Some(Align::Calendar(calendar)) = self.align() { Some(calendar) } else { None }
    }

    /// The share of errors that opens a breaker, in hundredths of a percent.
    #[must_use]
    pub fn threshold(&self) -> Option<u64> {
        self.breaker().map(|breaker| breaker.threshold())
    }

    /// How many reports a breaker must have before it opens.
    #[must_use]
    pub fn min_samples(&self) -> Option<u64> {
        self.breaker().map(|breaker| breaker.min_samples())
    }

    /// How long a breaker stays open.
    #[must_use]
    pub fn cool_down(&self) -> Option<Duration> {
        self.breaker().map(|breaker| breaker.cool_down())
    }

    fn breaker(&self) -> Option<&crate::ErrorRate> {
        if let Algorithm::ErrorRate(breaker) = self.algorithm() { Some(breaker) } else { None }
    }

    /// How long a unit of a concurrency limit may be held.
    #[must_use]
    pub fn lease(&self) -> Option<Duration> {
        if let Algorithm::Concurrency(slots) = self.algorithm() {
            Some(slots.lease())
        } else {
            None
        }
    }

    /// The time over which the limit counts, for response headers: the period of a window (of a calendar, the
    /// shortest), or what a bucket takes from empty to full. `None` where that is no whole number of
    /// nanoseconds, and for algorithms that count no units.
    #[must_use]
    pub fn window(&self) -> Option<Duration> {
        match self.algorithm() {
            Algorithm::Gcra(gcra) => {
                let (step_ns, scale) = gcra.unit_ns();
                let nanos = u128::from(gcra.capacity()) * u128::from(step_ns);
                (nanos.is_multiple_of(scale.into()))
                    .then(|| Duration::from_nanos(div_ceil(nanos, scale)))
            }
            Algorithm::LeakyBucket(leaky) => {
                let drips = leaky.capacity().div_ceil(leaky.drip());
                let nanos = leaky.period().as_nanos() * u128::from(drips);
                Some(Duration::from_nanos(div_ceil(nanos, 1)))
            }
            Algorithm::FixedWindow(window) => Some(window.period()),
            Algorithm::SlidingWindow(window) => Some(window.period()),
            Algorithm::RollingWindow(window) => Some(window.period()),
            Algorithm::Quota(quota) => Some(quota.period()),
            _ => None,
        }
    }

    /// How long so many units last at the limit's own pace, rounded up: `units · window / limit`. `None` for
    /// algorithms without a window.
    #[must_use]
    pub fn time_for(&self, units: u64) -> Option<Duration> {
        if let Algorithm::Gcra(gcra) = self.algorithm() {
            let (step_ns, scale) = gcra.unit_ns();
            return Some(Duration::from_nanos(div_ceil(mul(units, step_ns), scale)));
        }
        let (window, most) = (self.window()?, self.max_cost()?.max(1));
        let window = u64::try_from(window.as_nanos()).unwrap_or(u64::MAX);
        Some(Duration::from_nanos(div_ceil(mul(units, window), most)))
    }

    /// Whether used units return at a steady pace, one after the other or drip by drip, and not with a window.
    #[must_use]
    pub fn refills(&self) -> bool {
        matches!(self.algorithm(), Algorithm::Gcra(_) | Algorithm::LeakyBucket(_))
    }

    /// The same limit for `limit` units per `per`, whatever it was before. Buckets get a capacity of `limit`,
    /// windows on a calendar become windows on the epoch, concurrency limits keep their lease, and
    /// algorithms without such numbers (min-interval, error-rate, leaky-bucket) become gcra.
    pub fn with_rate(&self, limit: u64, per: Duration) -> Result<Self, LimitError> {
        let algorithm = match self.algorithm() {
            Algorithm::FixedWindow(window) => Algorithm::FixedWindow(match window.align() {
                Align::First => FixedWindow::new(limit, per)?,
                _ => FixedWindow::aligned(limit, per)?,
            }),
            Algorithm::SlidingWindow(_) => {
                Algorithm::SlidingWindow(SlidingWindow::new(limit, per)?)
            }
            Algorithm::RollingWindow(window) => {
                Algorithm::RollingWindow(window.with_numbers(limit, per)?)
            }
            Algorithm::Quota(_) => Algorithm::Quota(Quota::new(limit, per)?),
            Algorithm::EvenSlots(_) => Algorithm::EvenSlots(EvenSlots::new(limit, per)?),
            Algorithm::Concurrency(slots) => {
                Algorithm::Concurrency(Concurrency::new(limit, slots.lease())?)
            }
            Algorithm::Gcra(_)
            | Algorithm::LeakyBucket(_)
            | Algorithm::MinInterval(_)
            | Algorithm::ErrorRate(_) => {
                Algorithm::Gcra(Gcra::new(limit, per)?.with_overdraft(self.overdraft()))
            }
        };
        Ok(self.with(algorithm, self.gap()))
    }

    /// The same limit for another number of units, in the time it has; the capacity of a gcra bucket and the
    /// drip of a leaky one follow in proportion. A leaky bucket's number is its capacity.
    ///
    /// # Errors
    ///
    /// [`LimitError::NoUnits`] for min-interval and error-rate, and whatever is wrong with the new number.
    pub fn with_limit(&self, limit: u64) -> Result<Self, LimitError> {
        let algorithm = match self.algorithm() {
            Algorithm::Gcra(gcra) if gcra.is_leaky_bucket() => {
                let drip = in_proportion(1, limit, gcra.capacity());
                let leaky = LeakyBucket::new(limit, drip, gcra.period())?;
                leaky.with_overdraft(gcra.overdraft()).into()
            }
            Algorithm::Gcra(gcra) => {
                let capacity = in_proportion(gcra.capacity(), limit, gcra.limit());
                let resized = Gcra::new(limit, gcra.period())?.with_capacity(capacity);
                if resized.capacity() < capacity {
                    return Err(LimitError::SlowRefill);
                }
                Algorithm::Gcra(resized.with_overdraft(gcra.overdraft()))
            }
            Algorithm::LeakyBucket(leaky) => {
                let drip = in_proportion(leaky.drip(), limit, leaky.capacity());
                let resized = LeakyBucket::new(limit, drip, leaky.period())?;
                resized.with_overdraft(leaky.overdraft()).into()
            }
            Algorithm::FixedWindow(window) => {
                Algorithm::FixedWindow(window.with_numbers(limit, window.period())?)
            }
            Algorithm::SlidingWindow(window) => {
                Algorithm::SlidingWindow(SlidingWindow::new(limit, window.period())?)
            }
            Algorithm::RollingWindow(window) => {
                Algorithm::RollingWindow(window.with_numbers(limit, window.period())?)
            }
            Algorithm::Quota(quota) => Algorithm::Quota(Quota::new(limit, quota.period())?),
            Algorithm::EvenSlots(slots) => {
                Algorithm::EvenSlots(EvenSlots::new(limit, slots.period())?)
            }
            Algorithm::Concurrency(slots) => {
                Algorithm::Concurrency(Concurrency::new(limit, slots.lease())?)
            }
            Algorithm::MinInterval(_) | Algorithm::ErrorRate(_) => {
                return Err(LimitError::NoUnits(self.algorithm().name()));
            }
        };
        Ok(self.with(algorithm, self.gap()))
    }
}

/// `number · to / from`, rounded up, at least 1.
fn in_proportion(number: u64, to: u64, from: u64) -> u64 {
    div_ceil(u128::from(number) * u128::from(to), from.max(1)).max(1)
}

impl FixedWindow {
    /// The same kind of window for other numbers; a calendar keeps its own length.
    pub(crate) fn with_numbers(&self, limit: u64, per: Duration) -> Result<Self, LimitError> {
        match self.align() {
            Align::First => Self::new(limit, per),
            Align::Epoch => Self::aligned(limit, per),
            Align::Calendar(calendar) => Self::on_calendar(limit, Arc::clone(calendar)),
        }
    }
}

impl RollingWindow {
    /// The same kind of window for other numbers.
    pub(crate) fn with_numbers(&self, limit: u64, per: Duration) -> Result<Self, LimitError> {
        match self.buckets() {
            None => Self::new(limit, per),
            Some(buckets) => Self::bucketed(limit, per, buckets),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MinInterval;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_bucket_that_drips_one_by_one_is_still_a_leaky_bucket() {
        let limit = Limit::from(LeakyBucket::new(10, 1, SECOND).unwrap().with_overdraft(true));
        assert_eq!(limit.algorithm().name(), "leaky-bucket");
        assert_eq!(
            (limit.capacity(), limit.drip(), limit.every()),
            (Some(10), Some(1), Some(SECOND))
        );
        assert_eq!((limit.limit(), limit.period(), limit.overdraft()), (None, None, true));
        let half = limit.scaled("2".parse().unwrap()).unwrap().unwrap();
        assert_eq!((half.capacity(), half.every()), (Some(5), Some(2 * SECOND)));
        assert_eq!(half.algorithm().name(), "leaky-bucket");
    }

    #[test]
    fn a_gcra_limit_keeps_the_numbers_it_was_given() {
        let limit = Limit::from(Gcra::new(10, SECOND).unwrap().with_capacity(3));
        assert_eq!((limit.limit(), limit.period()), (Some(10), Some(SECOND)));
        assert_eq!((limit.capacity(), limit.drip()), (Some(3), None));
        assert_ne!(limit, Limit::from(Gcra::new(1, SECOND / 10).unwrap().with_capacity(3)));
        assert_eq!(limit.window(), Some(3 * SECOND / 10));
        assert_eq!(Limit::from(Gcra::new(3, SECOND).unwrap().with_capacity(1)).window(), None);
    }

    #[test]
    fn another_rate_keeps_the_kind_where_it_can() {
        let minute = 60 * SECOND;
        let rate = |limit: Limit| limit.with_rate(7, minute).unwrap();
        let fixed = rate(FixedWindow::aligned(5, SECOND).unwrap().with_name("x").with_shadow(true));
        let expected = FixedWindow::aligned(7, minute).unwrap().with_name("x").with_shadow(true);
        assert_eq!(fixed, expected);
        let rolling = rate(RollingWindow::bucketed(5, SECOND, 60).unwrap().into());
        assert_eq!((rolling.limit(), rolling.buckets()), (Some(7), Some(60)));
        let gap = rate(Limit::from(MinInterval::new(SECOND).unwrap()));
        let gcra = Limit::from(Gcra::new(7, minute).unwrap()).with_name("min-interval");
        assert_eq!(gap, gcra);
        let slots = rate(Concurrency::new(5, SECOND).unwrap().into());
        assert_eq!((slots.limit(), slots.lease()), (Some(7), Some(SECOND)));
    }

    #[test]
    fn another_limit_changes_the_other_numbers_in_proportion() {
        let gcra = Limit::from(Gcra::new(10, SECOND).unwrap().with_capacity(5));
        assert_eq!(gcra.with_limit(3).unwrap().capacity(), Some(2));
        let leaky = Limit::from(LeakyBucket::new(10, 1, SECOND).unwrap());
        let larger = leaky.with_limit(25).unwrap();
        assert_eq!(
            (larger.capacity(), larger.drip(), larger.every()),
            (Some(25), Some(3), Some(SECOND))
        );
        let gap = Limit::from(MinInterval::new(SECOND).unwrap());
        assert_eq!(gap.with_limit(2), Err(LimitError::NoUnits("min-interval")));
    }
}
