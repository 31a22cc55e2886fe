//! The engine behind every face: policies by name, keys, overrides, one store.

mod check;
mod disk;
mod kept;
mod key;
mod line;
mod overrides;
mod plan;
mod policy;
mod quota;
mod reply;
mod reservation;
mod shadow;
mod snapshot;
mod store;
mod throttle;
mod wait;

pub use self::check::{Caller, Check};
pub use self::kept::{Kept, KeptError};
pub use self::key::{BadKey, Key, MAX_KEY};
pub use self::plan::{Plan, UnknownPolicy};
pub use self::policy::{ActivePolicy, Rate, TIER};
pub use self::reply::{Outcome, Reply};
pub use self::reservation::{Holding, Terms};
pub use self::store::redis_store;
pub use self::throttle::{ThrottleNumbers, ThrottlePolicy};

#[cfg(feature = "simulation")]
#[doc(hidden)]
pub use self::disk::{Disk, Output};

pub(crate) use self::check::missing_answer;
pub(crate) use self::line::{LineBounds, LineFull, Place};
pub(crate) use self::quota::Taken;
pub(crate) use self::reservation::Reservation;
pub(crate) use self::snapshot::examine_snapshot;
pub(crate) use self::store::{StoreNodes, certificate_authority};
pub(crate) use self::wait::{Attempt, PendingCheck};

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use serde::Serialize;
use tracing::warn;
use waterclock::store::ReservationIds;
use waterclock::{Clock, DynStore, Limit, Limiter, MemoryStore, TscClock};
use waterclock_config::{Config, Invalid};

use self::kept::KeptState;
use self::line::Lines;
use self::snapshot::SnapshotFile;
use self::throttle::Throttle;
use crate::observe::{Face, Metrics, Refused, Tally, TopRefused, Totals};
use crate::reference::Pushed;

/// Policies, overrides and the store behind them.
pub struct Engine {
    store: DynStore,
    /// The same store, if it is in memory.
    memory: Option<MemoryStore<TscClock>>,
    /// Where a memory store is kept between two runs.
    snapshot: Option<SnapshotFile>,
    /// How many servers share the store, as the configuration says.
    nodes: u64,
    plan: ArcSwap<Plan>,
    /// What is known of the policies that the store keeps.
    kept: KeptState,
    lines: Arc<Lines>,
    throttle: Throttle,
    /// Whether the store has the policy of charges that nothing limits.
    unlimited: tokio::sync::OnceCell<()>,
    /// For reservations of which nothing is held.
    exempt_ids: ReservationIds,
    undecided: Tally,
    undecided_log: Limiter,
    metrics: Arc<Metrics>,
    refused: Refused,
}

/// The counters of one policy, as `/v1/live` shows them.
#[derive(Serialize)]
pub(crate) struct PolicyCount {
    pub(crate) name: String,
    pub(crate) totals: Totals,
    pub(crate) keys: usize,
    pub(crate) reservations: usize,
    limits: Vec<LimitCount>,
}

#[derive(Serialize)]
struct LimitCount {
    name: String,
    /// The most a fresh key can admit at once; null where there is no such number.
    limit: Option<u64>,
}

impl Engine {
    /// An engine with the policies of a configuration, on the store it names.
    pub async fn new(config: &Config, metrics: Arc<Metrics>) -> Result<Engine, Invalid> {
        let (store, memory) = store::open(&config.store)?;
        let snapshot = memory.as_ref().and(config.store.snapshot.as_ref());
        let snapshot = snapshot.map(|path| SnapshotFile::open(path)).transpose()?;
        let plan = Plan::new(config, &metrics)?;
        let engine = Engine {
            store,
            memory,
            snapshot,
            nodes: config.store.nodes,
            plan: ArcSwap::from_pointee(Plan::empty(match config.is_pushed() {
                true => Pushed::awaited(),
                false => Pushed::default(),
            })),
            kept: KeptState::default(),
            lines: Arc::default(),
            throttle: Throttle::new(config.server.max_throttle_period, |family| {
                metrics.tally(family)
            }),
            exempt_ids: ReservationIds::default(),
            unlimited: tokio::sync::OnceCell::new(),
            undecided: metrics.tally(""),
            undecided_log: Limiter::new(Limit::per_second(1)),
            refused: Refused::new(config.server.show_keys, metrics.clock().now()),
            metrics,
        };
        store::probe(&engine.store).await?;
        engine.activate(plan).await?;
        if let (Some(memory), Some(snapshot)) = (&engine.memory, &engine.snapshot) {
            snapshot.restore_kept(memory);
        }
        engine.load_kept().await;
        let invalid = |error: waterclock::StoreError| Invalid::from(error.to_string());
        // In memory, a policy has its share of places from when it is first used, or before its keys are restored.
        if engine.memory.is_none() || engine.snapshot.is_some() {
            engine.set_up_throttle().await.map_err(invalid)?;
            engine.set_up_unlimited().await.map_err(invalid)?;
        }
        if let (Some(memory), Some(snapshot)) = (&engine.memory, &engine.snapshot) {
            snapshot.restore(memory);
        }
        Ok(engine)
    }

