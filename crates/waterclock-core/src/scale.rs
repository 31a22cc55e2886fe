//! The same limits, stricter or looser by a factor.
//!
//! Units are divided by the factor and rounded up, at least 1; times are multiplied by it and rounded up
//! to a whole microsecond. What of that applies depends on what a limit is about:
//!
//! | limit | its units | its time |
//! |---|---|---|
//! | gcra | capacity | the period of `limit` units; the rate stays a ratio |
//! | leaky bucket | capacity | between two drips, each of as many units as before |
//! | fixed, sliding and rolling window, quota | limit | stays: a window is a window |
//! | concurrency | limit | stays: a lease is a lease |
//! | error rate | – | stays: a share of errors is no budget |
//! | even slots | – | the period; it spaces events, so that one per second becomes one per two |
//! | min-interval, and the gap of any limit | – | the interval |
//!
//! So a factor of 2 halves what is admitted at once and over time, and a factor of 0.5 doubles it.

use alloc::vec::Vec;
use core::time::Duration;

use crate::{
    Algorithm, Align, Concurrency, EvenSlots, Factor, FixedWindow, LeakyBucket, Limit, LimitError,
    MinInterval, Policy, PolicyError, Quota, RollingWindow, SlidingWindow,
};

impl Policy {
    /// This policy under another name, with its limits by a factor. They keep their names, so that keys
    /// can be shared between the two. A factor of 1 changes nothing; with 0 there are no limits left, and
    /// everything is admitted.
    pub fn scaled(&self, name: &str, factor: Factor) -> Result<Self, PolicyError> {
        let mut limits = Vec::with_capacity(self.limits().len());
        for limit in self.limits() {
            let scaled = limit.scaled(factor).map_err(|reason| PolicyError::NotScalable {
                limit: limit.name().into(),
                factor,
                reason,
            })?;
            limits.extend(scaled);
        }
        Self::unchecked(name, limits).with_shadow(self.is_shadow()).with_mode(self.mode())
    }
}

impl Limit {
    /// This limit by a factor; none if the factor is 0.
    pub fn scaled(&self, factor: Factor) -> Result<Option<Self>, LimitError> {
        if factor.is_zero() || factor.is_one() {
            return Ok(factor.is_one().then(|| self.clone()));
        }
        let gap = match self.gap() {
            Some(gap) => Some(gap.scaled(factor, "min_interval")?),
            None => None,
        };
        Ok(Some(self.with(self.algorithm().scaled(factor)?, gap)))
    }
}

impl MinInterval {
    fn scaled(self, factor: Factor, name: &'static str) -> Result<Self, LimitError> {
        Self::new(interval(factor, name, self.period())?)
    }
}

impl Algorithm {
    fn scaled(&self, factor: Factor) -> Result<Self, LimitError> {
        Ok(match self {
            Self::Gcra(gcra) => Self::Gcra(gcra.scaled(factor)?),
            Self::LeakyBucket(leaky) => {
                let capacity = units(factor, "capacity", leaky.capacity())?;
                let every = interval(factor, "every", leaky.period())?;
                let scaled = LeakyBucket::new(capacity, leaky.drip(), every)?;
                Self::LeakyBucket(scaled.with_overdraft(leaky.overdraft()))
            }
            Self::FixedWindow(window) => {
                let (limit, per) = (units(factor, "limit", window.limit())?, window.period());
                Self::FixedWindow(match window.align() {
                    Align::First => FixedWindow::new(limit, per)?,
                    Align::Epoch => FixedWindow::aligned(limit, per)?,
                    Align::Calendar(calendar) => FixedWindow::on_calendar(limit, calendar.clone())?,
                })
            }
            Self::SlidingWindow(window) => Self::SlidingWindow(SlidingWindow::new(
                units(factor, "limit", window.limit())?,
                window.period(),
            )?),
            Self::RollingWindow(window) => {
                let (limit, per) = (units(factor, "limit", window.limit())?, window.period());
                Self::RollingWindow(match window.buckets() {
                    None => RollingWindow::new(limit, per)?,
                    Some(buckets) => RollingWindow::bucketed(limit, per, buckets)?,
                })
            }
            Self::Quota(quota) => {
                Self::Quota(Quota::new(units(factor, "limit", quota.limit())?, quota.period())?)
            }
            Self::EvenSlots(slots) => {
                let per = interval(factor, "per", slots.period())?;
                Self::EvenSlots(EvenSlots::new(slots.limit(), per)?)
            }
            Self::MinInterval(gap) => Self::MinInterval(gap.scaled(factor, "every")?),
            // A share of errors is no budget.
            Self::ErrorRate(rate) => Self::ErrorRate(*rate),
            Self::Concurrency(slots) => Self::Concurrency(Concurrency::new(
                units(factor, "limit", slots.limit())?,
                slots.lease(),
            )?),
        })
    }
}

