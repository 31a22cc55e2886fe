//! Policies that share their keys: what is spent under one is spent under the others.

use std::time::Duration;

use fastrand::Rng;
use waterclock::store::now_or_never;
use waterclock::{
    Charge, Decision, EvenSlots, FixedWindow, Gcra, KeyedLimiter, LeakyBucket, Limit, ManualClock,
    MemoryStore, Migration, MinInterval, Mode, Policy, Quota, RollingWindow, SlidingWindow, Store,
    StoreError, Timestamp, Verb,
};

const MINUTE: Duration = Duration::from_secs(60);

fn per_minute(name: &str, limit: u64) -> Policy {
    Policy::new(name, [Limit::per_minute(limit)]).unwrap()
}

async fn family(
    clock: &ManualClock,
    migration: Migration,
    policies: impl IntoIterator<Item = Policy>,
) -> MemoryStore<ManualClock> {
    let store = MemoryStore::new(1_000, clock.clone());
    let mut policies = policies.into_iter();
    let base = policies.next().unwrap();
    let name = base.name().to_owned();
    store.set_policy(base).await.unwrap();
    for policy in policies {
        store.set_variant(&name, policy, migration).await.unwrap();
    }
    store
}

fn left(store: &MemoryStore<ManualClock>, policy: &str) -> u64 {
    now_or_never(store.peek_n(policy, b"alice", 1)).unwrap().unwrap().remaining().unwrap()
}

#[tokio::test]
async fn what_is_spent_under_one_is_spent_under_the_other() {
    let clock = ManualClock::default();
    let all = [per_minute("login", 100), per_minute("login@5", 5), per_minute("login@300", 300)];
    let store = family(&clock, Migration::Units, all).await;
    assert!(now_or_never(store.check_n("login", b"alice", 5)).unwrap().unwrap().is_allowed());
    assert_eq!((left(&store, "login@5"), left(&store, "login@300")), (0, 295));
    assert!(now_or_never(store.check_n("login@300", b"alice", 90)).unwrap().unwrap().is_allowed());
    assert!(!now_or_never(store.check_n("login@5", b"alice", 1)).unwrap().unwrap().is_allowed());
    assert_eq!(left(&store, "login"), 5, "a refusal under a smaller limit forgets nothing");
    assert_eq!(store.len(), 1);
    let refund = Charge::new("login@5", b"alice", 2);
    store.apply(Verb::Refund, std::slice::from_ref(&refund)).await.unwrap();
    assert_eq!((left(&store, "login"), left(&store, "login@5")), (7, 0));
    store.apply(Verb::Reset, std::slice::from_ref(&refund)).await.unwrap();
    assert_eq!((left(&store, "login"), left(&store, "login@300")), (100, 300));
}

/// A policy by a factor keeps the names of its limits, so that the two can share their keys.
#[tokio::test]
async fn a_scaled_policy_shares_what_was_spent() {
    let clock = ManualClock::default();
    let window = || FixedWindow::new(10, MINUTE).unwrap().with_name("window");
    let limits = [Limit::per_minute(20).with_name("burst"), window()];
    let base = Policy::new("login", limits).unwrap();
    let easier = base.scaled("login@pro", "0.5".parse().unwrap()).unwrap();
    let harder = base.scaled("login@new", "4".parse().unwrap()).unwrap();
    let store = family(&clock, Migration::Units, [base, easier, harder]).await;
    assert!(now_or_never(store.check_n("login@pro", b"alice", 2)).unwrap().unwrap().is_allowed());
    assert_eq!((left(&store, "login"), left(&store, "login@new")), (8, 1));
    assert!(now_or_never(store.check_n("login@pro", b"alice", 10)).unwrap().unwrap().is_allowed());
    assert_eq!((left(&store, "login"), left(&store, "login@pro")), (0, 8));
}

