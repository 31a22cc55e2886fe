//! A flood of keys: ten times as many as a limiter may remember.

use ::tollgate::{KeyedLimiter, ManualClock};
use serde_json::{Value, json};

use super::child;
use super::pauses::Pauses;
use crate::contestant::tollgate;
use crate::keys::Key;
use crate::machine::resident;
use crate::options::Options;
use crate::report::{Bound, Report, Row};

pub const QUESTION: &str = "flood";
/// Keys that were there before.
const RESIDENTS: u64 = 1_000;
const MIB: f64 = 1_048_576.0;

pub fn run(options: &Options, report: &mut Report) {
    let keys = options.most_keys();
    let answers: Vec<[f64; 5]> = (0..options.repeats)
        .map(|_| serde_json::from_value(child::ask(QUESTION, "tollgate", keys)).expect("numbers"))
        .collect();
    let least: Vec<f64> = (0..4)
        .map(|i| answers.iter().map(|answer| answer[i]).fold(f64::NAN, f64::min))
        .chain([answers.iter().map(|answer| answer[4]).sum()])
        .collect();
    let columns = &["MiB", "worst µs, wall", "worst µs, CPU", "p99.99 µs", "residents changed"];
    report.table(
        &format!("Flood: {keys} new String keys, {} remembered", keys / 10),
        columns,
        &[Row::new("tollgate", &least[..])],
    );
    report.target("flood", "MiB", Bound::AtMost(128.0), least[0]);
    report.target("flood", "worst decision, CPU µs", Bound::AtMost(50.0), least[2]);
    report.target("flood", "residents changed", Bound::AtMost(0.0), least[4]);
}

pub fn answer(keys: usize) -> Value {
    let clock = ManualClock::default();
    let before = resident();
    let limiter: KeyedLimiter<String, _> =
        KeyedLimiter::builder(tollgate::quota()).max_keys(keys / 10).clock(clock).build();
    let residents: Vec<String> = (0..RESIDENTS).map(|n| String::nth(u64::MAX - n)).collect();
    for (spent, key) in residents.iter().enumerate() {
        let _ = limiter.check_n(key, spent as u64 + 1);
    }
    let answers = || -> Vec<_> { residents.iter().map(|key| limiter.peek(key)).collect() };
    let calm = answers();
    let pauses = Pauses::of(&|key: &String| limiter.check(key).is_allowed(), 0..keys);
    // What was timed is kept too: 16 bytes per decision.
    let grown = (resident() - before) as f64 - 16.0 * keys as f64;
    let changed = answers().iter().zip(&calm).filter(|(after, before)| after != before).count();
    let [wall, cpu, tail] = pauses.told();
    json!([grown / MIB, wall, cpu, tail, changed])
}
