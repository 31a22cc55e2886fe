//! M5: bytes per key, at the end and while growing.

use serde_json::{Value, json};

use super::child;
use crate::contestant::{Contestant, Kind, numbers, strings, waterclock};
use crate::goal::in_process::{BYTES, BYTES_GROWING};
use crate::keys::{Key, in_chunks};
use crate::machine::{forget_peak, peak_resident, resident};
use crate::options::Options;
use crate::report::{Report, Row};

pub const QUESTION: &str = "memory";

pub fn run(options: &Options, report: &mut Report<'_>) {
    let keys = options.most_keys();
    let mut rows = Vec::new();
    for (kind, names) in [("String", names(&strings(), keys)), ("u64", names(&numbers(), keys))] {
        for name in names {
            let row = bytes(kind, name, keys);
            if kind == "String" && name == waterclock::DEFAULT && keys == 10_000_000 {
                let [end, _, worst] = row[..] else { unreachable!("three numbers") };
                report.goal(BYTES, end);
                report.goal(BYTES_GROWING, worst);
            }
            rows.push(Row::new(format!("{name}, {kind} keys"), row));
        }
    }
    let columns = &["bytes per key", "peak, per key", "worst from a tenth on"];
    report.table(&format!("Memory at {keys} keys"), columns, &rows);
}

/// One of ours will do: they differ in their clocks only.
fn names<K>(contestants: &[Contestant<K>], keys: usize) -> Vec<&'static str> {
    let all = contestants.iter().filter(|contestant| keys <= contestant.most_keys);
    all.filter(|c| c.kind != Kind::Ours || c.name == waterclock::DEFAULT).map(|c| c.name).collect()
}

fn bytes(kind: &str, name: &str, keys: usize) -> Vec<f64> {
    let answer = child::ask(QUESTION, &format!("{kind}/{name}"), keys);
    serde_json::from_value(answer).expect("three numbers")
}

pub fn answer(name: &str, keys: usize) -> Value {
    match name.split_once('/') {
        Some(("String", name)) => grow(&strings(), name, keys),
        Some((_, name)) => grow(&numbers(), name, keys),
        None => panic!("a kind of key and a name"),
    }
}

/// Bytes per key: at the end, at the peak, and the worst ratio from a tenth of the keys on.
fn grow<K: Key>(contestants: &[Contestant<K>], name: &str, keys: usize) -> Value {
    let contestant = contestants.iter().find(|c| c.name == name).expect("a known name");
    forget_peak();
    let before = resident();
    let run = (contestant.build)(keys);
    let (mut seen, mut worst) = (0, 0.0_f64);
    for chunk in in_chunks::<K>(0..keys) {
        run(&chunk);
        seen += chunk.len();
        if seen >= keys / 10 {
            worst = worst.max((resident() - before) as f64 / seen as f64);
        }
    }
    let per_key = |bytes: usize| (bytes - before) as f64 / keys as f64;
    json!([per_key(resident()), per_key(peak_resident()), worst])
}
