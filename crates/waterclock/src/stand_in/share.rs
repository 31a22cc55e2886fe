//! One node's part of a policy: a limit divided by the number of nodes.

use std::time::Duration;

use waterclock_core::{
    Algorithm, Align, EvenSlots, FixedWindow, Gcra, LeakyBucket, Limit, LimitError, MAX_PERIOD,
    MinInterval, Policy, PolicyError, Quota, RollingWindow, SlidingWindow,
};

/// What a node may admit alone.
pub(super) struct Share {
    pub(super) policy: Policy,
    /// Where there is less than one unit for each node a key starts empty: the units that all nodes
    /// would otherwise admit at once exceed the limit.
    pub(super) starts_empty: bool,
}

pub(super) fn share(policy: &Policy, nodes: u64) -> Result<Share, String> {
    let mut starts_empty = false;
    let mut limits = Vec::new();
    for limit in policy.limits() {
        let shared = shared(limit, nodes, &mut starts_empty).map_err(|error| error.to_string())?;
        limits.push(shared);
    }
    let policy = Policy::new(policy.name(), limits)
        .and_then(|shared| shared.with_mode(policy.mode()))
        .map_err(|error: PolicyError| error.to_string())?
        .with_shadow(policy.is_shadow());
    Ok(Share { policy, starts_empty })
}

fn shared(limit: &Limit, nodes: u64, starts_empty: &mut bool) -> Result<Limit, LimitError> {
    if nodes == 1 {
        return Ok(limit.clone());
    }
    let longer = |period: Duration| {
        period
            .checked_mul(u32::try_from(nodes).unwrap_or(u32::MAX))
            .map_or(MAX_PERIOD, |p| p.min(MAX_PERIOD))
    };
    // A window for less than one unit per node becomes one unit in a longer window.
    let mut window = |holds: u64, period: Duration| match holds / nodes {
        // Nothing divided is nothing.
        0 if holds == 0 => (0, period),
        0 => {
            *starts_empty = true;
            (1, longer(period))
        }
        part => (part, period),
    };
    let same: Limit = match limit.algorithm() {
        Algorithm::Gcra(gcra) => {
            let (step_ns, scale) = gcra.unit_ns();
            let (capacity, _) = window(gcra.capacity(), Duration::ZERO);
            let slower = Gcra::new(scale, longer(Duration::from_nanos(step_ns)))?;
            slower.with_capacity(capacity).with_overdraft(gcra.overdraft()).into()
        }
        Algorithm::LeakyBucket(leaky) => {
            let (capacity, _) = window(leaky.capacity(), Duration::ZERO);
            let slower = LeakyBucket::new(capacity, leaky.drip(), longer(leaky.period()))?;
            slower.with_overdraft(leaky.overdraft()).into()
        }
        Algorithm::FixedWindow(fixed) => {
            let (holds, period) = window(fixed.limit(), fixed.period());
            match fixed.align() {
                Align::First => FixedWindow::new(holds, period)?.into(),
                Align::Epoch => FixedWindow::aligned(holds, period)?.into(),
                // A calendar has no longer windows: one unit in each, however many nodes.
                Align::Calendar(calendar) => {
                    FixedWindow::on_calendar(holds, std::sync::Arc::clone(calendar))?.into()
                }
            }
        }
        Algorithm::SlidingWindow(sliding) => {
            let (holds, period) = window(sliding.limit(), sliding.period());
            SlidingWindow::new(holds, period)?.into()
        }
        Algorithm::RollingWindow(rolling) => {
            let (holds, period) = window(rolling.limit(), rolling.period());
            match rolling.buckets() {
                None => RollingWindow::new(holds, period)?.into(),
                Some(buckets) => RollingWindow::bucketed(holds, period, buckets)?.into(),
            }
        }
        Algorithm::Quota(quota) => {
            let (holds, period) = window(quota.limit(), quota.period());
            Quota::new(holds, period)?.into()
        }
        Algorithm::EvenSlots(slots) => {
            let (holds, period) = window(slots.limit(), slots.period());
            EvenSlots::new(holds, period)?.into()
        }
        Algorithm::MinInterval(gap) => {
            *starts_empty = true;
            MinInterval::new(longer(gap.period()))?.into()
        }
        _ => limit.clone(),
    };
    let same = same.with_name(limit.name()).with_unit(limit.unit()).with_shadow(limit.is_shadow());
    match limit.min_interval() {
        Some(gap) => same.with_min_interval(longer(gap.period())),
        None => Ok(same),
    }
}
