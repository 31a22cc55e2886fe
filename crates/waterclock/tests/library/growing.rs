//! A policy's table grows with its keys, while they are in use.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use waterclock::store::Migration;
use waterclock::{
    Charge, FixedWindow, Limit, ManualClock, MemoryStore, Policy, RollingWindow, Store, Verb,
};

const KEYS: usize = 3_000;

/// What a memory store answers, which it does at once.
fn ready<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer,
        Poll::Pending => unreachable!("a memory store never waits"),
    }
}

/// Limits of one unit: with one word of state, with two, and with a log.
fn policies() -> [Policy; 3] {
    let day = Duration::from_secs(86_400);
    [
        Policy::new("word", [Limit::per_day(1)]).unwrap(),
        Policy::new("words", [FixedWindow::new(1, day).unwrap()]).unwrap(),
        Policy::new("log", [RollingWindow::new(1, day).unwrap()]).unwrap(),
    ]
}

#[test]
fn each_key_is_admitted_once_while_the_table_grows() {
    for policy in policies() {
        let store = Arc::new(MemoryStore::new(1_000_000, ManualClock::default()));
        let name: Arc<str> = policy.name().into();
        ready(store.set_policy(policy)).unwrap();
        let check_all = |thread: usize| {
            let (store, name) = (Arc::clone(&store), Arc::clone(&name));
            thread::spawn(move || {
                let key = |n: usize| format!("key {}", (n + thread * 7) % KEYS);
                let single = |n: usize| ready(store.check(&name, key(n))).unwrap().is_allowed();
                // Two keys at once: both or none.
                let pair = |n: usize| {
                    let keys = [key(n), key(n + KEYS / 2)];
                    let charge = |key| Charge::new(&name, key, 1);
                    let charges = [charge(keys[0].as_bytes()), charge(keys[1].as_bytes())];
                    ready(store.apply(Verb::Check, &charges)).unwrap()[0].decision.is_allowed()
                };
                let pairs = (0..KEYS / 2).filter(|n| thread.is_multiple_of(2) && pair(*n)).count();
                2 * pairs + (0..KEYS).filter(|n| single(*n)).count()
            })
        };
        let threads: Vec<_> = (0..4).map(check_all).collect();
        let admitted: usize = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
        assert_eq!(admitted, KEYS, "{name}");
        assert_eq!(store.len_of(&name), KEYS, "{name}");
    }
}

/// Snapshots of a table of any size are read into one of any other, and written while it grows.
#[test]
fn a_snapshot_while_the_table_grows_has_every_key_that_was_there() {
    for policy in policies() {
        let name: Arc<str> = policy.name().into();
        let clock = ManualClock::default();
        let store = Arc::new(MemoryStore::new(1_000_000, clock.clone()));
        ready(store.set_policy(policy.clone())).unwrap();
        for n in 0..20 {
            assert!(ready(store.check(&name, format!("old {n}"))).unwrap().is_allowed());
        }
        let flood = {
            let (store, name) = (Arc::clone(&store), Arc::clone(&name));
            thread::spawn(move || {
                (0..KEYS).for_each(|n| _ = ready(store.check(&name, format!("new {n}"))).unwrap());
            })
        };
        let mut last = Vec::new();
        for _ in 0..50 {
            last.clear();
            store.snapshot(&mut last).unwrap();
        }
        flood.join().unwrap();
        let other = MemoryStore::new(1_000_000, clock.clone());
        ready(other.set_policy(policy)).unwrap();
        other.restore(&mut &*last).unwrap();
        for n in 0..20 {
            let again = ready(other.check(&name, format!("old {n}"))).unwrap();
            assert!(!again.is_allowed(), "{name}: old {n} is forgotten");
        }
    }
}

/// Tiers of a policy share its keys, and a key stays with the tier that charged it.
#[test]
fn variants_move_along() {
    let store = MemoryStore::new(1_000_000, ManualClock::default());
    ready(store.set_policy(Policy::new("base", [Limit::per_day(2)]).unwrap())).unwrap();
    let tier = Policy::new("tier", [Limit::per_day(4)]).unwrap();
    ready(store.set_variant("base", tier, Migration::Units)).unwrap();
    for n in 0..KEYS {
        let policy = if n % 2 == 0 { "base" } else { "tier" };
        assert!(ready(store.check(policy, format!("key {n}"))).unwrap().is_allowed());
    }
    for n in 0..KEYS {
        let (policy, left) = if n % 2 == 0 { ("base", 1) } else { ("tier", 3) };
        let peek = ready(store.peek(policy, format!("key {n}"))).unwrap();
        assert_eq!(peek.remaining(), Some(left), "key {n}");
    }
}
