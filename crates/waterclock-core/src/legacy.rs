//! The limits of Misskey and Sharkey, translated to leaky buckets.
//!
//! They have two shapes: `{max, duration, minInterval}`, which counts in whole milliseconds and rounds half up at every
//! step, and `{size, dripRate, dripSize}`, which rounds up. So does this.

use core::time::Duration;

use crate::{LeakyBucket, Limit, LimitError, MAX_PERIOD, MAX_UNITS};

const MILLISECOND: u128 = 1_000_000;

/// `{max, duration, minInterval}`: at most `max` per `duration`, two of them at least `min_interval` apart.
///
/// ```
/// # use core::time::Duration;
/// # use waterclock_core::LegacyLimit;
/// let notes = LegacyLimit::new().with_max(300).with_duration(Duration::from_secs(3_600));
/// let limit = notes.limit()?.expect("it limits something");
/// assert_eq!((limit.capacity(), limit.every()), (Some(300), Some(Duration::from_secs(12))));
/// // One without the other limits nothing, and never did.
/// assert_eq!(LegacyLimit::new().with_max(300).limit()?, None);
/// # Ok::<_, waterclock_core::LimitError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LegacyLimit {
    max: Option<u64>,
    duration: Option<Duration>,
    min_interval: Option<Duration>,
}

impl LegacyLimit {
    /// Limits nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self { max: None, duration: None, min_interval: None }
    }

    /// Units per duration.
    #[must_use]
    pub const fn with_max(mut self, max: u64) -> Self {
        self.max = Some(max);
        self
    }

    /// The period of `max`. With 0, nothing is limited.
    #[must_use]
    pub const fn with_duration(mut self, duration: Duration) -> Self {
        self.duration = Some(duration);
        self
    }

    /// The shortest time between two admissions. Rounded to milliseconds, at least one; 0 is none.
    #[must_use]
    pub const fn with_min_interval(mut self, min_interval: Duration) -> Self {
        self.min_interval = Some(min_interval);
        self
    }

    /// The leaky bucket that limits the same; `None` if these numbers limit nothing.
    ///
    /// # Errors
    ///
    /// A number is out of range.
    pub fn limit(&self) -> Result<Option<Limit>, LimitError> {
        let gap = self.min_interval.filter(|gap| !gap.is_zero());
        if gap.is_some_and(|gap| gap > MAX_PERIOD) {
            return Err(LimitError::LongPeriod("min_interval"));
        }
        let limit = match (self.max, self.duration) {
            (Some(0), Some(_)) => return Err(LimitError::ZeroUnits("max")),
            (Some(_), Some(Duration::ZERO)) => return Ok(None),
            (Some(max), Some(duration)) => within(max, duration, gap)?,
            _ => match gap {
                Some(gap) => LeakyBucket::new(1, 1, rounded(gap))?.into(),
                None => return Ok(None),
            },
        };
        Ok(Some(limit))
    }
}

/// `max` at once, and the drip that returns them within `duration` in steps of about the gap.
fn within(max: u64, duration: Duration, gap: Option<Duration>) -> Result<Limit, LimitError> {
    if max > MAX_UNITS {
        return Err(LimitError::ManyUnits("max"));
    }
    if duration > MAX_PERIOD {
        return Err(LimitError::LongPeriod("duration"));
    }
    let (size, period) = (u128::from(max), duration.as_nanos());
    let step = match gap {
        Some(gap) => gap.as_nanos(),
        None => round(period, size * MILLISECOND) * MILLISECOND,
    };
    let drip = round(size * step.max(MILLISECOND), period).max(1);
    let every = round(period * drip, size * MILLISECOND).max(1);
    // A bucket that drips more than it holds is empty after one drip, however much that is.
    let drip = u64::try_from(drip).unwrap_or(MAX_UNITS).min(MAX_UNITS);
    let every = Duration::from_millis(u64::try_from(every).unwrap_or(u64::MAX));
    let limit = Limit::from(LeakyBucket::new(max, drip, every)?);
    gap.map_or(Ok(limit.clone()), |gap| limit.with_min_interval(rounded(gap)))
}

