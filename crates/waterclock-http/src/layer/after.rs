//! What is to be done when a response has ended: settle what it cost after all, and report how it went.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, Method, StatusCode};
use waterclock::{Charge, Clock, MonotonicClock, Outcome, Policy, Store, Timestamp, Verb};

use super::decide::Gate;
use crate::exchange::{Ending, Exchange};
use crate::rule::{Report, Settle};

const GRPC_STATUS: &str = "grpc-status";

type WhenEnded = Box<dyn FnOnce(&Exchange) + Send + Sync>;

/// Waits for the end of one response. Dropped before, the response was cut.
pub(super) struct After {
    exchange: Exchange,
    /// How many bytes a whole response has, if that is known.
    length: Option<u64>,
    clock: MonotonicClock,
    started: Timestamp,
    settle: Option<WhenEnded>,
}

/// What a request owes when it has ended.
#[derive(Default)]
pub(super) struct Dues {
    pub(super) held: Vec<Held>,
    pub(super) reports: Vec<Reported>,
}

/// A reservation, and what its charges come to.
pub(super) struct Held {
    pub(super) id: String,
    pub(super) lines: Vec<HeldLine>,
}

pub(super) struct HeldLine {
    pub(super) policy: Arc<Policy>,
    pub(super) key: Vec<u8>,
    pub(super) units: u64,
    /// None: it costs what it was thought to cost.
    pub(super) settle: Option<Settle>,
}

/// A policy that wants to hear how it went.
pub(super) struct Reported {
    pub(super) policy: Arc<Policy>,
    pub(super) key: Vec<u8>,
    pub(super) report: Report,
}

impl HeldLine {
    /// What it has cost. A function that breaks says nothing.
    fn used(&self, exchange: &Exchange) -> u64 {
        let used = self.settle.as_ref().and_then(|settle| unbroken(|| settle(exchange)));
        used.unwrap_or(self.units)
    }
}

impl Held {
    /// What was used beyond what was held.
    pub(super) fn owed(&self, used: &[u64]) -> Vec<Charge<'_>> {
        let owed = self.lines.iter().zip(used).map(|(line, used)| {
            let cost = used.saturating_sub(line.units);
            Charge { policy: line.policy.name(), key: &line.key, cost: cost.into() }
        });
        owed.filter(|charge| !charge.cost.is_zero()).collect()
    }
}

/// Responses are also dropped while a thread unwinds, and to panic then would end the process.
fn unbroken<T>(function: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(function)).ok()
}

impl Dues {
    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty() && self.reports.is_empty()
    }
}

impl After {
    pub(super) fn new<S: Store + 'static>(
        gate: &Arc<Gate<S>>,
        method: &Method,
        dues: Dues,
    ) -> Box<After> {
        let gate = Arc::clone(gate);
        let (clock, started) = (gate.clock, gate.clock.now());
        let settle = Box::new(move |exchange: &Exchange| settle(gate, dues, exchange));
        let exchange = Exchange {
            status: None,
            grpc_status: None,
            bytes: 0,
            duration: Duration::ZERO,
            ending: Ending::Cut,
        };
        // To HEAD there is no body, whatever its length.
        let length = (method == Method::HEAD).then_some(0);
        Box::new(After { exchange, length, clock, started, settle: Some(settle) })
    }

    pub(super) fn heard(&mut self, status: StatusCode, headers: &HeaderMap, length: Option<u64>) {
        self.exchange.status = Some(status);
        self.length = self.length.or(length);
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
        let exchange = &mut self.exchange;
        exchange.duration = self.clock.now().since(self.started);
        // A server that knows how long a body is does not ask it for its end.
        let all_sent = exchange.status.is_some() && self.length == Some(exchange.bytes);
        if exchange.ending == Ending::Cut && all_sent {
            exchange.ending = Ending::Whole;
        }
        settle(exchange);
    }
}

fn settle<S: Store + 'static>(gate: Arc<Gate<S>>, dues: Dues, exchange: &Exchange) {
    let used = |held: Held| {
        let used: Vec<u64> = held.lines.iter().map(|line| line.used(exchange)).collect();
        (held, used)
    };
    let held: Vec<(Held, Vec<u64>)> = dues.held.into_iter().map(used).collect();
    // Of a request that was given up before there was a response nobody knows how it would have gone.
    let is_known = exchange.status.is_some() || exchange.ending == Ending::Failed;
    let outcome = |due: &Reported| match is_known {
        true => unbroken(|| (due.report)(exchange)),
        false => None,
    };
    let reports: Vec<(Reported, Outcome)> =
        dues.reports.into_iter().filter_map(|due| outcome(&due).map(|said| (due, said))).collect();
    let finishing = Arc::clone(&gate);
    finishing.finish(async move {
        for (held, used) in held {
            gate.note(gate.settle(&held, &used).await);
        }
        for (due, outcome) in reports {
            let charge = Charge { policy: due.policy.name(), key: &due.key, cost: 1.into() };
            gate.note(gate.store.apply(Verb::Report(outcome), &[charge]).await.map(drop));
        }
    });
}
