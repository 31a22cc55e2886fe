//! The longest log there is: 65,536 units, each at an instant of its own.

use std::time::Duration;

use tokio::task::JoinSet;
use waterclock::{
    Answer, Charge, Cost, Hold, MAX_LOG, ManualClock, MemoryStore, OnExpiry, Policy, RollingWindow,
    Settlement, Store, Timestamp, Verb,
};
use waterclock_conformance::real::RedisServer;
use waterclock_redis::RedisStore;

use super::none_is_kept_for_ever;
use crate::scene::{HOUR, PATIENT, asking, store, units};

/// Checks under way at once: the server sees them in the order in which they were started.
const AT_ONCE: u64 = 128;
const START: Timestamp = Timestamp::from_micros(1_794_000_000_000_000);
/// Bytes of a reply, whatever the log is.
const MOST_BYTES: u64 = 200;

fn one() -> Charge<'static> {
    units("key", 1)
}

struct Both {
    clock: ManualClock,
    memory: MemoryStore<ManualClock>,
    redis: RedisStore,
}

impl Both {
    async fn new(server: &RedisServer, policy: Policy) -> Self {
        let clock = ManualClock::default();
        let memory = MemoryStore::new(20_000, clock.clone());
        memory.set_policy(policy.clone()).await.unwrap();
        let redis = store(asking(&server.url()).deadline(2 * PATIENT), policy).await;
        Self { clock, memory, redis }
    }

    async fn apply(&self, at: Timestamp, verb: Verb, cost: u64) -> Answer {
        self.clock.set(at);
        let charges = [units("key", cost)];
        let here = self.memory.apply(verb, &charges).await.unwrap();
        let there = self.redis.apply_at(at, verb, &charges).await.unwrap();
        assert_eq!(there, here, "{verb:?} of {cost} at {at:?}");
        there.into_iter().next().unwrap()
    }

    /// Checks of one unit, one a microsecond.
    async fn fill(&self, from: Timestamp, times: u64) -> Timestamp {
        let mut at = from;
        for _ in 0..times / AT_ONCE {
            let mut under_way = JoinSet::new();
            for _ in 0..AT_ONCE {
                at = at.after(Duration::from_micros(1));
                self.clock.set(at);
                let here = self.memory.apply(Verb::Check, &[one()]).await.unwrap();
                let redis = self.redis.clone();
                under_way.spawn(async move {
                    let there = redis.apply_at(at, Verb::Check, &[one()]).await.unwrap();
                    assert_eq!(there, here, "at {at:?}");
                });
            }
            under_way.join_all().await;
        }
        at
    }

    /// Asks for costs of all sizes.
    async fn look(&self, at: Timestamp) {
        for part in 0..=16 {
            self.apply(at, Verb::Peek, MAX_LOG * part / 16).await;
        }
    }

    async fn hold(&self, at: Timestamp, id: &str, cost: u64) {
        self.clock.set(at);
        let charges = [units("key", cost)];
        let (ttl, on_expiry) = (Some(HOUR), OnExpiry::Keep);
        let hold = Hold { id: Some(id), ttl, charges: &charges, on_expiry };
        let here = self.memory.reserve(&hold).await.unwrap();
        assert!(here.id.is_some());
        assert_eq!(self.redis.reserve_at(at, &hold).await.unwrap(), here);
    }

    async fn cancel(&self, at: Timestamp, id: &str) {
        self.clock.set(at);
        let here = self.memory.settle(id, Settlement::Cancel).await.unwrap();
        assert_eq!(self.redis.settle_at(at, id, Settlement::Cancel).await.unwrap(), here);
    }

    async fn commit(&self, at: Timestamp, id: &str, used: u64) {
        self.clock.set(at);
        let used = [Cost::from(used)];
        let here = self.memory.settle(id, Settlement::Commit(&used)).await.unwrap();
        let there = self.redis.settle_at(at, id, Settlement::Commit(&used)).await.unwrap();
        assert_eq!(there, here);
        self.look(at).await;
    }

    /// Bytes that the server sends for one call, on average.
    async fn reply_bytes(&self, server: &RedisServer, at: Timestamp, verb: Verb, cost: u64) -> u64 {
        const CALLS: u64 = 20;
        let sent = || {
            let line = server.info("stats", "total_net_output_bytes").unwrap();
            line.trim().trim_start_matches("total_net_output_bytes:").parse::<u64>().unwrap()
        };
        let (before, asked) = (sent(), sent());
        for _ in 0..CALLS {
            self.redis.apply_at(at, verb, &[units("key", cost)]).await.unwrap();
        }
        (sent() - asked).saturating_sub(asked - before) / CALLS
    }
}

#[tokio::test]
async fn the_longest_window() {
    let server = RedisServer::start();
    let window = RollingWindow::new(MAX_LOG, HOUR).unwrap();
    let both = Both::new(&server, Policy::new("p", [window]).unwrap()).await;
    both.apply(START, Verb::Check, 1).await;
    let fifth = MAX_LOG / 5 / AT_ONCE * AT_ONCE;
    let mut at = both.fill(START, fifth).await;
    for id in ["early", "late"] {
        at = at.after(Duration::from_micros(1));
        both.hold(at, id, 100).await;
        at = both.fill(at, 2 * fifth).await;
    }
    both.look(at).await;
    both.commit(at, "early", 0).await;
    both.commit(at, "late", 150).await;
    at = both.fill(at, fifth).await;
    let full = both.apply(at, Verb::Check, 1).await.decision;
    assert!(!full.is_allowed() && full.remaining() == Some(0), "{full:?}");
    for (verb, cost) in
        [(Verb::Check, 1), (Verb::Check, 40_000), (Verb::Peek, 1), (Verb::Peek, 40_000)]
    {
        let bytes = both.reply_bytes(&server, at, verb, cost).await;
        println!("a full window, {verb:?} of {cost}: {bytes} bytes");
        assert!(bytes <= MOST_BYTES, "{verb:?} of {cost}: {bytes} bytes");
    }
    none_is_kept_for_ever(&server);
    // The oldest go as fast as others come.
    let later = START.after(HOUR);
    let at = both.fill(later, 32 * AT_ONCE).await;
    both.look(at).await;
    both.apply(at, Verb::Refund, 50_000).await;
    both.look(at).await;
    let at = both.fill(at, 8 * AT_ONCE).await;
    both.apply(at, Verb::Debit, 3 * MAX_LOG).await;
    both.look(at).await;
    both.apply(at.after(HOUR), Verb::Check, MAX_LOG).await;
}

/// Many are held and cancelled between others that stay: they leave no entries behind, which debits would count.
#[tokio::test]
async fn cancelled_in_the_middle() {
    const LIMIT: u64 = 60;
    let server = RedisServer::start();
    let window = RollingWindow::new(LIMIT, HOUR).unwrap();
    let both = Both::new(&server, Policy::new("p", [window]).unwrap()).await;
    let mut at = START;
    for kept in 0..LIMIT {
        let ids: Vec<String> = (kept + 1..LIMIT).map(|i| format!("{kept}-{i}")).collect();
        for id in &ids {
            at = at.after(Duration::from_secs(1));
            both.hold(at, id, 1).await;
        }
        at = at.after(Duration::from_secs(1));
        both.apply(at, Verb::Check, 1).await;
        for id in &ids {
            both.cancel(at, id).await;
        }
    }
    both.apply(at, Verb::Debit, 1).await;
    for cost in 0..=LIMIT {
        both.apply(at, Verb::Peek, cost).await;
    }
}
