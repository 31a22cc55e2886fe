//! Charges of checks over several slots of a cluster, on trace time: those that stand, and those whose caller was gone before
//! it knew.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::sleep;
use waterclock::{
    Charge, ErrorRate, FixedWindow, Gcra, Limit, Outcome, Policy, Quota, Store, Timestamp, Verb,
};
use waterclock_conformance::real::Cluster;
use waterclock_redis::RedisStore;

use crate::scene::{HOUR, PATIENT, SECOND, asking, keys, millis};

const LIMIT: u64 = 100;
const DAY: Duration = Duration::from_secs(86_400);
/// A check that its caller abandoned is undone after the deadline and another second.
const NOTED: Duration = Duration::from_secs(6);
/// Midnight: a quota has lost nothing yet.
const START: Timestamp = Timestamp::from_micros(20_764 * 86_400_000_000);

async fn connected(cluster: &Cluster, limits: Vec<(&str, Limit)>) -> RedisStore {
    for node in cluster.nodes() {
        node.command(&["CONFIG", "SET", "cluster-node-timeout", "60000"]).unwrap();
    }
    let store = asking(&cluster.url()).deadline(PATIENT).connect().await.unwrap();
    for (name, limit) in limits {
        store.set_policy(Policy::new(name, [limit]).unwrap()).await.unwrap();
    }
    store
}

async fn remaining(store: &RedisStore, at: Timestamp, policy: &str, key: &str) -> u64 {
    let charge = Charge::new(policy, key.as_bytes(), 0);
    let answers = store.apply_at(at, Verb::Peek, &[charge]).await.unwrap();
    answers[0].decision.remaining().unwrap()
}

/// What stands is noted no more: the record says nothing of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_stands_leaves_no_note() {
    let cluster = Cluster::start(3, 0);
    let plain = Limit::per_minute(LIMIT).into();
    let store = connected(&cluster, vec![("plain", plain)]).await;
    let names: Vec<String> = (0..8).map(|n| format!("{n}")).collect();
    let charges: Vec<Charge<'_>> =
        names.iter().map(|key| Charge::new("plain", key.as_bytes(), 1)).collect();
    let answers = store.apply_at(START, Verb::Check, &charges).await.unwrap();
    assert!(answers.iter().all(|answer| answer.decision.is_allowed()));
    let mut records = 0;
    for node in cluster.nodes() {
        for record in keys(node) {
            let text = node.command(&[b"GET", &*record]).as_text();
            assert!(text.bytes().all(|byte| byte.is_ascii_digit()), "{text}");
            records += 1;
        }
    }
    assert_eq!(records, names.len());
}

/// Two checks whose callers abandoned them are undone one after the other, each where it was charged, after the first has
/// drained in part. Later charges stand.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_nobody_stands_by_is_taken_back_one_after_the_other() {
    let cluster = Cluster::start(3, 0);
    // A unit takes ten thirds of a second.
    let thirds = Gcra::new(3, 10 * SECOND).unwrap().with_capacity(LIMIT);
    let quota = Quota::new(LIMIT, DAY).unwrap();
    let breaker = ErrorRate::new(5_000, HOUR, 1, 4 * SECOND).unwrap();
    let open = FixedWindow::new(LIMIT, HOUR).unwrap();
    let limits = [
        ("thirds", Limit::from(thirds)),
        ("quota", quota.into()),
        ("breaker", breaker.into()),
        ("open", open.into()),
    ];
    let store = connected(&cluster, limits.into()).await;
    let scene = Scene::new(&cluster, &store, &["thirds", "quota", "breaker"]).await;
    let after = |time: Duration| START.after(time);
    let before = Timestamp::from_nanos(START.as_nanos() - 10_000_000_000);
    let error = Verb::Report(Outcome::Error);
    store.apply_at(before, error, &[scene.charge("breaker", 1)]).await.unwrap();

    cluster.nodes()[scene.silent].pause();
    scene.abandon(START, &["thirds", "quota", "breaker"]).await;
    scene.abandon(after(SECOND), &["thirds", "quota"]).await;
    cluster.nodes()[scene.silent].resume();
    for (policy, at) in
        [("thirds", SECOND), ("quota", SECOND), ("breaker", 4 * SECOND + millis(100))]
    {
        let charge = scene.charge(policy, 1);
        let answers = store.apply_at(after(at), Verb::Check, &[charge]).await.unwrap();
        assert!(answers[0].decision.is_allowed(), "{policy}");
    }
    for over in [NOTED, NOTED + SECOND] {
        let at = after(over + millis(100));
        for policy in ["thirds", "quota", "breaker"] {
            let peeked = store.apply_at(at, Verb::Peek, &[scene.charge(policy, 1)]).await.unwrap();
            // The second probe is out.
            assert_eq!(peeked[0].decision.is_allowed(), policy != "breaker", "{policy}");
        }
    }
    let at = after(NOTED + SECOND + millis(100));
    for policy in ["thirds", "quota"] {
        assert_eq!(remaining(&store, at, policy, &scene.keys[policy]).await, LIMIT - 1, "{policy}");
    }
}

