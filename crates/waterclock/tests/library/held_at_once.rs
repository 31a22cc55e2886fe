//! So many at once: leases that end with their guard, their reservation or their time.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use waterclock::store::now_or_never;
use waterclock::{
    Charge, Concurrency, FixedWindow, Hold, KeyedLimiter, Limit, LimitError, Limiter, ManualClock,
    MemoryStore, OnExpiry, Policy, Settlement, Store, StoreError, Verb,
};

const SECOND: Duration = Duration::from_secs(1);

fn two_at_once() -> Limit {
    Concurrency::new(2, 10 * SECOND).unwrap().into()
}

#[test]
fn a_guard_frees_its_place_however_it_ends() {
    let clock = ManualClock::default();
    let limiter = Limiter::with_clock(two_at_once(), clock.clone());
    let free = || limiter.peek().remaining().unwrap();
    let first = limiter.reserve().unwrap();
    clock.advance(SECOND);
    let second = limiter.reserve().unwrap();
    let refused = limiter.reserve().unwrap_err();
    assert_eq!((free(), refused.retry_after()), (0, Some(9 * SECOND)));
    assert_eq!(refused.reset_after(), 10 * SECOND);
    drop(first);
    assert_eq!(free(), 1);
    second.commit(1_000);
    assert_eq!(free(), 2, "whatever was used");
    limiter.reserve_n(2).unwrap().cancel();
    assert_eq!(free(), 2);
    // A holder whose lease has expired holds nothing, and frees no other holder's place.
    let lost = limiter.reserve_n(2).unwrap();
    clock.advance(10 * SECOND);
    let next = limiter.reserve_n(2).unwrap();
    drop(lost);
    assert_eq!(free(), 0);
    drop(next);
    assert!(limiter.reserve_n(3).unwrap_err().retry_after().is_none(), "never so many");
}

#[test]
fn a_panic_frees_its_place_too() {
    let limiter = Limiter::new(two_at_once());
    let work = || {
        let _held = limiter.reserve_n(2).unwrap();
        panic!("this is what the test is about");
    };
    assert!(std::thread::scope(|scope| scope.spawn(work).join()).is_err());
    assert_eq!(limiter.peek().remaining(), Some(2));
}

#[test]
fn a_check_is_refused_for_ever_and_a_peek_tells_what_is_free() {
    let limiter: KeyedLimiter<str> = KeyedLimiter::new(two_at_once());
    for _ in 0..2 {
        let refused = limiter.check("alice");
        assert_eq!((refused.is_allowed(), refused.retry_after()), (false, None));
        assert_eq!(refused.refused_by().iter().collect::<Vec<_>>(), [0]);
        assert!(limiter.peek_n("alice", 2).is_allowed());
        let _held = limiter.reserve("alice").unwrap();
        assert!(!limiter.peek_n("alice", 2).is_allowed());
        limiter.refund("alice", 1);
        assert_eq!(limiter.peek("alice").remaining(), Some(1), "a refund frees no place");
    }
    assert!(limiter.wait("alice").block().is_err());
    let candidate = two_at_once().with_name("candidate").with_shadow(true);
    let both = [FixedWindow::new(1, SECOND).unwrap().into(), candidate];
    let limiter = Limiter::new(Policy::new("both", both).unwrap());
    assert!(limiter.check().is_allowed(), "in shadow it refuses nothing");
}

#[test]
fn beside_another_limit_only_the_place_is_given_back() {
    let daily = FixedWindow::new(3, 86_400 * SECOND).unwrap();
    let both = Policy::new("jobs", [two_at_once(), Limit::from(daily)]).unwrap();
    let limiter = Limiter::new(both);
    for left in [2, 1, 0] {
        drop(limiter.reserve().unwrap());
        assert_eq!(limiter.peek().remaining(), Some(left), "two at once, three a day");
    }
    assert!(limiter.reserve().is_err());
}

