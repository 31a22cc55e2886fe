//! Random traces of holding and settling, through Redis and through memory.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use waterclock::{
    Answer, Charge, Concurrency, Cost, FixedWindow, Gcra, Hold, Limit, ManualClock, MemoryStore,
    Mode, OnExpiry, Policy, Reserved, Settled, Settlement, Store, StoreError, Timestamp, Verb,
};
use waterclock_conformance::Family;
use waterclock_conformance::real::RedisServer;
use waterclock_conformance::reservations::{ReservationCase, run};
use waterclock_redis::RedisStore;

use crate::parity::{decisions, named, store};
use crate::scene::{HOUR, SECOND};

/// Traces under way at once.
const AT_ONCE: u64 = 64;

/// A store in the time of a trace. Policies and ids have names of their own, so that traces share a server.
struct Traced {
    store: RedisStore,
    name: String,
    now_ns: AtomicU64,
}

impl Traced {
    fn now(&self) -> Timestamp {
        Timestamp::from_nanos(self.now_ns.load(Ordering::Relaxed))
    }

    fn ours<'a>(&'a self, charges: &[Charge<'a>]) -> Vec<Charge<'a>> {
        charges.iter().map(|charge| Charge { policy: &self.name, ..charge.clone() }).collect()
    }

    fn id(&self, id: &str) -> String {
        format!("{}.{id}", self.name)
    }
}

impl Store for Traced {
    async fn set_policy(&self, policy: Policy) -> Result<(), StoreError> {
        self.store.set_policy(policy).await
    }

