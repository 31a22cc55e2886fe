//! How much reservations take, and whose it is.
//!
//! The bound is counted in places of one KiB: what is kept of a reservation until it expires, its settlement included.
//! Each policy (with its variants) pays for its own charges, so a reservation over several policies takes places of each.
//! As with keys, half of the places are shared out evenly, and the rest is lent.

use std::collections::HashMap;
use std::mem::size_of;

use waterclock_core::{Cost, Policy};

use super::book::{Due, HeldCharge, HeldLine, Reservation};
use crate::memory::apply::{Line, Spot};
use crate::sync::Arc;
use crate::table::Table;

/// What one place has room for, in bytes: nearly every reservation of one charge.
const PLACE: usize = 1_024;
/// Trees are at least half full.
const TREE: usize = 2;
/// For each part of a policy that holds something, and for what names each unit of a cost.
const PART: usize = 24;
const UNIT: usize = 40;

/// The places that a reservation takes of one policy.
#[derive(Clone, Debug)]
pub(super) struct Taken {
    table: Arc<Table>,
    bytes: usize,
}

impl Taken {
    fn places(&self) -> usize {
        self.bytes.div_ceil(PLACE)
    }

    fn owner(&self) -> usize {
        Arc::as_ptr(&self.table).addr()
    }

    /// What is kept of a reservation with an id of this length, for each policy.
    pub(super) fn of(
        id_length: usize,
        (lines, policies): (&[Line], &[Arc<Policy>]),
        (costs, line_of): (&[Cost], &[usize]),
    ) -> Vec<Self> {
        let found_by =
            size_of::<(u64, Reservation)>() + 2 * size_of::<Due>() + 2 * size_of::<u64>();
        let whole = TREE * found_by + id_length;
        let mut all: Vec<Self> = Vec::with_capacity(1);
        let mut add = |line: &Line, bytes: usize| {
            let is_its = |taken: &&mut Self| Arc::ptr_eq(&taken.table, line.table());
            match all.iter_mut().find(is_its) {
                Some(taken) => taken.bytes += bytes,
                // The first one also pays for what they have in common.
                None => {
                    let whole = if all.is_empty() { whole } else { size_of::<Self>() };
                    all.push(Self { table: Arc::clone(line.table()), bytes: whole + bytes });
                }
            }
        };
        for (line, policy) in lines.iter().zip(policies) {
            let limits = policy.limits().len();
            if limits > 0 {
                let release = TREE * size_of::<(Spot, Due)>();
                let held = size_of::<HeldLine>() + PART * limits;
                add(line, held + release + 2 * heap(&line.cost));
            }
        }
        for (cost, i) in costs.iter().zip(line_of) {
            // As it was asked for, as it was held, and as it was used.
            let settled = 2 * size_of::<Cost>();
            add(&lines[*i], size_of::<HeldCharge>() + settled + 3 * heap(cost));
        }
        all
    }
}

fn heap(cost: &Cost) -> usize {
    if cost.plain().is_some() {
        return 0;
    }
    cost.units().map(|(name, _)| UNIT + name.len()).sum()
}

/// The places of a book.
#[derive(Debug)]
pub(super) struct Room {
    max: usize,
    /// How many each policy is guaranteed.
    share: usize,
    /// How many may be taken beyond shares.
    lendable: usize,
    borrowed: usize,
    taken: usize,
    bytes: usize,
    by_owner: HashMap<usize, usize, ahash::RandomState>,
}

impl Room {
    pub(super) fn new(max: usize) -> Self {
        Self {
            max,
            share: 0,
            lendable: max,
            borrowed: 0,
            taken: 0,
            bytes: 0,
            by_owner: HashMap::default(),
        }
    }

    pub(super) fn max(&self) -> usize {
        self.max
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Shares so many places out among so many policies.
    pub(super) fn share_out(&mut self, max: usize, policies: usize) {
        let share = max / (2 * policies.max(1));
        let lendable = max - share * policies.max(1);
        if (max, share, lendable) != (self.max, self.share, self.lendable) {
            (self.max, self.share, self.lendable) = (max, share, lendable);
            self.borrowed = self.by_owner.values().map(|own| own.saturating_sub(share)).sum();
        }
    }

    /// Whether all of this can be taken.
    pub(super) fn has_room(&self, wanted: &[Taken]) -> bool {
        let (mut places, mut beyond) = (0, 0);
        for taken in wanted {
            let own = self.by_owner.get(&taken.owner()).copied().unwrap_or(0);
            let more = own + taken.places();
            places += taken.places();
            beyond += more.saturating_sub(self.share) - own.saturating_sub(self.share);
        }
        // Within its share, a policy needs nothing that is lent.
        let can_lend = beyond == 0 || self.borrowed + beyond <= self.lendable;
        can_lend && self.taken + places <= self.max
    }

    pub(super) fn take(&mut self, wanted: &[Taken]) {
        for taken in wanted {
            let own = self.by_owner.entry(taken.owner()).or_default();
            let before = own.saturating_sub(self.share);
            *own += taken.places();
            self.borrowed += own.saturating_sub(self.share) - before;
            self.taken += taken.places();
            self.bytes += taken.bytes;
        }
    }

    pub(super) fn give_back(&mut self, given: &[Taken]) {
        for taken in given {
            let Some(own) = self.by_owner.get_mut(&taken.owner()) else { continue };
            let before = own.saturating_sub(self.share);
            *own -= taken.places();
            self.borrowed -= before - own.saturating_sub(self.share);
            if *own == 0 {
                self.by_owner.remove(&taken.owner());
            }
            self.taken -= taken.places();
            self.bytes -= taken.bytes;
        }
    }
}
