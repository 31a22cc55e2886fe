//! Every interleaving that matters, driven by shuttle over the code that ships:
//! `RUSTFLAGS="--cfg shuttle" cargo test -p waterclock --lib --release`.
//!
//! Small cases are explored exhaustively, larger ones by random schedules: `WATERCLOCK_SCHEDULES` of
//! them for each test, 170 000 by default, over a million in all. Planted bugs show that the tests can fail.

use std::future::poll_fn;
use std::panic::catch_unwind;
use std::time::Duration;

use shuttle::sync::Mutex;
use shuttle::sync::atomic::{AtomicU64, Ordering};
use shuttle::{future, thread};
use waterclock_core::store::Migration;
use waterclock_core::{Decision, FixedWindow, Limit, Policy, SlidingWindow, Timestamp};

use crate::places::{DEFAULT_MAX_BYTES, Places};
use crate::sync::Arc;
use crate::table::{Key, Table, Variant};
use crate::wait::Line;
use crate::{Charge, Hold, Limiter, ManualClock, MemoryStore, OnExpiry, Settlement, Store};

fn schedules() -> usize {
    std::env::var("WATERCLOCK_SCHEDULES").ok().and_then(|n| n.parse().ok()).unwrap_or(170_000)
}

/// Runs `threads` threads that each do `each`, and returns how many of their calls were admitted.
fn admitted<F>(threads: u64, each: F) -> u64
where
    F: Fn(u64) -> u64 + Send + Sync + 'static,
{
    let (each, admitted) = (Arc::new(each), Arc::new(AtomicU64::new(0)));
    let handles: Vec<_> = (0..threads)
        .map(|i| {
            let (each, admitted) = (Arc::clone(&each), Arc::clone(&admitted));
            thread::spawn(move || admitted.fetch_add(each(i), Ordering::SeqCst))
        })
        .collect();
    for handle in handles {
        handle.join().expect("no thread panics");
    }
    admitted.load(Ordering::SeqCst)
}

fn table(policy: impl Into<Policy>, max_keys: usize) -> Arc<Table> {
    let policy = Arc::new(policy.into());
    Arc::new(Table::new(&policy, &Arc::new(Places::new(max_keys, DEFAULT_MAX_BYTES))))
}

/// A store with one key whose units were all reserved and not settled in time.
fn abandoned(clock: &ManualClock) -> Arc<MemoryStore<ManualClock>> {
    let store = MemoryStore::new(4, clock.clone());
    let policy = FixedWindow::new(3, Duration::from_secs(1)).expect("valid");
    let policy = Policy::new("policy", [policy]).expect("valid");
    let ready = "the memory store answers at once";
    future::block_on(store.set_policy(policy)).expect(ready);
    let charges = &[Charge::new("policy", b"key", 3)];
    let ttl = Some(Duration::from_millis(1));
    let hold = Hold { id: Some("held"), ttl, charges, on_expiry: OnExpiry::Release };
    assert!(future::block_on(store.reserve(&hold)).expect(ready).id.is_some());
    Arc::new(store)
}

/// The first call after the expiry gives it back; the others wait for that, and it is given back once.
#[test]
fn what_was_held_too_long_is_given_back_once_and_before_anybody_asks() {
    let test = || {
        let clock = ManualClock::default();
        let store = abandoned(&clock);
        clock.advance(Duration::from_millis(1));
        let each = move |_| {
            let check = || future::block_on(store.check("policy", b"key"));
            let granted = |_| check().map_or(0, |d| d.granted());
            (0..2).map(granted).sum()
        };
        assert_eq!(admitted(2, each), 3);
    };
    shuttle::check_random(test, schedules());
}

/// A holder settles while its time runs out: one of both happens, whole.
#[test]
fn settled_or_released_but_never_both() {
    let test = || {
        let clock = ManualClock::default();
        let store = abandoned(&clock);
        let other = Arc::clone(&store);
        let settles = thread::spawn(move || {
            future::block_on(other.settle("held", Settlement::Commit(&[2.into()]))).is_ok()
        });
        clock.advance(Duration::from_millis(1));
        let remaining =
            || future::block_on(store.peek("policy", b"key")).map(|d: Decision| d.remaining());
        let first = remaining();
        let was_settled = settles.join().expect("no thread panics");
        let last = remaining();
        assert_eq!(last, Ok(Some(if was_settled { 1 } else { 3 })));
        assert!(first == last || first == Ok(Some(0)), "{first:?}, then {last:?}");
    };
    shuttle::check_random(test, schedules());
}

fn two_words() -> SlidingWindow {
    SlidingWindow::new(3, std::time::Duration::from_secs(1)).expect("valid")
}