    async fn apply(&self, verb: Verb, charges: &[Charge<'_>]) -> Result<Vec<Answer>, StoreError> {
        self.store.apply_at(self.now(), verb, &self.ours(charges)).await
    }

    async fn reserve(&self, hold: &Hold<'_>) -> Result<Reserved, StoreError> {
        let id = hold.id.map(|id| self.id(id));
        let ours = Hold { id: id.as_deref(), charges: &self.ours(hold.charges), ..*hold };
        let mut reserved = self.store.reserve_at(self.now(), &ours).await?;
        assert!(reserved.id.is_none() || reserved.id == id);
        reserved.id = reserved.id.and(hold.id.map(str::to_owned));
        Ok(reserved)
    }

    async fn settle(&self, id: &str, with: Settlement<'_>) -> Result<Settled, StoreError> {
        self.store.settle_at(self.now(), &self.id(id), with).await
    }
}

/// One trace through both; how many steps were the same.
async fn compare(store: RedisStore, family: Family, seed: u64) -> u64 {
    let ReservationCase { spec, steps } = ReservationCase::draw(family, seed, 1_000);
    let clock = ManualClock::default();
    let memory = MemoryStore::new(16, clock.clone());
    memory.set_policy(waterclock_conformance::policy(&spec)).await.unwrap();
    let here = run(&memory, &steps, |at_ns| clock.set(Timestamp::from_nanos(at_ns))).await;
    let mut traced = Traced { store, name: format!("p{seed}"), now_ns: AtomicU64::new(0) };
    while let Err(error) = traced.set_policy(named(&spec, &traced.name)).await {
        assert!(error.to_string().contains("cannot be distinguished from"), "{error}");
        traced.name.push('x');
    }
    let there = run(&traced, &steps, |at_ns| traced.now_ns.store(at_ns, Ordering::Relaxed)).await;
    let differs = there.iter().zip(&here).position(|(there, here)| there != here);
    if let Some(at) = differs {
        let (there, here) = (&there[at], &here[at]);
        panic!(
            "{family:?}, seed {seed}, step {at}: {there:#?}, not {here:#?}\n{spec:#?} {steps:#?}"
        );
    }
    here.len() as u64
}

fn same_as_memory(family: Family) {
    let server = RedisServer::start();
    Runtime::new().unwrap().block_on(async {
        let (mut seed, mut compared) = (0, 0);
        while compared < decisions() {
            let shared = store(&server.url(), &format!("seed{seed}"));
            let mut under_way = JoinSet::new();
            for seed in seed..seed + AT_ONCE {
                under_way.spawn(compare(shared.clone(), family, seed));
            }
            seed += AT_ONCE;
            while let Some(done) = under_way.join_next().await {
                compared +=
                    done.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
            }
        }
        println!("{family:?}: {compared} steps, the same");
    });
}

macro_rules! families {
    ($($test:ident: $family:ident),* $(,)?) => {
        $(#[test] fn $test() { same_as_memory(Family::$family); })*
    };
}

families! {
    gcra: Gcra,
    leaky_one_by_one: LeakyOneByOne,
    leaky_staircase: LeakyStaircase,
    fixed_first: FixedFirst,
    fixed_epoch: FixedEpoch,
    fixed_calendar: FixedCalendar,
    sliding: Sliding,
    rolling_exact: RollingExact,
    rolling_buckets: RollingBuckets,
    quota: Quota,
    even_slots: EvenSlots,
    min_interval: MinInterval,
    concurrency: Concurrency,
    error_rate: ErrorRate,
    several: Several,
}

/// Policies whose charges meet in one reservation.
fn policies() -> Vec<Policy> {
    let window = FixedWindow::aligned(20, HOUR).unwrap();
    vec![
        Policy::new("bucket", [Gcra::new(10, SECOND).unwrap()]).unwrap(),
        Policy::new("part", [window]).unwrap().with_mode(Mode::Partial).unwrap(),
        Policy::new("shadow", [FixedWindow::new(3, SECOND).unwrap()]).unwrap().with_shadow(true),
    ]
}

/// Several charges in one hold, some of them for the same key.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_charges_are_held_and_settled_together() {
    let server = RedisServer::start();
    let clock = ManualClock::default();
    let memory = MemoryStore::new(16, clock.clone());
    let redis = store(&server.url(), "several");
    for policy in policies() {
        memory.set_policy(policy.clone()).await.unwrap();
        redis.set_policy(policy).await.unwrap();
    }
    let mut rng = fastrand::Rng::with_seed(7);
    let mut now = Timestamp::from_micros(1_794_000_000_000_000);
    for number in 0..400 {
        now = now.after(std::time::Duration::from_millis(rng.u64(0..400)));
        clock.set(now);
        let any = |rng: &mut fastrand::Rng| {
            Charge::new(
                ["bucket", "part", "shadow"][rng.usize(0..3)],
                [b"a".as_slice(), b"b"][rng.usize(0..2)],
                rng.u64(0..5),
            )
        };
        let charges: Vec<Charge<'_>> = (0..rng.usize(1..5)).map(|_| any(&mut rng)).collect();
        let id = format!("hold{number}");
        let hold = Hold { id: Some(&id), ttl: None, charges: &charges, on_expiry: OnExpiry::Keep };
        let here = memory.reserve(&hold).await;
        assert_eq!(redis.reserve_at(now, &hold).await, here, "{charges:?}");
        // Nothing but zeros is an error.
        let Ok(here) = here else { continue };
        if here.id.is_none() {
            continue;
        }
        let half =
            |rng: &mut fastrand::Rng, cost: &Cost| Cost::from(cost.most() * rng.u64(0..3) / 2);
        let used: Vec<Cost> = charges.iter().map(|charge| half(&mut rng, &charge.cost)).collect();
        let with = if rng.u8(0..4) == 0 { Settlement::Cancel } else { Settlement::Commit(&used) };
        let here = memory.settle(&id, with).await.unwrap();
        assert_eq!(redis.settle_at(now, &id, with).await.unwrap(), here, "{charges:?}");
        let nine = [const { 0_u64 }; 9].map(Cost::from);
        let too_many = Settlement::Commit(&nine);
        assert_eq!(redis.settle_at(now, &id, too_many).await.unwrap(), here, "settled once");
    }
}

/// A limit in shadow would have admitted it, but it is never settled there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_reservation_holds_nothing_in_shadow() {
    let server = RedisServer::start();
    let one = Limit::from(Concurrency::new(1, HOUR).unwrap()).with_name("one");
    let many = Limit::from(Concurrency::new(9, HOUR).unwrap()).with_name("many").with_shadow(true);
    let redis = store(&server.url(), "shadow");
    redis.set_policy(Policy::new("p", [one, many]).unwrap()).await.unwrap();
    let now = Timestamp::from_micros(1_794_000_000_000_000);
    let charges = [Charge::new("p", b"a", 1)];
    for (id, is_held) in [("first", true), ("second", false), ("third", false)] {
        let hold = Hold { id: Some(id), ttl: None, charges: &charges, on_expiry: OnExpiry::Keep };
        let reserved = redis.reserve_at(now, &hold).await.unwrap();
        assert_eq!(reserved.id.is_some(), is_held, "{id}");
        assert_eq!(reserved.answers[0].limits[1].remaining, Some(8), "{id}");
    }
    redis.settle_at(now, "first", Settlement::Cancel).await.unwrap();
    let answers = redis.apply_at(now, Verb::Peek, &charges).await.unwrap();
    let left: Vec<_> = answers[0].limits.iter().map(|limit| limit.remaining).collect();
    assert_eq!(left, [Some(1), Some(9)]);
}
