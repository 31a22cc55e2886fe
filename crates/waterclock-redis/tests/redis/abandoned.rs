//! Callers that stop in the middle of a check or a reservation over several slots of a cluster, as if their node died:
//! what they held expires.

use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use waterclock::{
    Charge, FixedWindow, Gcra, Hold, LeakyBucket, Limit, Mode, OnExpiry, Policy, RollingWindow,
    SlidingWindow, Store, StoreError, Timestamp, Verb,
};
use waterclock_conformance::real::Cluster;
use waterclock_redis::{OnStoreError, RedisStore, Serving};

use crate::kinds::{UNITS, every_kind};
use crate::oracle::{Bound, Call, Log, over_admission};
use crate::scene::{HOUR, SECOND, asking, millis};

/// How many callers stop.
const STOPPED: usize = 250;
const DAY: Duration = Duration::from_secs(86_400);
const DEADLINE: Duration = Duration::from_secs(2);
const LIMIT: u64 = 100;
const COST: u64 = 10;

/// A policy of 100 of each kind, none of which come back while the test runs.
fn policies() -> Vec<Policy> {
    let bucket = Gcra::new(1, DAY).unwrap().with_capacity(LIMIT);
    let window = Limit::from(FixedWindow::new(LIMIT, DAY).unwrap());
    let rolling = Limit::from(RollingWindow::new(LIMIT, DAY).unwrap());
    let policy = |name: &str, limit: Limit| Policy::new(name, [limit]).unwrap();
    let both = [window.clone().with_name("window"), rolling.clone().with_name("rolling")];
    vec![
        policy("bucket", bucket.into()),
        policy("overdraft", bucket.with_overdraft(true).into()),
        policy("leaky", LeakyBucket::new(LIMIT, 1, HOUR).unwrap().into()),
        policy("window", window),
        policy("rolling", rolling),
        policy("sliding", SlidingWindow::new(LIMIT, DAY).unwrap().into()),
        Policy::new("both", both).unwrap(),
    ]
}

async fn connected(cluster: &Cluster, policies: Vec<Policy>) -> RedisStore {
    let deny = Serving::new(OnStoreError::Deny);
    let store = asking(&cluster.url()).deadline(DEADLINE).serving(deny).connect().await.unwrap();
    for policy in policies {
        store.set_policy_as(policy, deny).await.unwrap();
    }
    store
}

/// One attempt: three keys of its own, in any slots.
struct Attempt {
    keys: [(String, String); 3],
    is_answered: bool,
}

impl Attempt {
    fn new(number: usize, policies: &[Policy]) -> Self {
        let name = |n: usize| policies[(number + n) % policies.len()].name().to_owned();
        let keys = [0, 1, 2].map(|n| (name(n), format!("{n} of {number}")));
        Self { keys, is_answered: false }
    }

    fn charges(&self, cost: u64) -> Vec<Charge<'_>> {
        let keys = self.keys.iter().map(|(policy, key)| (policy.as_str(), key.as_bytes()));
        keys.map(|(policy, key)| Charge::new(policy, key, cost)).collect()
    }

    /// Whether each key is charged.
    async fn is_charged(&self, store: &RedisStore) -> [bool; 3] {
        let mut charged = [false; 3];
        for (charge, charged) in self.charges(0).into_iter().zip(&mut charged) {
            let answers = store.apply(Verb::Peek, &[charge]).await.unwrap();
            *charged = answers[0].limits.iter().all(|limit| limit.remaining < limit.limit);
        }
        charged
    }
}

