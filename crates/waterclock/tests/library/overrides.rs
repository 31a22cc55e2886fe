//! Limits of single keys, and factors of single calls: both share what the key has spent.

use std::time::Duration;

use waterclock::{
    Answer, Charge, Factor, KeyOverride, LeakyBucket, Limit, ManualClock, MemoryStore, Migration,
    Override, Policy, RollingWindow, Store, StoreError, Verb,
};

fn now<T>(future: impl Future<Output = T>) -> T {
    waterclock::store::now_or_never(future).expect("it answers at once")
}

const MINUTE: Duration = Duration::from_secs(60);

fn factor(text: &str) -> Option<Factor> {
    Some(text.parse().expect("a factor"))
}

fn store(clock: &ManualClock) -> MemoryStore<ManualClock> {
    let store = MemoryStore::new(10_000, clock.clone());
    now(store.set_policy(Policy::new("p", [Limit::per_minute(10)]).expect("a policy")))
        .expect("it is set");
    store
}

fn set(store: &MemoryStore<ManualClock>, key: &str, rule: Override) {
    now(store.set_override("p", &KeyOverride::new(key, rule))).expect("it is set");
}

fn limits<L: Into<Limit>>(limits: impl IntoIterator<Item = L>) -> Override {
    Override::limits(limits).expect("valid limits")
}

fn check(store: &MemoryStore<ManualClock>, key: &str, cost: u64, by: Option<Factor>) -> Answer {
    let charge = Charge::new("p", key.as_bytes(), cost).with_factor(by);
    now(store.apply(Verb::Check, &[charge])).expect("it decides").remove(0)
}

fn left(store: &MemoryStore<ManualClock>, key: &str) -> Option<u64> {
    now(store.peek("p", key)).expect("it decides").remaining()
}

#[test]
fn factors_share_what_the_key_has_spent() {
    let store = store(&ManualClock::default());
    let answer = check(&store, "a", 4, factor("0.5"));
    assert_eq!((answer.decision.limit(), answer.decision.remaining()), (Some(20), Some(16)));
    assert!(answer.applied.is_some_and(|applied| !applied.is_override));
    assert_eq!(left(&store, "a"), Some(6));
    assert_eq!(check(&store, "a", 1, factor("2")).decision.remaining(), Some(0));
    assert_eq!(left(&store, "a"), Some(5), "what was spent is the same under every factor");
    assert!(check(&store, "a", 1_000_000, factor("0")).decision.is_allowed());
    assert_eq!(left(&store, "a"), Some(5), "without limits nothing is charged");
    assert_eq!(store.len(), 1);
}

#[test]
fn many_factors_leave_no_trace() {
    let store = store(&ManualClock::default());
    for i in 1..=20_000 {
        let by = factor(&format!("0.{i:05}")).filter(|by| !by.is_zero());
        check(&store, "a", 1, by);
    }
    assert_eq!(store.len(), 1);
}

#[test]
fn a_factor_beyond_the_numbers_is_an_error() {
    let store = store(&ManualClock::default());
    let tiny = factor("0.000000000000000001");
    let charge = Charge::new("p", b"a", 1).with_factor(tiny);
    assert!(matches!(now(store.apply(Verb::Check, &[charge])), Err(StoreError::Unfit(_))));
    let two = [
        Charge::new("p", b"a", 1).with_factor(factor("2")),
        Charge::new("p", b"a", 1).with_factor(factor("3")),
    ];
    assert!(matches!(now(store.apply(Verb::Check, &two)), Err(StoreError::Unfit(_))));
    assert_eq!(store.len(), 0);
}

#[test]
fn an_override_applies_and_what_was_spent_stays_spent() {
    let store = store(&ManualClock::default());
    check(&store, "a", 3, None);
    set(&store, "a", limits([Limit::per_minute(100).with_name("gcra")]));
    let answer = check(&store, "a", 1, factor("2"));
    assert_eq!(answer.decision.limit(), Some(100), "no factor scales an override's limits");
    assert_eq!(answer.decision.remaining(), Some(96));
    assert!(answer.applied.is_some_and(|applied| applied.is_override));
    set(&store, "a", Override::Factor("0.5".parse().expect("a factor")));
    assert_eq!(check(&store, "a", 1, None).decision.remaining(), Some(15));
    assert_eq!(check(&store, "a", 1, factor("0.5")).decision.remaining(), Some(34));
    assert_eq!(now(store.clear_override("p", b"a")), Ok(true));
    assert_eq!(now(store.clear_override("p", b"a")), Ok(false));
    assert_eq!(left(&store, "a"), Some(4));
    assert_eq!(left(&store, "b"), Some(10));
}

