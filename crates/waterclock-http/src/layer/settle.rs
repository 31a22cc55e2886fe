//! What happens when a response has ended: its reservations are settled, and its outcome is reported.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use http::{HeaderMap, Method, StatusCode};
use tokio::time::sleep;
use waterclock::{
    Answer, Charge, Clock, Cost, Factor, Hold, MonotonicClock, OnExpiry, Outcome, Policy,
    Settlement, Store, StoreError, Timestamp, Verb,
};

use super::gate::Gate;
use super::matches::Match;
use crate::exchange::{Ending, Exchange};
use crate::rule::{Report, Settle};

const GRPC_STATUS: &str = "grpc-status";
/// How long a reservation lasts. Of a response that takes longer, the rest is debited.
const RESERVATION_TTL: Duration = Duration::from_secs(3_600);
/// Settling is idempotent, so failures are retried: eight attempts within half a minute.
const ATTEMPTS: u32 = 8;
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// What is due when a response has ended.
#[derive(Default)]
pub(super) struct Due {
    reservations: Vec<Reservation>,
    pub(super) reports: Vec<DueReport>,
}

/// What is held until a response has ended.
pub(super) enum Held {
    /// Units, by the reservation of this id.
    Units(String),
    /// Nothing, because the request cost nothing beforehand: what it did cost is debited.
    Nothing,
}

struct Reservation {
    held: Held,
    charges: Vec<ReservedCharge>,
}

struct ReservedCharge {
    policy: Arc<Policy>,
    key: Vec<u8>,
    factor: Option<Factor>,
    units: u64,
    /// `None`: it costs what was reserved.
    settle: Option<Settle>,
}

/// A policy with an error-rate limit.
pub(super) struct DueReport {
    policy: Arc<Policy>,
    key: Vec<u8>,
    report: Report,
}

impl Due {
    /// Adds what follows from the store's answers to these matches, and what is held for them.
    pub(super) fn add(&mut self, matches: &[Match<'_>], answers: &[Answer], held: Option<Held>) {
        if let Some(held) = held {
            let charges = matches.iter().zip(answers).map(|(found, answer)| ReservedCharge {
                policy: Arc::clone(found.policy),
                key: found.key.to_vec(),
                factor: found.factor,
                units: found.cost.min(answer.decision.granted()),
                settle: found.rule.settle.clone(),
            });
            self.reservations.push(Reservation { held, charges: charges.collect() });
        }
        for found in matches.iter().filter(|found| found.policy.takes_reports()) {
            let (policy, key) = (Arc::clone(found.policy), found.key.to_vec());
            self.reports.push(DueReport { policy, key, report: Arc::clone(&found.rule.report) });
        }
    }
}

impl ReservedCharge {
    /// What it cost. A function that panics changes nothing.
    fn used(&self, exchange: &Exchange) -> u64 {
        let used = self.settle.as_ref().and_then(|settle| catch_panic(|| settle(exchange)));
        used.unwrap_or(self.units)
    }
}

impl Reservation {
    /// What was used beyond what was reserved.
    fn excess(&self, used: &[u64]) -> Vec<Charge<'_>> {
        let excess = self.charges.iter().zip(used).map(|(charge, used)| {
            let cost = used.saturating_sub(charge.units);
            Charge::new(charge.policy.name(), &charge.key, cost).with_factor(charge.factor)
        });
        excess.filter(|charge| !charge.cost.is_zero()).collect()
    }
}

/// Responses are also dropped while a thread unwinds, and a second panic would abort the process.
fn catch_panic<T>(function: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(function)).ok()
}

type SettleAll = Box<dyn FnOnce(&Exchange) + Send + Sync>;

/// Watches one response, and settles when it is dropped. Dropped before the end, the response was aborted.
pub(super) struct OnEnd {
    exchange: Exchange,
    /// How many bytes the complete body has, if known.
    length: Option<u64>,
    clock: MonotonicClock,
    started: Timestamp,
    settle: Option<SettleAll>,
}

impl OnEnd {
    /// `None` if nothing is due.
    pub(super) fn new<S: Store + 'static>(
        gate: &Arc<Gate<S>>,
        method: &Method,
        due: Due,
    ) -> Option<Box<Self>> {
        if due.reservations.is_empty() && due.reports.is_empty() {
            return None;
        }
        let gate = Arc::clone(gate);
        let (clock, started) = (gate.clock, gate.clock.now());
        let exchange = Exchange {
            status: None,
            grpc_status: None,
            bytes: 0,
            duration: Duration::ZERO,
            ending: Ending::Aborted,
        };
        // A response to HEAD has no body, whatever its length.
        let length = (method == Method::HEAD).then_some(0);
        let settle: SettleAll = Box::new(move |exchange| gate.settle_all(due, exchange));
        Some(Box::new(Self { exchange, length, clock, started, settle: Some(settle) }))
    }

    pub(super) fn see_head(
        &mut self,
        status: StatusCode,
        headers: &HeaderMap,
        length: Option<u64>,
    ) {
        self.exchange.status = Some(status);
        self.length = self.length.or(length);
        self.see_trailers(headers);
    }

    pub(super) fn see_trailers(&mut self, trailers: &HeaderMap) {
        let status = trailers.get(GRPC_STATUS).and_then(|value| value.to_str().ok()?.parse().ok());
        self.exchange.grpc_status = status.or(self.exchange.grpc_status);
    }

    pub(super) fn see_bytes(&mut self, bytes: usize) {
        self.exchange.bytes = self.exchange.bytes.saturating_add(bytes as u64);
    }

    pub(super) fn end(mut self, ending: Ending) {
        self.exchange.ending = ending;
    }
}

