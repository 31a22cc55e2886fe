//! A naive list of all reservations; the reference model decides.

use super::{Action, Response, Step};
use crate::reference::{Model, PolicySpec, Reservation, Verb};

/// The totals of a whole trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Charged when reserved, and debited when settled.
    pub debits: u128,
    /// Used in the end, or kept at expiry.
    pub grants: u128,
    /// Given back.
    pub refunds: u128,
    /// Held and not settled yet.
    pub outstanding: u128,
}

/// All reservations so far.
#[derive(Debug)]
pub struct Ledger {
    model: Model,
    entries: Vec<Entry>,
    totals: Totals,
}

#[derive(Debug)]
struct Entry {
    name: u8,
    cost: u64,
    expires_at: u64,
    releases: bool,
    reservation: Reservation,
    settled: Option<(bool, u64)>,
    is_over: bool,
}

impl Ledger {
    /// A ledger without reservations.
    pub fn new(spec: PolicySpec) -> Self {
        Self { model: Model::new(spec), entries: Vec::new(), totals: Totals::default() }
    }

    /// How much is held and not settled.
    pub fn outstanding(&self) -> u128 {
        self.totals.outstanding
    }

    /// The totals so far.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Applies one step.
    pub fn apply(&mut self, step: Step) -> Response {
        let now = step.at_ns;
        self.expire(now);
        match step.action {
            Action::Check(1..) if self.model.reserves_only() => Response::ReserveInstead,
            Action::Check(cost) => Response::Answered(self.model.apply(now, Verb::Check, cost)),
            Action::Peek(cost) => Response::Answered(self.model.apply(now, Verb::Peek, cost)),
            Action::Debit(cost) => Response::Answered(self.model.apply(now, Verb::Debit, cost)),
            Action::Commit { name, used } => self.settle(now, name, false, used),
            Action::Cancel { name } => self.settle(now, name, true, 0),
            Action::Reserve { name, cost, ttl_ns, releases } => {
                self.reserve(now, name, cost, ttl_ns, releases)
            }
        }
    }

    /// Expires reservations, in the order of their expiry.
    fn expire(&mut self, now: u64) {
        let mut over: Vec<&mut Entry> = self
            .entries
            .iter_mut()
            .filter(|entry| !entry.is_over && entry.expires_at <= now)
            .collect();
        over.sort_by_key(|entry| entry.expires_at);
        for entry in over {
            entry.is_over = true;
            if entry.settled.is_some() {
                continue;
            }
            let held = u128::from(entry.reservation.held);
            self.totals.outstanding -= held;
            if entry.releases {
                self.model.settle(entry.expires_at, &entry.reservation, 0);
                self.totals.refunds += held;
            } else {
                self.totals.grants += held;
            }
        }
    }

    fn reserve(&mut self, now: u64, name: u8, cost: u64, ttl_ns: u64, releases: bool) -> Response {
        if cost == 0 {
            return Response::Conflict;
        }
        if let Some(known) = self.find(name) {
            if known.cost != cost {
                return Response::Conflict;
            }
            let expires_in_ns = known.expires_at - now;
            let held = Some(known.reservation.held);
            return Response::Reserved { held, expires_in_ns, answer: None };
        }
        let (answer, reservation) = self.model.reserve(now, cost, ttl_ns);
        let held = reservation.as_ref().map(|reservation| reservation.held);
        if let Some(reservation) = reservation {
            self.totals.debits += u128::from(reservation.held);
            self.totals.outstanding += u128::from(reservation.held);
            let (expires_at, settled, is_over) = (now + ttl_ns, None, false);
            let entry = Entry { name, cost, expires_at, releases, reservation, settled, is_over };
            self.entries.push(entry);
        }
        let expires_in_ns = if held.is_some() { ttl_ns } else { 0 };
        Response::Reserved { held, expires_in_ns, answer: Some(answer) }
    }

    fn settle(&mut self, now: u64, name: u8, is_cancelled: bool, used: u64) -> Response {
        let Some(entry) =
            self.entries.iter_mut().find(|entry| entry.name == name && !entry.is_over)
        else {
            return Response::Unknown;
        };
        let held = entry.reservation.held;
        if entry.settled.is_none() {
            entry.settled = Some((is_cancelled, used));
            self.model.settle(now, &entry.reservation, used);
            self.totals.outstanding -= u128::from(held);
            self.totals.grants += u128::from(used);
            self.totals.debits += u128::from(used.saturating_sub(held));
            self.totals.refunds += u128::from(held.saturating_sub(used));
        }
        let (is_cancelled, used) = entry.settled.unwrap_or_default();
        Response::Settled { is_cancelled, held, used }
    }

    fn find(&self, name: u8) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.name == name && !entry.is_over)
    }
}
