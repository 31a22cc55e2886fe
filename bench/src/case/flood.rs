//! A flood of keys: ten times as many as a limiter may remember.

use std::path::PathBuf;

use ::waterclock::{KeyedLimiter, ManualClock};
use serde_json::{Value, json};

use super::child;
use super::pauses::fixed_hash;
use crate::contestant::waterclock;
use crate::goal::in_process::{FLOOD_CHANGED, FLOOD_MEMORY, FLOOD_PAUSE};
use crate::keys::Key;
use crate::machine::resident;
use crate::options::Options;
use crate::pauses::{Pauses, Repeats};
use crate::report::{Report, Row};

pub const QUESTION: &str = "flood";
/// Keys that were there before.
const RESIDENTS: u64 = 1_000;

pub fn run(options: &Options, report: &mut Report<'_>) {
    let keys = options.most_keys();
    let (mut pauses, mut grown, mut changed) = (Repeats::default(), 0.0_f64, 0.0_f64);
    for _ in 0..options.repeats {
        let answer = child::ask(QUESTION, "waterclock", keys);
        let (path, mib, different): (PathBuf, f64, f64) =
            serde_json::from_value(answer).expect("a path and two numbers");
        pauses.add(&path);
        (grown, changed) = (grown.max(mib), changed.max(different));
    }
    let told = pauses.told();
    let [worst, tail, disturbed] = Repeats::COLUMNS;
    report.table(
        &format!("Flood: {keys} new String keys, {} remembered", keys / 10),
        &["MiB", "residents changed", worst, tail, disturbed],
        &[Row::new("waterclock", [grown, changed, told[0], told[1], told[2]])],
    );
    report.goal(FLOOD_MEMORY, grown);
    report.goal(FLOOD_CHANGED, changed);
    report.goal(FLOOD_PAUSE, told[0]);
}

pub fn answer(keys: usize) -> Value {
    let before = resident();
    let limiter: KeyedLimiter<String, _, _> = KeyedLimiter::builder(waterclock::quota())
        .max_keys(keys / 10)
        .clock(ManualClock::default())
        .hasher(fixed_hash())
        .build();
    let residents: Vec<String> = (0..RESIDENTS).map(|n| String::nth(u64::MAX - n)).collect();
    for (cost, key) in (1..).zip(&residents) {
        assert!(limiter.check_n(key, cost).is_allowed());
    }
    let answers = || -> Vec<_> { residents.iter().map(|key| limiter.peek(key)).collect() };
    let calm = answers();
    let pauses = Pauses::of(&|key: &String| limiter.check(key).is_allowed(), 0..keys);
    let grown = resident().saturating_sub(before + pauses.bytes());
    let changed = answers().iter().zip(&calm).filter(|(after, before)| after != before).count();
    json!([pauses.save("flood"), grown as f64 / 1_048_576.0, changed])
}
