//! The numbers at `/metrics`.

use std::sync::OnceLock;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry, Unit};
use waterclock::{Clock, Failure, MonotonicClock, Policy, Timestamp};

use super::Face;
use super::durations::{Counts, Durations};
use super::history::History;
use super::tally::{Decisions, Tally, Totals};
use crate::connections::Reason;
use crate::engine::StoreNodes;
use crate::otlp::Tracer;

/// From 1 µs in memory to the seconds of a store that hangs.
pub(super) const BUCKETS: [f64; 14] =
    [1e-6, 2.5e-6, 5e-6, 1e-5, 5e-5, 1e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 5e-2, 0.1, 1.0];

/// Names and values of labels.
type Labels<const N: usize> = [(&'static str, String); N];

/// Everything that is counted. Labels are names from the configuration and words of ours, never what
/// a client sent.
pub struct Metrics {
    clock: MonotonicClock,
    registry: Mutex<Registry>,
    decisions: Decisions,
    decision_duration: Durations,
    history: History,
    store_duration: Histogram,
    store_errors: Family<Labels<1>, Counter>,
    degraded: Gauge,
    store_nodes: Family<Labels<1>, Gauge>,
    keys: Family<Labels<1>, Gauge>,
    reservations: Family<Labels<1>, Gauge>,
    waiting: Family<Labels<1>, Gauge>,
    limits: Family<Labels<2>, Gauge>,
    overflowed: Counter,
    forgotten: Counter,
    log_bytes: Gauge,
    coarsened: Counter,
    snapshot_failures: Counter,
    connections: [Gauge; 3],
    shed: [Counter; 3],
    closed: [[Counter; 3]; 3],
    receive_bytes: Gauge,
    receive_refused: [Counter; 3],
    auth_failures: [Counter; 3],
    auth_delays: [Counter; 3],
    /// Streams of quota, and the buckets that are reported on them.
    pub(crate) rlqs_streams: Gauge,
    pub(crate) rlqs_buckets: Gauge,
    rlqs_assignments: Family<Labels<1>, Counter>,
    otlp_dropped: Family<Labels<1>, Counter>,
    tracer: OnceLock<Tracer>,
    /// How many configurations were put in force.
    pub generation: Gauge,
    /// 1 if the last configuration that was offered is in force.
    pub last_reload_success: Gauge,
}

impl Default for Metrics {
    fn default() -> Metrics {
        let mut registry = Registry::with_prefix("waterclock");
        let to = &mut registry;
        let decisions = registered(to, "decisions", "Decisions by policy, outcome and protocol");
        let decision_duration = Durations::default();
        to.register_with_unit(
            "decision_duration",
            "Time from question to answer, the store included",
            Unit::Seconds,
            decision_duration.clone(),
        );
        let store_duration = Histogram::new(BUCKETS);
        to.register_with_unit(
            "store_duration",
            "Time the shared store took",
            Unit::Seconds,
            store_duration.clone(),
        );
        let store_errors: Family<Labels<1>, Counter> =
            registered(to, "store_errors", "Failures of the store");
        for failure in Failure::ALL {
            // From the start, so that a rate over them is zero and not absent.
            drop(store_errors.get_or_create(&[("kind", failure.name().to_owned())]));
        }
        let degraded: Family<Labels<1>, Gauge> =
            registered(to, "degraded", "1 while each policy's on_store_error applies");
        let store_nodes = registered(to, "store_nodes", "Servers that share the store");
        let keys = registered(to, "keys", "Keys remembered in memory");
        let reservations = registered(to, "reservations", "Reservations not settled yet");
        let waiting = registered(to, "waiting", "Callers in line");
        let limits = registered(to, "policy_limit", "The most a fresh key can admit at once");
        let evictions: Family<Labels<1>, Counter> =
            registered(to, "evictions", "Charges of keys that found no place of their own");
        // A function, because each lock of the family must end before the next begins.
        let of_reason =
            |reason: &str| evictions.get_or_create(&[("reason", reason.to_owned())]).clone();
        let log_bytes = registered(to, "log_bytes", "Memory of rolling windows and other logs");
        let help = "Times that logs became coarser because memory for them was used up";
        let coarsened = registered(to, "logs_coarsened", help);
        let snapshot_failures =
            registered(to, "snapshot_failures", "Snapshots that could not be written");
        let connections: Family<Labels<1>, Gauge> =
            registered(to, "connections", "Open connections");
        let shed: Family<Labels<1>, Counter> =
            registered(to, "shed", "Requests turned away by overload");
        let closed: Family<Labels<2>, Counter> =
            registered(to, "connections_closed", "Unauthenticated connections that had to go");
        let of_closed = |face: Face, why: Reason| {
            let labels = [("face", face.name().to_owned()), ("reason", why.name().to_owned())];
            closed.get_or_create(&labels).clone()
        };
        let help = "Bytes of long commands and of bodies that are being received";
        let receive_bytes = registered(to, "receive_bytes", help);
        let receive_refused: Family<Labels<1>, Counter> =
            registered(to, "receive_refused", "Requests for which no bytes were left");
        let auth_failures: Family<Labels<1>, Counter> =
            registered(to, "auth_failures", "Requests without the right to ask");
        let auth_delays: Family<Labels<1>, Counter> =
            registered(to, "auth_delays", "Unknown tokens of addresses that sent many");
        let rlqs_streams = registered(to, "rlqs_streams", "Open streams of quota");
        let help = "Buckets that proxies report on streams of quota";
        let rlqs_buckets = registered(to, "rlqs_buckets", help);
        let rlqs_assignments: Family<Labels<1>, Counter> =
            registered(to, "rlqs_assignments", "Assignments sent to proxies");
        let otlp_dropped: Family<Labels<1>, Counter> =
            registered(to, "otlp_dropped", "Spans and exports of metrics that no collector got");
        // From the start, so that a rate has a first value.
        for kind in ["units", "allow_all", "deny_all", "abandon"] {
            drop(rlqs_assignments.get_or_create(&[("kind", kind.to_owned())]));
        }
        for signal in ["traces", "metrics"] {
            drop(otlp_dropped.get_or_create(&[("signal", signal.to_owned())]));
        }
        let help = "How many configurations were put in force";
        let generation = registered(to, "config_generation", help);
        let help = "1 if the last configuration offered is in force";
        let last_reload_success = registered(to, "config_last_reload_success", help);
        let of = |face: Face| [("face", face.name().to_owned())];
        Metrics {
            clock: MonotonicClock::default(),
            registry: Mutex::new(registry),
            decisions,
            decision_duration,
            history: History::default(),
            store_duration,
            store_errors,
            degraded: degraded.get_or_create(&[("mode", "local".to_owned())]).clone(),
            store_nodes,
            keys,
            reservations,
            waiting,
            limits,
            overflowed: of_reason("full"),
            forgotten: of_reason("half-used"),
            log_bytes,
            coarsened,
            snapshot_failures,
            connections: Face::ALL.map(|face| connections.get_or_create(&of(face)).clone()),
            shed: Face::ALL.map(|face| shed.get_or_create(&of(face)).clone()),
            closed: Face::ALL.map(|face| Reason::ALL.map(|why| of_closed(face, why))),
            receive_bytes,
            receive_refused: Face::ALL.map(|face| receive_refused.get_or_create(&of(face)).clone()),
            auth_failures: Face::ALL.map(|face| auth_failures.get_or_create(&of(face)).clone()),
            auth_delays: Face::ALL.map(|face| auth_delays.get_or_create(&of(face)).clone()),
            rlqs_streams,
            rlqs_buckets,
            rlqs_assignments,
            otlp_dropped,
            tracer: OnceLock::new(),
            generation,
            last_reload_success,
        }
    }
}

fn registered<M: Metric + Clone + Default>(to: &mut Registry, name: &str, help: &str) -> M {
    let metric = M::default();
    to.register(name, help, metric.clone());
    metric
}

impl Metrics {
    /// Time, for durations.
    #[must_use]
    pub fn clock(&self) -> &MonotonicClock {
        &self.clock
    }

    /// The counters of a policy; the same ones whenever it is asked for by name.
    pub(crate) fn tally(&self, policy: &str) -> Tally {
        self.decisions.tally(policy)
    }

    /// Forgets the counters of a policy that is gone.
    pub(crate) fn forget_policy(&self, policy: &str) {
        self.decisions.forget(policy);
        self.history.forget(policy);
    }

    /// Decisions of all policies since the start, those that are gone included.
    pub(crate) fn totals(&self) -> Totals {
        self.decisions.totals()
    }

    pub(crate) fn decided(&self, face: Face, started: Timestamp) {
        self.decided_in(face, self.since(started));
    }

    #[inline]
    pub(super) fn decided_in(&self, face: Face, took: Duration) {
        self.decision_duration.observe(face, took);
    }

    /// Decisions of the last hour and the last day.
    pub(crate) fn history(&self) -> &History {
        &self.history
    }

    /// How many decisions of a protocol took how long, since the start.
    pub(super) fn durations(&self, face: Face) -> Counts {
        self.decision_duration.counts(face)
    }

    /// The counters of all policies, once a second.
    pub(super) fn each_tally(&self, look: impl FnMut(&str, &Tally)) {
        self.decisions.each(look);
    }

    pub(crate) fn store_took(&self, started: Timestamp) {
        self.store_duration.observe(self.since(started).as_secs_f64());
    }

    pub(crate) fn set_store_errors(&self, kind: Failure, total: u64) {
        let counter = self.store_errors.get_or_create(&[("kind", kind.name().to_owned())]);
        counter.inc_by(total.saturating_sub(counter.get()));
    }

    pub(crate) fn set_degraded(&self, is_degraded: bool) {
        self.degraded.set(i64::from(is_degraded));
    }

    /// Sets how many servers share the store; without a number for what is not known.
    pub(crate) fn set_store_nodes(&self, StoreNodes { configured, alive }: StoreNodes) {
        self.store_nodes.clear();
        let set = |state: &str, nodes| {
            let gauge = self.store_nodes.get_or_create(&[("state", state.to_owned())]);
            gauge.set(i64::try_from(nodes).unwrap_or(i64::MAX));
        };
        set("configured", configured);
        alive.into_iter().for_each(|alive| set("alive", alive));
    }

    pub(crate) fn set_evictions(&self, overflowed: u64, forgotten: u64) {
        self.overflowed.inc_by(overflowed.saturating_sub(self.overflowed.get()));
        self.forgotten.inc_by(forgotten.saturating_sub(self.forgotten.get()));
    }

    pub(crate) fn set_logs(&self, bytes: usize, coarsened: u64) {
        self.log_bytes.set(i64::try_from(bytes).unwrap_or(i64::MAX));
        self.coarsened.inc_by(coarsened.saturating_sub(self.coarsened.get()));
    }

    /// Clears the gauges of policies, which may be many, once they are written.
    pub(crate) fn clear_policies(&self) {
        self.keys.clear();
        self.reservations.clear();
        self.waiting.clear();
        self.limits.clear();
    }

    /// Sets the gauges of a policy.
    pub(crate) fn set_policy(
        &self,
        policy: &Policy,
        keys: usize,
        reservations: usize,
        waiting: usize,
    ) {
        let of_policy = [("policy", policy.name().to_owned())];
        let gauge = |number| i64::try_from(number).unwrap_or(i64::MAX);
        self.keys.get_or_create(&of_policy).set(gauge(keys));
        self.reservations.get_or_create(&of_policy).set(gauge(reservations));
        self.waiting.get_or_create(&of_policy).set(gauge(waiting));
        for limit in policy.limits() {
            let Some(most) = limit.max_cost() else { continue };
            let [policy] = of_policy.clone();
            let labels = [policy, ("limit", limit.name().to_owned())];
            self.limits.get_or_create(&labels).set(i64::try_from(most).unwrap_or(i64::MAX));
        }
    }

    pub(crate) fn count_snapshot_failure(&self) {
        self.snapshot_failures.inc();
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

    /// Counts an unauthenticated connection that is closed.
    pub(crate) fn count_closed(&self, face: Face, why: Reason) {
        self.closed[face as usize][why as usize].inc();
    }

    pub(crate) fn set_receive_bytes(&self, bytes: usize) {
        self.receive_bytes.set(i64::try_from(bytes).unwrap_or(i64::MAX));
    }

    /// Counts a request for which no bytes were left in the budget of receive buffers.
    pub(crate) fn count_receive_refused(&self, face: Face) {
        self.receive_refused[face as usize].inc();
    }

    /// Counts a request without the right to ask.
    pub fn count_auth_failure(&self, face: Face) {
        self.auth_failures[face as usize].inc();
    }

    /// Counts an unknown token whose answer is delayed.
    pub(crate) fn count_auth_delay(&self, face: Face) {
        self.auth_delays[face as usize].inc();
    }

    /// Counts an assignment of quota that is sent to a proxy.
    pub(crate) fn count_assignment(&self, kind: &'static str) {
        self.rlqs_assignments.get_or_create(&[("kind", kind.to_owned())]).inc();
    }

    /// Where spans go, if they are exported.
    #[inline]
    pub(crate) fn tracer(&self) -> Option<&Tracer> {
        self.tracer.get()
    }

    /// Exports spans from now on; the first exporter stays.
    pub(crate) fn set_tracer(&self, tracer: Tracer) {
        _ = self.tracer.set(tracer);
    }

    /// How much of a kind of data no collector got.
    pub(crate) fn otlp_dropped(&self, signal: &str) -> Counter {
        self.otlp_dropped.get_or_create(&[("signal", signal.to_owned())]).clone()
    }

    /// Remembers the trace of a decision that took so long, as an example of its bucket.
    pub(crate) fn note_exemplar(&self, face: Face, took: Duration, trace: [u8; 16]) {
        self.decision_duration.note_exemplar(face, took, trace);
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
        self.decision_duration.with_exemplars(text)
    }
}
