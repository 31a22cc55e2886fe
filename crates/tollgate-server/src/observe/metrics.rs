//! The numbers at `/metrics`.

use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use tollgate::{Clock, MonotonicClock, StoreError, Timestamp};

use super::{Face, Tally};

/// From 1 µs in memory to the seconds of a store that hangs.
const BUCKETS: [f64; 14] =
    [1e-6, 2.5e-6, 5e-6, 1e-5, 5e-5, 1e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 5e-2, 0.1, 1.0];

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Decided {
    policy: String,
    outcome: &'static str,
    face: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OfFace {
    face: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OfKind {
    kind: &'static str,
}

/// Everything that is counted. Labels are names from the configuration and words of ours, never what
/// a client sent.
pub struct Metrics {
    clock: MonotonicClock,
    registry: Mutex<Registry>,
    decisions: Family<Decided, Counter>,
    decision_duration: [Histogram; 3],
    store_duration: Histogram,
    store_errors: Family<OfKind, Counter>,
    connections: [Gauge; 3],
    shed: [Counter; 3],
    auth_failures: [Counter; 3],
    /// How many configurations were put in force.
    pub generation: Gauge,
    /// 1 if the last configuration that was offered is in force.
    pub last_reload_success: Gauge,
}

impl Default for Metrics {
    fn default() -> Metrics {
        let mut registry = Registry::with_prefix("tollgate");
        let decisions = Family::<Decided, Counter>::default();
        registry.register("decisions", "Decisions by policy, outcome and face", decisions.clone());
        let durations =
            Family::<OfFace, Histogram>::new_with_constructor(|| Histogram::new(BUCKETS));
        registry.register_with_unit(
            "decision_duration",
            "Time from question to answer, the store included",
            Unit::Seconds,
            durations.clone(),
        );
        let store_duration = Histogram::new(BUCKETS);
        registry.register_with_unit(
            "store_duration",
            "Time the shared store took",
            Unit::Seconds,
            store_duration.clone(),
        );
        let store_errors = Family::<OfKind, Counter>::default();
        registry.register("store_errors", "Failures of the store", store_errors.clone());
        let connections = Family::<OfFace, Gauge>::default();
        registry.register("connections", "Open connections", connections.clone());
        let shed = Family::<OfFace, Counter>::default();
        registry.register("shed", "Requests turned away by overload", shed.clone());
        let auth_failures = Family::<OfFace, Counter>::default();
        registry.register(
            "auth_failures",
            "Requests without the right to ask",
            auth_failures.clone(),
        );
        let generation = Gauge::default();
        registry.register(
            "config_generation",
            "How many configurations were put in force",
            generation.clone(),
        );
        let last_reload_success = Gauge::default();
        registry.register(
            "config_last_reload_success",
            "1 if the last configuration offered is in force",
            last_reload_success.clone(),
        );
        let of = |face: Face| OfFace { face: face.name() };
        Metrics {
            clock: MonotonicClock::default(),
            registry: Mutex::new(registry),
            decisions,
            decision_duration: Face::ALL.map(|face| durations.get_or_create(&of(face)).clone()),
            store_duration,
            store_errors,
            connections: Face::ALL.map(|face| connections.get_or_create(&of(face)).clone()),
            shed: Face::ALL.map(|face| shed.get_or_create(&of(face)).clone()),
            auth_failures: Face::ALL.map(|face| auth_failures.get_or_create(&of(face)).clone()),
            generation,
            last_reload_success,
        }
    }
}

impl Metrics {
    /// Time, for durations.
    #[must_use]
    pub fn clock(&self) -> &MonotonicClock {
        &self.clock
    }

    /// The counters of a policy; the same ones whenever it is asked for by name.
    pub(crate) fn tally(&self, policy: &str) -> Tally {
        Tally::new(|face, outcome| {
            let labels = Decided { policy: policy.to_owned(), outcome, face: face.name() };
            self.decisions.get_or_create(&labels).clone()
        })
    }

    pub(crate) fn decided(&self, face: Face, started: Timestamp) {
        self.decision_duration[face as usize].observe(self.since(started).as_secs_f64());
    }

    pub(crate) fn store_took(&self, started: Timestamp) {
        self.store_duration.observe(self.since(started).as_secs_f64());
    }

    pub(crate) fn store_failed(&self, error: &StoreError) {
        if let Some(failure) = error.failure() {
            self.store_errors.get_or_create(&OfKind { kind: failure.name() }).inc();
        }
    }

    /// Open connections of a face.
    #[must_use]
    pub fn connections(&self, face: Face) -> &Gauge {
        &self.connections[face as usize]
    }

    /// Counts a request turned away by overload.
    pub fn count_shed(&self, face: Face) {
        self.shed[face as usize].inc();
    }

    /// Counts a request without the right to ask.
    pub fn count_auth_failure(&self, face: Face) {
        self.auth_failures[face as usize].inc();
    }

    fn since(&self, started: Timestamp) -> Duration {
        Duration::from_nanos(self.clock.now().as_nanos().saturating_sub(started.as_nanos()))
    }

    /// The text that Prometheus reads.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        _ = encode(&mut text, &self.registry.lock());
        text
    }
}
