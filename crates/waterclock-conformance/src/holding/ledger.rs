//! Who holds what, told plainly: the reference model decides, and a list remembers.

use super::{Act, Said, Step};
use crate::reference::{Model, PolicySpec, Reservation, Verb};

/// What went in and out over a whole trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Charged when it was held, and debited when it was settled.
    pub debits: u128,
    /// Used in the end, or kept because nobody said otherwise.
    pub grants: u128,
    /// Given back.
    pub refunds: u128,
    /// Held, and not settled yet.
    pub outstanding: u128,
}

/// Every reservation there ever was.
#[derive(Debug)]
pub struct Ledger {
    model: Model,
    lines: Vec<Line>,
    totals: Totals,
}

#[derive(Debug)]
struct Line {
    name: u8,
    cost: u64,
    expires_at: u64,
    releases: bool,
    reservation: Reservation,
    settled: Option<(bool, u64)>,
    is_over: bool,
}

impl Ledger {
    /// Nothing is held.
    pub fn new(spec: PolicySpec) -> Self {
        Self { model: Model::new(spec), lines: Vec::new(), totals: Totals::default() }
    }

    /// How much is held and not settled.
    pub fn outstanding(&self) -> u128 {
        self.totals.outstanding
    }

    /// What went in and out so far.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Does one step.
    pub fn apply(&mut self, step: Step) -> Said {
        let now = step.at_ns;
        self.expire(now);
        match step.act {
            Act::Check(1..) if self.model.reserves_only() => Said::ReserveInstead,
            Act::Check(cost) => Said::Answered(self.model.apply(now, Verb::Check, cost)),
            Act::Peek(cost) => Said::Answered(self.model.apply(now, Verb::Peek, cost)),
            Act::Debit(cost) => Said::Answered(self.model.apply(now, Verb::Debit, cost)),
            Act::Commit { name, used } => self.settle(now, name, false, used),
            Act::Cancel { name } => self.settle(now, name, true, 0),
            Act::Reserve { name, cost, ttl_ns, releases } => {
                self.reserve(now, name, cost, ttl_ns, releases)
            }
        }
    }

    /// Those whose time is over, in the order in which it was.
    fn expire(&mut self, now: u64) {
        let mut over: Vec<&mut Line> =
            self.lines.iter_mut().filter(|line| !line.is_over && line.expires_at <= now).collect();
        over.sort_by_key(|line| line.expires_at);
        for line in over {
            line.is_over = true;
            if line.settled.is_some() {
                continue;
            }
            let held = u128::from(line.reservation.held);
            self.totals.outstanding -= held;
            if line.releases {
                self.model.settle(line.expires_at, &line.reservation, 0);
                self.totals.refunds += held;
            } else {
                self.totals.grants += held;
            }
        }
    }

    fn reserve(&mut self, now: u64, name: u8, cost: u64, ttl_ns: u64, releases: bool) -> Said {
        if let Some(known) = self.find(name) {
            if known.cost != cost {
                return Said::Other;
            }
            let expires_in_ns = known.expires_at - now;
            let held = Some(known.reservation.held);
            return Said::Reserved { held, expires_in_ns, answer: None };
        }
        let (answer, reservation) = self.model.reserve(now, cost, ttl_ns);
        let held = reservation.as_ref().map(|reservation| reservation.held);
        if let Some(reservation) = reservation {
            self.totals.debits += u128::from(reservation.held);
            self.totals.outstanding += u128::from(reservation.held);
            let (expires_at, settled, is_over) = (now + ttl_ns, None, false);
            let line = Line { name, cost, expires_at, releases, reservation, settled, is_over };
            self.lines.push(line);
        }
        let expires_in_ns = if held.is_some() { ttl_ns } else { 0 };
        Said::Reserved { held, expires_in_ns, answer: Some(answer) }
    }

    fn settle(&mut self, now: u64, name: u8, is_cancelled: bool, used: u64) -> Said {
        let Some(line) = self.lines.iter_mut().find(|line| line.name == name && !line.is_over)
        else {
            return Said::Unknown;
        };
        let held = line.reservation.held;
        if line.settled.is_none() {
            line.settled = Some((is_cancelled, used));
            self.model.settle(now, &line.reservation, used);
            self.totals.outstanding -= u128::from(held);
            self.totals.grants += u128::from(used);
            self.totals.debits += u128::from(used.saturating_sub(held));
            self.totals.refunds += u128::from(held.saturating_sub(used));
        }
        let (is_cancelled, used) = line.settled.unwrap_or_default();
        Said::Settled { is_cancelled, held, used }
    }

    fn find(&self, name: u8) -> Option<&Line> {
        self.lines.iter().find(|line| line.name == name && !line.is_over)
    }
}