const NOW: Timestamp = Timestamp::from_nanos(1);
const KEY: u64 = 7;

#[test]
fn one_word_two_by_two_and_three_by_one_exhaustively() {
    for (threads, calls) in [(2, 2), (3, 1)] {
        let test = move || {
            let limiter = Limiter::with_clock(Limit::per_second(2), ManualClock::default());
            let each =
                move |_| (0..calls).map(|_| u64::from(limiter.check_first(1).is_allowed())).sum();
            assert_eq!(admitted(threads, each), 2);
        };
        shuttle::check_dfs(test, None);
    }
}

#[test]
fn table_two_by_two_and_three_by_one_exhaustively() {
    // A key that is known, and one that two threads add at once, which takes more steps.
    for (threads, calls, known) in [(2, 2, 1), (3, 1, 1), (2, 1, 0)] {
        let test = move || {
            let table = table(Limit::per_second(known + 1), 4);
            (0..known).for_each(|_| assert!(table.check(KEY, NOW, 1).is_allowed()));
            let each =
                move |_| (0..calls).map(|_| u64::from(table.check(KEY, NOW, 1).is_allowed())).sum();
            assert_eq!(admitted(threads, each), 1);
        };
        shuttle::check_dfs(test, None);
    }
}

#[test]
fn growing_sweeping_and_changing_lose_no_charge() {
    let test = || {
        let table = table(two_words(), 64);
        let each = move |thread: u64| {
            let mut admitted = 0;
            for i in 0..3 {
                // Other keys of the same shard make it rebuild; one thread sweeps, one changes.
                let _ = table.check(100 * thread + i + 1_000, NOW, 1);
                match (thread, i) {
                    (0, 1) => table.sweep(NOW),
                    (1, 1) => {
                        let same = Arc::new(two_words().into());
                        table.set_policy(Variant::BASE, &same, NOW).expect("any policy will do");
                    }
                    _ => {}
                }
                admitted += u64::from(table.check(KEY, NOW, 1).is_allowed());
            }
            admitted
        };
        assert_eq!(admitted(3, each), 3);
    };
    shuttle::check_random(test, schedules());
}

#[test]
fn policies_that_share_a_key_share_its_budget() {
    let test = || {
        let table = table(Limit::per_second(4), 64);
        let variant = |name: &str, n| {
            let policy = Policy::new(name, [Limit::per_second(n)]).expect("valid");
            table.set_variant(&Arc::new(policy), Migration::Units, NOW).expect("it fits")
        };
        let under = [Variant::BASE, variant("less", 2), variant("least", 1)];
        let shared = Arc::clone(&table);
        let each = move |thread: u64| {
            let mut admitted = 0;
            for i in 0..3 {
                let under = under[usize::try_from(thread + i).unwrap_or(0) % 3];
                let key = Key::new(KEY, under);
                if (thread, i) == (1, 1) {
                    // More members, while others ask.
                    let more = Arc::new(Policy::new("more", [two_words()]).expect("valid"));
                    let _ = shared.set_variant(&more, Migration::Units, NOW).expect("it fits");
                }
                admitted += u64::from(shared.check(key, NOW, 1).is_allowed());
            }
            admitted
        };
        let admitted = admitted(3, each);
        // Each member was checked three times. In any order, the base admits all its checks
        // unless four were admitted before.
        assert!((3..=4).contains(&admitted), "{admitted}");
    };
    shuttle::check_random(test, schedules());
}

#[test]
fn a_full_table_keeps_to_its_cap_and_opens_one_budget_per_shard() {
    let test = || {
        let policy = Arc::new(Limit::per_second(1).into());
        let places = Arc::new(Places::new(2, DEFAULT_MAX_BYTES));
        let table = Arc::new(Table::new(&policy, &places));
        let shared = Arc::clone(&table);
        let each = move |thread: u64| {
            let keys = [1, 2, 3].map(|key| key + 10 * thread);
            keys.iter().map(|key| u64::from(shared.check(*key, NOW, 1).is_allowed())).sum()
        };
        // All keys fall into the first shard: two places and one overflow entry.
        assert_eq!(admitted(3, each), 3);
        assert_eq!(places.taken(), 2);
        drop(table);
        assert_eq!(places.taken(), 0, "a table that goes gives its places back");
    };
    shuttle::check_random(test, schedules());
}

