//! The limits of a file by a factor, as numbers that can be shown.
//!
//! The library scales what decides; this scales what is said about it, by the same rules. A test holds the
//! two to each other.

use waterclock::{Factor, LimitError};

use super::duration::Micros;
use super::spec::{AlgorithmSpec, LimitSpec};

/// None are left by a factor of 0. The complaint is a whole sentence.
pub(crate) fn limits(limits: &[LimitSpec], factor: Factor) -> Result<Vec<LimitSpec>, String> {
    if factor.is_zero() {
        return Ok(Vec::new());
    }
    let scaled = |spec: &LimitSpec| {
        limit(spec, factor).map_err(|reason| {
            format!("limit `{}` cannot be scaled by {factor}: {reason}", spec.name)
        })
    };
    limits.iter().map(scaled).collect()
}

fn limit(spec: &LimitSpec, factor: Factor) -> Result<LimitSpec, LimitError> {
    let units = |name, units: u64| factor.units(units).ok_or(LimitError::ManyUnits(name));
    let interval = |name, time: Micros| {
        let scaled = factor.interval(time.duration()).ok_or(LimitError::LongPeriod(name))?;
        let micros = u64::try_from(scaled.as_micros()).map_err(|_| LimitError::LongPeriod(name))?;
        Ok::<Micros, LimitError>(Micros(micros))
    };
    let mut scaled = spec.clone();
    if let Some(gap) = &mut scaled.min_interval {
        *gap = interval("min_interval", *gap)?;
    }
    match &mut scaled.algorithm {
        AlgorithmSpec::Gcra { per, capacity, .. } => {
            (*per, *capacity) = (interval("per", *per)?, units("capacity", *capacity)?);
        }
        AlgorithmSpec::LeakyBucket { capacity, every, .. } => {
            (*every, *capacity) = (interval("every", *every)?, units("capacity", *capacity)?);
        }
        // A window stays as long as it is.
        AlgorithmSpec::FixedWindow { limit, .. }
        | AlgorithmSpec::SlidingWindow { limit, .. }
        | AlgorithmSpec::RollingWindow { limit, .. }
        | AlgorithmSpec::Quota { limit, .. }
        | AlgorithmSpec::Concurrency { limit, .. } => *limit = units("limit", *limit)?,
        // A share of errors is nobody's budget.
        AlgorithmSpec::ErrorRate { .. } => {}
        AlgorithmSpec::EvenSlots { per, .. } => *per = interval("per", *per)?,
        AlgorithmSpec::MinInterval { every } => *every = interval("every", *every)?,
    }
    Ok(scaled)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, build};
    use waterclock::store::Persist as _;

    const EVERY_KIND: &str = r#"
policies.p.limits = [
  { algorithm = "gcra", limit = 3, per = "1s", capacity = 5 },
  { name = "fast", algorithm = "gcra", limit = 1_000_000, per = "1s", overdraft = true },
  { algorithm = "leaky-bucket", capacity = 10, every = "70ms" },
  { name = "gush", algorithm = "leaky-bucket", capacity = 10, drip = 3, every = "1s", overdraft = true },
  { algorithm = "fixed-window", limit = 7, per = "1s", min_interval = "7us" },
  { name = "epoch", algorithm = "fixed-window", limit = 7, per = "1s", align = "epoch" },
  { name = "month", algorithm = "fixed-window", limit = 7, per = "month", align = "calendar" },
  "5/s sliding-window", "5/s rolling-window", "5/s quota", "5/s even-slots",
  { name = "cells", algorithm = "rolling-window", limit = 100_000, per = "1h", buckets = 60 },
  { algorithm = "min-interval", every = "13us" },
  { algorithm = "error-rate", threshold = "12.5%", per = "1m", min_samples = 9, cool_down = "5s" },
  { algorithm = "concurrency", limit = 5, lease = "30s" },
]
"#;

    #[test]
    fn what_is_said_is_what_decides() {
        let config = Config::read("test", EVERY_KIND).unwrap();
        let spec = &config.policies[0];
        for factor in ["0", "0.001", "0.3", "0.5", "1", "1.1", "2", "7.77", "1000"] {
            let factor: Factor = factor.parse().unwrap();
            let said = limits(&spec.limits, factor).unwrap();
            let said = build::policy("p", &said, "binary", false).unwrap();
            let decides = spec.built.scaled("p", factor).unwrap();
            assert_eq!(said.definition(), decides.definition(), "{factor}");
            let count = if factor.is_zero() { 0 } else { 15 };
            assert_eq!(said.limits().len(), count);
        }
    }

    #[test]
    fn both_complain_of_the_same() {
        let config = Config::read("test", EVERY_KIND).unwrap();
        let spec = &config.policies[0];
        for factor in ["0.00000000001", "100000000000000"] {
            let factor: Factor = factor.parse().unwrap();
            let said = limits(&spec.limits, factor)
                .and_then(|limits| build::policy("p", &limits, "binary", false).map(drop));
            assert!(said.is_err() && spec.built.scaled("p", factor).is_err(), "{factor}");
        }
    }
}
