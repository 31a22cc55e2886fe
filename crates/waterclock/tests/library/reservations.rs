//! Holding an estimate and settling the truth.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use waterclock::store::now_or_never;
use waterclock::{
    Charge, Cost, Failure, FixedWindow, Hold, KeyedLimiter, Limiter, ManualClock, MemoryStore,
    Mode, OnExpiry, Policy, Reserved, Settlement, Store, StoreError, Verb,
};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);

fn hourly(name: &str, limit: u64) -> Policy {
    Policy::new(name, [FixedWindow::new(limit, HOUR).unwrap()]).unwrap()
}

async fn store() -> (MemoryStore<ManualClock>, ManualClock) {
    let clock = ManualClock::default();
    let store = MemoryStore::new(100, clock.clone());
    store.set_policy(hourly("user", 10)).await.unwrap();
    store.set_policy(hourly("all", 15)).await.unwrap();
    (store, clock)
}

fn charge<'a>(policy: &'a str, key: &'a str, cost: u64) -> Charge<'a> {
    Charge::new(policy, key.as_bytes(), cost)
}

fn hold<'a>(id: Option<&'a str>, charges: &'a [Charge<'a>]) -> Hold<'a> {
    Hold { id, ttl: Some(SECOND), charges, on_expiry: OnExpiry::Keep }
}

fn left(store: &MemoryStore<ManualClock>, policy: &str, key: &str) -> u64 {
    now_or_never(store.peek_n(policy, key.as_bytes(), 1)).unwrap().unwrap().remaining().unwrap()
}

#[test]
fn a_guard_settles_what_was_used() {
    let clock = ManualClock::default();
    let limiter = Limiter::with_clock(FixedWindow::new(100, HOUR).unwrap(), clock.clone());
    let left = || limiter.peek().remaining().unwrap();
    let held = limiter.reserve_n(80).unwrap();
    assert_eq!((held.decision().granted(), left()), (80, 20));
    held.commit(63);
    assert_eq!(left(), 37);
    limiter.reserve_n(30).unwrap().commit(50);
    assert_eq!(left(), 0, "more than was held is owed");
    assert_eq!(limiter.check().retry_after(), Some(HOUR));
    limiter.refund(63);
    assert_eq!(left(), 50);
    limiter.reserve().unwrap().cancel();
    assert_eq!(left(), 50);
    drop(limiter.reserve_n(40).unwrap());
    assert_eq!(left(), 10, "dropped, it stays charged");
    let refused = limiter.reserve_n(11).unwrap_err();
    assert_eq!((refused.is_allowed(), refused.remaining()), (false, Some(10)));
    // Time as cost: the estimate is ten, and it takes three and a bit.
    let held = limiter.reserve_n(10).unwrap();
    clock.advance(Duration::from_micros(3_200));
    assert_eq!(held.elapsed(), Duration::from_micros(3_200));
    held.commit_elapsed();
    assert_eq!(left(), 6);
}

#[test]
fn keys_hold_their_own_and_nary_holds_what_fits() {
    let policy = hourly("p", 10).with_mode(Mode::Partial).unwrap();
    let limiter: KeyedLimiter<str, _> =
        KeyedLimiter::builder(policy).clock(ManualClock::default()).build();
    let part = limiter.reserve_n("alice", 25).unwrap();
    assert_eq!(part.decision().granted(), 10);
    assert!(limiter.reserve("alice").is_err());
    assert!(limiter.reserve("bob").is_ok());
    part.commit(4);
    assert_eq!(limiter.peek("alice").remaining(), Some(6));
}

#[test]
fn a_reservation_outlives_a_policy_change() {
    let limiter: KeyedLimiter<str, _> =
        KeyedLimiter::builder(hourly("p", 10)).clock(ManualClock::default()).build();
    let (same, renamed) = (limiter.reserve_n("a", 8).unwrap(), limiter.reserve_n("b", 8).unwrap());
    limiter.set_policy(hourly("p", 20));
    same.commit(3);
    assert_eq!(limiter.peek("a").remaining(), Some(17));
    let other = FixedWindow::new(20, HOUR).unwrap().with_name("another");
    limiter.set_policy(Policy::new("p", [other]).unwrap());
    renamed.commit(20);
    assert_eq!(limiter.peek("b").remaining(), Some(20), "what starts fresh was never held");
}

