//! One node's part of a policy: its limits divided by the number of nodes.

use alloc::vec::Vec;
use core::time::Duration;

use crate::{
    Algorithm, EvenSlots, Gcra, LeakyBucket, Limit, LimitError, MAX_PERIOD, MinInterval, Policy,
    PolicyError, Quota, SlidingWindow,
};

/// What one of several nodes may admit alone.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Share {
    /// The policy with its limits divided.
    pub policy: Policy,
    /// Whether keys start exhausted: where there is less than one unit for each node, the units that all
    /// nodes would admit at once exceed the limit.
    pub starts_empty: bool,
}

impl Policy {
    /// One node's share of this policy, such that `nodes` of them admit no more than the whole. A limit with
    /// less than one unit for each node becomes one unit in a longer window. Breakers and concurrency
    /// limits stay as they are.
    pub fn share(&self, nodes: u64) -> Result<Share, PolicyError> {
        let mut starts_empty = false;
        let mut limits = Vec::with_capacity(self.limits().len());
        for limit in self.limits() {
            let divided = divided(limit, nodes, &mut starts_empty);
            limits.push(divided.map_err(|reason| PolicyError::NotDivisible {
                limit: limit.name().into(),
                nodes,
                reason,
            })?);
        }
        let policy = Self::new(self.name(), limits)?.with_mode(self.mode())?;
        Ok(Share { policy: policy.with_shadow(self.is_shadow()), starts_empty })
    }
}

fn divided(limit: &Limit, nodes: u64, starts_empty: &mut bool) -> Result<Limit, LimitError> {
    if nodes <= 1 {
        return Ok(limit.clone());
    }
    let longer = |period: Duration| {
        let nodes = u32::try_from(nodes).unwrap_or(u32::MAX);
        period.checked_mul(nodes).map_or(MAX_PERIOD, |period| period.min(MAX_PERIOD))
    };
    let mut part = |units: u64, period: Duration| match units / nodes {
        // A limit that admits nothing has nothing to divide.
        0 if units == 0 => (0, period),
        0 => {
            *starts_empty = true;
            (1, longer(period))
        }
        part => (part, period),
    };
    let algorithm = match limit.algorithm() {
        Algorithm::Gcra(gcra) => {
            let (step_ns, scale) = gcra.unit_ns();
            let (capacity, _) = part(gcra.capacity(), Duration::ZERO);
            let slower = Gcra::new(scale, longer(Duration::from_nanos(step_ns)))?;
            Algorithm::Gcra(slower.with_capacity(capacity).with_overdraft(gcra.overdraft()))
        }
        Algorithm::LeakyBucket(leaky) => {
            let (capacity, _) = part(leaky.capacity(), Duration::ZERO);
            let slower = LeakyBucket::new(capacity, leaky.drip(), longer(leaky.period()))?;
            slower.with_overdraft(leaky.overdraft()).into()
        }
        Algorithm::FixedWindow(window) => {
            // A calendar has no longer windows: one unit in each, however many nodes.
            let (units, period) = part(window.limit(), window.period());
            Algorithm::FixedWindow(window.with_numbers(units, period)?)
        }
        Algorithm::SlidingWindow(window) => {
            let (units, period) = part(window.limit(), window.period());
            Algorithm::SlidingWindow(SlidingWindow::new(units, period)?)
        }
        Algorithm::RollingWindow(window) => {
            let (units, period) = part(window.limit(), window.period());
            Algorithm::RollingWindow(window.with_numbers(units, period)?)
        }
        Algorithm::Quota(quota) => {
            let (units, period) = part(quota.limit(), quota.period());
            Algorithm::Quota(Quota::new(units, period)?)
        }
        Algorithm::EvenSlots(slots) => {
            let (units, period) = part(slots.limit(), slots.period());
            Algorithm::EvenSlots(EvenSlots::new(units, period)?)
        }
        Algorithm::MinInterval(gap) => {
            *starts_empty = true;
            Algorithm::MinInterval(MinInterval::new(longer(gap.period()))?)
        }
        same @ (Algorithm::Concurrency(_) | Algorithm::ErrorRate(_)) => same.clone(),
    };
    let gap = match limit.gap() {
        Some(gap) => Some(MinInterval::new(longer(gap.period()))?),
        None => None,
    };
    Ok(limit.with(algorithm, gap))
}
