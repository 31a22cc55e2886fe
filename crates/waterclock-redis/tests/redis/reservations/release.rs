//! Reservations that are given back when they expire: noted beside the key, done by the next script about it.

use std::time::Duration;

use tokio::time::sleep;
use waterclock::{
    Answer, Charge, Concurrency, Cost, ErrorRate, Failure, FixedWindow, Gcra, Hold, Limit,
    ManualClock, MemoryStore, Mode, OnExpiry, Outcome, Policy, Reserved, RollingWindow, Settlement,
    Store, StoreError, Timestamp, Verb,
};
use waterclock_conformance::real::RedisServer;
use waterclock_redis::RedisStore;

use crate::kinds::{UNITS, every_kind};
use crate::parity::decisions;
use crate::scene::{HOUR, PATIENT, SECOND, asking, check, keys, millis, remaining, store, units};

async fn reserve(
    store: &impl Store,
    id: &str,
    cost: u64,
    ttl: Duration,
) -> Result<Reserved, StoreError> {
    let (charges, on_expiry) = (&[units("key", cost)], OnExpiry::Release);
    store.reserve(&Hold { id: Some(id), ttl: Some(ttl), charges, on_expiry }).await
}

fn window(limit: u64) -> Policy {
    Policy::new("p", [FixedWindow::aligned(limit, 24 * HOUR).unwrap()]).unwrap()
}

/// Nobody settles it, and nobody asks meanwhile: a peek is the first to see that it was given back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_nobody_settles_is_given_back() {
    let rolling = Policy::new("p", [RollingWindow::new(100, HOUR).unwrap()]).unwrap();
    let still = Policy::new("p", [Gcra::new(1, HOUR).unwrap().with_capacity(100)]).unwrap();
    for policy in [window(100), rolling, still] {
        let server = RedisServer::start();
        let store = store(asking(&server.url()).deadline(PATIENT), policy).await;
        assert!(check(&store, units("key", 10)).await.decision.is_allowed());
        let settled = reserve(&store, "settled", 20, 10 * PATIENT).await.unwrap();
        assert!(settled.id.is_some());
        assert_eq!(remaining(&store, "key").await, 70);
        super::commit(&store, "settled", 5).await.unwrap();
        assert_eq!(remaining(&store, "key").await, 85);
        assert_eq!(keys(&server).len(), 2, "nothing is due: the record and the reservation");
        assert!(reserve(&store, "left", 40, SECOND).await.unwrap().id.is_some());
        assert_eq!(keys(&server).len(), 4);
        for key in keys(&server) {
            assert!(server.command(&[b"PTTL", &*key]).as_int() > 0, "every key expires");
        }
        sleep(SECOND + millis(50)).await;
        assert_eq!(remaining(&store, "key").await, 85);
        assert!(!keys(&server).iter().any(|key| key.ends_with(b":due")), "it is tidied up");
        let late = super::commit(&store, "left", 1).await.unwrap_err();
        assert_eq!(late, StoreError::UnknownReservation("left".into()));
        assert_eq!(remaining(&store, "key").await, 85);
    }
}

