//! So many decisions of one kind, for `bench/instructions.sh --check`: `one-decision KIND DECISIONS`.
//!
//! Always the same keys, in the same order and with the same hashes, so that callgrind always counts the same.

use std::hint::black_box;
use std::time::Duration;

use ahash::RandomState;
use waterclock::{
    Clock as _, Gcra, KeyedLimiter, LeakyBucket, Limit, Limiter, Policy, Quota, RollingWindow,
    TscClock,
};

const KEYS: usize = 10_000;
/// So long that no window ends while this runs.
const YEARS: Duration = Duration::from_secs(90 * 365 * 86_400);

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [kind, decisions] = &args[..] else {
        eprintln!("usage: one-decision KIND DECISIONS");
        std::process::exit(2);
    };
    let decisions: usize = decisions.parse().expect("a number of decisions");
    // The default clock reads `Instant` until it knows the rate of the counter, which it learns once for the process.
    let clock = TscClock::default();
    std::thread::sleep(Duration::from_millis(100));
    clock.now();
    let keys: Vec<String> = (0..KEYS).map(|i| format!("client-{:08}", i * 7_919 % KEYS)).collect();
    match kind.as_str() {
        "direct" => {
            let limiter = Limiter::new(Limit::per_second(1_000_000_000));
            run(&[()], decisions, |()| limiter.check().is_allowed());
        }
        "keyed" => {
            let limiter = keyed(Policy::from(quota()));
            run(&keys, decisions, |key| limiter.check(key).is_allowed());
        }
        "batch" => {
            let limiter = keyed(Policy::from(quota()));
            let batches: Vec<&[String]> = keys.chunks(16).collect();
            run(&batches, decisions / 16, |batch| {
                let mut admitted = 0;
                limiter.check_each(*batch, |d| admitted += usize::from(d.is_allowed()));
                admitted == 16
            });
        }
        "three" => {
            let limits = ["a", "b", "c"].map(|name| Limit::from(quota()).with_name(name));
            let limiter = keyed(Policy::new("three", limits).expect("a valid policy"));
            run(&keys, decisions, |key| limiter.check(key).is_allowed());
        }
        "quota" => {
            let limiter = keyed(Policy::from(Limit::from(
                Quota::new(1_000_000_000, YEARS).expect("a valid limit"),
            )));
            run(&keys, decisions, |key| limiter.check(key).is_allowed());
        }
        "leaky" => {
            let bucket = LeakyBucket::new(100_000, 2, Duration::from_secs(3_600));
            let limiter = keyed(Policy::from(Limit::from(bucket.expect("a valid limit"))));
            run(&keys, decisions, |key| limiter.check(key).is_allowed());
        }
        "rolling" => {
            let window = RollingWindow::new(60_000, Duration::from_secs(3_600));
            let limiter = keyed(Policy::from(Limit::from(window.expect("a valid limit"))));
            run(&keys, decisions, |key| limiter.check(key).is_allowed());
        }
        _ => panic!("direct, keyed, batch, three, quota, leaky or rolling, not {kind:?}"),
    }
}

fn quota() -> Gcra {
    Gcra::new(1, Duration::from_secs(3_600)).expect("a valid period").with_capacity(100_000)
}

fn keyed(policy: Policy) -> KeyedLimiter<String> {
    KeyedLimiter::builder(policy).hasher(RandomState::with_seeds(1, 2, 3, 4)).build()
}

/// The first decisions come before all that differ in number: keys are new.
fn run<K>(keys: &[K], decisions: usize, check: impl Fn(&K) -> bool) {
    measured(keys, KEYS, &check);
    assert_eq!(measured(keys, decisions, &check), decisions, "every decision must admit");
}

/// What callgrind counts.
#[inline(never)]
fn measured<K>(keys: &[K], decisions: usize, check: impl Fn(&K) -> bool) -> usize {
    let (mut admitted, mut rest) = (0, keys.iter());
    for _ in 0..decisions {
        let key = rest.next().unwrap_or_else(|| {
            rest = keys.iter();
            rest.next().expect("some keys")
        });
        admitted += usize::from(check(key));
    }
    black_box(admitted)
}