#[test]
fn a_place_outlives_a_change_of_the_policy() {
    let limiter: KeyedLimiter<str> = KeyedLimiter::new(two_at_once());
    let held = limiter.reserve_n("alice", 2).unwrap();
    limiter.set_policy(Concurrency::new(5, SECOND).unwrap());
    assert_eq!(limiter.peek("alice").remaining(), Some(3));
    held.cancel();
    assert_eq!(limiter.peek("alice").remaining(), Some(5));
}

#[tokio::test]
async fn a_store_leases_for_as_long_as_the_lease_at_most() {
    let clock = ManualClock::default();
    let store = MemoryStore::new(16, clock.clone());
    store.set_policy(Policy::new("jobs", [two_at_once()]).unwrap()).await.unwrap();
    let one = [Charge::new("jobs", b"alice", 1)];
    let hold = |ttl| Hold { id: None, ttl, charges: &one, on_expiry: OnExpiry::Keep };
    let sentence = "`jobs` has a concurrency limit, which only a reservation can hold; reserve instead of \
                    checking";
    let checked = store.apply(Verb::Check, &one).await.unwrap_err();
    assert_eq!(checked, StoreError::reserves_only("jobs"));
    assert_eq!(checked.to_string(), sentence);
    assert_eq!(now_or_never(store.check_n("jobs", b"alice", 1)).unwrap().unwrap_err(), checked);
    assert!(store.apply(Verb::Peek, &one).await.unwrap()[0].decision.is_allowed());

    let first = store.reserve(&hold(None)).await.unwrap();
    assert_eq!(first.expires_in, 10 * SECOND);
    store.reserve(&hold(Some(2 * SECOND))).await.unwrap();
    let refused = store.reserve(&hold(None)).await.unwrap();
    assert_eq!(refused.id, None);
    assert_eq!(refused.answers[0].decision.retry_after(), Some(2 * SECOND));
    let too_long = store.reserve(&hold(Some(11 * SECOND))).await.unwrap_err();
    assert_eq!(too_long.to_string(), "policy `jobs` leases for 10s at most, not for 11s");
    store.settle(&first.id.unwrap(), Settlement::Commit(&[7.into()])).await.unwrap();
    let free = || now_or_never(store.peek_n("jobs", b"alice", 1)).unwrap().unwrap().remaining();
    assert_eq!(free(), Some(1));
    clock.advance(2 * SECOND);
    assert_eq!(free(), Some(2));

    // Leases survive a restart, and end by themselves.
    store.reserve(&hold(None)).await.unwrap();
    let mut snapshot = Vec::new();
    store.snapshot(&mut snapshot).unwrap();
    let other = MemoryStore::new(16, clock.clone());
    other.set_policy(Policy::new("jobs", [two_at_once()]).unwrap()).await.unwrap();
    other.restore(&mut &*snapshot).unwrap();
    assert_eq!(
        now_or_never(other.peek_n("jobs", b"alice", 1)).unwrap().unwrap().remaining(),
        Some(1)
    );
    clock.advance(10 * SECOND);
    assert_eq!(
        now_or_never(other.peek_n("jobs", b"alice", 1)).unwrap().unwrap().remaining(),
        Some(2)
    );
}

#[test]
fn numbers_that_make_no_sense_are_refused() {
    assert!(Concurrency::new(65_536, SECOND).is_ok());
    assert_eq!(Concurrency::new(65_537, SECOND), Err(LimitError::ManyHolders));
    assert_eq!(Concurrency::new(0, SECOND), Err(LimitError::ZeroUnits("limit")));
    assert_eq!(Concurrency::new(1, Duration::ZERO), Err(LimitError::ZeroPeriod("lease")));
}

#[test]
fn threads_are_never_more_at_once_than_allowed() {
    let limiter: KeyedLimiter<str> = KeyedLimiter::new(Concurrency::new(3, 60 * SECOND).unwrap());
    let (inside, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..2_000 {
                    if let Ok(_held) = limiter.reserve("alice") {
                        most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        std::thread::yield_now();
                        inside.fetch_sub(1, Ordering::SeqCst);
                    }
                }
            });
        }
    });
    assert!((1..=3).contains(&most.into_inner()));
    assert_eq!(limiter.peek("alice").remaining(), Some(3));
}
