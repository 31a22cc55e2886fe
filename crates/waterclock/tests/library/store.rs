//! The seam: several charges, all or nothing.

use std::time::Duration;

use waterclock::{
    Answer, Charge, Concurrency, Cost, DynStore, EvenSlots, FixedWindow, Gcra, Limit, ManualClock,
    MemoryStore, Mode, Policy, Quota, RollingWindow, SlidingWindow, Store, StoreError, Verb,
};

async fn store() -> MemoryStore<ManualClock> {
    let store = MemoryStore::new(1_000, ManualClock::default());
    let minute = std::time::Duration::from_secs(60);
    let window = FixedWindow::new(2, minute).unwrap();
    let uniform =
        Policy::new("uniform", [window.clone()]).unwrap().with_mode(Mode::CountRefusals).unwrap();
    let shadow = Policy::new("shadow", [window]).unwrap().with_shadow(true);
    for policy in [
        Policy::new("user", [Limit::per_minute(5)]).unwrap(),
        Policy::new("global", [Limit::per_minute(8)]).unwrap(),
        uniform,
        shadow,
    ] {
        store.set_policy(policy).await.unwrap();
    }
    store
}

fn charge<'a>(policy: &'a str, key: &'a str, cost: u64) -> Charge<'a> {
    Charge::new(policy, key.as_bytes(), cost)
}

fn left(answer: &Answer) -> u64 {
    answer.decision.remaining().unwrap()
}

#[tokio::test]
async fn all_are_charged_or_none_is() {
    let store = store().await;
    let both = |user| [charge("user", user, 4), charge("global", "", 4)];
    let answers = store.apply(Verb::Check, &both("alice")).await.unwrap();
    assert_eq!((left(&answers[0]), left(&answers[1])), (1, 4));
    let answers = store.apply(Verb::Check, &both("alice")).await.unwrap();
    assert!(answers.iter().all(|answer| !answer.decision.is_allowed()));
    assert_eq!((left(&answers[0]), left(&answers[1])), (1, 4), "refusals cost nothing");
    assert!(answers[1].decision.refused_by().is_empty(), "global did not refuse");
    let answers = store.apply(Verb::Check, &both("bob")).await.unwrap();
    assert_eq!((left(&answers[0]), left(&answers[1])), (1, 0));
}

/// The short way for one key answers, charges and fails as `apply` does.
#[tokio::test]
async fn one_key_in_full_is_what_apply_says() {
    let clock = ManualClock::default();
    let second = Duration::from_secs(1);
    let stores = [(); 3].map(|()| MemoryStore::new(1_000, clock.clone()));
    let one = DynStore::new(stores[2].clone());
    let gcra = || Limit::from(Gcra::new(3, second).unwrap().with_capacity(5));
    let several = [
        gcra().with_min_interval(second / 14).unwrap(),
        SlidingWindow::new(9, 3 * second).unwrap().into(),
        Limit::from(FixedWindow::new(2, second).unwrap()).with_shadow(true),
    ];
    let policies = [
        Policy::new("gcra", [gcra()]).unwrap(),
        Policy::new("several", several).unwrap(),
        Policy::new("quota", [Quota::new(4, second).unwrap()]).unwrap(),
        Policy::new("slots", [EvenSlots::new(4, second).unwrap()]).unwrap(),
        Policy::new("rolling", [RollingWindow::new(4, second).unwrap()])
            .unwrap()
            .with_mode(Mode::CountRefusals)
            .unwrap(),
        Policy::new("part", [gcra()]).unwrap().with_mode(Mode::Partial).unwrap(),
        Policy::new("shadow", [gcra()]).unwrap().with_shadow(true),
        Policy::new("held", [Concurrency::new(2, second).unwrap()]).unwrap(),
    ];
    for policy in &policies {
        for store in &stores {
            store.set_policy(policy.clone()).await.unwrap();
        }
    }
    let mut random = fastrand::Rng::with_seed(4);
    let mut waits = 0;
    for _ in 0..20_000 {
        clock.advance(Duration::from_micros(random.u64(..50_000)));
        let name = policies[random.usize(..policies.len())].name();
        let (key, cost) = (random.choice(["a", "b", "c"]).unwrap(), random.u64(..6));
        let (verb, short) = match random.u8(..3) {
            0 => (Verb::Peek, stores[0].peek_in_full(name, key.as_bytes(), cost)),
            _ => (Verb::Check, stores[0].check_in_full(name, key.as_bytes(), cost)),
        };
        let charge = charge(name, key, cost);
        let now = one.apply_one_now(verb, &charge).expect("it answers at once");
        assert_eq!(now.ok(), short.as_ref().ok().cloned());
        match (short, stores[1].apply(verb, &[charge]).await) {
            (Ok(short), Ok(long)) => {
                assert_eq!(short, long[0], "{verb:?} {name} {cost}");
                let is_allowed = short.decision.is_allowed();
                waits += u32::from(is_allowed && short.next_same() > Some(Duration::ZERO));
            }
            (short, long) => {
                assert_eq!(short.unwrap_err().to_string(), long.unwrap_err().to_string());
            }
        }
    }
    assert!(waits > 500, "{waits}");
    let unknown = stores[0].check_in_full("unknown", b"a", 1).unwrap_err();
    assert!(matches!(unknown, StoreError::UnknownPolicy(_)), "{unknown}");
    let unknown = one.apply_one_now(Verb::Check, &charge("unknown", "a", 1));
    assert!(matches!(unknown, Some(Err(StoreError::UnknownPolicy(_)))), "{unknown:?}");
}