/// To whole milliseconds, at least one.
fn rounded(time: Duration) -> Duration {
    let millis = round(time.as_nanos(), MILLISECOND).max(1);
    Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX))
}

/// Half up.
fn round(numerator: u128, denominator: u128) -> u128 {
    (2 * numerator + denominator) / (2 * denominator)
}

/// `{size, dripRate, dripSize}`: a bucket of `size` units, of which `drip_size` leave every `drip_rate` milliseconds.
///
/// Numbers are those of JavaScript, and are rounded up.
///
/// ```
/// # use core::time::Duration;
/// # use waterclock_core::LegacyBucket;
/// let limit = LegacyBucket::new(10.0).with_drip_rate(99.5).with_drip_size(2.0).limit()?;
/// assert_eq!((limit.drip(), limit.every()), (Some(2), Some(Duration::from_millis(100))));
/// assert!(LegacyBucket::new(f64::NAN).limit().is_err());
/// # Ok::<_, waterclock_core::LimitError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LegacyBucket {
    size: f64,
    drip_rate: f64,
    drip_size: f64,
}

impl LegacyBucket {
    /// A bucket of which one unit leaves every second.
    #[must_use]
    pub const fn new(size: f64) -> Self {
        Self { size, drip_rate: 1_000.0, drip_size: 1.0 }
    }

    /// Milliseconds between two drips.
    #[must_use]
    pub const fn with_drip_rate(mut self, milliseconds: f64) -> Self {
        self.drip_rate = milliseconds;
        self
    }

    /// Units that leave at once.
    #[must_use]
    pub const fn with_drip_size(mut self, units: f64) -> Self {
        self.drip_size = units;
        self
    }

    /// The leaky bucket.
    ///
    /// # Errors
    ///
    /// A number is below 1, not a number or out of range.
    pub fn limit(&self) -> Result<Limit, LimitError> {
        let size = whole("size", self.size)?;
        let drip = whole("drip_size", self.drip_size)?;
        let every = Duration::from_millis(whole("drip_rate", self.drip_rate)?);
        if every > MAX_PERIOD {
            return Err(LimitError::LongPeriod("drip_rate"));
        }
        Ok(LeakyBucket::new(size, drip, every)?.into())
    }
}

