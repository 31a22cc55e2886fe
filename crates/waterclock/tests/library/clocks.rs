//! The default clock on this machine. `src/clock/guard_tests.rs` has machines that go wrong.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use waterclock::{Clock, MonotonicClock, Timestamp, TscClock};

#[test]
fn the_counter_keeps_to_the_system_clock() {
    let (tsc, system) = (TscClock::default(), MonotonicClock::default());
    let offset = |a: Timestamp, b: Timestamp| a.as_nanos() as i64 - b.as_nanos() as i64;
    let first = offset(tsc.now(), system.now());
    let until = system.now().after(Duration::from_secs(2));
    while system.now() < until {
        // Preemption between the two reads shows as distance: the smallest of a few is the drift.
        let drift = (0..20).map(|_| (offset(tsc.now(), system.now()) - first).abs()).min();
        assert!(drift < Some(1_000_000), "{drift:?} ns apart");
    }
}

/// Every thread reads it, and all see one time. A processor may read its counter a little before what stands before it
/// in the program, so threads that hand on what they read allow for that; one alone needs not.
#[test]
fn the_counter_never_goes_back() {
    const REORDERED: u64 = 10_000;
    let (clock, latest) = (TscClock::default(), AtomicU64::new(0));
    let system = MonotonicClock::default();
    let until = system.now().after(Duration::from_secs(1));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut own = Timestamp::ZERO;
                while system.now() < until {
                    for _ in 0..1_000 {
                        let seen = latest.load(Ordering::Acquire);
                        let now = clock.now();
                        assert!(now >= own, "{now:?} after {own:?}");
                        assert!(now.as_nanos() + REORDERED >= seen, "{now:?} after {seen}");
                        own = now;
                        latest.fetch_max(now.as_nanos(), Ordering::AcqRel);
                    }
                }
            });
        }
    });
}

#[test]
fn clocks_agree_with_the_wall_clock() {
    let system = MonotonicClock::default().now();
    for _ in 0..3 {
        let now = TscClock::default().now();
        assert!(now.since(system).max(system.since(now)) < Duration::from_secs(1), "{now:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