#[tokio::test]
async fn by_time_the_instant_is_kept_at_which_a_key_is_full() {
    let clock = ManualClock::default();
    let gcra = |name: &str, limit, per, capacity| {
        Policy::new(name, [Gcra::new(limit, per).unwrap().with_capacity(capacity)]).unwrap()
    };
    let slow = gcra("slow", 1, MINUTE, 10);
    let fast = gcra("fast", 7, Duration::from_secs(1), 5);
    let store = family(&clock, Migration::Time, [slow, fast]).await;
    assert!(now_or_never(store.check_n("slow", b"alice", 10)).unwrap().unwrap().is_allowed());
    let refused = now_or_never(store.check_n("fast", b"alice", 1)).unwrap().unwrap();
    assert_eq!(refused.reset_after(), 10 * MINUTE, "nothing of the debt is dropped");
    assert_eq!(left(&store, "slow"), 0);
    clock.advance(10 * MINUTE - Duration::from_millis(143));
    assert_eq!(left(&store, "fast"), 3, "143 ms of seven a second is a little more than one");
    assert!(now_or_never(store.check_n("fast", b"alice", 3)).unwrap().unwrap().is_allowed());
    assert_eq!(left(&store, "slow"), 9);
}

#[tokio::test]
async fn what_makes_no_family_is_named() {
    let clock = ManualClock::default();
    let store = family(&clock, Migration::Units, [per_minute("a", 5), per_minute("a2", 9)]).await;
    store.set_policy(per_minute("b", 5)).await.unwrap();
    let unfit = |result: Result<(), StoreError>| match result.unwrap_err() {
        StoreError::Unfit(reason) => reason.to_string(),
        other => panic!("{other}"),
    };
    let unknown = store.set_variant("nope", per_minute("x", 1), Migration::Units).await;
    assert_eq!(unknown, Err(StoreError::UnknownPolicy("nope".into())));
    for (of, name) in [("a", "b"), ("a", "a"), ("b", "a2")] {
        let reason = unfit(store.set_variant(of, per_minute(name, 1), Migration::Units).await);
        assert!(reason.contains(name) && reason.contains(of), "{reason}");
    }
    let reason = unfit(store.set_variant("a", per_minute("a3", 1), Migration::Time).await);
    assert!(reason.contains("a3") && reason.contains("the same way"), "{reason}");
    let window = Policy::new("b2", [SlidingWindow::new(5, MINUTE).unwrap()]).unwrap();
    let reason = unfit(store.set_variant("b", window, Migration::Time).await);
    assert!(reason.contains("b2") && reason.contains("gcra"), "{reason}");
    let charge = |policy| Charge::new(policy, b"alice", 1);
    let both = [charge("b"), charge("a"), charge("a2")];
    let error = store.apply(Verb::Check, &both).await.unwrap_err();
    assert!(error.to_string().contains("`a`") && error.to_string().contains("`a2`"), "{error}");
    assert_eq!(left(&store, "b"), 5, "nothing was charged");
}

#[tokio::test]
async fn a_thousand_variants_are_one_table() {
    let clock = ManualClock::default();
    let names: Vec<String> = (1..=1_000).map(|n| format!("cl@{n}")).collect();
    let all = names.iter().enumerate().map(|(i, name)| per_minute(name, i as u64 + 1));
    let store = family(&clock, Migration::Time, all).await;
    for (i, name) in names.iter().enumerate() {
        assert_eq!(left(&store, name), i as u64 + 1);
    }
    assert!(now_or_never(store.check_n("cl@1000", b"alice", 500)).unwrap().unwrap().is_allowed());
    // Half a minute is owed by any measure.
    assert_eq!((left(&store, "cl@10"), left(&store, "cl@3")), (5, 1));
    assert_eq!(store.len(), 1);
}

#[tokio::test]
async fn members_change_and_keys_stay() {
    let clock = ManualClock::default();
    let store =
        family(&clock, Migration::Units, [per_minute("a", 100), per_minute("a2", 50)]).await;
    let handle = store.policy("a2").unwrap();
    assert!(handle.check(b"alice", 30).is_allowed());
    store.set_variant("a", per_minute("a2", 40), Migration::Units).await.unwrap();
    assert_eq!(handle.peek(b"alice", 1).remaining(), Some(10));
    store.set_policy(per_minute("a", 1_000)).await.unwrap();
    store.set_policy(per_minute("a2", 45)).await.unwrap();
    assert_eq!((left(&store, "a"), left(&store, "a2")), (970, 15));
    // A wider state than any before it.
    let wide = Policy::new("a3", [Gcra::new(7, MINUTE).unwrap().with_capacity(60)]).unwrap();
    store.set_variant("a2", wide, Migration::Units).await.unwrap();
    assert_eq!((left(&store, "a"), left(&store, "a3")), (970, 30));
}