/// Units are given back; then the clock steps back to before that. What is settled now is charged what was used, and
/// nothing is given back again. `grace` is how much later than its time a reservation is given back.
pub(super) async fn steps_back(store: &RedisStore, grace: Duration) {
    const TTL: Duration = Duration::from_secs(60);
    let start = Timestamp::from_micros(1_794_000_000_000_000);
    let (over, back) = (start.after(TTL + grace), start.after(SECOND));
    for (key, with, used) in [
        ("less", Settlement::Commit(&[Cost::from(30)]), 30),
        ("more", Settlement::Commit(&[Cost::from(70)]), 70),
        ("cancelled", Settlement::Cancel, 0),
    ] {
        let left = async |at| {
            let answers = store.apply_at(at, Verb::Peek, &[units(key, 0)]).await.unwrap();
            answers[0].decision.remaining().unwrap()
        };
        let (ttl, charges, on_expiry) = (Some(TTL), &[units(key, 60)], OnExpiry::Release);
        let hold = Hold { id: Some(key), ttl, charges, on_expiry };
        assert!(store.reserve_at(start, &hold).await.unwrap().id.is_some());
        assert_eq!(left(start).await, 40);
        assert_eq!(left(over).await, 100);
        store.apply_at(over, Verb::Check, &[units(key, 20)]).await.unwrap();
        store.settle_at(back, key, with).await.unwrap();
        assert_eq!(left(back).await, (100_u64 - 20).saturating_sub(used), "{key}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_released_is_not_given_back_again() {
    let server = RedisServer::start();
    let store = store(asking(&server.url()).deadline(PATIENT), window(100)).await;
    steps_back(&store, Duration::ZERO).await;
}

/// So many may be outstanding per key. One more is refused and charges nothing; one without release is not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_outstanding_is_bounded_per_key() {
    const MOST: u64 = 256;
    let server = RedisServer::start();
    let store = store(asking(&server.url()).deadline(PATIENT), window(10_000)).await;
    for number in 0..MOST {
        // Each ends before those that were made before.
        let ttl = HOUR - Duration::from_secs(number);
        assert!(reserve(&store, &format!("{number}"), 1, ttl).await.unwrap().id.is_some());
    }
    let full = reserve(&store, "more", 1, HOUR).await.unwrap_err();
    assert_eq!((full.failure(), full.may_have_charged()), (Some(Failure::Overloaded), false));
    assert!(full.to_string().contains("256 "), "{full}");
    assert_eq!(remaining(&store, "key").await, 10_000 - MOST);
    assert!(super::hold(&store, "kept", "key", 1).await.unwrap().id.is_some());
    super::commit(&store, "77", 3).await.unwrap();
    assert!(reserve(&store, "more", 1, HOUR).await.unwrap().id.is_some());
    assert_eq!(remaining(&store, "key").await, 10_000 - MOST - 1 - 3);
    for number in (0..MOST).filter(|number| *number != 77) {
        store.settle(&format!("{number}"), Settlement::Cancel).await.unwrap();
    }
    assert_eq!(remaining(&store, "key").await, 10_000 - 1 - 1 - 3);
}

/// The limits of a policy of every kind, of several of them, and of what is held at once; and what they become.
fn policies(scale: u64) -> Vec<Policy> {
    let window = Limit::from(FixedWindow::aligned(7 * scale, SECOND).unwrap());
    let bucket = Gcra::new(4 * scale, SECOND).unwrap().with_capacity(6 * scale);
    let rolling = RollingWindow::new(9 * scale, 2 * SECOND).unwrap();
    let at_once = Limit::from(Concurrency::new(5 * scale, 4 * SECOND).unwrap());
    let breaker = ErrorRate::new(5_000, SECOND, 2, SECOND).unwrap();
    let named = |limit: Limit, name: &str| limit.with_name(name);
    let several = || {
        [named(window.clone(), "w"), named(rolling.into(), "r"), named(bucket.into(), "b")]
            .into_iter()
    };
    let shadow = named(rolling.into(), "s").with_shadow(true);
    let mut policies = vec![
        Policy::new("several", several()).unwrap(),
        Policy::new("part", several()).unwrap().with_mode(Mode::Partial).unwrap(),
        Policy::new("counts", [window.clone()]).unwrap().with_mode(Mode::CountRefusals).unwrap(),
        Policy::new("shadow", several().chain([shadow])).unwrap(),
        Policy::new("at once", several().chain([named(at_once, "c")])).unwrap(),
        Policy::new("breaker", several().chain([named(breaker.into(), "e")])).unwrap(),
    ];
    if scale == 1 {
        let kinds = every_kind().into_iter();
        policies.extend(kinds.map(|kind| Policy::new(kind.name, [kind.limit]).unwrap()));
    }
    policies
}

/// A policy in memory and in Redis, by the same time.
struct Both {
    clock: ManualClock,
    memory: MemoryStore<ManualClock>,
    redis: RedisStore,
    now: Timestamp,
    policy: String,
    done: Vec<String>,
}

impl Both {
    fn ours<'a>(&'a self, cost: u64) -> Charge<'a> {
        Charge::new(&self.policy, b"key", cost)
    }

    async fn apply(&mut self, verb: Verb, cost: u64) {
        self.done.push(format!("{verb:?} {cost}"));
        let charges = [self.ours(cost)];
        let here: Result<Vec<Answer>, _> = self.memory.apply(verb, &charges).await;
        let there = self.redis.apply_at(self.now, verb, &charges).await;
        assert_eq!(there, here, "{}: {:#?}", self.policy, self.done);
    }

    async fn reserve(&mut self, id: &str, cost: u64, ttl: Duration, on_expiry: OnExpiry) {
        self.done.push(format!("reserve {id} {cost} {ttl:?} {on_expiry:?}"));
        let charges = &[self.ours(cost)];
        let hold = Hold { id: Some(id), ttl: Some(ttl), charges, on_expiry };
        let here = self.memory.reserve(&hold).await;
        let there = self.redis.reserve_at(self.now, &hold).await;
        assert_eq!(there, here, "{}: {:#?}", self.policy, self.done);
    }

    async fn settle(&mut self, id: &str, with: Settlement<'_>) {
        self.done.push(format!("settle {id} {with:?}"));
        let here = self.memory.settle(id, with).await;
        let there = self.redis.settle_at(self.now, id, with).await;
        assert_eq!(there, here, "{}: {:#?}", self.policy, self.done);
    }

    /// A new definition is in effect from its first use on, in Redis; so it is used at once.
    async fn change(&mut self, policy: &Policy) {
        self.done.push("change".into());
        self.memory.set_policy(policy.clone()).await.unwrap();
        self.redis.set_policy(policy.clone()).await.unwrap();
        self.apply(Verb::Debit, 1).await;
    }

    fn wait(&mut self, time: Duration) {
        self.done.push(format!("wait {time:?}"));
        self.now = self.now.after(time);
        self.clock.set(self.now);
    }
}