/// A key of each policy, and one of `open` that is charged after them, on a primary of its own.
struct Scene<'a> {
    cluster: &'a Cluster,
    store: &'a RedisStore,
    keys: HashMap<&'static str, String>,
    last: String,
    silent: usize,
}

impl<'a> Scene<'a> {
    async fn new(
        cluster: &'a Cluster,
        store: &'a RedisStore,
        policies: &[&'static str],
    ) -> Scene<'a> {
        let slot_of = async |policy: &str, key: &str| {
            let charge = [Charge::new(policy, key.as_bytes(), 1)];
            // A check that a breaker admits leaves no record.
            let error = Verb::Report(Outcome::Error);
            let verb = if policy == "breaker" { error } else { Verb::Check };
            store.apply_at(START, verb, &charge).await.unwrap();
            let record = cluster.nodes().iter().flat_map(keys).next().expect("a record");
            let slot = cluster.slot_of(record);
            store.apply_at(START, Verb::Reset, &charge).await.unwrap();
            slot
        };
        let (mut last, mut highest) = (String::new(), 0);
        for key in (0..9).map(|n| format!("{n}")) {
            let slot = slot_of("open", &key).await;
            if slot >= highest {
                (last, highest) = (key, slot);
            }
        }
        let silent = cluster.primary_of_slot(highest);
        let mut chosen = HashMap::new();
        for policy in policies {
            for key in (0..).map(|n| format!("{n}")) {
                let slot = slot_of(policy, &key).await;
                if slot < highest && cluster.primary_of_slot(slot) != silent {
                    chosen.insert(*policy, key);
                    break;
                }
            }
        }
        Scene { cluster, store, keys: chosen, last, silent }
    }

    fn charge<'b>(&'b self, policy: &'b str, cost: u64) -> Charge<'b> {
        Charge::new(policy, self.keys[policy].as_bytes(), cost)
    }

    /// How many bytes are noted of charges that may be taken back.
    fn noted(&self) -> i64 {
        let nodes = self.cluster.nodes().iter().enumerate().filter(|(n, _)| *n != self.silent);
        let noted = nodes.flat_map(|(_, node)| {
            let due = keys(node).into_iter().filter(|key| key.ends_with(b":due"));
            due.map(|key| node.command(&[b"STRLEN", &*key]).as_int())
        });
        noted.sum()
    }

    /// A check of all of them, of which the caller leaves when all but the last are charged.
    async fn abandon(&self, at: Timestamp, policies: &[&'static str]) {
        let units = |policy: &&'static str| if *policy == "breaker" { 1 } else { 2 };
        let mut charges: Vec<Charge<'_>> =
            policies.iter().map(|policy| self.charge(policy, units(policy))).collect();
        charges.push(Charge::new("open", self.last.as_bytes(), 1));
        let before = self.noted();
        let each = i64::try_from(policies.len()).unwrap() * (24 + 28);
        let is_noted = async {
            while self.noted() < before + each {
                sleep(millis(5)).await;
            }
        };
        tokio::select! {
            answered = self.store.apply_at(at, Verb::Check, &charges) => panic!("{answered:?}"),
            () = is_noted => {}
        }
    }
}