/// A limit of some kind, with numbers of its own.
fn draw_limit(dice: &mut Rng, kind: u8, name: &str) -> Limit {
    let n = dice.u64(1..12);
    let per = Duration::from_millis([1_000, 2_000, 7_000, 60_000][dice.usize(0..4)]);
    let limit: Limit = match kind {
        0 => Gcra::new(n, per).unwrap().with_capacity(dice.u64(1..12)).into(),
        1 => LeakyBucket::new(n + 1, dice.u64(2..4), per / 4).unwrap().into(),
        2 => FixedWindow::new(n, per).unwrap().into(),
        3 => FixedWindow::aligned(n, per).unwrap().into(),
        4 => SlidingWindow::new(n, per).unwrap().into(),
        5 => RollingWindow::new(n, per).unwrap().into(),
        6 => RollingWindow::bucketed(n, per, 5).unwrap().into(),
        7 => Quota::new(n, per).unwrap().into(),
        8 => EvenSlots::new(n, per).unwrap().into(),
        9 => MinInterval::new(per / 4).unwrap().into(),
        _ => Gcra::new(n, per).unwrap().with_overdraft(true).into(),
    };
    let limit = limit.with_name(name);
    if dice.u8(0..4) == 0 { limit.with_min_interval(per / 16).unwrap() } else { limit }
}

/// Policies of the same kinds of limits under the same names, each with numbers of its own.
fn draw_family(dice: &mut Rng) -> Vec<Policy> {
    let kinds: Vec<u8> = (0..dice.usize(1..3)).map(|_| dice.u8(0..11)).collect();
    let mode = if dice.bool() { Mode::Binary } else { Mode::Partial };
    let names = ["one", "two"];
    let policy = |dice: &mut Rng, variant: usize| {
        let limit = |(kind, name): (&u8, &&str)| draw_limit(dice, *kind, name);
        let limits: Vec<Limit> = kinds.iter().zip(&names).map(limit).collect();
        Policy::new(&format!("v{variant}"), limits).unwrap().with_mode(mode).unwrap()
    };
    (0..dice.usize(2..5)).map(|variant| policy(dice, variant)).collect()
}

/// A call that changed something.
#[derive(Clone, Copy, Debug)]
struct Done {
    at: Timestamp,
    variant: usize,
    verb: Verb,
    cost: u64,
}

/// What a limiter would say that did what was done, and is given each call's policy before it.
fn reference(policies: &[Policy], done: &[Done], call: Done) -> Decision {
    let clock = ManualClock::default();
    let limiter: KeyedLimiter<[u8], _> =
        KeyedLimiter::builder(policies[0].clone()).max_keys(4).clock(clock.clone()).build();
    let key = &b"alice"[..];
    for step in done {
        clock.set(step.at);
        match step.verb {
            Verb::Refund => limiter.refund(key, step.cost),
            Verb::Reset => limiter.reset(key),
            _ => {
                limiter.set_policy(policies[step.variant].clone());
                let _ = limiter.check_n(key, step.cost);
            }
        }
    }
    clock.set(call.at);
    match call.verb {
        Verb::Refund => limiter.refund(key, call.cost),
        Verb::Reset => limiter.reset(key),
        _ => {}
    }
    limiter.set_policy(policies[call.variant].clone());
    match call.verb {
        Verb::Check => limiter.check_n(key, call.cost),
        _ => limiter.peek_n(key, call.cost),
    }
}

