//! Lease mode: hot keys are spent without asking, within the bound that comes with it.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use waterclock::{
    FixedWindow, Gcra, KeyOverride, Limit, Override, Policy, RollingWindow, SlidingWindow, Source,
    Store, Verb,
};
use waterclock_conformance::real::RedisServer;
use waterclock_redis::{Lease, RedisStore, RedisStoreBuilder, Serving};

use crate::oracle::{Bound, Call, Log, over_admission};
use crate::scene::{
    HOUR, PATIENT, SECOND, Traffic, asking, bucket, check, commands, millis, one, remaining,
    script_calls, still_bucket, store, units, used_of_still_bucket,
};

async fn leasing(server: &RedisServer, policy: Policy, size: u64, ttl: Duration) -> RedisStore {
    store(leases(server, Lease::new(size, ttl)), policy).await
}

fn leases(server: &RedisServer, lease: Lease) -> RedisStoreBuilder {
    let serving = Serving::default().with_lease(Some(lease));
    RedisStore::builder(&server.url()).deadline(PATIENT).serving(serving)
}

/// Lets a key become hot: then some of its units are leased.
async fn warm_up(store: &RedisStore, key: &str) {
    for _ in 0..3 {
        assert!(check(store, one(key)).await.decision.is_allowed());
    }
}