#[test]
fn tables_that_come_go_and_evict_keep_the_places_counted() {
    let test = || {
        let policy = Arc::new(Limit::per_second(4).into());
        let places = Arc::new(Places::new(4, DEFAULT_MAX_BYTES));
        let table = Table::sharing(&policy, &places);
        let shared = Arc::clone(&places);
        let each = move |thread: u64| {
            // One thread floods the first table; the others have tables of their own, which come and go.
            let own = (thread > 0).then(|| Table::sharing(&policy, &shared));
            let table = own.as_ref().unwrap_or(&table);
            let keys = 1 + 10 * thread..4 + 10 * thread;
            keys.map(|key| u64::from(table.check(key, NOW, 1 + key % 4).is_allowed())).sum()
        };
        let _ = admitted(3, each);
        assert!(places.taken() <= 4);
        places.assert_counted();
    };
    shuttle::check_random(test, schedules() / 10);
}

/// Keys move to more shards, twice, while they are checked, their policy changes, and a sweep goes through the shards.
#[test]
fn a_table_that_grows_loses_no_key() {
    let test = || {
        let policy: Arc<Policy> = Arc::new(Limit::per_second(1).into());
        let places = Arc::new(Places::new(8 * 1_024, DEFAULT_MAX_BYTES));
        let table = Table::sharing(&policy, &places);
        let growing = Arc::clone(&table);
        let each = move |thread: u64| {
            if thread == 2 {
                let doubled: Arc<Policy> = Arc::new(Limit::per_second(1).with_capacity(1).into());
                growing.set_policy(Variant::BASE, &doubled, NOW).expect("the same limit");
                growing.sweep(NOW);
            }
            // In all shards, whatever their number.
            let keys = (1..=6_u64).map(|key| key.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            keys.map(|key| u64::from(growing.check(key, NOW, 1).is_allowed())).sum()
        };
        assert_eq!(admitted(3, each), 6, "each key once");
        assert_eq!(table.len(), 6);
        assert_eq!(places.taken(), 6);
    };
    shuttle::check_random(test, schedules() / 10);
}

/// Tasks that wait their turn, of which every third gives up; returns those that passed, in order.
fn pass_in_turn(tasks: u64, leave: fn(crate::wait::Place<'_>)) -> (Vec<u64>, Vec<u64>) {
    let line = Arc::new(Line::default());
    let joined = Arc::new(Mutex::new(Vec::new()));
    let passed = Arc::new(Mutex::new(Vec::new()));
    let handles: Vec<_> = (0..tasks)
        .map(|i| {
            let (line, joined, passed) = (line.clone(), joined.clone(), passed.clone());
            thread::spawn(move || {
                let place = {
                    let mut joined = joined.lock().unwrap();
                    joined.push(i);
                    line.join(KEY, 1, 100).expect("there is room")
                };
                if i % 3 == 2 {
                    return leave(place);
                }
                future::block_on(poll_fn(|context| place.poll_turn(context)));
                passed.lock().unwrap().push(i);
                leave(place);
            })
        })
        .collect();
    for handle in handles {
        handle.join().expect("no thread panics");
    }
    assert_eq!(line.backlog(KEY), 0, "a waiter is left in the queue");
    let stayed = joined.lock().unwrap().iter().filter(|i| **i % 3 != 2).copied().collect();
    let passed = passed.lock().unwrap().clone();
    (stayed, passed)
}

#[test]
fn waiters_pass_in_order_whoever_gives_up() {
    let test = || {
        let (stayed, passed) = pass_in_turn(4, |place| drop(place));
        assert_eq!(stayed, passed);
    };
    shuttle::check_random(test, 2 * schedules());
}

#[test]
fn a_nudge_is_never_lost() {
    let test = || {
        let line = Arc::new(Line::default());
        let given_back = Arc::new(AtomicU64::new(0));
        let (nudging, giving) = (line.clone(), given_back.clone());
        let place = line.join(KEY, 1, 1).expect("there is room");
        let giver = thread::spawn(move || {
            giving.store(1, Ordering::SeqCst);
            nudging.nudge(KEY);
        });
        while given_back.load(Ordering::SeqCst) == 0 {
            future::block_on(poll_fn(|context| place.poll_nudged(context)));
        }
        giver.join().expect("no thread panics");
    };
    shuttle::check_random(test, 2 * schedules());
}

#[test]
fn planted_look_then_charge_is_caught() {
    let test = || {
        let table = table(Limit::per_second(2), 4);
        let each = move |_| {
            let allowed = table.peek(KEY, NOW, 1).is_allowed();
            let _ = table.check(KEY, NOW, 1);
            u64::from(allowed)
        };
        assert!(admitted(3, each) <= 2);
    };
    assert!(catch_unwind(|| shuttle::check_random(test, 10_000)).is_err());
}

#[test]
fn planted_leaving_without_waking_is_caught() {
    let test = || {
        let _ = pass_in_turn(3, |place| std::mem::forget(place));
    };
    assert!(catch_unwind(|| shuttle::check_random(test, 10_000)).is_err());
}
