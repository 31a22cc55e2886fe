//! M6: the worst single decision while keys are added, and while they expire.
//!
//! Every decision is timed by the clock on the wall and in processor time of the thread. The machine
//! is shared, so the wall counts preemption: of several repeats the least of the worst is told.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use ::governor::RateLimiter;
use ::governor::clock::FakeRelativeClock;
use ::throttlecrab::PeriodicStore;
use ::tollgate::{KeyedLimiter, ManualClock};
use serde_json::{Value, json};

use super::child;
use crate::contestant::{PERIOD, governor, throttlecrab, tollgate};
use crate::keys::in_chunks;
use crate::machine::cpu_time;
use crate::options::Options;
use crate::report::{Bound, Report, Row};

pub const QUESTION: &str = "pauses";
const OURS: &str = "tollgate";
const NAMES: [&str; 3] = [OURS, "governor (retain_recent)", "throttlecrab (periodic)"];
const COLUMNS: &[&str] = &["worst µs, wall", "worst µs, CPU", "p99.99 µs, wall"];

pub fn run(options: &Options, report: &mut Report) {
    let keys = options.most_keys();
    let (mut growing, mut expiring) = (Vec::new(), Vec::new());
    for name in NAMES {
        let answers: Vec<[Vec<f64>; 2]> = (0..options.repeats)
            .map(|_| serde_json::from_value(child::ask(QUESTION, name, keys)).expect("numbers"))
            .collect();
        let least = |phase: usize| -> Vec<f64> {
            let of = |i: usize| answers.iter().map(|a| a[phase][i]).fold(f64::NAN, f64::min);
            (0..COLUMNS.len()).map(of).collect()
        };
        if name == OURS {
            for (phase, what) in ["growing", "expiring"].iter().enumerate() {
                let what = format!("worst decision while {what} at {keys} keys, CPU µs");
                report.target("M6", &what, Bound::AtMost(50.0), least(phase)[1]);
            }
        }
        growing.push(Row::new(name, least(0)));
        expiring.push(Row::new(name, least(1)));
    }
    report.table(&format!("Pauses while {keys} String keys are added"), COLUMNS, &growing);
    report.table("Pauses while they expire and as many others are added", COLUMNS, &expiring);
}

/// A limiter on a clock that is moved by hand.
struct Aging {
    check: Box<dyn Fn(&String) -> bool>,
    /// Moves the clock so far that every key is fresh again.
    age: Box<dyn Fn()>,
    /// What its user must call from time to time, if anything.
    sweep: Option<Box<dyn Fn()>>,
}

pub fn answer(name: &str, keys: usize) -> Value {
    let aging = match NAMES.iter().position(|known| *known == name).expect("a known name") {
        0 => ours(keys),
        1 => governors(),
        _ => throttlecrabs(),
    };
    let growing = Pauses::of(&aging.check, 0..keys);
    (aging.age)();
    let mut sweep = Pauses::default();
    if let Some(call) = &aging.sweep {
        sweep.time(call);
    }
    let mut expiring = Pauses::of(&aging.check, keys..2 * keys);
    expiring.worst_cpu = expiring.worst_cpu.max(sweep.worst_cpu);
    expiring.walls.extend(sweep.walls);
    json!([growing.told(), expiring.told()])
}

fn ours(keys: usize) -> Aging {
    let clock = ManualClock::default();
    let limiter: KeyedLimiter<String, _> =
        tollgate::limiter(tollgate::quota(), keys, clock.clone());
    Aging {
        check: Box::new(move |key: &String| limiter.check(key).is_allowed()),
        age: Box::new(move || clock.advance(2 * PERIOD)),
        sweep: None,
    }
}

fn governors() -> Aging {
    let clock = FakeRelativeClock::default();
    let limiter =
        std::sync::Arc::new(RateLimiter::dashmap_with_clock(governor::quota(), clock.clone()));
    let swept = limiter.clone();
    Aging {
        check: Box::new(move |key: &String| limiter.check_key(key).is_ok()),
        age: Box::new(move || clock.advance(2 * PERIOD)),
        sweep: Some(Box::new(move || swept.retain_recent())),
    }
}

fn throttlecrabs() -> Aging {
    let start = SystemTime::now();
    let hours = std::sync::Arc::new(AtomicU64::new(0));
    let later = hours.clone();
    let limiter = Mutex::new(::throttlecrab::RateLimiter::new(PeriodicStore::new()));
    Aging {
        check: Box::new(move |key: &String| {
            let now = start + PERIOD * hours.load(Ordering::Relaxed) as u32;
            throttlecrab::check(&limiter, key, now)
        }),
        age: Box::new(move || {
            later.fetch_add(2, Ordering::Relaxed);
        }),
        sweep: None,
    }
}

/// What single calls took.
#[derive(Default)]
pub struct Pauses {
    walls: Vec<Duration>,
    worst_cpu: Duration,
}

impl Pauses {
    /// Checks each of the keys once.
    pub fn of(check: &dyn Fn(&String) -> bool, keys: std::ops::Range<usize>) -> Self {
        let mut pauses = Self { walls: Vec::with_capacity(keys.len()), ..Self::default() };
        for chunk in in_chunks::<String>(keys) {
            for key in &chunk {
                pauses.time(|| {
                    check(key);
                });
            }
        }
        pauses
    }

    fn time(&mut self, call: impl Fn()) {
        let (cpu, wall) = (cpu_time(), Instant::now());
        call();
        self.walls.push(wall.elapsed());
        self.worst_cpu = self.worst_cpu.max(cpu_time() - cpu);
    }

    /// Microseconds, as [`COLUMNS`] says.
    pub fn told(mut self) -> [f64; 3] {
        self.walls.sort_unstable();
        let micros = |duration: Duration| duration.as_secs_f64() * 1e6;
        let worst = self.walls[self.walls.len() - 1];
        let tail = self.walls[self.walls.len() - 1 - self.walls.len() / 10_000];
        [micros(worst), micros(self.worst_cpu), micros(tail)]
    }
}
