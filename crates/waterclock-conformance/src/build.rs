//! From the reference model's plain numbers to the policies of the library.

use std::sync::Arc;
use std::time::Duration;

use waterclock::{
    Calendar, Concurrency, ErrorRate, EvenSlots, FixedWindow, Gcra, LeakyBucket, Limit, LimitError,
    MinInterval, Mode, Policy, Quota, RollingWindow, SlidingWindow, Timestamp,
};

use crate::reference::{Algorithm, Align, LimitSpec, Mode as SpecMode, PolicySpec};

/// The library's policy for a specification, which is valid.
pub fn policy(spec: &PolicySpec) -> Policy {
    let named = |(i, limit): (usize, &LimitSpec)| -> Limit {
        self::limit(limit).expect("the case is valid").with_name(&format!("limit-{i}"))
    };
    let mode = match spec.mode {
        SpecMode::Binary => Mode::Binary,
        SpecMode::Partial => Mode::Partial,
        SpecMode::CountRefusals => Mode::CountRefusals,
    };
    let policy = Policy::new("policy", spec.limits.iter().enumerate().map(named));
    policy
        .and_then(|policy| policy.with_mode(mode))
        .expect("the case is valid")
        .with_shadow(spec.shadow)
}

fn limit(spec: &LimitSpec) -> Result<Limit, LimitError> {
    let ns = Duration::from_nanos;
    let limit: Limit = match spec.algorithm {
        Algorithm::Gcra { limit, per_ns, capacity, overdraft } => {
            Gcra::new(limit, ns(per_ns))?.with_capacity(capacity).with_overdraft(overdraft).into()
        }
        Algorithm::LeakyBucket { capacity, drip, every_ns, overdraft } => {
            LeakyBucket::new(capacity, drip, ns(every_ns))?.with_overdraft(overdraft).into()
        }
        Algorithm::FixedWindow { limit, per_ns, ref align } => match align {
            Align::First => FixedWindow::new(limit, ns(per_ns))?.into(),
            Align::Epoch => FixedWindow::aligned(limit, ns(per_ns))?.into(),
            Align::Calendar(edges) => {
                FixedWindow::on_calendar(limit, Arc::new(Edges(edges.clone())))?.into()
            }
        },
        Algorithm::SlidingWindow { limit, per_ns } => SlidingWindow::new(limit, ns(per_ns))?.into(),
        Algorithm::RollingWindow { limit, per_ns, buckets: None } => {
            RollingWindow::new(limit, ns(per_ns))?.into()
        }
        Algorithm::RollingWindow { limit, per_ns, buckets: Some(buckets) } => {
            RollingWindow::bucketed(limit, ns(per_ns), buckets)?.into()
        }
        Algorithm::Quota { limit, per_ns } => Quota::new(limit, ns(per_ns))?.into(),
        Algorithm::EvenSlots { limit, per_ns } => EvenSlots::new(limit, ns(per_ns))?.into(),
        Algorithm::Concurrency { limit, lease_ns } => Concurrency::new(limit, ns(lease_ns))?.into(),
        Algorithm::ErrorRate { threshold, per_ns, min_samples, cool_down_ns } => {
            ErrorRate::new(threshold, ns(per_ns), min_samples, ns(cool_down_ns))?.into()
        }
        Algorithm::MinInterval { every_ns } => MinInterval::new(ns(every_ns))?.into(),
    };
    let limit = limit.with_shadow(spec.shadow);
    match spec.min_interval_ns {
        Some(gap) => limit.with_min_interval(ns(gap)),
        None => Ok(limit),
    }
}

/// A calendar given by its edges.
#[derive(Debug)]
struct Edges(Vec<u64>);

impl Calendar for Edges {
    fn window_end(&self, now: Timestamp) -> Timestamp {
        let next = self.0.partition_point(|edge| *edge <= now.as_nanos());
        self.0.get(next).map_or(Timestamp::MAX, |edge| Timestamp::from_nanos(*edge))
    }

    fn shortest(&self) -> Duration {
        let lengths = self.0.windows(2).map(|edges| edges[1] - edges[0]);
        Duration::from_nanos(lengths.min().unwrap_or(1))
    }
}
