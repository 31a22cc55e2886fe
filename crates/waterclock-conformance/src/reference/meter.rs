//! What every algorithm of the model implements; all reported numbers are searched with it.

use std::fmt::Debug;

use super::concurrency::Concurrency;
use super::error_rate::ErrorRate;
use super::even_slots::EvenSlots;
use super::fixed_window::FixedWindow;
use super::gcra::Gcra;
use super::leaky_bucket::LeakyBucket;
use super::min_interval::MinInterval;
use super::quota::Quota;
use super::rolling_window::RollingWindow;
use super::search::{Time, Units};
use super::sliding_window::SlidingWindow;
use super::spec::Algorithm;

/// One key's usage under one algorithm. The model guarantees that instants never decrease and costs are above 0.
pub(super) trait Meter: Debug + CloneMeter {
    /// The largest cost a fresh key could ever admit at once; none is unbounded.
    fn limit(&self) -> Option<Units>;

    /// Whether `cost` fits at `at` without debt, if nothing else happens until then.
    fn fits(&self, at: Time, cost: Units) -> bool;

    /// Whether `cost` would be admitted at `at`. Differs from `fits` only with overdraft.
    fn admits(&self, at: Time, cost: Units) -> bool {
        self.fits(at, cost)
    }

    /// Whether `cost` could be admitted at any instant at all.
    fn ever_admits(&self, cost: Units) -> bool {
        self.limit().is_none_or(|limit| cost <= limit)
    }

    /// Whether, from `at` on, this behaves like a fresh meter.
    fn is_fresh(&self, at: Time) -> bool;

    /// For meters that also close by themselves: the next instant after `at` at which a closed meter may open. None for
    /// meters that stay open.
    fn reopens(&self, _at: Time) -> Option<Time> {
        None
    }

    /// Charges an admitted cost.
    fn charge(&mut self, at: Time, cost: Units);

    /// Charges what was used already, whether or not it fits. Meters that count events ignore it.
    fn debit(&mut self, _at: Time, _units: Units) {}

    /// Records an attempt in count-refusals mode, admitted or not. Only windows support that mode; other algorithms just
    /// charge what they admit.
    fn record(&mut self, at: Time, cost: Units) {
        if self.admits(at, cost) {
            self.charge(at, cost);
        }
    }

    /// Gives units back, as far as they still count. Meters that count events ignore it.
    fn refund(&mut self, _at: Time, _units: Units) {}

    /// Gives back units that were charged at `charged_at`. Only windows make a difference.
    fn give_back(&mut self, at: Time, _charged_at: Time, units: Units) {
        self.refund(at, units);
    }

    /// Reports the outcome of admitted calls, `times` times.
    fn report(&mut self, _at: Time, _is_error: bool, _times: Units) {}

    /// Whether only a reservation can charge it.
    fn reserve_only(&self) -> bool {
        false
    }

    /// Charges an admitted cost that is held until `_until` at most.
    fn hold(&mut self, at: Time, cost: Units, _until: Time) {
        self.charge(at, cost);
    }

    /// Replaces what was held, from one instant until another at most, by what was used.
    fn settle(&mut self, at: Time, (since, _): (Time, Time), held: Units, used: Units) {
        if used > held {
            self.debit(at, used - held);
        } else if used < held {
            self.give_back(at, since, held - used);
        }
    }

    /// The signed `limit − used` of a window, not below `−limit`.
    fn counter(&self, _at: Time) -> Option<i64> {
        None
    }
}

/// The unused meter of an algorithm.
pub(super) fn fresh(algorithm: &Algorithm) -> Box<dyn Meter> {
    match *algorithm {
        Algorithm::Gcra { limit, per_ns, capacity, overdraft } => {
            Box::new(Gcra::new(limit, per_ns, capacity, overdraft))
        }
        Algorithm::LeakyBucket { capacity, drip, every_ns, overdraft } => {
            Box::new(LeakyBucket::new(capacity, drip, every_ns, overdraft))
        }
        Algorithm::FixedWindow { limit, per_ns, ref align } => {
            Box::new(FixedWindow::new(limit, per_ns, align.clone()))
        }
        Algorithm::SlidingWindow { limit, per_ns } => Box::new(SlidingWindow::new(limit, per_ns)),
        Algorithm::RollingWindow { limit, per_ns, buckets } => {
            Box::new(RollingWindow::new(limit, per_ns, buckets))
        }
        Algorithm::Quota { limit, per_ns } => Box::new(Quota::new(limit, per_ns)),
        Algorithm::EvenSlots { limit, per_ns } => Box::new(EvenSlots::new(limit, per_ns)),
        Algorithm::Concurrency { limit, lease_ns } => Box::new(Concurrency::new(limit, lease_ns)),
        Algorithm::ErrorRate { threshold, per_ns, min_samples, cool_down_ns } => {
            Box::new(ErrorRate::new(threshold, per_ns, min_samples, cool_down_ns))
        }
        Algorithm::MinInterval { every_ns } => Box::new(MinInterval::new(every_ns)),
    }
}

/// A number of a limit. Zero would be a configuration error; it is read as 1, so that no trace divides by it.
pub(super) fn positive(number: u64) -> u128 {
    u128::from(number.max(1))
}

/// The signed counter of a window that has used `used` of `limit` units.
pub(super) fn counter(limit: Units, used: Units) -> Option<i64> {
    let (limit, used) = (i64::try_from(limit).ok()?, i64::try_from(used).ok()?);
    Some((limit - used).max(-limit))
}

/// Makes boxed meters cloneable, so that tests can try out calls on a copy.
pub(super) trait CloneMeter {
    fn boxed(&self) -> Box<dyn Meter>;
}

impl<M: Meter + Clone + 'static> CloneMeter for M {
    fn boxed(&self) -> Box<dyn Meter> {
        Box::new(self.clone())
    }
}

impl Clone for Box<dyn Meter> {
    fn clone(&self) -> Self {
        (**self).boxed()
    }
}