    /// The configuration in force. Hold it for one request, so that a reload does not change it half way.
    pub fn plan(&self) -> Guard<Arc<Plan>> {
        self.plan.load()
    }

    /// The store.
    pub fn store(&self) -> &DynStore {
        &self.store
    }

    /// The counters.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// The counters of refused keys.
    pub(crate) fn refused(&self) -> &Refused {
        &self.refused
    }

    /// The keys that were refused most in the last minutes, of all policies or of one.
    pub(crate) fn top_refused(&self, policy: Option<&str>) -> TopRefused {
        let plan = self.plan();
        self.refused.top(policy, |policy, key| {
            plan.policy(policy).map(|active| active.fields_of(key)).unwrap_or_default()
        })
    }

    /// Counts a request that no policy decided, for a reason that is logged once a second at most.
    pub(crate) fn count_undecided(&self, face: Face, why: &str) {
        self.undecided.count(face, Outcome::Error);
        if self.undecided_log.check().is_allowed() {
            warn!(protocol = face.name(), "a request was not decided: {why}");
        }
    }

    /// Counts a decision about a key.
    #[inline]
    fn count(&self, face: Face, policy: &ActivePolicy, key: &[u8], outcome: Outcome) {
        self.count_as(face, (policy.name(), policy.tally()), key, outcome);
    }

    #[inline]
    fn count_as(&self, face: Face, (name, tally): (&str, &Tally), key: &[u8], outcome: Outcome) {
        tally.count(face, outcome);
        if matches!(outcome, Outcome::Deny | Outcome::ShadowDeny) {
            self.refused.note(name, key);
        }
    }

    /// The counters of every policy by name, and those of `CL.THROTTLE` if it was used.
    pub(crate) fn policy_counts(&self) -> Vec<PolicyCount> {
        let plan = self.plan();
        let reservations = self.reservations();
        let count = |name: &str, totals, limits| PolicyCount {
            name: name.to_owned(),
            totals,
            keys: self.keys_of(name),
            reservations: reservations.get(name).copied().unwrap_or_default(),
            limits,
        };
        let count_active = |active: &Arc<ActivePolicy>| {
            let limits =
                active.scope().policy().limits().iter().map(|limit| LimitCount {
                    name: limit.name().to_owned(),
                    limit: limit.max_cost(),
                });
            count(active.name(), active.tally().totals(), limits.collect())
        };
        let mut counts: Vec<PolicyCount> = plan.policies().map(count_active).collect();
        let (family, totals) = self.throttle.totals();
        if !totals.is_zero() {
            counts.push(count(family, totals, Vec::new()));
        }
        counts.sort_by(|a, b| a.name.cmp(&b.name));
        counts
    }

    /// Brings the gauges up to date.
    pub(crate) fn update_gauges(&self) {
        self.metrics.set_degraded(self.is_degraded());
        self.metrics.set_store_nodes(self.store_nodes());
        self.store_failures().for_each(|(kind, total)| self.metrics.set_store_errors(kind, total));
        let (plan, reservations) = (self.plan(), self.reservations());
        for active in plan.policies() {
            let (policy, name) = (active.scope().policy(), active.name());
            let reserved = reservations.get(name).copied().unwrap_or_default();
            let waiting = self.lines.count(name);
            self.metrics.set_policy(policy, self.keys_of(name), reserved, waiting);
        }
        if let Some(memory) = self.memory() {
            self.metrics.set_evictions(memory.overflowed(), memory.evicted());
            self.metrics.set_logs(memory.log_bytes(), memory.coarsened());
        }
    }
}