/// Limits of windows, alone and beside a bucket.
fn windows(limit: u64, per: Duration) -> [Policy; 4] {
    let fixed: Limit = FixedWindow::new(limit, per).unwrap().into();
    let sliding: Limit = SlidingWindow::new(limit, per).unwrap().into();
    let rolling: Limit = RollingWindow::new(limit, per).unwrap().into();
    let bucket: Limit = Gcra::new(limit, per).unwrap().into();
    let policy = |limits: Vec<Limit>| Policy::new("p", limits).unwrap();
    [
        policy(vec![fixed.clone()]),
        policy(vec![sliding]),
        policy(vec![rolling]),
        policy(vec![fixed, bucket]),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_does_not_answer_what_fills() {
    let server = RedisServer::start();
    let policy = still_bucket(100);
    let store = leasing(&server, policy.clone(), 50, PATIENT).await;
    for _ in 0..3 {
        check(&store, one("hot")).await;
    }
    assert_eq!(store.fill(&policy, &one("hot")).await, Ok(1.into()));
}

/// Two nodes on one hot key. Beyond the limit's bound there is what both may hold at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_nodes_stay_within_the_bound() {
    let server = RedisServer::start();
    let (policy, bound) = bucket(200, SECOND, 50);
    let (log, mut traffic) = (Log::new(), Vec::new());
    for _ in 0..2 {
        let store = leasing(&server, policy.clone(), 10, SECOND).await;
        traffic.push(Traffic::start_on(&log, &store, "hot", 8, millis(2)));
    }
    let start = Instant::now();
    sleep(2 * SECOND).await;
    let passed = start.elapsed();
    for traffic in traffic {
        traffic.stop().await;
    }
    let calls = log.calls();
    over_admission(&calls, &Bound { extra: 2 * 10, ..bound }).unwrap();
    let granted: u64 = calls.iter().map(Call::granted).sum();
    let due = bound.capacity + 200 * u64::try_from(passed.as_millis()).unwrap() / 1_000;
    // Units still leased at the end were granted to no caller.
    assert!(granted + 2 * 10 + 5 >= due, "{granted} of {due}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_is_asked_once_per_lease() {
    let server = RedisServer::start();
    let store = leasing(&server, still_bucket(10_000), 50, PATIENT).await;
    let before = script_calls(&server);
    let mut leased = 0;
    for _ in 0..2_000 {
        leased += u64::from(check(&store, one("hot")).await.source == Source::Lease);
    }
    let asked = script_calls(&server) - before;
    // One for the first, which is cold; then each takes 50 or, if more is taken ahead, what is missing of that.
    assert!((1 + 1_999_u64.div_ceil(51)..=2 + 1_999 / 37).contains(&asked), "{asked}");
    assert!(leased + asked >= 2_000, "{leased} by a lease");
    println!("lease of 50: {asked} calls of Redis for 2000 decisions");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cold_key_is_asked_for_once_and_leased_nothing() {
    let server = RedisServer::start();
    let store = leasing(&server, still_bucket(100), 10, SECOND).await;
    let before = script_calls(&server);
    for key in 0..100 {
        let answer = check(&store, one(&format!("key {key}"))).await;
        assert_eq!(answer.source, Source::Authoritative);
    }
    assert_eq!(script_calls(&server) - before, 100);
    assert_eq!(remaining(&store, "key 7").await, 99);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_spent_comes_back() {
    let server = RedisServer::start();
    let store = leasing(&server, still_bucket(100), 30, millis(200)).await;
    for _ in 0..3 {
        check(&store, one("key")).await;
    }
    assert_eq!(used_of_still_bucket(&server), 1 + 1 + 30);
    let start = Instant::now();
    while used_of_still_bucket(&server) != 3 {
        assert!(start.elapsed() < SECOND, "{} are used", used_of_still_bucket(&server));
        sleep(millis(10)).await;
    }
    println!("a lease of 200 ms is returned after {:?}", start.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_are_returned_on_shutdown() {
    let server = RedisServer::start();
    let store = leasing(&server, still_bucket(100), 30, PATIENT).await;
    for _ in 0..3 {
        check(&store, one("key")).await;
    }
    store.close().await;
    assert_eq!(used_of_still_bucket(&server), 3);
}

/// A key that is asked for steadily, but not so often that its leases are spent in time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_that_run_out_in_use_come_back_too() {
    let server = RedisServer::start();
    let store = leasing(&server, still_bucket(1_000), 20, millis(60)).await;
    for _ in 0..40 {
        check(&store, one("key")).await;
        sleep(millis(15)).await;
    }
    sleep(millis(200)).await;
    assert_eq!(used_of_still_bucket(&server), 40);
}

/// A refused check that costs more than a lease takes nothing out that others could use.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_cost_takes_no_large_lease() {
    let server = RedisServer::start();
    let node = leasing(&server, still_bucket(100), 10, PATIENT).await;
    let other = store(asking(&server.url()).deadline(PATIENT), still_bucket(100)).await;
    for _ in 0..3 {
        check(&node, one("key")).await;
    }
    for _ in 0..3 {
        assert!(!check(&node, units("key", 98)).await.decision.is_allowed());
    }
    assert!(check(&other, units("key", 100 - 3 - 10)).await.decision.is_allowed());
}

/// An exhausted hot key is not asked for before it can pass.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_hot_key_is_not_asked_for() {
    let server = RedisServer::start();
    let store = leasing(&server, still_bucket(20), 10, PATIENT).await;
    let granted = async {
        let mut granted = 0;
        for _ in 0..25 {
            granted += check(&store, one("key")).await.decision.granted();
        }
        granted
    };
    assert_eq!(granted.await, 20);
    let before = script_calls(&server);
    for _ in 0..100 {
        assert_eq!(check(&store, one("key")).await.source, Source::DeniedCache);
    }
    assert_eq!(script_calls(&server), before);
    // It need not wait, until something is given back.
    let refused = store.apply_one_now(Verb::Check, &one("key")).unwrap().unwrap();
    assert_eq!((refused.source, refused.decision.granted()), (Source::DeniedCache, 0));
    let (decision, source) = store.decide_now(&one("key")).unwrap().unwrap();
    assert_eq!((decision.is_allowed(), source), (false, Source::DeniedCache));
    store.apply(Verb::Refund, &[one("key")]).await.unwrap();
    assert_eq!(store.apply_one_now(Verb::Check, &one("key")), None);
    assert!(check(&store, one("key")).await.decision.is_allowed());
}

/// Without Redis a lease is spent to its end, then the node's share.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_costs_the_lease_and_the_share() {
    let server = RedisServer::start();
    let store = leasing(&server, still_bucket(20), 10, PATIENT).await;
    for _ in 0..3 {
        check(&store, one("key")).await;
    }
    server.kill();
    let mut by = std::collections::HashMap::new();
    for _ in 0..100 {
        let answer = check(&store, one("key")).await;
        *by.entry(answer.source.name()).or_insert(0) += answer.decision.granted();
    }
    assert_eq!((by["lease"], by["local"]), (9, 20), "{by:?}");
}

/// Units that an idle node holds of a window are free again for others, within that window.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn windows_get_back_what_is_not_spent() {
    for policy in windows(1_000, HOUR) {
        let server = RedisServer::start();
        let idle = leasing(&server, policy.clone(), 300, millis(150)).await;
        let other = store(asking(&server.url()).deadline(PATIENT), policy.clone()).await;
        warm_up(&idle, "key").await;
        assert!(remaining(&other, "key").await <= 1_000 - 300, "{policy:?}");
        // Commands of this test make some, too: those of the store are `CLIENT SETINFO` and the like.
        let connections = || commands(&server, &["hello", "client|setinfo", "role"]);
        let before = connections();
        let start = Instant::now();
        while remaining(&other, "key").await < 997 {
            assert!(start.elapsed() < PATIENT, "{policy:?}");
            sleep(millis(10)).await;
        }
        assert_eq!(connections(), before, "a return is no reason to connect again");
        // Not one more than was admitted, and not one less.
        assert!(check(&other, units("key", 997)).await.decision.is_allowed(), "{policy:?}");
        assert!(!check(&other, one("key")).await.decision.is_allowed(), "{policy:?}");
    }
}

/// Units of a window that has ended are not given back to the next one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_window_gets_nothing_back_of_another() {
    const WINDOW: Duration = Duration::from_secs(3);
    let server = RedisServer::start();
    let policy = Policy::new("p", [FixedWindow::new(20, WINDOW).unwrap()]).unwrap();
    let idle = leasing(&server, policy.clone(), 10, 2 * PATIENT).await;
    let other = store(asking(&server.url()).deadline(PATIENT), policy).await;
    let start = Instant::now();
    warm_up(&idle, "key").await;
    assert!(remaining(&other, "key").await <= 8);
    sleep((WINDOW + millis(50)).saturating_sub(start.elapsed())).await;
    assert!(check(&other, units("key", 20)).await.decision.is_allowed());
    let full = Instant::now();
    idle.close().await;
    let answer = check(&other, one("key")).await;
    // A machine may be so busy that the window has ended meanwhile.
    assert!(!answer.decision.is_allowed() || full.elapsed() >= WINDOW, "{answer:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn windows_of_two_nodes_stay_within_the_bound() {
    for policy in windows(40, SECOND) {
        let server = RedisServer::start();
        let (log, mut traffic) = (Log::new(), Vec::new());
        for _ in 0..2 {
            let node = leasing(&server, policy.clone(), 8, millis(300)).await;
            traffic.push(Traffic::start_on(&log, &node, "hot", 4, millis(3)));
        }
        sleep(2 * SECOND).await;
        for traffic in traffic {
            traffic.stop().await;
        }
        let bound = Bound { capacity: 80, limit: 40, per: SECOND, extra: 2 * 8 };
        over_admission(&log.calls(), &bound)
            .unwrap_or_else(|error| panic!("{policy:?}: {error:?}"));
    }
}

/// Automatic leases of all nodes together are a tenth of the limit at most.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn automatic_leases_stay_within_a_tenth() {
    const NODES: u64 = 4;
    let server = RedisServer::start();
    let (policy, bound) = bucket(2_000, SECOND, 400);
    let (log, mut traffic) = (Log::new(), Vec::new());
    for _ in 0..NODES {
        let node = store(leases(&server, Lease::Auto).nodes(NODES), policy.clone()).await;
        traffic.push(Traffic::start_on(&log, &node, "hot", 4, millis(1)));
    }
    sleep(2 * SECOND).await;
    for traffic in traffic {
        traffic.stop().await;
    }
    let calls = log.calls();
    over_admission(&calls, &Bound { extra: 400 / 10, ..bound }).unwrap();
    let is_leased = |call: &&Call| call.source() == Some(Source::Lease);
    let leased: u64 = calls.iter().filter(is_leased).map(Call::granted).sum();
    let granted: u64 = calls.iter().map(Call::granted).sum();
    assert!(leased > granted / 4, "{leased} of {granted}");
}

