//! M6: the worst single decision while keys are added, and while they expire.

use std::hash::{BuildHasherDefault, DefaultHasher};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use ::governor::RateLimiter;
use ::governor::clock::FakeRelativeClock;
use ::throttlecrab::PeriodicStore;
use ::waterclock::{KeyedLimiter, ManualClock};
use ahash::RandomState;
use serde_json::{Value, json};

use super::child;
use crate::contestant::{PERIOD, governor, throttlecrab, waterclock};
use crate::goal::in_process::{PAUSE_EXPIRING, PAUSE_GROWING};
use crate::options::Options;
use crate::pauses::{Pauses, Repeats};
use crate::report::{Report, Row};

pub const QUESTION: &str = "pauses";
type Build = fn(usize) -> Aging;
const CONTESTANTS: [(&str, Build); 3] = [
    ("waterclock", ours),
    ("governor (retain_recent)", |_| governors()),
    ("throttlecrab (periodic)", |_| throttlecrabs()),
];

pub fn run(options: &Options, report: &mut Report<'_>) {
    let keys = options.most_keys();
    let (mut growing, mut expiring) = (Vec::new(), Vec::new());
    for (name, _) in CONTESTANTS {
        let mut phases = [Repeats::default(), Repeats::default()];
        for _ in 0..options.repeats {
            let answer = child::ask(QUESTION, name, keys);
            let paths: [PathBuf; 2] = serde_json::from_value(answer).expect("two paths");
            phases.iter_mut().zip(&paths).for_each(|(phase, path)| phase.add(path));
        }
        let [grew, expired] = phases.map(Repeats::told);
        if name == CONTESTANTS[0].0 {
            let subject = format!("{keys} String keys");
            report.goal(PAUSE_GROWING.of(&subject), grew[0]);
            report.goal(PAUSE_EXPIRING.of(&subject), expired[0]);
        }
        growing.push(Row::new(name, grew));
        expiring.push(Row::new(name, expired));
    }
    let columns = &Repeats::COLUMNS;
    report.table(&format!("Pauses while {keys} String keys are added"), columns, &growing);
    report.table("Pauses while they expire and as many others are added", columns, &expiring);
}

pub fn answer(name: &str, keys: usize) -> Value {
    let (_, build) = CONTESTANTS.iter().find(|known| known.0 == name).expect("a known name");
    let aging = build(keys);
    let growing = Pauses::of(&aging.check, 0..keys).save("growing");
    (aging.age)();
    let mut expiring = Pauses::of(&aging.check, keys..2 * keys);
    if let Some(sweep) = &aging.sweep {
        expiring.time(sweep);
    }
    json!([growing, expiring.save("expiring")])
}

/// A limiter on a clock that is moved by hand, with a hash that is the same in every process.
struct Aging {
    check: Box<dyn Fn(&String) -> bool>,
    /// Moves the clock so far that every key is fresh again.
    age: Box<dyn Fn()>,
    /// What its user must call from time to time, if anything.
    sweep: Option<Box<dyn Fn()>>,
}

/// Ours, with room for all keys and as many again.
fn ours(keys: usize) -> Aging {
    let clock = ManualClock::default();
    let limiter: KeyedLimiter<String, _, _> = KeyedLimiter::builder(waterclock::quota())
        .max_keys(2 * keys)
        .clock(clock.clone())
        .hasher(fixed_hash())
        .build();
    Aging {
        check: Box::new(move |key: &String| limiter.check(key).is_allowed()),
        age: Box::new(move || clock.advance(2 * PERIOD)),
        sweep: None,
    }
}

pub fn fixed_hash() -> RandomState {
    RandomState::with_seeds(1, 2, 3, 4)
}

fn governors() -> Aging {
    let clock = FakeRelativeClock::default();
    let hash = BuildHasherDefault::<DefaultHasher>::default();
    let quota = governor::quota();
    let limiter = RateLimiter::dashmap_with_clock_and_hasher(quota, clock.clone(), hash);
    let limiter = Arc::new(limiter);
    let swept = Arc::clone(&limiter);
    Aging {
        check: Box::new(move |key: &String| limiter.check_key(key).is_ok()),
        age: Box::new(move || clock.advance(2 * PERIOD)),
        sweep: Some(Box::new(move || swept.retain_recent())),
    }
}

fn throttlecrabs() -> Aging {
    let start = SystemTime::now();
    let periods = Arc::new(AtomicU32::new(0));
    let later = Arc::clone(&periods);
    let limiter = Mutex::new(::throttlecrab::RateLimiter::new(PeriodicStore::new()));
    Aging {
        check: Box::new(move |key: &String| {
            throttlecrab::check(&limiter, key, start + PERIOD * periods.load(Ordering::Relaxed))
        }),
        age: Box::new(move || later.store(2, Ordering::Relaxed)),
        sweep: None,
    }
}