/// What the short way does not know goes the long one.
#[tokio::test]
async fn one_charge_is_what_apply_says_of_it() {
    let [one, list] = [store().await, store().await];
    let factor = "0.5".parse().ok();
    let charges = [
        (Verb::Check, charge("user", "alice", 3)),
        (Verb::Check, charge("user", "alice", 4).with_factor(factor)),
        (Verb::Debit, charge("user", "alice", 2)),
        (Verb::Refund, charge("user", "alice", 1)),
        (Verb::Check, Charge::new("user", b"alice", Cost::of_units([("requests", 1)]))),
        (Verb::Reset, charge("user", "alice", 0)),
        (Verb::Peek, charge("user", "alice", 5)),
    ];
    for (verb, charge) in charges {
        let short = one.apply_one_now(verb, &charge).expect("it answers at once").unwrap();
        assert_eq!([short], *list.apply(verb, &[charge]).await.unwrap(), "{verb:?}");
    }
}

#[tokio::test]
async fn what_is_given_up_is_retried_with_what_refused() {
    let store = store().await;
    let _ = store.apply(Verb::Check, &[charge("user", "alice", 5)]).await.unwrap();
    let both = [charge("user", "alice", 2), charge("global", "", 1)];
    let answers = store.apply(Verb::Check, &both).await.unwrap();
    let wait = answers[0].decision.retry_after();
    assert_eq!(wait, Some(std::time::Duration::from_secs(24)));
    assert_eq!(answers[1].decision.retry_after(), wait);
    let never = [charge("user", "alice", 6), charge("global", "", 1)];
    let answers = store.apply(Verb::Check, &never).await.unwrap();
    assert_eq!(answers[1].decision.retry_after(), None);
}

#[tokio::test]
async fn a_partial_grant_given_up_is_a_refusal() {
    let store = store().await;
    let nary =
        Policy::new("nary", [Limit::per_minute(5)]).unwrap().with_mode(Mode::Partial).unwrap();
    store.set_policy(nary).await.unwrap();
    let both = [charge("nary", "alice", 7), charge("user", "alice", 1)];
    let answers = store.apply(Verb::Check, &both).await.unwrap();
    assert_eq!(answers[0].decision.refused_by().iter().collect::<Vec<_>>(), [0]);
    assert_eq!((left(&answers[0]), left(&answers[1])), (5, 5));
}