#[test]
fn blocked_and_exempt_keys_charge_nothing_and_a_blocked_one_refuses_all() {
    let store = store(&ManualClock::default());
    set(&store, "bad", Override::Block);
    set(&store, "good", Override::Exempt);
    let bad = check(&store, "bad", 1, None).decision;
    assert_eq!((bad.is_allowed(), bad.retry_after()), (false, None));
    assert!(!now(store.check("p", "bad")).expect("it decides").is_allowed());
    assert!(check(&store, "good", 1_000, None).decision.is_allowed());
    assert!(now(store.check_n("p", "good", 1_000)).expect("it decides").is_allowed());
    let all = ["other", "good", "bad"].map(|key| Charge::new("p", key.as_bytes(), 1));
    let answers = now(store.apply(Verb::Check, &all)).expect("it decides");
    assert!(answers.iter().all(|answer| answer.decision.granted() == 0
        || answer.limits.is_empty()
        || answer.applied.is_some()));
    assert!(!answers[0].decision.is_allowed());
    assert_eq!(left(&store, "other"), Some(10), "nothing was charged");
    assert_eq!(store.len(), 0);
}

#[test]
fn an_override_may_name_a_tier() {
    let store = store(&ManualClock::default());
    let bad = KeyOverride::new("a", Override::Tier("pro".into()));
    assert!(now(store.set_override("p", &bad)).is_err(), "there is no such tier");
    let pro = Policy::new("p@tier:pro", [Limit::per_minute(50)]).expect("a policy");
    now(store.set_variant("p", pro, Migration::Units)).expect("it is set");
    check(&store, "a", 2, None);
    set(&store, "a", Override::Tier("pro".into()));
    assert_eq!(check(&store, "a", 1, None).decision.remaining(), Some(47));
    assert_eq!(check(&store, "b", 1, None).decision.remaining(), Some(9));
}

#[test]
fn an_override_expires() {
    let clock = ManualClock::default();
    let store = store(&clock);
    let double = Override::Factor("0.5".parse().expect("a factor"));
    let until = KeyOverride::new("a", double.clone()).expires_in(Some(MINUTE));
    now(store.set_override("p", &until)).expect("it is set");
    assert_eq!(check(&store, "a", 15, None).decision.remaining(), Some(5));
    clock.advance(MINUTE - Duration::from_nanos(1));
    assert_eq!(left(&store, "a"), Some(20));
    assert_eq!(check(&store, "a", 12, None).decision.remaining(), Some(8));
    clock.advance(Duration::from_nanos(1));
    assert_eq!(left(&store, "a"), Some(0), "as far as a lower limit goes");
    assert_eq!(now(store.override_of("p", b"a")), Ok(None));
    store.sweep();
    assert_eq!(store.override_count(), 0);
}

#[test]
fn overrides_outlive_state_resets_purges_and_snapshots() {
    let clock = ManualClock::default();
    let store = store(&clock);
    let rolling = RollingWindow::new(5, MINUTE).expect("a window");
    set(
        &store,
        "log",
        limits([Limit::from(rolling), LeakyBucket::new(9, 2, MINUTE).expect("a bucket").into()]),
    );
    set(&store, "block", Override::Block);
    check(&store, "log", 3, None);
    check(&store, "by-factor", 3, factor("0.5"));
    now(store.apply(Verb::Reset, &[Charge::new("p", b"log", 0)])).expect("it is reset");
    assert_eq!(left(&store, "log"), Some(5));
    check(&store, "log", 3, None);
    assert_eq!(store.purge("p"), Some(2));
    assert_eq!(left(&store, "log"), Some(5));
    check(&store, "log", 2, None);
    check(&store, "by-factor", 3, factor("0.5"));

    let mut file = Vec::new();
    store.snapshot(&mut file).expect("it is written");
    let again = MemoryStore::new(10_000, clock.clone());
    now(again.set_policy(Policy::new("p", [Limit::per_minute(10)]).expect("a policy")))
        .expect("it is set");
    again.restore(&mut &*file).expect("it is restored");
    assert_eq!(again.override_count(), 2);
    assert_eq!(left(&again, "log"), Some(3));
    assert_eq!(left(&again, "by-factor"), Some(7));
    assert!(!now(again.check("p", "block")).expect("it decides").is_allowed());
    assert_eq!(now(again.overrides("p", None, 10)), now(store.overrides("p", None, 10)));

    // Another definition of the policy: what was spent stays spent.
    now(again.set_policy(Policy::new("p", [Limit::per_minute(20)]).expect("a policy")))
        .expect("it is set");
    assert_eq!(left(&again, "log"), Some(3));
    assert_eq!(left(&again, "by-factor"), Some(17));
}

#[test]
fn many_overrides_are_listed_page_by_page_and_bounded() {
    let store = store(&ManualClock::default());
    store.set_max_overrides(3_000);
    for i in 0..3_000 {
        set(&store, &format!("k{i}"), limits([Limit::per_minute(i + 1)]));
    }
    let more = KeyOverride::new("more", Override::Block);
    assert!(now(store.set_override("p", &more)).is_err());
    set(&store, "k7", Override::Block);
    // Others make the table grow, which moves keys between shards.
    for i in 0..5_000 {
        check(&store, &format!("other{i}"), 1, None);
    }
    for i in (0..3_000).filter(|i| *i != 7) {
        assert_eq!(left(&store, &format!("k{i}")), Some(i + 1));
    }
    let (mut after, mut seen) = (None, Vec::new());
    loop {
        let page = now(store.overrides("p", after.as_deref(), 97)).expect("a page");
        assert!(page.overrides.len() <= 97);
        seen.extend(page.overrides.into_iter().map(|one| one.key));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 3_000);
    now(store.remove_policy("p")).expect("it is removed");
    assert_eq!(store.override_count(), 0);
}