/// Any calls in any order: the same answers as in memory, at every step.
async fn same_as_memory(url: &str, seed: u64, versions: [Policy; 2]) {
    let clock = ManualClock::default();
    let memory = MemoryStore::new(16, clock.clone());
    let name = versions[0].name().to_owned();
    let redis = crate::parity::store(url, &format!("{name}{seed}"));
    let now = Timestamp::from_micros(1_794_000_000_000_000);
    let mut both = Both { clock, memory, redis, now, policy: name, done: Vec::new() };
    both.clock.set(now);
    both.memory.set_policy(versions[0].clone()).await.unwrap();
    both.redis.set_policy(versions[0].clone()).await.unwrap();
    let mut rng = fastrand::Rng::with_seed(seed);
    for _ in 0..60 {
        let cost = rng.u64(0..UNITS);
        let id = format!("{}", rng.u8(0..6));
        match rng.u8(0..32) {
            0..8 => both.wait(millis(rng.u64(0..700))),
            8..15 => {
                let ttl = millis(rng.u64(1..2_000));
                let keeps = rng.u8(0..6) == 0;
                let on_expiry = if keeps { OnExpiry::Keep } else { OnExpiry::Release };
                both.reserve(&id, cost.max(1), ttl, on_expiry).await;
            }
            15..18 => both.settle(&id, Settlement::Commit(&[Cost::from(cost)])).await,
            18 => both.settle(&id, Settlement::Cancel).await,
            19..24 => both.apply(Verb::Check, cost).await,
            24..28 => both.apply(Verb::Peek, cost).await,
            28 => both.apply(Verb::Refund, cost).await,
            29 => {
                both.apply(Verb::Reset, 1).await;
                // What was charged at this very instant, before, is not told from what will be: memory gives it back.
                both.wait(Duration::from_micros(1));
            }
            30 => both.apply(Verb::Report(Outcome::Error), 1).await,
            _ => both.change(&versions[rng.usize(0..2)]).await,
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_calls_in_any_order_are_answered_as_in_memory() {
    let server = RedisServer::start();
    let (here, larger) = (policies(1), policies(3));
    for seed in 0..decisions() / 400 {
        for (number, policy) in here.iter().enumerate() {
            let later = larger.get(number).unwrap_or(policy);
            same_as_memory(&server.url(), seed, [policy.clone(), later.clone()]).await;
        }
    }
}