impl Drop for OnEnd {
    fn drop(&mut self) {
        let Some(settle) = self.settle.take() else { return };
        let exchange = &mut self.exchange;
        exchange.duration = self.clock.now().since(self.started);
        // A server that knows the length of a body does not poll it for its end.
        let all_sent = exchange.status.is_some() && self.length == Some(exchange.bytes);
        if exchange.ending == Ending::Aborted && all_sent {
            exchange.ending = Ending::Complete;
        }
        settle(exchange);
    }
}

impl<S: Store + 'static> Gate<S> {
    /// Reserves these charges if they are admitted: one answer for each, and what is held.
    ///
    /// A store that fails reserves nothing. Its fallback then decides, and the request costs what was
    /// charged beforehand; but a fallback cannot know how many leases are held elsewhere.
    pub(super) async fn reserve(
        self: &Arc<Self>,
        charges: &[Charge<'_>],
        has_leases: bool,
    ) -> Result<(Vec<Answer>, Option<Held>), StoreError> {
        if charges.iter().all(|charge| charge.cost.is_zero()) {
            let answers = self.store.apply(Verb::Check, charges).await?;
            let is_admitted = answers.iter().all(|answer| answer.decision.is_allowed());
            return Ok((answers, is_admitted.then_some(Held::Nothing)));
        }
        // Chosen here, so that the reservation can be cancelled if the store's answer is lost.
        let id = format!("{:032x}", fastrand::u128(..));
        // A lease has its own end.
        let ttl = (!has_leases).then_some(RESERVATION_TTL);
        let hold = Hold { id: Some(&id), ttl, charges, on_expiry: OnExpiry::Keep };
        match self.store.reserve(&hold).await {
            Ok(reserved) => Ok((reserved.answers, reserved.id.map(Held::Units))),
            Err(error) if error.failure().is_some() => {
                self.cancel(id);
                match has_leases {
                    true => Err(error),
                    false => Ok((self.store.apply(Verb::Check, charges).await?, None)),
                }
            }
            Err(error) => Err(error),
        }
    }

    /// Cancels a reservation that may exist although its answer was lost.
    fn cancel(self: &Arc<Self>, id: String) {
        let gate = Arc::clone(self);
        self.finish(async move {
            match gate.settle_with_retries(&id, Settlement::Cancel).await {
                Err(StoreError::UnknownReservation(_)) => {}
                settled => gate.count_failure(settled),
            }
        });
    }

    /// Settles and reports everything that is due.
    fn settle_all(self: Arc<Self>, due: Due, exchange: &Exchange) {
        // The caller's functions run here, before anything waits.
        let reservations = due.reservations.into_iter().map(|reservation| {
            let used = reservation.charges.iter().map(|charge| charge.used(exchange));
            let used: Vec<u64> = used.collect();
            (reservation, used)
        });
        let reservations: Vec<(Reservation, Vec<u64>)> = reservations.collect();
        // The outcome of a request that was dropped before its response is unknown.
        let is_known = exchange.status.is_some() || exchange.ending == Ending::Failed;
        let reports = due.reports.into_iter().filter(|_| is_known).filter_map(|due| {
            let outcome = catch_panic(|| (due.report)(exchange))?;
            Some((due, outcome))
        });
        let reports: Vec<(DueReport, Outcome)> = reports.collect();
        let gate = Arc::clone(&self);
        self.finish(async move {
            for (reservation, used) in reservations {
                gate.count_failure(gate.commit(&reservation, &used).await);
            }
            for (due, outcome) in reports {
                let charge = Charge::new(due.policy.name(), &due.key, 1);
                let reported = gate.store.apply(Verb::Report(outcome), &[charge]).await;
                gate.count_failure(reported.map(drop));
            }
        });
    }

    async fn commit(&self, reservation: &Reservation, used: &[u64]) -> Result<(), StoreError> {
        if let Held::Units(id) = &reservation.held {
            let costs: Vec<Cost> = used.iter().copied().map(Cost::from).collect();
            match self.settle_with_retries(id, Settlement::Commit(&costs)).await {
                // It expired. What was reserved stays charged, and the excess is debited.
                Err(StoreError::UnknownReservation(_)) => {}
                settled => return settled,
            }
        }
        let excess = reservation.excess(used);
        match excess.is_empty() {
            true => Ok(()),
            false => self.store.apply(Verb::Debit, &excess).await.map(drop),
        }
    }

    async fn settle_with_retries(&self, id: &str, with: Settlement<'_>) -> Result<(), StoreError> {
        let mut pause = FIRST_PAUSE;
        for _ in 1..ATTEMPTS {
            match self.store.settle(id, with).await {
                Err(error) if error.failure().is_some() && !self.store.answers_at_once() => {
                    sleep(pause).await;
                    pause *= 2;
                }
                settled => return settled.map(drop),
            }
        }
        self.store.settle(id, with).await.map(drop)
    }

    /// The request is answered already, so failures can only be counted.
    fn count_failure(&self, settled: Result<(), StoreError>) {
        if settled.is_err() {
            self.unsettled.fetch_add(1, Ordering::Relaxed);
        }
    }
}
