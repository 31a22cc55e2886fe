//! The judge's suites for the core and the memory store.

/// A test of every family that every suite judges, and of one more.
macro_rules! each_family {
    ($hold:expr; $name:ident => $family:ident) => {
        crate::each_family! { $hold;
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
            several => Several,
            $name => $family,
        }
    };
    ($hold:expr; $($name:ident => $family:ident),* $(,)?) => {
        $(#[test] fn $name() { $hold(waterclock_conformance::Family::$family); })*
    };
}
use each_family;

mod eviction;
mod planted;
mod reservations;
mod suites;
mod units;