/// The more a key is asked for, the fewer of its checks reach Redis.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn automatic_leases_grow_with_the_demand() {
    let server = RedisServer::start();
    let store = store(leases(&server, Lease::Auto), still_bucket(100_000)).await;
    let before = script_calls(&server);
    for _ in 0..5_000 {
        assert!(check(&store, one("hot")).await.decision.is_allowed());
    }
    let asked = script_calls(&server) - before;
    assert!(asked < 1_000, "{asked}");
    // A limit too small to share is decided by Redis.
    let small = leases(&server, Lease::Auto).prefix("other").connect().await.unwrap();
    small.set_policy(still_bucket(9)).await.unwrap();
    for _ in 0..9 {
        assert_eq!(check(&small, one("hot")).await.source, Source::Authoritative);
    }
}

/// Callers that find a lease used up wait for one call of Redis, not for one each.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_share_one_refill() {
    let server = RedisServer::start();
    let store = leasing(&server, still_bucket(100_000), 1_000, PATIENT).await;
    check(&store, one("hot")).await;
    let before = script_calls(&server);
    let mut callers = tokio::task::JoinSet::new();
    for _ in 0..64 {
        let store = store.clone();
        callers.spawn(async move { check(&store, one("hot")).await.decision.is_allowed() });
    }
    assert!(callers.join_all().await.into_iter().all(|allowed| allowed));
    assert_eq!(script_calls(&server) - before, 1);
}