/// The next whole number.
fn whole(name: &'static str, number: f64) -> Result<u64, LimitError> {
    const MOST: f64 = MAX_UNITS as f64;
    if number.is_nan() || number < 1.0 {
        return Err(LimitError::ZeroUnits(name));
    }
    if number > MOST {
        return Err(LimitError::ManyUnits(name));
    }
    #[expect(clippy::cast_possible_truncation, reason = "below 2^53, and cut off on purpose")]
    let below = number as u64;
    Ok(if (below as f64) < number { below + 1 } else { below })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn legacy(max: Option<u64>, duration_ms: Option<f64>, gap_ms: Option<f64>) -> LegacyLimit {
        let time = |ms: f64| Duration::from_secs_f64(ms / 1e3);
        LegacyLimit { max, duration: duration_ms.map(time), min_interval: gap_ms.map(time) }
    }

    /// Capacity, drip, milliseconds between drips, milliseconds between admissions.
    fn numbers(
        max: Option<u64>,
        duration_ms: Option<f64>,
        gap_ms: Option<f64>,
    ) -> Option<(u64, u64, u128, Option<u128>)> {
        let limit = legacy(max, duration_ms, gap_ms).limit().unwrap()?;
        let millis = |time: Option<Duration>| time.map(|time| time.as_millis());
        Some((
            limit.capacity()?,
            limit.drip()?,
            millis(limit.every())?,
            millis(limit.min_interval()),
        ))
    }

    #[test]
    fn max_and_duration() {
        for (max, duration, expected) in [
            (10, 1_000.0, (10, 1, 100, None)),
            (3, 1_000.0, (3, 1, 333, None)),
            (3_000, 1_000.0, (3_000, 3, 1, None)),
            (300, 3_600_000.0, (300, 1, 12_000, None)),
        ] {
            assert_eq!(numbers(Some(max), Some(duration), None), Some(expected));
        }
    }

    #[test]
    fn min_interval_shapes_the_drip_and_stays() {
        let of = |max, duration, gap| numbers(Some(max), Some(duration), Some(gap));
        assert_eq!(of(10, 1_000.0, 200.0), Some((10, 2, 200, Some(200))));
        assert_eq!(of(10, 5_000.0, 1_000.0), Some((10, 2, 1_000, Some(1_000))));
        assert_eq!(of(10, 1_000.0, 0.0), Some((10, 1, 100, None)));
    }

    /// Half up to milliseconds, and at least one.
    #[test]
    fn fractions_of_milliseconds() {
        for (gap, rounded) in [(0.0004, 1), (0.4, 1), (1.4, 1), (1.5, 2), (249.5, 250)] {
            assert_eq!(numbers(None, None, Some(gap)), Some((1, 1, rounded, None)), "{gap}");
            let beside = numbers(Some(10), Some(1_000.0), Some(gap)).unwrap();
            assert_eq!(beside.3, Some(rounded), "{gap}");
        }
        assert_eq!(numbers(Some(10), Some(0.5), None), Some((10, 20, 1, None)));
    }

    #[test]
    fn numbers_that_limit_nothing() {
        for (max, duration, gap) in [
            (None, None, None),
            (Some(5), None, None),
            (Some(0), None, None),
            (None, Some(5.0), None),
            (Some(5), Some(0.0), None),
            (None, None, Some(0.0)),
        ] {
            assert_eq!(numbers(max, duration, gap), None);
        }
    }

    #[test]
    fn numbers_out_of_range() {
        let error = |limit: LegacyLimit| limit.limit().unwrap_err();
        let zero = legacy(Some(0), Some(1.0), None);
        assert_eq!(error(zero), LimitError::ZeroUnits("max"));
        let many = legacy(Some(MAX_UNITS + 1), Some(1.0), None);
        assert_eq!(error(many), LimitError::ManyUnits("max"));
        let long = LegacyLimit::new().with_max(1).with_duration(Duration::MAX);
        assert_eq!(error(long), LimitError::LongPeriod("duration"));
        let apart = LegacyLimit::new().with_min_interval(Duration::MAX);
        assert_eq!(error(apart), LimitError::LongPeriod("min_interval"));
        // The largest numbers there are.
        let largest = LegacyLimit::new().with_max(MAX_UNITS).with_duration(Duration::from_nanos(1));
        assert!(largest.with_min_interval(MAX_PERIOD).limit().is_ok());
    }

    #[test]
    fn buckets() {
        let of = |size, rate, drip| {
            LegacyBucket::new(size).with_drip_rate(rate).with_drip_size(drip).limit()
        };
        let limit = of(2.2, 99.5, 1.01).unwrap();
        assert_eq!((limit.capacity(), limit.drip()), (Some(3), Some(2)));
        assert_eq!(limit.every(), Some(Duration::from_millis(100)));
        for wrong in [0.999, 0.0, -1.0, f64::NAN, f64::NEG_INFINITY] {
            assert_eq!(of(wrong, 1.0, 1.0).unwrap_err(), LimitError::ZeroUnits("size"));
            assert_eq!(of(1.0, wrong, 1.0).unwrap_err(), LimitError::ZeroUnits("drip_rate"));
            assert_eq!(of(1.0, 1.0, wrong).unwrap_err(), LimitError::ZeroUnits("drip_size"));
        }
        assert_eq!(of(f64::INFINITY, 1.0, 1.0).unwrap_err(), LimitError::ManyUnits("size"));
        assert_eq!(of(1.0, 1e15, 1.0).unwrap_err(), LimitError::LongPeriod("drip_rate"));
    }
}
