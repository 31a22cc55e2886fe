//! What is to be done when a response has ended: charge what it cost after all.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, StatusCode};
use tollgate::{Charge, Clock, MonotonicClock, Policy, Store, Timestamp, Verb};

use super::decide::Gate;
use crate::at_once::at_once;
use crate::exchange::{Ending, Exchange};
use crate::rule::Rule;

const GRPC_STATUS: &str = "grpc-status";

type Settle = Box<dyn FnOnce(&Exchange) + Send + Sync>;

/// Waits for the end of one response. Dropped before, the response was cut.
pub(super) struct After {
    exchange: Exchange,
    clock: MonotonicClock,
    started: Timestamp,
    settle: Option<Settle>,
}

/// What one policy was charged beforehand, for a request whose cost is known only afterwards.
pub(super) struct Held {
    policy: Arc<Policy>,
    key: Vec<u8>,
    units: u64,
    cost: Arc<dyn Fn(&Exchange) -> u64 + Send + Sync>,
}

impl Held {
    /// Nothing for rules that do not settle.
    pub(super) fn of(rule: &Rule, policy: &Arc<Policy>, key: Vec<u8>, units: u64) -> Option<Held> {
        let cost = Arc::clone(rule.settle.as_ref()?);
        Some(Held { policy: Arc::clone(policy), key, units, cost })
    }

    fn charge(&self, cost: u64) -> Charge<'_> {
        Charge { policy: self.policy.name(), key: &self.key, cost }
    }
}

impl After {
    pub(super) fn new<S: Store + 'static>(gate: Arc<Gate<S>>, held: Vec<Held>) -> Box<After> {
        let (clock, started) = (gate.clock, gate.clock.now());
        let settle = Box::new(move |exchange: &Exchange| settle(gate, held, exchange));
        let exchange = Exchange {
            status: None,
            grpc_status: None,
            bytes: 0,
            duration: Duration::ZERO,
            ending: Ending::Cut,
        };
        Box::new(After { exchange, clock, started, settle: Some(settle) })
    }

    pub(super) fn heard(&mut self, status: StatusCode, headers: &HeaderMap) {
        self.exchange.status = Some(status);
        self.heard_trailers(headers);
    }

    pub(super) fn heard_trailers(&mut self, trailers: &HeaderMap) {
        let status = trailers.get(GRPC_STATUS).and_then(|value| value.to_str().ok()?.parse().ok());
        self.exchange.grpc_status = status.or(self.exchange.grpc_status);
    }

    pub(super) fn sent(&mut self, bytes: usize) {
        self.exchange.bytes = self.exchange.bytes.saturating_add(bytes as u64);
    }

    pub(super) fn end(mut self, ending: Ending) {
        self.exchange.ending = ending;
    }
}

impl Drop for After {
    fn drop(&mut self) {
        let Some(settle) = self.settle.take() else { return };
        self.exchange.duration = self.clock.now().since(self.started);
        settle(&self.exchange);
    }
}

fn settle<S: Store + 'static>(gate: Arc<Gate<S>>, held: Vec<Held>, exchange: &Exchange) {
    let (mut less, mut more) = (Vec::new(), Vec::new());
    for held in held {
        let cost = (held.cost)(exchange);
        match cost.cmp(&held.units) {
            std::cmp::Ordering::Less => less.push((held.units - cost, held)),
            std::cmp::Ordering::Equal => {}
            std::cmp::Ordering::Greater => more.push((cost - held.units, held)),
        }
    }
    for (verb, held) in [(Verb::Refund, less), (Verb::Debit, more)] {
        apply(&gate, verb, held);
    }
}

/// At once where that can be; else behind the response's back, which has ended.
fn apply<S: Store + 'static>(gate: &Arc<Gate<S>>, verb: Verb, held: Vec<(u64, Held)>) {
    if held.is_empty() {
        return;
    }
    let settled = Arc::clone(gate);
    let settling = async move {
        let charges: Vec<Charge<'_>> =
            held.iter().map(|(units, held)| held.charge(*units)).collect();
        // The request is answered already: there is nobody to tell.
        _ = settled.store.apply(verb, &charges).await;
    };
    if gate.store.answers_at_once() {
        at_once(settling);
    } else if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        // A store that takes its time has a runtime to do so.
        runtime.spawn(settling);
    }
}