fn units(factor: Factor, name: &'static str, units: u64) -> Result<u64, LimitError> {
    factor.units(units).ok_or(LimitError::ManyUnits(name))
}

fn interval(factor: Factor, name: &'static str, time: Duration) -> Result<Duration, LimitError> {
    factor.interval(time).ok_or(LimitError::LongPeriod(name))
}

#[cfg(test)]
mod tests {
    use alloc::string::{String, ToString as _};

    use super::*;
    use crate::store::Persist as _;
    use crate::{Decimal, Gcra, MAX_UNITS, Mode};

    fn by(text: &str) -> Factor {
        text.parse().unwrap()
    }

    fn us(micros: u64) -> Duration {
        Duration::from_micros(micros)
    }

    fn every_kind() -> Vec<Limit> {
        let s = us(1_000_000);
        Vec::from([
            Gcra::new(3, s).unwrap().with_capacity(5).with_overdraft(true).with_name("gcra"),
            LeakyBucket::new(10, 1, s).unwrap().with_name("drop"),
            LeakyBucket::new(10, 3, s).unwrap().with_name("gush"),
            FixedWindow::new(5, s).unwrap().with_name("first"),
            FixedWindow::aligned(5, s).unwrap().with_name("epoch"),
            SlidingWindow::new(5, s).unwrap().with_name("sliding"),
            RollingWindow::new(5, s).unwrap().with_name("log"),
            RollingWindow::bucketed(5, s, 60).unwrap().with_name("cells"),
            Quota::new(5, s).unwrap().with_name("quota"),
            EvenSlots::new(5, s).unwrap().with_name("slots").with_min_interval(us(7)).unwrap(),
            MinInterval::new(us(100))
                .unwrap()
                .with_name("gap")
                .with_unit("bytes")
                .with_shadow(true),
        ])
    }

    fn definition(limit: &Limit) -> String {
        Policy::from(limit.clone()).definition()
    }

    #[test]
    fn each_kind_is_scaled_by_what_it_is_about() {
        let half_more = by("1.5");
        let s = us(1_500_000);
        let expected: [Limit; 11] = [
            // Three per 1.5 s, not one per 500 ms: the same, as it happens.
            Gcra::new(2, us(1_000_000))
                .unwrap()
                .with_capacity(4)
                .with_overdraft(true)
                .with_name("gcra"),
            LeakyBucket::new(7, 1, s).unwrap().with_name("drop"),
            LeakyBucket::new(7, 3, s).unwrap().with_name("gush"),
            FixedWindow::new(4, us(1_000_000)).unwrap().with_name("first"),
            FixedWindow::aligned(4, us(1_000_000)).unwrap().with_name("epoch"),
            SlidingWindow::new(4, us(1_000_000)).unwrap().with_name("sliding"),
            RollingWindow::new(4, us(1_000_000)).unwrap().with_name("log"),
            RollingWindow::bucketed(4, us(1_000_000), 60).unwrap().with_name("cells"),
            Quota::new(4, us(1_000_000)).unwrap().with_name("quota"),
            EvenSlots::new(5, s).unwrap().with_name("slots").with_min_interval(us(11)).unwrap(),
            MinInterval::new(us(150)).unwrap().with_name("gap"),
        ];
        for (limit, expected) in every_kind().iter().zip(&expected) {
            let scaled = limit.scaled(half_more).unwrap().unwrap();
            assert_eq!(definition(&scaled), definition(expected), "{}", limit.name());
            assert_eq!(scaled.words(), expected.words());
            assert_eq!((scaled.unit(), scaled.is_shadow()), (limit.unit(), limit.is_shadow()));
        }
    }

    #[test]
    fn one_is_the_identity_and_zero_admits_everything() {
        let limits = every_kind().into_iter().take(10);
        let policy =
            Policy::new("p", limits).unwrap().with_mode(Mode::Partial).unwrap().with_shadow(true);
        let same = policy.scaled("q", Factor::ONE).unwrap();
        assert_eq!((same.name(), same.mode(), same.is_shadow()), ("q", Mode::Partial, true));
        assert_eq!(same.definition(), policy.definition());
        assert!(policy.scaled("q", Factor::ZERO).unwrap().limits().is_empty());
        // Not even times that are no whole microseconds are touched.
        let odd = Limit::from(MinInterval::new(Duration::from_nanos(1_001)).unwrap());
        assert_eq!(definition(&odd.scaled(Factor::ONE).unwrap().unwrap()), definition(&odd));
    }