#[test]
fn a_refund_lets_waits_pass() {
    let limiter = Limiter::new(FixedWindow::new(2, HOUR).unwrap());
    let held = limiter.reserve_n(2).unwrap();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| limiter.wait().block());
        // However late the other thread comes: before or after, it passes.
        std::thread::sleep(Duration::from_millis(20));
        held.commit(1);
        waits.join().unwrap().unwrap();
    });
    assert_eq!(limiter.peek().remaining(), Some(0));
}

#[tokio::test]
async fn several_keys_are_held_together_or_not_at_all() {
    let (store, _) = store().await;
    let both = [charge("user", "alice", 8), charge("all", "", 8), charge("user", "alice", 1)];
    let reserved = store.reserve(&hold(Some("order-1"), &both)).await.unwrap();
    assert_eq!(reserved.id.as_deref(), Some("order-1"));
    assert_eq!((left(&store, "user", "alice"), left(&store, "all", "")), (1, 7));
    let refused = store.reserve(&hold(None, &both)).await.unwrap();
    assert_eq!((refused.id, refused.answers.len()), (None, 3));
    assert!(refused.answers.iter().all(|answer| !answer.decision.is_allowed()));
    assert_eq!((left(&store, "user", "alice"), left(&store, "all", "")), (1, 7));
    assert_eq!((store.reservations_of("user"), store.reservations_of("all")), (1, 1));
    for (name, held) in store.reservations() {
        assert_eq!(held, store.reservations_of(&name), "{name}");
    }
    assert_eq!(store.reservations().get("user"), Some(&1));

    let wrong = store.settle("order-1", Settlement::Commit(&[1.into()])).await.unwrap_err();
    assert!(wrong.to_string().contains("holds 3 charges, but 1 costs"), "{wrong}");
    let settled =
        store.settle("order-1", Settlement::Commit(&[2, 10, 1].map(Cost::from))).await.unwrap();
    assert_eq!(settled.held, [9, 8, 9]);
    assert_eq!(settled.used, [2, 10, 1]);
    assert_eq!((left(&store, "user", "alice"), left(&store, "all", "")), (7, 5));
    assert_eq!(store.reservations_of("user"), 0);
}

#[tokio::test]
async fn asked_again_it_is_the_same_and_settled_again_nothing_changes() {
    let (store, clock) = store().await;
    let four = [charge("user", "alice", 4)];
    let first = store.reserve(&hold(Some("r"), &four)).await.unwrap();
    clock.advance(SECOND / 4);
    let again = store.reserve(&hold(Some("r"), &four)).await.unwrap();
    assert_eq!((&again.id, again.expires_in), (&first.id, SECOND * 3 / 4));
    assert_eq!(again.answers[0].decision.granted(), 4);
    assert_eq!(left(&store, "user", "alice"), 6, "charged once");
    for other in [charge("user", "alice", 5), charge("user", "bob", 4), charge("all", "alice", 4)] {
        let error = store.reserve(&hold(Some("r"), &[other])).await.unwrap_err();
        assert!(
            matches!(&error, StoreError::BadReservation(why) if why.to_string().contains("`r`")),
            "{error}"
        );
    }
    let committed = store.settle("r", Settlement::Commit(&[1.into()])).await.unwrap();
    for with in
        [Settlement::Commit(&[1.into()]), Settlement::Commit(&[9.into()]), Settlement::Cancel]
    {
        assert_eq!(store.settle("r", with).await.unwrap(), committed);
    }
    assert_eq!(left(&store, "user", "alice"), 9);
    clock.advance(SECOND * 3 / 4);
    let unknown = StoreError::UnknownReservation("r".to_owned());
    assert_eq!(store.settle("r", Settlement::Cancel).await.unwrap_err(), unknown);
    assert_eq!(
        store.settle("x", Settlement::Cancel).await.unwrap_err().to_string(),
        "there is no reservation `x`; it was never made, or its time is over"
    );
    // The name is free again.
    assert!(store.reserve(&hold(Some("r"), &four)).await.unwrap().id.is_some());
    assert_eq!(left(&store, "user", "alice"), 5);
}

