//! One contestant, so many decisions: for counting instructions (see `instructions.sh`).

use std::time::Duration;

use waterclock::{Clock as _, TscClock};
use waterclock_bench::contestant::{Contestant, Run, direct, filled, strings};
use waterclock_bench::flags::number;
use waterclock_bench::keys::{Key, drawn};

const KEYS: usize = 10_000;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [kind, name, decisions] = &args[..] else {
        eprintln!("usage: one-check direct|keyed CONTESTANT DECISIONS");
        std::process::exit(2);
    };
    let decisions = number(decisions).expect("a number of decisions");
    match kind.as_str() {
        "direct" => run(&direct(), name, decisions),
        _ => run(&strings(), name, decisions),
    }
}

fn run<K: Key>(contestants: &[Contestant<K>], name: &str, decisions: usize) {
    let Some(contestant) = contestants.iter().find(|contestant| contestant.name == name) else {
        let names: Vec<&str> = contestants.iter().map(|contestant| contestant.name).collect();
        panic!("no {name:?} among {names:?}");
    };
    // The default clock reads `Instant` until it knows the rate of the counter, which it learns once for the process.
    let clock = TscClock::default();
    std::thread::sleep(Duration::from_millis(100));
    clock.now();
    let run = filled(contestant, KEYS);
    let sequence = drawn(KEYS, decisions);
    measured(&run, &sequence);
}

/// What callgrind counts.
#[inline(never)]
fn measured<K>(run: &Run<K>, keys: &[K]) {
    assert_eq!(std::hint::black_box(run(keys)), keys.len(), "every decision must admit");
}
