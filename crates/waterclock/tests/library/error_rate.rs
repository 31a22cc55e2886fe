//! The breaker: reports open it, a probe closes it.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use waterclock::store::now_or_never;
use waterclock::{
    Charge, ErrorRate, KeyedLimiter, Limit, LimitError, Limiter, ManualClock, MemoryStore, Outcome,
    Policy, Store, Timestamp, Verb,
};

const SECOND: Duration = Duration::from_secs(1);

/// Half of at least four within a minute; ten seconds of peace.
fn breaker() -> ErrorRate {
    ErrorRate::new(5_000, 60 * SECOND, 4, 10 * SECOND).unwrap()
}

#[test]
fn opens_refuses_probes_and_closes() {
    let clock = ManualClock::default();
    let limiter = Limiter::with_clock(breaker(), clock.clone());
    assert_eq!((limiter.peek().limit(), limiter.peek().remaining()), (None, None));
    for ok in [true, true, false] {
        limiter.report(ok);
        assert!(limiter.check_n(1_000).is_allowed(), "checks consume nothing");
    }
    limiter.report(Outcome::Error);
    let refused = limiter.check();
    assert_eq!((refused.remaining(), refused.retry_after()), (Some(0), Some(10 * SECOND)));
    assert_eq!(refused.reset_after(), 70 * SECOND);
    limiter.report(true);
    assert!(!limiter.check().is_allowed(), "late results are no probe's");

    clock.advance(10 * SECOND);
    assert!(limiter.peek().is_allowed() && limiter.peek().is_allowed());
    assert!(limiter.check().is_allowed(), "the probe");
    assert_eq!(limiter.check().retry_after(), Some(10 * SECOND), "one at a time");
    clock.advance(SECOND);
    limiter.report(false);
    assert_eq!(limiter.check().retry_after(), Some(10 * SECOND), "open again, from now");

    clock.advance(10 * SECOND);
    assert!(limiter.check().is_allowed(), "a probe that is lost");
    clock.advance(10 * SECOND);
    assert!(limiter.check().is_allowed(), "the next probe");
    limiter.report(true);
    assert_eq!(limiter.check().reset_after(), Duration::ZERO, "closed, and all is forgotten");
    limiter.report(false);
    assert!(limiter.check().is_allowed());
}

#[test]
fn a_breaker_without_probes_is_dropped_in_the_end() {
    let clock = ManualClock::default();
    let limiter: KeyedLimiter<str, _> =
        KeyedLimiter::builder(breaker()).max_keys(4).clock(clock.clone()).build();
    (0..4).for_each(|_| limiter.report("api", false));
    assert!(!limiter.check("api").is_allowed() && limiter.check("other").is_allowed());
    clock.advance(70 * SECOND - Duration::from_nanos(1));
    limiter.sweep();
    assert_eq!(limiter.len(), 1);
    clock.advance(Duration::from_nanos(1));
    limiter.sweep();
    assert!(limiter.is_empty());
    assert!((0..9).all(|_| limiter.check("api").is_allowed()), "closed, not probing");
}

#[test]
fn only_one_of_many_threads_is_the_probe() {
    let clock = ManualClock::default();
    clock.set(Timestamp::from_nanos(1 << 60));
    let limiter = Limiter::with_clock(breaker(), clock.clone());
    for _ in 0..50 {
        (0..4).for_each(|_| limiter.report(false));
        clock.advance(10 * SECOND);
        let probes = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..20 {
                        let probe = u32::from(limiter.check().is_allowed());
                        probes.fetch_add(probe, Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(probes.into_inner(), 1);
        limiter.report(true);
    }
}

#[tokio::test]
async fn in_a_store_reports_count_by_their_cost_and_survive_a_restart() {
    let clock = ManualClock::default();
    let store = MemoryStore::new(16, clock.clone());
    let policy = || {
        let limits = [Limit::from(breaker()), Limit::per_hour(5).into()];
        Policy::new("api", limits).unwrap()
    };
    store.set_policy(policy()).await.unwrap();
    let charge = |cost: u64| [Charge::new("api", b"alice", cost)];
    let report = |outcome| Verb::Report(outcome);
    store.apply(report(Outcome::Ok), &charge(3)).await.unwrap();
    let answers = store.apply(report(Outcome::Error), &charge(2)).await.unwrap();
    assert!(answers[0].decision.is_allowed(), "two of five");
    let limits = &answers[0].limits;
    assert_eq!((limits[0].limit, limits[0].remaining), (None, None));
    assert_eq!(limits[1].remaining, Some(5), "a report costs nothing");

    let mut snapshot = Vec::new();
    store.snapshot(&mut snapshot).unwrap();
    let other = MemoryStore::new(16, clock.clone());
    other.set_policy(policy()).await.unwrap();
    other.restore(&mut &*snapshot).unwrap();
    for store in [&store, &other] {
        let answers = store.apply(report(Outcome::Error), &charge(1)).await.unwrap();
        assert!(!answers[0].decision.is_allowed(), "three of six");
        assert!(!now_or_never(store.check_n("api", b"alice", 1)).unwrap().unwrap().is_allowed());
        assert_eq!(
            now_or_never(store.peek_n("api", b"alice", 0)).unwrap().unwrap().remaining(),
            Some(0)
        );
    }
    clock.advance(10 * SECOND);
    // A check that another limit refuses is no probe.
    assert!(!now_or_never(store.check_n("api", b"alice", 6)).unwrap().unwrap().is_allowed());
    assert!(now_or_never(store.check_n("api", b"alice", 5)).unwrap().unwrap().is_allowed());
    store.apply(Verb::Reset, &charge(0)).await.unwrap();
    assert!(now_or_never(store.check_n("api", b"alice", 5)).unwrap().unwrap().is_allowed());
}

#[test]
fn an_open_breaker_stays_open_when_the_policy_changes() {
    let limiter: KeyedLimiter<str, _> =
        KeyedLimiter::builder(breaker()).clock(ManualClock::default()).build();
    (0..4).for_each(|_| limiter.report("open", false));
    (0..3).for_each(|_| limiter.report("closed", false));
    limiter.set_policy(ErrorRate::new(9_000, 60 * SECOND, 4, 20 * SECOND).unwrap());
    assert_eq!(limiter.check("open").retry_after(), Some(20 * SECOND));
    assert!(limiter.check("closed").is_allowed());
    limiter.report("closed", false);
    assert!(!limiter.check("closed").is_allowed(), "what was reported before still counts");
}

#[test]
fn numbers_that_make_no_sense_are_refused() {
    let new = |threshold, samples| ErrorRate::new(threshold, SECOND, samples, SECOND);
    assert!(new(1, 1).is_ok() && new(10_000, 65_536).is_ok());
    assert_eq!(new(0, 1), Err(LimitError::Threshold));
    assert_eq!(new(10_001, 1), Err(LimitError::Threshold));
    assert_eq!(new(1, 0), Err(LimitError::ZeroUnits("min_samples")));
    assert_eq!(new(1, 65_537), Err(LimitError::ManySamples));
    let no_peace = ErrorRate::new(1, SECOND, 1, Duration::ZERO);
    assert_eq!(no_peace, Err(LimitError::ZeroPeriod("cool_down")));
}
