//! What is to be done when a response has ended: settle what it cost after all, and report how it went.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use http::{HeaderMap, Method, StatusCode};
use tollgate::{
    Charge, Clock, MonotonicClock, Outcome, Policy, Settlement, Store, StoreError, Timestamp, Verb,
};

use super::decide::Gate;
use crate::at_once::at_once;
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

    fn charge(&self, cost: u64) -> Charge<'_> {
        Charge { policy: self.policy.name(), key: &self.key, cost }
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

/// At once where that can be; else behind the response's back, which has ended.
fn settle<S: Store + 'static>(gate: Arc<Gate<S>>, dues: Dues, exchange: &Exchange) {
    let used = |held: Held| {
        let used: Vec<u64> = held.lines.iter().map(|line| line.used(exchange)).collect();
        (held, used)
    };
    let held: Vec<(Held, Vec<u64>)> = dues.held.into_iter().map(used).collect();
    let outcome = |due: &Reported| unbroken(|| (due.report)(exchange));
    let reports: Vec<(Reported, Outcome)> =
        dues.reports.into_iter().filter_map(|due| outcome(&due).map(|said| (due, said))).collect();
    let (at_hand, runtime) = (gate.store.answers_at_once(), gate.runtime());
    let settling = async move {
        for (held, used) in held {
            gate.note(gate.settle(&held, &used).await);
        }
        for (due, outcome) in reports {
            let charge = Charge { policy: due.policy.name(), key: &due.key, cost: 1 };
            gate.note(gate.store.apply(Verb::Report(outcome), &[charge]).await.map(drop));
        }
    };
    if at_hand {
        at_once(settling);
    } else if let Some(runtime) = runtime {
        runtime.spawn(settling);
    }
}

impl<S: Store + 'static> Gate<S> {
    async fn settle(&self, held: &Held, used: &[u64]) -> Result<(), StoreError> {
        match self.store.settle(&held.id, Settlement::Commit(used)).await {
            // It took longer than anything is held. What was held stays charged; the rest is owed.
            Err(StoreError::UnknownReservation(_)) => {
                let more = |(line, used): (&'_ HeldLine, &u64)| used.saturating_sub(line.units);
                let owed: Vec<u64> = held.lines.iter().zip(used).map(more).collect();
                let owing = held.lines.iter().zip(owed).filter(|(_, owed)| *owed > 0);
                let charges: Vec<Charge<'_>> =
                    owing.map(|(line, owed)| line.charge(owed)).collect();
                match charges.is_empty() {
                    true => Ok(()),
                    false => self.store.apply(Verb::Debit, &charges).await.map(drop),
                }
            }
            settled => settled.map(drop),
        }
    }

    /// The request is answered already: there is nobody to tell but those who count.
    fn note(&self, settled: Result<(), StoreError>) {
        if settled.is_err() {
            self.unsettled.fetch_add(1, Ordering::Relaxed);
        }
    }
}
