//! The same decisions as the core's, by the hundred thousand.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use waterclock::{Charge, Policy, Store, Timestamp};
use waterclock_conformance::property::{self, Property};
use waterclock_conformance::real::RedisServer;
use waterclock_conformance::reference::{Answer, PolicySpec};
use waterclock_conformance::{Case, Core, Event, Family, Subject, answer, judge, verb};
use waterclock_redis::RedisStore;

/// Decisions compared per kind of policy.
pub(crate) fn decisions() -> u64 {
    let wanted = std::env::var("WATERCLOCK_REDIS_DECISIONS").ok().and_then(|n| n.parse().ok());
    wanted.unwrap_or(100_000)
}

/// Traces per property and kind of policy; each takes several times its length in round trips.
fn cases() -> u64 {
    decisions() / 400
}

/// Traces under way at once: they share exchanges, as checks of real callers do.
const AT_ONCE: u64 = 64;

/// The store, with the trace's time.
pub(crate) struct Redis {
    runtime: Runtime,
    url: String,
    store: Mutex<RedisStore>,
    runs: AtomicU64,
}

impl Redis {
    pub(crate) fn new(server: &RedisServer) -> Self {
        let (runtime, url) = (Runtime::new().unwrap(), server.url());
        let store = Mutex::new(store(&url, "first"));
        Self { runtime, url, store, runs: AtomicU64::new(0) }
    }
}

/// A store that sees no other's records. One cannot serve all runs: its marks tell policies apart by
/// the hundred, not by the hundred thousand.
pub(crate) fn store(url: &str, prefix: &str) -> RedisStore {
    let patient = Duration::from_secs(10);
    RedisStore::builder(url).prefix(prefix).deadline(patient).start().unwrap()
}

/// A policy of the spec under a name of its own, so that no run sees another's records.
pub(crate) fn named(spec: &PolicySpec, name: &str) -> Policy {
    let policy = waterclock_conformance::policy(spec);
    let mode = policy.mode();
    let same = Policy::new(name, policy.limits().iter().cloned()).unwrap();
    same.with_mode(mode).unwrap().with_shadow(policy.is_shadow())
}

async fn run(store: &RedisStore, name: &str, spec: &PolicySpec, trace: &[Event]) -> Vec<Answer> {
    // By the hundred thousand, some policies share a mark with a neighbour; one is renamed, as told.
    let mut name = name.to_owned();
    while let Err(error) = store.set_policy(named(spec, &name)).await {
        assert!(
            error.to_string().contains("cannot be distinguished from") && name.len() < 20,
            "{error}"
        );
        name.push('x');
    }
    let name = &*name;
    let (mut answers, mut latest) = (Vec::with_capacity(trace.len()), 0);
    for event in trace {
        latest = latest.max(event.at_ns);
        let charge = Charge::new(name, b"alice", event.cost);
        let given =
            store.apply_at(Timestamp::from_nanos(latest), verb(event.verb), &[charge]).await;
        let given = given.unwrap_or_else(|error| panic!("{error}: {spec:?} {trace:?}"));
        answers.push(answer(&given[0]));
    }
    answers
}

impl Subject for Redis {
    const TICK_NS: u64 = 1_000;

    /// Sweeping is Redis's own business; in trace time nothing expires, so there is nothing to see.
    fn run(&self, spec: &PolicySpec, trace: &[Event], _sweep: bool) -> Vec<Answer> {
        let run = self.runs.fetch_add(1, Ordering::Relaxed);
        let mut shared = self.store.lock().unwrap();
        let _context = self.runtime.enter();
        if run.is_multiple_of(AT_ONCE) {
            *shared = store(&self.url, &format!("run{run}"));
        }
        self.runtime.block_on(self::run(&shared, &format!("p{run}"), spec, trace))
    }
}

/// Compares with the core on so many decisions.
pub(crate) fn same_as_core(redis: &Redis, family: Family, decisions: u64) {
    let compared = redis.runtime.block_on(async {
        let (mut seed, mut compared) = (0, 0);
        while compared < decisions {
            let mut under_way = JoinSet::new();
            let shared = store(&redis.url, &format!("seed{seed}"));
            for seed in seed..seed + AT_ONCE {
                let store = shared.clone();
                under_way.spawn(async move {
                    let case = Case::draw(family, seed, Redis::TICK_NS);
                    let there = run(&store, &format!("p{seed}"), &case.spec, &case.trace).await;
                    let here = Core.run(&case.spec, &case.trace, false);
                    assert_eq!(there, here, "{family:?}, seed {seed}: {case:#?}");
                    here.len() as u64
                });
            }
            seed += AT_ONCE;
            while let Some(done) = under_way.join_next().await {
                compared +=
                    done.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
            }
        }
        compared
    });
    println!("{family:?}: {compared} decisions, the same");
}

macro_rules! parity {
    ($($test:ident: $family:ident),* $(,)?) => {$(
        #[test]
        fn $test() {
            let server = RedisServer::start();
            let redis = Redis::new(&server);
            same_as_core(&redis, Family::$family, decisions());
            let properties: Vec<Property<Redis>> = property::all();
            judge(&redis, Family::$family, &properties, cases());
        }
    )*};
}

parity! {
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
    error_rate: ErrorRate,
    several: Several,
}
