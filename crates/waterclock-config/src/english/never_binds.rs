//! Whether a limit can refuse anything that another limit admits.
//!
//! Every limit admits at most `burst + rate·D` in any window of length D. A limit that admits all
//! traffic of that shape never binds beside it. Where the answer is not certain, it is no.

use crate::{AlgorithmSpec, LimitSpec, Window};

const HOUR: u64 = 3_600_000_000;
const DAY: u64 = 24 * HOUR;

/// At most `burst + units·D/micros` in any window of D microseconds.
struct Most {
    burst: u64,
    units: u64,
    micros: u64,
}

/// Whether `limit` admits whatever `other` admits.
pub(crate) fn never_binds(limit: &LimitSpec, other: &LimitSpec) -> bool {
    let comparable =
        limit.unit == other.unit && !limit.shadow && !other.shadow && limit.min_interval.is_none();
    comparable && most(&other.algorithm).is_some_and(|most| admits_all(&limit.algorithm, &most))
}

fn most(algorithm: &AlgorithmSpec) -> Option<Most> {
    let (burst, units, micros) = match algorithm {
        AlgorithmSpec::Gcra { limit, per, capacity, overdraft: false } => {
            (*capacity, *limit, per.0)
        }
        AlgorithmSpec::LeakyBucket { capacity, drip: 1, every, overdraft: false } => {
            (*capacity, 1, every.0)
        }
        AlgorithmSpec::LeakyBucket { capacity, drip, every, overdraft: false } => {
            (capacity + drip, *drip, every.0)
        }
        AlgorithmSpec::RollingWindow { limit, per, .. } => (*limit, *limit, per.0),
        AlgorithmSpec::FixedWindow { limit, window: Window::First(per) | Window::Epoch(per) }
        | AlgorithmSpec::SlidingWindow { limit, per }
        | AlgorithmSpec::Quota { limit, per } => (2 * limit, *limit, per.0),
        // Calendar windows vary, events have any cost, and debt has no bound.
        _ => return None,
    };
    Some(Most { burst, units, micros })
}

fn admits_all(algorithm: &AlgorithmSpec, most: &Most) -> bool {
    match algorithm {
        AlgorithmSpec::Gcra { limit, per, capacity, .. } => {
            most.burst <= *capacity && most.is_no_faster_than(*limit, per.0)
        }
        // A drip of several comes late: what arrives meanwhile must fit too.
        AlgorithmSpec::LeakyBucket { capacity, drip, every, .. } => {
            let at_worst = if *drip == 1 { u128::from(most.burst) } else { most.within(every.0) };
            at_worst <= u128::from(*capacity) && most.is_no_faster_than(*drip, every.0)
        }
        AlgorithmSpec::FixedWindow { limit, window } => {
            let longest = match window {
                Window::First(per) | Window::Epoch(per) => per.0,
                // An hour more, where summer time ends.
                Window::Calendar { per: "day", .. } => DAY + HOUR,
                Window::Calendar { per: "week", .. } => 7 * DAY + HOUR,
                Window::Calendar { per: "month", .. } => 31 * DAY + HOUR,
                Window::Calendar { .. } => 366 * DAY + HOUR,
            };
            most.within(longest) <= u128::from(*limit)
        }
        AlgorithmSpec::SlidingWindow { limit, per } => most.within(per.0) <= u128::from(*limit),
        AlgorithmSpec::RollingWindow { limit, per, buckets } => {
            let cell = buckets.map_or(0, |buckets| per.0.div_ceil(buckets));
            most.within(per.0 + cell) <= u128::from(*limit)
        }
        // A quota shrinks with time alone, events are refused whatever they cost, and neither errors nor
        // holders that stay are anything a rate bounds.
        AlgorithmSpec::Quota { .. }
        | AlgorithmSpec::ErrorRate { .. }
        | AlgorithmSpec::Concurrency { .. }
        | AlgorithmSpec::EvenSlots { .. }
        | AlgorithmSpec::MinInterval { .. } => false,
    }
}

impl Most {
    fn within(&self, micros: u64) -> u128 {
        u128::from(self.burst)
            + u128::from(self.units) * u128::from(micros) / u128::from(self.micros.max(1))
    }

    fn is_no_faster_than(&self, units: u64, micros: u64) -> bool {
        u128::from(self.units) * u128::from(micros) <= u128::from(units) * u128::from(self.micros)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Micros;

    fn limit(algorithm: AlgorithmSpec) -> LimitSpec {
        LimitSpec {
            name: "a".to_owned(),
            algorithm,
            min_interval: None,
            unit: "requests".to_owned(),
            shadow: false,
        }
    }

    fn gcra(limit_: u64, seconds: u64, capacity: u64) -> LimitSpec {
        let per = Micros(seconds * 1_000_000);
        limit(AlgorithmSpec::Gcra { limit: limit_, per, capacity, overdraft: false })
    }

    fn rolling(limit_: u64, seconds: u64) -> LimitSpec {
        let per = Micros(seconds * 1_000_000);
        limit(AlgorithmSpec::RollingWindow { limit: limit_, per, buckets: None })
    }

    #[test]
    fn an_hourly_limit_above_what_a_second_admits() {
        // 10 + 10·3600 fits, one less does not.
        assert!(never_binds(&rolling(36_010, 3600), &gcra(10, 1, 10)));
        assert!(!never_binds(&rolling(36_009, 3600), &gcra(10, 1, 10)));
    }

    #[test]
    fn a_looser_bucket_beside_a_tighter_one() {
        assert!(never_binds(&gcra(20, 1, 20), &gcra(10, 1, 20)));
        assert!(!never_binds(&gcra(20, 1, 19), &gcra(10, 1, 20)));
        assert!(!never_binds(&gcra(9, 1, 20), &gcra(10, 1, 20)));
        assert!(never_binds(&gcra(1, 1, 60), &rolling(60, 60)));
    }
}
