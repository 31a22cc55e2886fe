//! The reservations of a store: bounded, found by id, dropped when they expire.
//!
//! Nothing here runs by itself. Expired reservations are dropped a few at a time by calls that reserve
//! or settle; those to be released are found by their key before that key is checked. Trees
//! grow by a node at a time: no reservation waits until thousands of others were moved.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use waterclock_core::store::ReservedUnits;
use waterclock_core::{Cost, Policy, Timestamp};

use crate::memory::apply::{Line, Spot};
use crate::store::{Failure, OnExpiry, ReservationIds, Settled, StoreError};
use crate::sync::Arc;

use super::room::{Room, Taken};

/// How many expired reservations one call drops.
const DROPPED_PER_CALL: usize = 8;
/// How many it drops at most where there is no room for another.
const DROPPED_FOR_ROOM: usize = 1_024;

/// When a reservation expires, and its number: ordered by expiry.
pub(super) type Due = (Timestamp, u64);

/// One charge of a reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HeldCharge {
    pub(super) cost: Cost,
    /// Which line it became; none under a policy without limits, of which nothing is held.
    pub(super) line: Option<usize>,
}

/// One charge of a reservation, or several for the same key.
#[derive(Debug)]
pub(super) struct HeldLine {
    pub(super) line: Line,
    /// How much is held of the limits that can refuse.
    pub(super) granted: Cost,
    /// The policy it was held under.
    pub(super) policy: Arc<Policy>,
    pub(super) held: ReservedUnits,
}

#[derive(Debug)]
pub(super) struct Reservation {
    pub(super) id: Arc<str>,
    pub(super) expires_at: Timestamp,
    pub(super) on_expiry: OnExpiry,
    pub(super) lines: Vec<HeldLine>,
    pub(super) charges: Vec<HeldCharge>,
    pub(super) settled: Option<Settled>,
    pub(super) taken: Vec<Taken>,
}

impl Reservation {
    /// Whether its units are given back when it expires.
    pub(super) fn awaits_release(&self) -> bool {
        self.on_expiry == OnExpiry::Release && self.settled.is_none()
    }

    /// Whether it holds just this.
    pub(super) fn is_for<'l>(
        &self,
        lines: impl Iterator<Item = &'l Line>,
        charges: &[HeldCharge],
    ) -> bool {
        // The same charges are of as many lines.
        let same = |(held, line): (&HeldLine, &Line)| held.line.is_for_the_same(line);
        self.charges == charges && self.lines.iter().zip(lines).all(same)
    }
}

#[derive(Debug)]
pub(in crate::memory) struct Book {
    max: usize,
    room: Room,
    pub(super) ids: ReservationIds,
    next: u64,
    by_id: BTreeMap<Arc<str>, u64>,
    reservations: BTreeMap<u64, Reservation>,
    by_expiry: BTreeSet<Due>,
    /// Those that are released if they are not settled in time.
    releases: BTreeSet<Due>,
    releases_of: BTreeSet<(Spot, Due)>,
    /// How many are held under each policy and not settled.
    held_under: HashMap<Box<str>, usize, ahash::RandomState>,
}

impl Book {
    pub(in crate::memory) fn new(max: usize) -> Self {
        Self {
            max,
            room: Room::new(max),
            ids: ReservationIds::default(),
            next: 0,
            by_id: BTreeMap::new(),
            reservations: BTreeMap::new(),
            by_expiry: BTreeSet::new(),
            releases: BTreeSet::new(),
            releases_of: BTreeSet::new(),
            held_under: HashMap::default(),
        }
    }

    pub(in crate::memory) fn set_max(&mut self, max: usize) {
        self.max = max;
    }

    /// How many are held under a policy and not settled, expired ones included that were not
    /// dropped yet.
    pub(in crate::memory) fn held_under(&self, policy: &str) -> usize {
        self.held_under.get(policy).copied().unwrap_or(0)
    }

    /// About how much memory they take.
    pub(in crate::memory) fn bytes(&self) -> usize {
        self.room.bytes()
    }

