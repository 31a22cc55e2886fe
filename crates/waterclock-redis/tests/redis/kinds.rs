//! One limit of every kind: five a second, or what comes nearest.

use std::sync::Arc;
use std::time::Duration;

use waterclock::{
    Calendar, EvenSlots, FixedWindow, Gcra, LeakyBucket, Limit, MinInterval, Quota, RollingWindow,
    SlidingWindow, Timestamp,
};

use crate::scene::SECOND;

pub(crate) const UNITS: u64 = 5;
/// One of five a second.
pub(crate) const UNIT: Duration = Duration::from_millis(200);

/// A calendar whose every second is a window of its own.
#[derive(Debug)]
struct Seconds;

impl Calendar for Seconds {
    fn window_end(&self, now: Timestamp) -> Timestamp {
        Timestamp::from_nanos((now.as_nanos() / 1_000_000_000 + 1) * 1_000_000_000)
    }

    fn shortest(&self) -> Duration {
        SECOND
    }
}

/// A kind by its name, and how long after being exhausted it admits one unit again, at most.
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    pub(crate) limit: Limit,
    pub(crate) refill: Duration,
}

fn kind(name: &'static str, limit: impl Into<Limit>, refill: Duration) -> Kind {
    Kind { name, limit: limit.into(), refill }
}

pub(crate) fn every_kind() -> Vec<Kind> {
    let gcra = Gcra::new(UNITS, SECOND).unwrap();
    // A third of a microsecond each: more than one number in its record.
    let fraction = Gcra::new(3, Duration::from_micros(600_001)).unwrap();
    let calendar = FixedWindow::on_calendar(UNITS, Arc::new(Seconds)).unwrap();
    let gap =
        Limit::from(FixedWindow::new(UNITS, SECOND).unwrap()).with_min_interval(UNIT).unwrap();
    vec![
        kind("gcra", gcra, UNIT),
        kind("gcra in fractions", fraction, UNIT + Duration::from_micros(1)),
        kind("gcra with overdraft", gcra.with_overdraft(true), UNIT),
        kind("leaky", LeakyBucket::new(UNITS, 1, UNIT).unwrap(), UNIT),
        kind("leaky in steps", LeakyBucket::new(UNITS, 2, 2 * UNIT).unwrap(), 2 * UNIT),
        kind("fixed", FixedWindow::new(UNITS, SECOND).unwrap(), SECOND),
        kind("fixed on the epoch", FixedWindow::aligned(UNITS, SECOND).unwrap(), SECOND),
        kind("fixed on a calendar", calendar, SECOND),
        kind("fixed with a gap", gap, SECOND),
        kind("sliding", SlidingWindow::new(UNITS, SECOND).unwrap(), SECOND + UNIT),
        kind("rolling", RollingWindow::new(UNITS, SECOND).unwrap(), SECOND),
        kind("rolling in buckets", RollingWindow::bucketed(UNITS, SECOND, 10).unwrap(), 2 * SECOND),
        kind("quota", Quota::new(UNITS, SECOND).unwrap(), SECOND),
        kind("even slots", EvenSlots::new(UNITS, SECOND).unwrap(), UNIT),
        kind("min interval", MinInterval::new(UNIT).unwrap(), UNIT),
    ]
}