/// Stops callers at any point, and waits until what they held has expired: then an attempt has charged all of its keys or
/// none of them, and all if it was answered.
async fn stop_callers(
    store: &RedisStore,
    expires: Duration,
    call: impl AsyncFn(&[Charge<'_>], usize) -> Result<(), StoreError>,
) {
    let policies = policies();
    let mut takes = DEADLINE;
    for number in 0..16 {
        let number = 1_000_000 + number;
        let (attempt, start) = (Attempt::new(number, &policies), Instant::now());
        call(&attempt.charges(COST), number).await.unwrap();
        takes = start.elapsed().min(takes);
    }
    let (mut attempts, mut stopped, mut in_the_middle) = (Vec::new(), 0, 0);
    while stopped < STOPPED {
        assert!(attempts.len() < 20 * STOPPED, "only {stopped} callers stopped");
        let mut attempt = Attempt::new(attempts.len(), &policies);
        let patience = takes.mul_f64(1.5 * fastrand::f64());
        let answer = timeout(patience, call(&attempt.charges(COST), attempts.len())).await;
        attempt.is_answered = matches!(answer, Ok(Ok(())));
        if answer.is_err() {
            stopped += 1;
            let charged = attempt.is_charged(store).await;
            in_the_middle += usize::from(charged.contains(&true) && charged.contains(&false));
        }
        attempts.push(attempt);
    }
    assert!(in_the_middle >= STOPPED / 20, "{in_the_middle} of {stopped} stopped in the middle");
    sleep(expires).await;
    let (mut all, mut none) = (0, 0);
    for attempt in &attempts {
        match attempt.is_charged(store).await {
            [true, true, true] => all += 1,
            [false, false, false] if !attempt.is_answered => none += 1,
            other => panic!("{other:?} of {:?}, {}", attempt.keys, attempt.is_answered),
        }
    }
    let answered = attempts.iter().filter(|attempt| attempt.is_answered).count();
    println!(
        "{stopped} stopped, {in_the_middle} in the middle; {answered} answered, {all} charged, {none} not"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_check_that_nobody_finishes_leaves_nothing_charged() {
    let cluster = Cluster::start(3, 0);
    let store = connected(&cluster, policies()).await;
    let expires = DEADLINE + SECOND + millis(100);
    let check = async |charges: &[Charge<'_>], _| {
        let answers = store.apply(Verb::Check, charges).await?;
        assert!(answers.iter().all(|answer| answer.decision.is_allowed()));
        Ok(())
    };
    stop_callers(&store, expires, check).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reservation_that_nobody_finishes_leaves_nothing_charged() {
    const TTL: Duration = Duration::from_secs(20);
    let cluster = Cluster::start(3, 0);
    let store = connected(&cluster, policies()).await;
    let reserve = async |charges: &[Charge<'_>], number: usize| {
        let (id, on_expiry) = (format!("hold{number}"), OnExpiry::Keep);
        let hold = Hold { id: Some(&id), ttl: Some(TTL), charges, on_expiry };
        assert!(store.reserve(&hold).await?.id.is_some());
        Ok(())
    };
    stop_callers(&store, TTL + SECOND + millis(100), reserve).await;
}

/// What is charged whatever other slots say stands, also if the same script gave back something else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_always_counts_is_not_taken_back() {
    let cluster = Cluster::start(3, 0);
    let window = || [FixedWindow::new(LIMIT, DAY).unwrap()];
    let counts = Policy::new("counts", window()).unwrap().with_mode(Mode::CountRefusals).unwrap();
    let shadow = Policy::new("shadow", window()).unwrap().with_shadow(true);
    let store = connected(&cluster, vec![counts, shadow]).await;
    let start = Timestamp::from_micros(1_794_000_000_000_000);
    let charges = ["counts", "shadow"].map(|policy| Charge::new(policy, policy.as_bytes(), COST));
    let hold =
        Hold { id: None, ttl: Some(SECOND), charges: &charges, on_expiry: OnExpiry::Release };
    assert!(store.reserve_at(start, &hold).await.unwrap().id.is_some());
    let over = start.after(2 * SECOND);
    let answers = store.apply_at(over, Verb::Check, &charges).await.unwrap();
    assert!(answers.iter().all(|answer| answer.decision.is_allowed()));
    let later = over.after(DEADLINE + 2 * SECOND);
    for answer in store.apply_at(later, Verb::Peek, &charges).await.unwrap() {
        assert_eq!(answer.limits[0].remaining, Some(LIMIT - COST));
    }
}

/// What is taken back long after it was charged is taken back where it was charged: while windows end and buckets drain,
/// nobody gets more than a limit admits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_expires_is_taken_back_where_it_was_charged() {
    const TIME: Duration = Duration::from_secs(8);
    let cluster = Cluster::start(3, 0);
    let kinds = every_kind();
    let mut policies: Vec<Policy> =
        kinds.iter().map(|kind| Policy::new(kind.name, [kind.limit.clone()]).unwrap()).collect();
    policies.push(Policy::new("open", [FixedWindow::new(1_000_000_000, HOUR).unwrap()]).unwrap());
    let store = connected(&cluster, policies).await;
    let mut callers = JoinSet::new();
    let logs: Vec<(&'static str, Log)> = kinds.iter().map(|kind| (kind.name, Log::new())).collect();
    for (name, log) in &logs {
        for stops in [false, true] {
            let (store, log, name) = (store.clone(), log.clone(), *name);
            callers.spawn(async move {
                let mut stopped = 0;
                while log.now() < TIME {
                    let key = Charge::new(name, b"key", 1);
                    let other = format!("open {}", fastrand::u8(..));
                    let other = Charge::new("open", other.as_bytes(), 1);
                    if stops {
                        let patience = Duration::from_micros(fastrand::u64(..2_000));
                        let both = log.check_with(&store, key, std::slice::from_ref(&other));
                        stopped += u64::from(timeout(patience, both).await.is_err());
                    } else {
                        log.check(&store, key).await;
                    }
                    sleep(millis(fastrand::u64(1..60))).await;
                }
                stopped
            });
        }
    }
    let stopped: u64 = callers.join_all().await.into_iter().sum();
    // A fast machine finishes most of them.
    assert!(stopped >= 50, "{stopped} stopped");
    for (name, log) in &logs {
        let calls = log.calls();
        let admitted: u64 = calls.iter().map(Call::granted).sum();
        assert!(admitted > 0, "{name} admits nothing");
        let has_edges = ["fixed", "sliding", "quota"].iter().any(|kind| name.starts_with(kind));
        let capacity = match *name {
            _ if has_edges => 2 * UNITS,
            // C + drip·⌈D/every⌉: up to a drip more than the rate alone.
            "leaky in steps" => UNITS + 2,
            _ => UNITS,
        };
        let bound = Bound { capacity, limit: UNITS, per: SECOND, extra: 0 };
        over_admission(&calls, &bound).unwrap_or_else(|why| panic!("{name}: {why}"));
    }
}