#[tokio::test]
async fn a_policy_whose_keys_are_fresh_makes_room_for_another() {
    let clock = ManualClock::default();
    let store = MemoryStore::new(10, clock.clone());
    for name in ["a", "b"] {
        store.set_policy(Policy::new(name, [Limit::per_second(1)]).unwrap()).await.unwrap();
    }
    for key in 0..10 {
        let key = key.to_string();
        let _ = store.apply(Verb::Check, &[charge("a", &key, 1)]).await.unwrap();
    }
    clock.advance(std::time::Duration::from_secs(3_600));
    let mut admitted = 0;
    for key in 0..20 {
        let key = key.to_string();
        let answers = store.apply(Verb::Check, &[charge("b", &key, 1)]).await.unwrap();
        admitted += u32::from(answers[0].decision.is_allowed());
    }
    assert!(admitted >= 10, "{admitted} of 20 found room or an overflow entry");
}

#[tokio::test]
async fn the_same_key_twice_is_summed_first() {
    let store = store().await;
    let twice = [charge("user", "alice", 3), charge("user", "alice", 3)];
    let answers = store.apply(Verb::Check, &twice).await.unwrap();
    assert!(answers.iter().all(|answer| !answer.decision.is_allowed()), "3 + 3 > 5");
    let twice = [charge("user", "alice", 3), charge("user", "alice", 2)];
    let answers = store.apply(Verb::Check, &twice).await.unwrap();
    assert_eq!((left(&answers[0]), left(&answers[1])), (0, 0));
}

#[tokio::test]
async fn uniform_always_records_and_shadow_stands_beside() {
    let store = store().await;
    let all =
        [charge("user", "alice", 6), charge("uniform", "alice", 1), charge("shadow", "alice", 1)];
    let answers = store.apply(Verb::Check, &all).await.unwrap();
    assert_eq!(left(&answers[0]), 5);
    assert_eq!(left(&answers[1]), 1, "recorded although another refused");
    assert_eq!(left(&answers[2]), 1, "charged what it would have admitted");
    assert!(!answers[1].decision.is_allowed() && answers[2].decision.is_allowed());
}

#[tokio::test]
async fn refund_and_reset_answer_as_a_peek_would() {
    let store = store().await;
    let one = |cost| [charge("user", "alice", cost)];
    let _ = store.apply(Verb::Check, &one(5)).await.unwrap();
    assert_eq!(left(&store.apply(Verb::Refund, &one(2)).await.unwrap()[0]), 2);
    assert_eq!(left(&store.apply(Verb::Peek, &one(1)).await.unwrap()[0]), 2);
    let answers = store.apply(Verb::Reset, &one(1)).await.unwrap();
    assert_eq!((left(&answers[0]), answers[0].limits.len()), (5, 1));
}

#[tokio::test]
async fn an_unknown_policy_is_named() {
    let error = store().await.apply(Verb::Peek, &[charge("nope", "alice", 1)]).await.unwrap_err();
    assert_eq!(error, StoreError::UnknownPolicy("nope".to_owned()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn checks_over_many_keys_neither_deadlock_nor_over_admit() {
    let store = std::sync::Arc::new(store().await);
    let tasks: Vec<_> = (0..8)
        .map(|task| {
            let store = std::sync::Arc::clone(&store);
            tokio::spawn(async move {
                let mut admitted = 0;
                for i in 0..2_000 {
                    let (a, b) = (format!("{}", (i + task) % 7), format!("{}", (i * 3 + task) % 7));
                    let all =
                        [charge("user", &a, 1), charge("global", "", 1), charge("user", &b, 1)];
                    let answers = store.apply(Verb::Check, &all).await.unwrap();
                    admitted += u64::from(answers[1].decision.is_allowed());
                }
                admitted
            })
        })
        .collect();
    let mut admitted = 0;
    for task in tasks {
        admitted += task.await.unwrap();
    }
    assert_eq!(admitted, 8, "global admits 8 in all");
}