#[tokio::test]
async fn hopping_between_variants_is_changing_the_policy_before_each_call() {
    let mut admitted_after_a_hop = 0;
    for seed in 0..4_000 {
        let mut dice = Rng::with_seed(seed);
        let policies = draw_family(&mut dice);
        let clock = ManualClock::default();
        clock.set(Timestamp::from_micros(1_794_000_000_000_000 + dice.u64(0..1 << 40)));
        let store = family(&clock, Migration::Units, policies.clone()).await;
        let mut done: Vec<Done> = Vec::new();
        for _ in 0..14 {
            clock.advance(Duration::from_micros(dice.u64(0..600_000) * dice.u64(0..3)));
            if dice.u8(0..8) == 0 {
                store.sweep();
            }
            let verb = match dice.u8(0..20) {
                0..15 => Verb::Check,
                15..17 => Verb::Peek,
                17..19 => Verb::Refund,
                _ => Verb::Reset,
            };
            let (variant, cost) = (dice.usize(0..policies.len()), dice.u64(0..5));
            let call = Done { at: waterclock::Clock::now(&clock), variant, verb, cost };
            let charge = Charge::new(policies[variant].name(), b"alice", cost);
            let answer = store.apply(verb, &[charge]).await.unwrap()[0].decision;
            let expected = reference(&policies, &done, call);
            assert_eq!(answer, expected, "seed {seed}: {done:#?} then {call:?} of {policies:#?}");
            let hops = done.last().is_some_and(|last| last.variant != variant);
            admitted_after_a_hop += u32::from(hops && verb == Verb::Check && answer.granted() > 0);
            if matches!(verb, Verb::Refund | Verb::Reset)
                || answer.granted() > 0 && verb == Verb::Check
            {
                done.push(call);
            }
        }
    }
    assert!(admitted_after_a_hop > 2_000, "{admitted_after_a_hop}");
}

#[test]
fn threads_that_hop_admit_no_more_than_the_largest_limit() {
    let hour = 60 * MINUTE;
    let kinds: [fn(u64, Duration) -> Limit; 4] = [
        |n, per| Gcra::new(n, per).unwrap().into(),
        |n, per| SlidingWindow::new(n, per).unwrap().into(),
        |n, per| RollingWindow::new(n, per).unwrap().into(),
        |n, per| FixedWindow::new(n, per).unwrap().into(),
    ];
    for kind in kinds {
        let clock = ManualClock::default();
        clock.advance(MINUTE);
        let limits = [400, 1_000, 30, 700];
        let policy =
            |(i, n)| Policy::new(&format!("v{i}"), [kind(n, hour).with_name("l")]).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let all = limits.into_iter().enumerate().map(policy);
        let store = runtime.block_on(family(&clock, Migration::Units, all));
        let admitted = std::sync::atomic::AtomicU64::new(0);
        std::thread::scope(|scope| {
            for thread in 0..4_usize {
                let (store, admitted) = (&store, &admitted);
                scope.spawn(move || {
                    let names = ["v0", "v1", "v2", "v3"];
                    for i in 0..4_000_usize {
                        let name = names[(i * (thread + 1) + thread) % 4];
                        let decision =
                            now_or_never(store.check_n(name, b"alice", 1)).unwrap().unwrap();
                        let granted = u64::from(decision.is_allowed());
                        admitted.fetch_add(granted, std::sync::atomic::Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(admitted.into_inner(), 1_000);
    }
}

#[tokio::test]
async fn a_snapshot_keeps_families() {
    let clock = ManualClock::default();
    clock.advance(MINUTE);
    let all = || [per_minute("a", 100), per_minute("a2", 50), per_minute("a3", 200)];
    let before = family(&clock, Migration::Units, all()).await;
    for (name, key, cost) in [("a", b"x", 10), ("a2", b"y", 20), ("a3", b"z", 150)] {
        assert!(now_or_never(before.check_n(name, key, cost)).unwrap().unwrap().is_allowed());
    }
    let mut bytes = Vec::new();
    before.snapshot(&mut bytes).unwrap();
    let after = family(&clock, Migration::Units, all()).await;
    assert_eq!(after.restore(&mut &bytes[..]).unwrap().keys, 3);
    // A variant that is gone leaves its keys to the base.
    let fewer = family(&clock, Migration::Units, all().into_iter().take(2)).await;
    assert_eq!(fewer.restore(&mut &bytes[..]).unwrap().keys, 3);
    for (key, spent) in [(b"x", 10), (b"y", 20), (b"z", 150)] {
        for (name, limit) in [("a", 100_u64), ("a2", 50)] {
            let left = |store: &MemoryStore<_>| {
                now_or_never(store.peek_n(name, key, 1)).unwrap().unwrap().remaining()
            };
            assert_eq!(left(&after), Some(limit.saturating_sub(spent)));
            assert_eq!(left(&fewer), Some(limit.saturating_sub(spent)));
        }
        assert_eq!(
            now_or_never(after.peek_n("a3", key, 1)).unwrap().unwrap().remaining(),
            Some(200 - spent)
        );
    }
}