    #[test]
    fn a_fast_rate_is_rounded_once_per_period_and_not_per_unit() {
        let fast = Limit::per_second(1_000_000_000).with_name("fast");
        let scaled = |text| fast.scaled(by(text)).unwrap().unwrap();
        let expected = |limit, per, capacity| {
            Gcra::new(limit, us(per)).unwrap().with_capacity(capacity).with_name("fast")
        };
        let twice = expected(1_000_000_000, 2_000_000, 500_000_000);
        assert_eq!(definition(&scaled("2")), definition(&twice));
        let third = expected(1_000_000_000, 333_334, 3_000_000_001);
        assert_eq!(definition(&scaled("0.3333333333")), definition(&third));
        let nothing = Limit::from(Limit::per_second(0)).scaled(by("0.5")).unwrap().unwrap();
        assert_eq!(nothing.max_cost(), Some(0));
    }

    #[test]
    fn errors_name_the_limit_and_the_reason() {
        let century = us(100 * 31_557_600_000_000);
        let policy = |limit: Limit| Policy::new("p", [limit.with_name("x")]).unwrap();
        for (limit, factor, expected) in [
            (
                Quota::new(MAX_UNITS, us(1)).unwrap().into(),
                "0.5",
                "`limit` must be at most 2^53 - 1",
            ),
            (Gcra::new(1, century).unwrap().into(), "1.1", "`per` must be at most 100 years"),
            (
                Gcra::new(1, us(1)).unwrap().into(),
                "0.0000000000000001",
                "`capacity` must be at most",
            ),
            (LeakyBucket::new(1, 2, century).unwrap().into(), "2", "`every` must be at most 100"),
            (MinInterval::new(century).unwrap().into(), "2", "`every` must be at most 100 years"),
            (
                Limit::per_second(1).min_interval_of(century),
                "2",
                "`min_interval` must be at most 100 years",
            ),
            (RollingWindow::new(60_000, us(1)).unwrap().into(), "0.5", "an exact rolling window"),
            (EvenSlots::new(5, us(1)).unwrap().into(), "5000000000000000", "`per` must be at most"),
        ] {
            let sentence = policy(limit).scaled("q", by(factor)).unwrap_err().to_string();
            let start = alloc::format!("limit `x` cannot be scaled by {factor}: {expected}");
            assert!(sentence.starts_with(&start), "{sentence}");
        }
    }

    impl Gcra {
        fn min_interval_of(self, every: Duration) -> Limit {
            Limit::from(self).with_min_interval(every).unwrap()
        }
    }

    /// Rounded up means: enough, and one less would not be.
    #[test]
    fn units_and_times_are_rounded_up_and_no_further() {
        let mut seed = 7u64;
        let mut random = |most: u64| {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            1 + (seed >> 20) % most
        };
        for _ in 0..20_000 {
            let (mantissa, places) = (random(5_000), u32::try_from(random(5)).unwrap() - 1);
            let power = 10u64.pow(places);
            let number = Decimal::from(mantissa).over(Decimal::from(power)).unwrap();
            let factor = Factor::try_from(number).unwrap();
            let (capacity, drip, every) = (random(100_000), 1 + random(50), random(10_000_000));
            let leaky: Limit = LeakyBucket::new(capacity, drip, us(every)).unwrap().into();
            let scaled = leaky.scaled(factor).unwrap().unwrap();
            let Algorithm::LeakyBucket(scaled) = scaled.algorithm() else { panic!("{scaled:?}") };
            let holds = scaled.capacity();
            assert_eq!(scaled.drip(), drip);
            assert!(holds * mantissa >= capacity * power);
            assert!(holds == 1 || (holds - 1) * mantissa < capacity * power);
            let micros = u64::try_from(scaled.period().as_micros()).unwrap();
            assert_eq!(us(micros), scaled.period());
            assert!(micros * power >= every * mantissa && (micros - 1) * power < every * mantissa);
            // A bucket that drips one by one is gcra, and scaled like it.
            let drop: Limit = LeakyBucket::new(capacity, 1, us(every)).unwrap().into();
            let expected: Limit = LeakyBucket::new(holds, 1, us(micros)).unwrap().into();
            assert_eq!(definition(&drop.scaled(factor).unwrap().unwrap()), definition(&expected));
        }
    }
}