#[tokio::test]
async fn a_holder_that_is_gone_keeps_what_it_held_unless_it_is_to_be_released() {
    let (store, clock) = store().await;
    let handle = store.policy("user").unwrap();
    let (kept, released) = ([charge("user", "kept", 4)], [charge("user", "released", 4)]);
    let release = |charges| Hold { on_expiry: OnExpiry::Release, ..hold(None, charges) };
    store.reserve(&hold(None, &kept)).await.unwrap();
    for _ in 0..2 {
        store.reserve(&release(&released)).await.unwrap();
    }
    clock.advance(SECOND - Duration::from_nanos(1));
    assert_eq!((left(&store, "user", "kept"), left(&store, "user", "released")), (6, 2));
    clock.advance(Duration::from_nanos(1));
    assert_eq!((left(&store, "user", "kept"), left(&store, "user", "released")), (6, 10));
    assert_eq!(store.reservations_of("user"), 1);
    // Whatever the call, the units were given back before it.
    for ask in 0..4 {
        store.apply(Verb::Reset, &released).await.unwrap();
        assert!(store.reserve(&release(&released)).await.unwrap().id.is_some());
        clock.advance(SECOND);
        let granted = match ask {
            0 => now_or_never(store.check_n("user", b"released", 10)).unwrap().unwrap().granted(),
            1 => handle.check(b"released", 10).granted(),
            2 => handle.check_batch([(&b"released"[..], 10)])[0].granted(),
            _ => {
                let all = [charge("user", "released", 10)];
                store.apply(Verb::Check, &all).await.unwrap()[0].decision.granted()
            }
        };
        assert_eq!(granted, 10, "{ask}");
    }
}

#[tokio::test]
async fn thousands_that_expire_at_once_are_given_back() {
    let (store, clock) = store().await;
    store.set_max_reservations(10_000);
    let keys: Vec<String> = (0..50).map(|key| format!("key {key}")).collect();
    store.set_policy(hourly("many", 100)).await.unwrap();
    for turn in 0..5_000 {
        let one = [charge("many", &keys[turn % 50], 1)];
        let hold = Hold { on_expiry: OnExpiry::Release, ..hold(None, &one) };
        assert!(store.reserve(&hold).await.unwrap().id.is_some());
    }
    assert!(keys.iter().all(|key| left(&store, "many", key) == 0));
    clock.advance(SECOND);
    assert!(keys.iter().rev().all(|key| left(&store, "many", key) == 100));
    assert_eq!(store.reservations_of("many"), 0);
}

/// Of very many that end at once only some are given back by the next calls. One that is left when its id
/// is taken again is given back all the same.
#[tokio::test]
async fn an_id_that_is_taken_again_leaves_nothing_held() {
    fn release<'a>(id: &'a str, charges: &'a [Charge<'a>]) -> Hold<'a> {
        Hold { on_expiry: OnExpiry::Release, ..hold(Some(id), charges) }
    }
    let (store, clock) = store().await;
    store.set_policy(hourly("many", 100)).await.unwrap();
    for sooner in 0..100 {
        let id = format!("sooner-{sooner}");
        store.reserve(&release(&id, &[charge("many", "", 1)])).await.unwrap();
    }
    clock.advance(SECOND / 2);
    store.reserve(&release("r", &[charge("user", "alice", 4)])).await.unwrap();
    clock.advance(SECOND);
    store.reserve(&release("r", &[charge("user", "bob", 3)])).await.unwrap();
    assert_eq!((left(&store, "user", "alice"), left(&store, "user", "bob")), (10, 7));
    clock.advance(SECOND);
    assert_eq!(left(&store, "user", "bob"), 10);
}

