//! P1–P11, P13 and the reference model, per algorithm (P12, parallel callers, is tested in the library).
//! `WATERCLOCK_CASES` sets how many traces each property gets for each kind of policy; the default is 100,000.

use waterclock_conformance::{Core, Family, Memory, Subject, judge, property};

pub(crate) fn cases() -> u64 {
    std::env::var("WATERCLOCK_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(100_000)
}

fn hold<S: Subject>(subject: &S, family: Family) {
    judge(subject, family, &property::all(), cases());
}

macro_rules! suites {
    ($($name:ident => $family:ident),* $(,)?) => {
        mod core {
            $(#[test] fn $name() { super::hold(&super::Core, super::Family::$family); })*
        }
        mod memory {
            $(#[test] fn $name() { super::hold(&super::Memory, super::Family::$family); })*
        }
    };
}

suites! {
    gcra => Gcra,
    leaky_one_by_one => LeakyOneByOne,
    leaky_staircase => LeakyStaircase,
    fixed_first => FixedFirst,
    fixed_epoch => FixedEpoch,
    fixed_calendar => FixedCalendar,
    sliding => Sliding,
    rolling_exact => RollingExact,
    rolling_buckets => RollingBuckets,
    quota => Quota,
    even_slots => EvenSlots,
    min_interval => MinInterval,
    error_rate => ErrorRate,
    several => Several,
}
