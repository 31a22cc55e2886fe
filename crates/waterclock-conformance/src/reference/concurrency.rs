//! concurrency: a list of holders, each with its units and expiry.

use super::meter::{Meter, positive};
use super::search::{Time, Units};

/// All holders so far.
#[derive(Clone, Debug)]
pub(super) struct Concurrency {
    limit: Units,
    lease: Time,
    holders: Vec<Holder>,
}

#[derive(Clone, Copy, Debug)]
struct Holder {
    since: Time,
    until: Time,
    units: Units,
}

impl Concurrency {
    pub(super) fn new(limit: u64, lease_ns: u64) -> Self {
        Self { limit: positive(limit), lease: positive(lease_ns), holders: Vec::new() }
    }

    fn held(&self, at: Time) -> Units {
        self.holders.iter().filter(|holder| at < holder.until).map(|holder| holder.units).sum()
    }
}

impl Meter for Concurrency {
    fn limit(&self) -> Option<Units> {
        Some(self.limit)
    }

    fn fits(&self, at: Time, cost: Units) -> bool {
        self.held(at) + cost <= self.limit
    }

    fn is_fresh(&self, at: Time) -> bool {
        self.held(at) == 0
    }

    fn reserve_only(&self) -> bool {
        true
    }

    fn charge(&mut self, _at: Time, _cost: Units) {}

    fn hold(&mut self, at: Time, cost: Units, until: Time) {
        let until = until.min(at + self.lease);
        self.holders.push(Holder { since: at, until, units: cost });
    }

    fn settle(&mut self, _at: Time, (since, until): (Time, Time), held: Units, _used: Units) {
        let until = until.min(since + self.lease);
        let own =
            |holder: &Holder| (holder.since, holder.until, holder.units) == (since, until, held);
        if let Some(own) = self.holders.iter().position(own) {
            self.holders.remove(own);
        }
    }
}
