//! Periods as Envoy names them: a month is thirty days and a year 365, as the reference service has it.

use std::time::Duration;

use super::proto::{RateLimitUnit, Unit};
use waterclock_config::{AlgorithmSpec, LimitSpec, Window};

const DAY: u64 = 86_400;

/// The period of an override; `None` if its unit is none.
pub(super) fn period(unit: RateLimitUnit) -> Option<Duration> {
    let seconds = match unit {
        RateLimitUnit::Unknown => return None,
        RateLimitUnit::Second => 1,
        RateLimitUnit::Minute => 60,
        RateLimitUnit::Hour => 3_600,
        RateLimitUnit::Day => DAY,
        RateLimitUnit::Month => 30 * DAY,
        RateLimitUnit::Year => 365 * DAY,
    };
    Some(Duration::from_secs(seconds))
}

/// The unit that is exactly this long.
pub(super) fn unit(period: Duration) -> Unit {
    if period.subsec_nanos() != 0 {
        return Unit::Unknown;
    }
    match period.as_secs() {
        1 => Unit::Second,
        60 => Unit::Minute,
        3_600 => Unit::Hour,
        DAY => Unit::Day,
        seconds if seconds == 7 * DAY => Unit::Week,
        seconds if seconds == 30 * DAY => Unit::Month,
        seconds if seconds == 365 * DAY => Unit::Year,
        _ => Unit::Unknown,
    }
}

/// A limit as so many requests per unit.
pub(super) fn pace(limit: &LimitSpec) -> (u64, Unit) {
    match &limit.algorithm {
        AlgorithmSpec::Gcra { limit, per, .. }
        | AlgorithmSpec::SlidingWindow { limit, per }
        | AlgorithmSpec::RollingWindow { limit, per, .. }
        | AlgorithmSpec::Quota { limit, per }
        | AlgorithmSpec::EvenSlots { limit, per }
        | AlgorithmSpec::FixedWindow { limit, window: Window::First(per) | Window::Epoch(per) } => {
            (*limit, unit(per.duration()))
        }
        AlgorithmSpec::FixedWindow { limit, window: Window::Calendar { per, .. } } => {
            let unit = match *per {
                "day" => Unit::Day,
                "week" => Unit::Week,
                "month" => Unit::Month,
                _ => Unit::Year,
            };
            (*limit, unit)
        }
        AlgorithmSpec::LeakyBucket { drip, every, .. } => (*drip, unit(every.duration())),
        AlgorithmSpec::MinInterval { every } => (1, unit(every.duration())),
        // What has no pace: how many there may be at once, and none.
        AlgorithmSpec::Concurrency { limit, .. } => (*limit, Unit::Unknown),
        AlgorithmSpec::ErrorRate { .. } => (0, Unit::Unknown),
    }
}
