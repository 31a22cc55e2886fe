//! Policies of every kind, and traces made up to find the places where their decisions change.

use std::fmt::Write;

use fastrand::Rng;

/// A policy of [`CONFIG`], with the time and the amount around which it changes its mind.
pub(crate) struct Kind {
    pub(crate) policy: &'static str,
    period_us: u64,
    units: u64,
}

const fn kind(policy: &'static str, period_us: u64, units: u64) -> Kind {
    Kind { policy, period_us, units }
}

const SECOND: u64 = 1_000_000;
const MONTH: u64 = 30 * 86_400 * SECOND;

pub(crate) const KINDS: &[Kind] = &[
    kind("gcra", SECOND, 10),
    kind("gcra-of-thirds", SECOND, 3),
    kind("gcra-in-debt", 1_000_003, 20),
    kind("gcra-with-a-gap", SECOND, 10),
    kind("leaky-one-by-one", SECOND, 10),
    kind("leaky-staircase", SECOND, 10),
    kind("fixed-from-the-first", SECOND, 5),
    kind("fixed-from-the-epoch", 60 * SECOND, 5),
    kind("fixed-by-month", MONTH, 5),
    kind("fixed-by-day", MONTH / 30, 5),
    kind("sliding", SECOND, 10),
    kind("rolling-exact", SECOND, 10),
    kind("rolling-in-buckets", 60 * SECOND, 100),
    kind("quota", SECOND, 10),
    kind("even-slots", SECOND, 4),
    kind("min-interval", SECOND / 4, 1),
    kind("in-part", SECOND, 10),
    kind("several", SECOND, 10),
    kind("several-in-part", SECOND, 10),
    kind("uniform", SECOND, 10),
    kind("in-shadow", SECOND, 5),
    kind("large", MONTH, 9_007_199_254_740_991),
];

pub(crate) const CONFIG: &str = r#"
[policies]
gcra.limits = ["10/s"]
gcra-of-thirds.limits = ["3/s"]
gcra-in-debt.limits = [{ algorithm = "gcra", limit = 7, per = "1000003us", capacity = 20, overdraft = true }]
gcra-with-a-gap.limits = [{ algorithm = "token-bucket", limit = 10, per = "1s", min_interval = "50ms" }]
leaky-one-by-one.limits = [{ algorithm = "leaky-bucket", capacity = 10, every = "100ms" }]
leaky-staircase.limits = [{ algorithm = "leaky-bucket", capacity = 10, drip = 3, every = "1s" }]
fixed-from-the-first.limits = ["5/s fixed-window"]
fixed-from-the-epoch.limits = [{ algorithm = "fixed-window", limit = 5, per = "1m", align = "epoch" }]
fixed-by-month.limits = [{ algorithm = "fixed-window", limit = 5, per = "month", align = "calendar", timezone = "Europe/Berlin" }]
fixed-by-day.limits = [{ algorithm = "fixed-window", limit = 5, per = "day", align = "calendar", timezone = "Pacific/Apia" }]
sliding.limits = ["10/s sliding-window"]
rolling-exact.limits = ["10/s rolling-window"]
rolling-in-buckets.limits = [{ algorithm = "rolling-window", limit = 100, per = "1m", buckets = 7 }]
quota.limits = ["10/s quota"]
even-slots.limits = ["4/s even-slots"]
min-interval.limits = [{ algorithm = "min-interval", every = "250ms" }]
in-part = { mode = "nary", limits = ["10/s"] }
several.limits = [
  "10/s", "30/10s rolling-window", "100/1h sliding-window", { algorithm = "quota", limit = 12, per = "1s", shadow = true },
  { algorithm = "fixed-window", limit = 20, per = "week", align = "calendar" }, "8/s even-slots",
]
several-in-part = { mode = "nary", limits = ["10/s", "30/10s rolling-window", { algorithm = "leaky-bucket", capacity = 7, shadow = true }] }
uniform = { mode = "uniform", limits = ["10/s rolling-window", "20/5s sliding-window", "5/s fixed-window"] }
in-shadow = { shadow = true, limits = ["5/s", "7/s quota"] }
large.limits = [{ algorithm = "fixed-window", limit = 9007199254740991, per = "30d" }, "9007199254740991/30d sliding-window"]
"#;

/// Last moments of July 2025 in Berlin: the month ends within the trace.
const BEFORE_A_MONTH_ENDS_US: u64 = 1_753_999_199_000_000;

/// So many events of a kind, as a trace.
pub(crate) fn trace(kind: &Kind, events: usize, rng: &mut Rng) -> String {
    let keys = ["", "alice", "bob", "Zoë \"Ω\" 日本\n", &"long ".repeat(500)];
    let starts = [0, rng.u64(0..1 << 40), BEFORE_A_MONTH_ENDS_US];
    let mut t_us = starts[rng.usize(0..3)];
    let mut trace = String::new();
    for _ in 0..events {
        t_us += pause(kind, rng);
        let key = serde_json::to_string(keys[rng.usize(0..keys.len())]).unwrap();
        let (cost, op) = (cost(kind, rng), op(rng));
        writeln!(trace, r#"{{"t_us":{t_us},"key":{key},"cost":{cost},"op":"{op}"}}"#).unwrap();
    }
    trace
}

fn pause(kind: &Kind, rng: &mut Rng) -> u64 {
    let unit_us = (kind.period_us / kind.units).max(1);
    match rng.u8(0..10) {
        0..4 => 0,
        4 => 1,
        5 => unit_us,
        6 => unit_us - 1,
        7 => rng.u64(0..=unit_us * 3),
        8 => rng.u64(0..=kind.period_us / 4),
        _ => rng.u64(0..=kind.period_us),
    }
}

fn cost(kind: &Kind, rng: &mut Rng) -> u64 {
    match rng.u8(0..20) {
        0 => 0,
        1..11 => 1,
        11..14 => rng.u64(1..=3),
        14 => kind.units,
        15 => kind.units + 1,
        16 => [1 << 53, 1 << 63, u64::MAX][rng.usize(0..3)],
        _ => rng.u64(0..=kind.units),
    }
}

fn op(rng: &mut Rng) -> &'static str {
    match rng.u8(0..20) {
        0..15 => "check",
        15..17 => "peek",
        17..19 => "refund",
        _ => "reset",
    }
}
