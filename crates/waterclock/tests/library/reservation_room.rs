//! How much reservations may take, and whose room it is.

use std::time::Duration;

use waterclock::{
    BadReservation, Charge, Cost, Failure, FixedWindow, Hold, Limit, ManualClock, MemoryStore,
    OnExpiry, Policy, Reserved, Settlement, Store, StoreError,
};

const SECOND: Duration = Duration::from_secs(1);

fn daily(name: &str) -> Policy {
    Policy::new(name, [FixedWindow::new(1_000_000, 86_400 * SECOND).unwrap()]).unwrap()
}

async fn store(max: usize, policies: &[&str]) -> (MemoryStore<ManualClock>, ManualClock) {
    let clock = ManualClock::default();
    let store = MemoryStore::new(1_000, clock.clone());
    store.set_max_reservations(max);
    for policy in policies {
        store.set_policy(daily(policy)).await.unwrap();
    }
    (store, clock)
}

fn charge<'a>(policy: &'a str, key: &'a str, cost: u64) -> Charge<'a> {
    Charge::new(policy, key.as_bytes(), cost)
}

async fn reserve(
    store: &MemoryStore<ManualClock>,
    charges: &[Charge<'_>],
) -> Result<Reserved, StoreError> {
    let (ttl, on_expiry) = (Some(SECOND), OnExpiry::Keep);
    store.reserve(&Hold { id: None, ttl, charges, on_expiry }).await
}

/// How many reservations like this are made until there is no room.
async fn until_full(store: &MemoryStore<ManualClock>, charges: &[Charge<'_>]) -> usize {
    for made in 0..10_000 {
        match reserve(store, charges).await {
            Ok(reserved) => assert!(reserved.id.is_some()),
            Err(error) => {
                assert_eq!(error.failure(), Some(Failure::Overloaded), "{error}");
                assert!(
                    !error.may_have_charged() && error.to_string().contains(" KiB "),
                    "{error}"
                );
                return made;
            }
        }
    }
    panic!("there is no bound");
}

#[tokio::test]
async fn a_cost_of_nothing_is_an_error_that_names_report() {
    let (store, _) = store(8, &["a", "b"]).await;
    let nothing = [charge("a", "k", 0), charge("b", "k", 0)];
    for charges in [&nothing[..1], &nothing] {
        let error = reserve(&store, charges).await.unwrap_err();
        assert_eq!(error, BadReservation::NoCost.into());
        assert!(error.to_string().contains("`report`"), "{error}");
    }
    // Beside others it is a peek that may be settled with what was used.
    let held = reserve(&store, &[charge("a", "k", 1), charge("b", "k", 0)]).await.unwrap();
    let used: [Cost; 2] = [1.into(), 7.into()];
    let settled = store.settle(&held.id.unwrap(), Settlement::Commit(&used)).await.unwrap();
    assert_eq!(settled.held, [1_u64, 0]);
    assert_eq!(settled.used, used);
    let left = store.peek("b", "k").await.unwrap().remaining();
    assert_eq!(left, Some(1_000_000 - 7));
}

/// Two policies and eight places: two are kept for each, four are lent.
#[tokio::test]
async fn a_flood_under_one_policy_leaves_another_its_share() {
    let (store, clock) = store(8, &["flood", "calm"]).await;
    let (flood, calm) = ([charge("flood", "k", 1)], [charge("calm", "k", 1)]);
    assert_eq!(until_full(&store, &flood).await, 6);
    assert_eq!(until_full(&store, &calm).await, 2);
    assert_eq!(store.peek("calm", "k").await.unwrap().remaining(), Some(1_000_000 - 2));
    // Settled ones stay until they expire, and then there is room again.
    clock.advance(SECOND);
    assert_eq!(until_full(&store, &calm).await, 6);
    assert_eq!(until_full(&store, &flood).await, 2);
    clock.advance(SECOND);
    // A policy more: its share comes from those of the others.
    store.set_policy(daily("third")).await.unwrap();
    assert_eq!(until_full(&store, &flood).await, 6);
    for policy in ["calm", "third"] {
        assert_eq!(until_full(&store, &[charge(policy, "k", 1)]).await, 1, "{policy}");
    }
}

#[tokio::test]
async fn over_several_policies_it_takes_places_of_each() {
    let (store, _) = store(8, &["flood", "calm"]).await;
    let both = [charge("flood", "k", 1), charge("calm", "k", 1)];
    assert_eq!(until_full(&store, &both).await, 4);
    for policy in ["flood", "calm"] {
        assert_eq!(until_full(&store, &[charge(policy, "k", 1)]).await, 0);
        let left = store.peek(policy, "k").await.unwrap().remaining();
        assert_eq!(left, Some(1_000_000 - 4), "what finds no room charges nothing");
    }
}

/// The bound counts what is kept, not calls.
#[tokio::test]
async fn many_charges_take_many_places() {
    let (store, clock) = store(1_024, &["p"]).await;
    let keys: Vec<String> = (0..1_024).map(|key| format!("key {key}")).collect();
    let many: Vec<Charge<'_>> = keys.iter().map(|key| charge("p", key, 1)).collect();
    let made = until_full(&store, &many).await;
    assert!((2..8).contains(&made), "{made}");
    assert!(store.reservation_bytes() <= 1_024 * 1_024, "{}", store.reservation_bytes());
    assert!(store.reservation_bytes() > made * 1_024 * 200, "{}", store.reservation_bytes());
    clock.advance(SECOND);
    assert_eq!(until_full(&store, &[charge("p", "k", 1)]).await, 1_024);
    clock.advance(SECOND);
    // A few are dropped by each call.
    for _ in 0..256 {
        _ = store.settle("unknown", Settlement::Cancel).await;
        reserve(&store, &[charge("p", "k", 1)]).await.unwrap();
    }
    clock.advance(SECOND);
    reserve(&store, &[charge("p", "k", 1)]).await.unwrap();
}

#[tokio::test]
async fn expired_ones_that_are_released_go_first_too() {
    let (store, clock) = store(512, &["p"]).await;
    let one = [charge("p", "k", 1)];
    for _ in 0..512 {
        let hold =
            Hold { id: None, ttl: Some(SECOND), charges: &one, on_expiry: OnExpiry::Release };
        store.reserve(&hold).await.unwrap();
    }
    assert_eq!(until_full(&store, &one).await, 0);
    clock.advance(SECOND);
    assert_eq!(until_full(&store, &one).await, 512);
    assert_eq!(store.peek("p", "k").await.unwrap().remaining(), Some(1_000_000 - 512));
}

/// Of a policy without limits nothing is kept, but it has its cost to commit.
#[tokio::test]
async fn what_nothing_limits_is_settled_without_a_line() {
    let (store, _) = store(8, &["p"]).await;
    store.set_policy(Policy::new("free", Vec::<Limit>::new()).unwrap()).await.unwrap();
    let charges = [charge("free", "a", 5), charge("p", "k", 2), charge("free", "b", 3)];
    let (ttl, on_expiry) = (Some(SECOND), OnExpiry::Keep);
    let hold = Hold { id: Some("mine"), ttl, charges: &charges, on_expiry };
    for _ in 0..2 {
        let reserved = store.reserve(&hold).await.unwrap();
        let granted: Vec<u64> = reserved.answers.iter().map(|a| a.decision.granted()).collect();
        assert_eq!((reserved.id.as_deref(), granted), (Some("mine"), vec![5, 2, 3]));
    }
    assert_eq!(store.reservations_of("free"), 0);
    let wrong = store.settle("mine", Settlement::Commit(&[1.into()])).await;
    assert!(matches!(
        wrong,
        Err(StoreError::BadReservation(BadReservation::Costs { charges: 3, costs: 1, .. }))
    ));
    let used: Vec<Cost> = vec![50.into(), 1.into(), 0.into()];
    for with in [Settlement::Commit(&used), Settlement::Cancel] {
        let settled = store.settle("mine", with).await.unwrap();
        assert_eq!((settled.is_cancelled, &settled.used), (false, &used));
        assert_eq!(settled.held, [5_u64, 2, 3]);
    }
    assert_eq!(store.peek("p", "k").await.unwrap().remaining(), Some(1_000_000 - 1));
}