    /// Finds room for a reservation, of which so many policies have shares. Expired ones go first.
    pub(super) fn find_room(
        &mut self,
        wanted: &[Taken],
        policies: usize,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        self.room.share_out(self.max, policies);
        for _ in 0..DROPPED_FOR_ROOM {
            if self.room.has_room(wanted) {
                return Ok(());
            }
            if !self.drop_one_expired(now) {
                break;
            }
        }
        if self.room.has_room(wanted) {
            return Ok(());
        }
        let max = self.room.max();
        let reason = format!(
            "there is no room for another reservation: {max} KiB are for those that are held or were settled just \
             now, and what is left of them is kept for other policies; nothing was charged"
        );
        Err(StoreError::failed(Failure::Overloaded, reason))
    }

    /// The reservation of an id, unless it has expired.
    pub(super) fn find(&mut self, id: &str, now: Timestamp) -> Option<&mut Reservation> {
        let number = self.by_id.get(id)?;
        self.reservations.get_mut(number).filter(|found| now < found.expires_at)
    }

    /// Removes the expired reservation of an id, so that the id is free.
    pub(super) fn take_expired(&mut self, id: &str, now: Timestamp) -> Option<Reservation> {
        let number = *self.by_id.get(id)?;
        let is_over = self.reservations.get(&number)?.expires_at <= now;
        if is_over { self.remove(number) } else { None }
    }

    /// Adds a reservation. Its id must be free.
    pub(super) fn add(&mut self, reservation: Reservation) {
        self.next += 1;
        let (number, id) = (self.next, Arc::clone(&reservation.id));
        let due = (reservation.expires_at, number);
        self.room.take(&reservation.taken);
        self.by_id.insert(id, number);
        self.by_expiry.insert(due);
        for held in &reservation.lines {
            *self.held_under.entry(held.policy.name().into()).or_default() += 1;
        }
        if reservation.awaits_release() {
            self.releases.insert(due);
            for held in &reservation.lines {
                self.releases_of.insert((held.line.spot(), due));
            }
        }
        self.reservations.insert(number, reservation);
    }

    /// Records how a reservation was settled. It is remembered until it expires.
    pub(super) fn note_settled(&mut self, id: &str, settled: &Settled) {
        let Some(&number) = self.by_id.get(id) else { return };
        self.count_out(number);
        if let Some(reservation) = self.reservations.get_mut(&number) {
            reservation.settled = Some(settled.clone());
        }
    }

    /// A settled reservation is neither released nor counted.
    fn count_out(&mut self, number: u64) {
        let Some(reservation) = self.reservations.get(&number) else { return };
        if reservation.settled.is_some() {
            return;
        }
        let due = (reservation.expires_at, number);
        self.releases.remove(&due);
        for held in &reservation.lines {
            let name = held.policy.name();
            if let Some(count) = self.held_under.get_mut(name) {
                *count -= 1;
                if *count == 0 {
                    self.held_under.remove(name);
                }
            }
            self.releases_of.remove(&(held.line.spot(), due));
        }
    }

    fn remove(&mut self, number: u64) -> Option<Reservation> {
        self.count_out(number);
        let removed = self.reservations.remove(&number)?;
        self.room.give_back(&removed.taken);
        self.by_expiry.remove(&(removed.expires_at, number));
        if self.by_id.get(&removed.id) == Some(&number) {
            self.by_id.remove(&removed.id);
        }
        Some(removed)
    }

    /// Drops a few expired reservations that need no release.
    pub(super) fn drop_expired(&mut self, now: Timestamp) {
        for _ in 0..DROPPED_PER_CALL {
            if !self.drop_one_expired(now) {
                return;
            }
        }
    }

    fn drop_one_expired(&mut self, now: Timestamp) -> bool {
        match self.by_expiry.first() {
            Some(&due) if due.0 <= now && !self.releases.contains(&due) => {
                self.remove(due.1).is_some()
            }
            _ => false,
        }
    }

    /// When the next one must be released, if it is not settled.
    pub(super) fn next_release(&self) -> Option<Timestamp> {
        self.releases.first().map(|(at, _)| *at)
    }

    /// Removes the first reservation that must be released by now: of this key, or of any.
    pub(super) fn take_due(&mut self, of: Option<Spot>, now: Timestamp) -> Option<Reservation> {
        let (at, number) = match of {
            Some(spot) => {
                let (of, first) = self.releases_of.range((spot, (Timestamp::ZERO, 0))..).next()?;
                if *of == spot { *first } else { return None }
            }
            None => *self.releases.first()?,
        };
        if at > now { None } else { self.remove(number) }
    }
}
