//! The old three-number limits `{max, duration, min_interval}`, told as a leaky bucket.
//!
//! They count in whole milliseconds and round half up at every step; so does this.

use super::duration::Micros;
use super::schema::MAX_UNITS;
use super::spec::AlgorithmSpec;

const MILLISECOND: u128 = 1_000;

/// The numbers as written; an absent one is `None`, and so is a `min_interval` of 0.
#[derive(Clone, Copy)]
pub(crate) struct Legacy {
    pub(crate) max: Option<u64>,
    pub(crate) duration: Option<Micros>,
    pub(crate) min_interval: Option<Micros>,
}

/// What they come to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Translated {
    Limit {
        algorithm: AlgorithmSpec,
        min_interval: Option<Micros>,
    },
    /// They limit nothing, and always did.
    Disabled,
}

/// The complaint is half a sentence about the limit.
pub(crate) fn translate(legacy: Legacy) -> Result<Translated, String> {
    match (legacy.max, legacy.duration, legacy.min_interval) {
        (Some(_), Some(Micros(0)), _) => Ok(Translated::Disabled),
        (Some(max), Some(duration), min_interval) => bucket(max, duration, min_interval)
            .map(|algorithm| Translated::Limit { algorithm, min_interval }),
        (_, _, Some(every)) => Ok(Translated::Limit {
            algorithm: AlgorithmSpec::LeakyBucket { capacity: 1, drip: 1, every, overdraft: false },
            min_interval: None,
        }),
        _ => Ok(Translated::Disabled),
    }
}

/// `max` at once, and the drip that returns them within `duration` in steps of about the interval.
fn bucket(
    max: u64,
    duration: Micros,
    min_interval: Option<Micros>,
) -> Result<AlgorithmSpec, String> {
    let (size, duration) = (u128::from(max), u128::from(duration.0));
    let step = match min_interval {
        Some(interval) => u128::from(interval.0),
        None => round(duration, size * MILLISECOND) * MILLISECOND,
    };
    let step = step.max(MILLISECOND);
    let drip = round(size * step, duration).max(1);
    let every = round(duration * drip, size * MILLISECOND).max(1) * MILLISECOND;
    let drip = u64::try_from(drip).ok().filter(|drip| *drip <= MAX_UNITS);
    let every = u64::try_from(every).ok().filter(|every| *every <= Micros::MAX.0);
    match (drip, every) {
        (Some(drip), Some(every)) => Ok(AlgorithmSpec::LeakyBucket {
            capacity: max,
            drip,
            every: Micros(every),
            overdraft: false,
        }),
        _ => Err(
            "has a `min_interval` that is too long for its `duration`; write it as a leaky-bucket"
                .to_owned(),
        ),
    }
}

/// Half up.
fn round(numerator: u128, denominator: u128) -> u128 {
    (2 * numerator + denominator) / (2 * denominator)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(
        max: Option<u64>,
        duration_ms: Option<u64>,
        min_interval_ms: Option<u64>,
    ) -> Translated {
        let micros = |ms: u64| Micros(ms * 1_000);
        let min_interval = min_interval_ms.map(micros).filter(|interval| interval.0 > 0);
        translate(Legacy { max, duration: duration_ms.map(micros), min_interval }).unwrap()
    }

    fn bucket(capacity: u64, drip: u64, every_ms: u64, min_interval_ms: Option<u64>) -> Translated {
        Translated::Limit {
            algorithm: AlgorithmSpec::LeakyBucket {
                capacity,
                drip,
                every: Micros(every_ms * 1_000),
                overdraft: false,
            },
            min_interval: min_interval_ms.map(|ms| Micros(ms * 1_000)),
        }
    }

    #[test]
    fn max_and_duration() {
        assert_eq!(told(Some(10), Some(1_000), None), bucket(10, 1, 100, None));
        assert_eq!(told(Some(3), Some(1_000), None), bucket(3, 1, 333, None));
        assert_eq!(told(Some(3000), Some(1_000), None), bucket(3000, 3, 1, None));
        assert_eq!(told(Some(300), Some(3_600_000), None), bucket(300, 1, 12_000, None));
    }

    #[test]
    fn min_interval_shapes_the_drip_and_stays() {
        assert_eq!(told(Some(10), Some(1_000), Some(200)), bucket(10, 2, 200, Some(200)));
        assert_eq!(told(Some(10), Some(5_000), Some(1_000)), bucket(10, 2, 1_000, Some(1_000)));
        assert_eq!(told(Some(10), Some(1_000), Some(0)), bucket(10, 1, 100, None));
    }

    #[test]
    fn min_interval_alone() {
        assert_eq!(told(None, None, Some(250)), bucket(1, 1, 250, None));
    }

    #[test]
    fn nothing_left_to_say() {
        for (max, duration, interval) in [
            (None, None, None),
            (Some(5), None, None),
            (None, Some(5), None),
            (Some(5), Some(0), None),
            (None, None, Some(0)),
        ] {
            assert_eq!(told(max, duration, interval), Translated::Disabled);
        }
    }
}
