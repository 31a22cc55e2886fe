//! Access logs through the real binary.

mod bad_lines;
mod fields;
mod hostile;
mod order;
mod recognised;
mod same_traffic;
mod traffic;

use serde_json::{Value, json};

use crate::support::{Place, Run};

/// A line of a combined log so many seconds into the epoch's first hour.
fn line(second: u32, client: &str, request: &str, rest: &str) -> String {
    let (minute, second) = (second / 60, second % 60);
    format!("{client} - - [01/Jan/1970:00:{minute:02}:{second:02} +0000] \"{request}\" {rest}\n")
}

/// A replay that prints every decision.
fn replay(place: &Place, flags: &[&str], input: impl AsRef<[u8]>) -> Run {
    place.run_with_bytes(&[&["replay", "--format", "jsonl"], flags].concat(), input.as_ref())
}

/// Time, key and cost of each event of a replay that must succeed in silence.
#[track_caller]
fn events(place: &Place, flags: &[&str], input: impl AsRef<[u8]>) -> Vec<Value> {
    let run = replay(place, flags, input).ok();
    told(&run)
}

fn told(run: &Run) -> Vec<Value> {
    run.lines().iter().map(|line| json!([line["t_us"], line["key"], line["cost"]])).collect()
}