#[test]
fn keys_with_limits_of_their_own_take_places_and_give_way() {
    let clock = ManualClock::default();
    let store = MemoryStore::new(1_024, clock.clone());
    now(store.set_policy(Policy::new("p", [Limit::per_minute(10)]).expect("a policy")))
        .expect("it is set");
    for i in 0..20_000 {
        check(&store, &format!("k{i}"), 1, factor("0.5"));
    }
    assert!(store.len() <= 1_024, "{}", store.len());
    clock.advance(MINUTE);
    store.sweep();
    assert_eq!(store.len(), 0);
}

/// A policy that keeps logs: states of keys with limits of their own come back, too.
#[test]
fn logs_come_back_from_a_snapshot() {
    let clock = ManualClock::default();
    let rolling = || {
        let window = RollingWindow::new(10, MINUTE).expect("a window");
        Policy::new("p", [window]).expect("a policy")
    };
    let store = MemoryStore::new(10_000, clock.clone());
    now(store.set_policy(rolling())).expect("it is set");
    set(&store, "own", limits([RollingWindow::new(5, MINUTE).expect("a window")]));
    check(&store, "own", 2, None);
    check(&store, "by-factor", 3, factor("0.5"));
    let mut file = Vec::new();
    store.snapshot(&mut file).expect("it is written");
    let again = MemoryStore::new(10_000, clock);
    now(again.set_policy(rolling())).expect("it is set");
    again.restore(&mut &*file).expect("it is restored");
    assert_eq!((left(&again, "own"), left(&again, "by-factor")), (Some(3), Some(7)));
}

#[test]
fn every_door_knows_a_blocked_key() {
    let store = store(&ManualClock::default());
    set(&store, "bad", Override::Block);
    let handle = store.policy("p").expect("the policy");
    assert!(!handle.check(b"bad", 1).is_allowed() && !handle.peek(b"bad", 1).is_allowed());
    assert!(!now(store.peek("p", "bad")).expect("it decides").is_allowed());
    assert!(!store.check_in_full("p", b"bad", 1).expect("it decides").decision.is_allowed());
    assert!(!store.peek_in_full("p", b"bad", 1).expect("it decides").decision.is_allowed());
    assert_eq!(store.len(), 0);
}

/// A policy in shadow refuses no key, but a blocked one.
#[test]
fn a_block_goes_before_shadow() {
    let store = store(&ManualClock::default());
    let shadow = Policy::new("q", [Limit::per_minute(10)]).expect("a policy").with_shadow(true);
    now(store.set_policy(shadow)).expect("it is set");
    now(store.set_override("q", &KeyOverride::new("bad", Override::Block))).expect("it is set");
    let both = [Charge::new("p", b"other", 1), Charge::new("q", b"bad", 1)];
    let answers = now(store.apply(Verb::Check, &both)).expect("it decides");
    assert!(answers.iter().all(|answer| !answer.decision.is_allowed()));
    assert_eq!(left(&store, "other"), Some(10));
    let on_expiry = waterclock::OnExpiry::default();
    let hold = waterclock::Hold { id: None, ttl: None, charges: &both, on_expiry };
    assert_eq!(now(store.reserve(&hold)).expect("it decides").id, None);
}

#[test]
fn expired_overrides_make_room() {
    let clock = ManualClock::default();
    let store = store(&clock);
    store.set_max_overrides(10);
    for i in 0..10 {
        let until = KeyOverride::new(format!("k{i}"), Override::Block).expires_in(Some(MINUTE));
        now(store.set_override("p", &until)).expect("it is set");
    }
    assert!(now(store.set_override("p", &KeyOverride::new("more", Override::Block))).is_err());
    clock.advance(MINUTE);
    set(&store, "more", Override::Block);
    assert_eq!(store.override_count(), 1);
}

#[test]
fn what_was_held_is_settled_though_nothing_limits_it_now() {
    let store = store(&ManualClock::default());
    let charges = [Charge::new("p", b"a", 6)];
    let on_expiry = waterclock::OnExpiry::default();
    let hold = waterclock::Hold { id: None, ttl: None, charges: &charges, on_expiry };
    let id = now(store.reserve(&hold)).expect("it decides").id.expect("it is held");
    set(&store, "a", Override::Factor(Factor::ZERO));
    let used = [waterclock::Cost::from(2)];
    now(store.settle(&id, waterclock::Settlement::Commit(&used))).expect("it is settled");
    now(store.clear_override("p", b"a")).expect("it is cleared");
    assert_eq!(left(&store, "a"), Some(8));
}