#[tokio::test]
async fn a_full_book_charges_nothing_and_has_room_again_later() {
    let (store, clock) = store().await;
    store.set_max_reservations(3);
    let one = [charge("user", "alice", 1)];
    for _ in 0..3 {
        let id = store.reserve(&hold(None, &one)).await.unwrap().id.unwrap();
        store.settle(&id, Settlement::Commit(&[1.into()])).await.unwrap();
    }
    let error = store.reserve(&hold(None, &one)).await.unwrap_err();
    assert_eq!(error.failure(), Some(Failure::Overloaded), "{error}");
    assert_eq!(left(&store, "user", "alice"), 7);
    clock.advance(SECOND);
    assert!(store.reserve(&hold(None, &one)).await.unwrap().id.is_some());
}

#[tokio::test]
async fn ids_and_times_out_of_bounds_are_refused_with_a_sentence() {
    let (store, _) = store().await;
    let one = [charge("user", "alice", 1)];
    let try_id = async |id: &str| store.reserve(&hold(Some(id), &one)).await;
    assert!(try_id(&"x".repeat(128)).await.is_ok());
    for id in ["", "with space", "é", "\n", &"x".repeat(129)] {
        assert!(matches!(try_id(id).await, Err(StoreError::BadReservation(_))), "{id:?}");
    }
    let try_ttl = async |ttl| store.reserve(&Hold { ttl: Some(ttl), ..hold(None, &one) }).await;
    let (shortest, longest, tick) = (Duration::from_millis(1), 24 * HOUR, Duration::from_nanos(1));
    assert!(try_ttl(shortest).await.is_ok() && try_ttl(longest).await.is_ok());
    for ttl in [shortest - tick, longest + tick] {
        assert!(matches!(try_ttl(ttl).await, Err(StoreError::BadReservation(_))), "{ttl:?}");
    }
    assert!(matches!(store.reserve(&hold(None, &[])).await, Err(StoreError::BadReservation(_))));
    let unknown = store.reserve(&hold(None, &[charge("nope", "", 1)])).await;
    assert_eq!(unknown, Err(StoreError::UnknownPolicy("nope".to_owned())));
    assert_eq!(left(&store, "user", "alice"), 7, "three were held");
    let Reserved { id, expires_in, .. } =
        store.reserve(&Hold { ttl: None, ..hold(None, &one) }).await.unwrap();
    let id = id.unwrap();
    assert!(id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{id}");
    assert_eq!(expires_in, 60 * SECOND);
}

#[test]
fn parallel_holders_lose_and_make_nothing() {
    let store = MemoryStore::default();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(store.set_policy(hourly("all", 1 << 40))).unwrap();
    let kept = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (store, kept) = (&store, &kept);
            scope.spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
                let mut dice = fastrand::Rng::with_seed(thread);
                for _ in 0..2_000 {
                    let (cost, used) = (dice.u64(1..20), dice.u64(0..20));
                    let charges = [charge("all", "", cost)];
                    let ttl = Some(Duration::from_millis(dice.u64(1..3)));
                    let release = dice.bool();
                    let on_expiry = if release { OnExpiry::Release } else { OnExpiry::Keep };
                    let hold = Hold { id: None, ttl, charges: &charges, on_expiry };
                    let id = runtime.block_on(store.reserve(&hold)).unwrap().id.unwrap();
                    let settled = match dice.u8(0..3) {
                        0 => runtime.block_on(store.settle(&id, Settlement::Cancel)).ok(),
                        1 => runtime
                            .block_on(store.settle(&id, Settlement::Commit(&[used.into()])))
                            .ok(),
                        _ => None,
                    };
                    let units = match settled {
                        Some(settled) => settled.used[0].most(),
                        None if release => 0,
                        None => cost,
                    };
                    kept.fetch_add(units, Ordering::Relaxed);
                }
            });
        }
    });
    std::thread::sleep(Duration::from_millis(5));
    let left = now_or_never(store.peek_n("all", b"", 1)).unwrap().unwrap().remaining().unwrap();
    assert_eq!((1 << 40) - left, kept.into_inner());
}
