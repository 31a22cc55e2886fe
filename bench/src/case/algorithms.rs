//! M8: every algorithm against gcra, and a policy of three limits against one.

use std::time::Duration;

use waterclock::{
    EvenSlots, FixedWindow, Gcra, LeakyBucket, Limit, MinInterval, Policy, Quota, RollingWindow,
    SlidingWindow, TscClock,
};

use crate::contestant::waterclock::{checks, limiter, quota};
use crate::contestant::{Contestant, Kind, Run, filled};
use crate::field::Field;
use crate::goal::in_process::algorithm;
use crate::keys::drawn;
use crate::options::Options;
use crate::report::{Report, Row};

const KEYS: usize = 10_000;
const HOUR: Duration = Duration::from_secs(3_600);
const MANY: u64 = 1_000_000_000;
const GCRA: &str = "gcra";

fn run_of(policy: impl Into<Policy>, keys: usize) -> Run<u64> {
    checks(limiter(policy, keys, TscClock::default()))
}

/// Limits that admit (almost) always; what they remember stays.
fn contestants() -> Vec<Contestant<u64>> {
    let contestant = |name, build| Contestant { name, kind: Kind::Ours, most_keys: KEYS, build };
    vec![
        contestant(GCRA, |keys| run_of(quota(), keys)),
        // 7 units in an hour: sevenths of a nanosecond take a second word.
        contestant("gcra, two words", |keys| {
            run_of(Gcra::new(7, HOUR).unwrap().with_capacity(1_000_000), keys)
        }),
        contestant("leaky-bucket, drip 2", |keys| {
            run_of(LeakyBucket::new(1_000_000, 2, HOUR).unwrap(), keys)
        }),
        contestant("fixed-window", |keys| run_of(FixedWindow::new(MANY, HOUR).unwrap(), keys)),
        contestant("fixed-window, aligned", |keys| {
            run_of(FixedWindow::aligned(MANY, HOUR).unwrap(), keys)
        }),
        contestant("sliding-window", |keys| run_of(SlidingWindow::new(MANY, HOUR).unwrap(), keys)),
        // Some tens of entries per key, which come and go.
        contestant("rolling-window", |keys| {
            run_of(RollingWindow::new(10_000, Duration::from_millis(10)).unwrap(), keys)
        }),
        contestant("rolling-window, 10 buckets", |keys| {
            run_of(RollingWindow::bucketed(MANY, Duration::from_millis(10), 10).unwrap(), keys)
        }),
        contestant("quota", |keys| {
            run_of(Quota::new(1_000_000, 24 * 36_500 * HOUR).unwrap(), keys)
        }),
        // Odd half-slots refuse: half of all decisions.
        contestant("even-slots (half refused)", |keys| {
            run_of(EvenSlots::new(100_000, Duration::from_secs(1)).unwrap(), keys)
        }),
        contestant("min-interval", |keys| {
            run_of(MinInterval::new(Duration::from_micros(50)).unwrap(), keys)
        }),
        contestant("gcra, all refused", |keys| run_of(Limit::per_day(1), keys)),
        contestant("policy of 3 gcra", |keys| {
            let limits = ["a", "b", "c"].map(|name| Limit::from(quota()).with_name(name));
            run_of(Policy::new("three", limits).unwrap(), keys)
        }),
        contestant("policy of gcra, fixed, sliding", |keys| {
            let limits = [
                Limit::from(quota()),
                FixedWindow::new(MANY, HOUR).unwrap().into(),
                SlidingWindow::new(MANY, HOUR).unwrap().into(),
            ];
            run_of(Policy::new("mixed", limits).unwrap(), keys)
        }),
    ]
}

pub fn run(options: &Options, report: &mut Report<'_>) {
    let contestants = contestants();
    let entrants = contestants.iter().map(|c| (c.name, c.kind, filled(c, KEYS))).collect();
    let field = Field::time(entrants, &drawn(KEYS, 1 << 16), options, false);
    let gcra = field.of(GCRA).lone;
    let rows = contestants.iter().map(|c| {
        let lone = field.of(c.name).lone;
        if c.name != GCRA {
            report.goal(algorithm(c.name), lone / gcra);
        }
        Row::new(c.name, [lone, lone / gcra])
    });
    let rows: Vec<Row> = rows.collect();
    report.table("Algorithms: 10000 u64 keys, TSC", &["ns, 1 thread", "time of gcra"], &rows);
}