/// What is leased is spent without waiting, and only while its policy is what it was.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hot_key_is_answered_at_once_under_its_present_limits() {
    let server = RedisServer::start();
    let store = leasing(&server, still_bucket(1_000), 100, PATIENT).await;
    let now = |key| store.apply_one_now(Verb::Check, &one(key));
    assert_eq!(now("key"), None);
    warm_up(&store, "key").await;
    let answer = now("key").unwrap().unwrap();
    assert_eq!((answer.source, answer.decision.remaining()), (Source::Lease, Some(996)));
    assert_eq!(now("another"), None);
    let (decision, source) = store.decide_now(&one("key")).unwrap().unwrap();
    assert_eq!((source, decision.remaining()), (Source::Lease, Some(995)));
    // A cost that is more than is held, a peek and a factor are for Redis.
    assert_eq!(store.apply_one_now(Verb::Check, &units("key", 101)), None);
    assert_eq!(store.apply_one_now(Verb::Peek, &one("key")), None);

    let serving = Serving::default().with_lease(Some(Lease::new(100, PATIENT)));
    store.set_policy_as(still_bucket(10), serving).await.unwrap();
    assert_eq!(now("key"), None);
    let answer = check(&store, one("key")).await;
    assert_eq!(answer.decision.remaining(), Some(4), "five were spent before");
}

/// Units of a key that was reset are not returned: they would be given back twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reset_ends_a_lease() {
    let server = RedisServer::start();
    let node = leasing(&server, still_bucket(100), 50, PATIENT).await;
    warm_up(&node, "key").await;
    node.apply(Verb::Reset, &[one("key")]).await.unwrap();
    assert_eq!(node.apply_one_now(Verb::Check, &one("key")), None);
    let other = store(asking(&server.url()).deadline(PATIENT), still_bucket(100)).await;
    assert!(check(&other, units("key", 100)).await.decision.is_allowed());
    node.close().await;
    assert!(!check(&other, one("key")).await.decision.is_allowed());
}

/// What another node has charged under a new definition is not touched by units that were taken under the old one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_of_an_old_definition_leave_a_new_one_alone() {
    let server = RedisServer::start();
    let old = leasing(&server, still_bucket(100), 50, PATIENT).await;
    warm_up(&old, "key").await;
    let new = store(asking(&server.url()).deadline(PATIENT), still_bucket(1_000)).await;
    assert!(check(&new, units("key", 900)).await.decision.is_allowed());
    let left = remaining(&new, "key").await;
    old.close().await;
    assert_eq!(remaining(&new, "key").await, left);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_override_ends_a_lease_at_once() {
    let server = RedisServer::start();
    let store = leasing(&server, still_bucket(1_000), 100, PATIENT).await;
    warm_up(&store, "key").await;
    assert!(store.apply_one_now(Verb::Check, &one("key")).is_some());
    store.set_override("p", &KeyOverride::new("key", Override::Block)).await.unwrap();
    assert_eq!(store.apply_one_now(Verb::Check, &one("key")), None);
    assert!(!check(&store, one("key")).await.decision.is_allowed());
}
