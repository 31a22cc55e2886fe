//! From what a file says to what decides.

use waterclock::calendar::{self, CalendarError, CalendarUnit};
use waterclock::{
    Concurrency, ErrorRate, EvenSlots, FixedWindow, Gcra, LeakyBucket, Limit, LimitError,
    MinInterval, Mode, Policy, Quota, RollingWindow, SlidingWindow,
};

use super::spec::{AlgorithmSpec, LimitSpec, Window};

/// The complaint is a whole sentence.
pub fn policy(
    name: &str,
    limits: &[LimitSpec],
    mode: &str,
    shadow: bool,
) -> Result<Policy, String> {
    let limits = limits.iter().map(limit).collect::<Result<Vec<Limit>, String>>()?;
    let mode = match mode {
        "nary" => Mode::Partial,
        "uniform" => Mode::CountRefusals,
        _ => Mode::Binary,
    };
    let policy = Policy::new(name, limits).and_then(|policy| policy.with_mode(mode));
    policy.map(|policy| policy.with_shadow(shadow)).map_err(|error| error.to_string())
}

fn limit(spec: &LimitSpec) -> Result<Limit, String> {
    let limit = algorithm(&spec.algorithm).map_err(|error| error.to_string())?;
    let limit = limit.with_name(&spec.name).with_unit(&spec.unit).with_shadow(spec.shadow);
    match spec.min_interval {
        Some(interval) => {
            limit.with_min_interval(interval.duration()).map_err(|error| error.to_string())
        }
        None => Ok(limit),
    }
}

/// A limit under its algorithm's name.
pub(crate) fn algorithm(spec: &AlgorithmSpec) -> Result<Limit, CalendarError> {
    Ok(match spec {
        AlgorithmSpec::Gcra { limit, per, capacity, overdraft } => {
            let gcra = Gcra::new(*limit, per.duration())?.with_capacity(*capacity);
            // The library clamps such a capacity; a file should say what it does.
            if gcra.capacity() < *capacity {
                return Err(LimitError::SlowRefill.into());
            }
            gcra.with_overdraft(*overdraft).into()
        }
        AlgorithmSpec::LeakyBucket { capacity, drip, every, overdraft } => {
            LeakyBucket::new(*capacity, *drip, every.duration())?.with_overdraft(*overdraft).into()
        }
        AlgorithmSpec::FixedWindow { limit, window } => fixed_window(*limit, window)?.into(),
        AlgorithmSpec::SlidingWindow { limit, per } => {
            SlidingWindow::new(*limit, per.duration())?.into()
        }
        AlgorithmSpec::RollingWindow { limit, per, buckets: None } => {
            RollingWindow::new(*limit, per.duration())?.into()
        }
        AlgorithmSpec::RollingWindow { limit, per, buckets: Some(buckets) } => {
            RollingWindow::bucketed(*limit, per.duration(), *buckets)?.into()
        }
        AlgorithmSpec::Quota { limit, per } => Quota::new(*limit, per.duration())?.into(),
        AlgorithmSpec::EvenSlots { limit, per } => EvenSlots::new(*limit, per.duration())?.into(),
        AlgorithmSpec::MinInterval { every } => MinInterval::new(every.duration())?.into(),
        AlgorithmSpec::ErrorRate { threshold, per, min_samples, cool_down } => {
            let (per, cool_down) = (per.duration(), cool_down.duration());
            ErrorRate::new(*threshold, per, *min_samples, cool_down)?.into()
        }
        AlgorithmSpec::Concurrency { limit, lease } => {
            Concurrency::new(*limit, lease.duration())?.into()
        }
    })
}

fn fixed_window(limit: u64, window: &Window) -> Result<FixedWindow, CalendarError> {
    match window {
        Window::First(per) => Ok(FixedWindow::new(limit, per.duration())?),
        Window::Epoch(per) => Ok(FixedWindow::aligned(limit, per.duration())?),
        Window::Calendar { per, timezone } => {
            let unit = match *per {
                "day" => CalendarUnit::Day,
                "week" => CalendarUnit::Week,
                "month" => CalendarUnit::Month,
                _ => CalendarUnit::Year,
            };
            calendar::fixed_window(limit, unit, timezone)
        }
    }
}
