//! Holding and settling in this process.
//!
//! The book is locked first, then shards. What is held is charged as by a check; the book only remembers
//! how to settle it.

mod book;
mod room;

use waterclock_core::store::Verdict;
use waterclock_core::{Cost, Timestamp};

use super::Shared;
use super::apply::{Line, Shards, Spot, lock_all, lock_current, one_instant, withhold};
use crate::clock::Clock;
use crate::store::{BadReservation, Hold, Reserved, Settled, Settlement};
use crate::store::{Charge, StoreError, Verb};
use crate::store::{check_reserved_costs, price_of_held, retry_together};
use crate::sync::{Ordering, lock};
pub(super) use book::Book;
use book::{HeldCharge, HeldLine, Reservation};
use room::Taken;

/// How many expired reservations of other keys a call releases: few, so that no call becomes slow.
const RELEASED_PER_CALL: usize = 64;
/// How often that is done where there is no room for another.
const TRIES_FOR_ROOM: usize = 16;
/// How long an id is that the store makes.
const MADE_ID: usize = 32;

impl<C: Clock> Shared<C> {
    pub(super) fn reserve(&self, hold: &Hold<'_>) -> Result<Reserved, StoreError> {
        let (lines, line_of) = self.lines(Verb::Check, hold.charges)?;
        self.make_room(&lines);
        let before = self.clock.now();
        let policies: Vec<_> = lines.iter().map(|line| line.current_policy(before)).collect();
        let ttl = hold.checked_ttl(&policies.iter().map(|policy| &**policy).collect::<Vec<_>>())?;
        let price = |(charge, i): (&Charge<'_>, &usize)| {
            Verb::Check.price(&policies[*i], Some(&charge.cost))
        };
        let costs: Vec<Cost> =
            hold.charges.iter().zip(&line_of).map(price).collect::<Result<_, _>>()?;
        check_reserved_costs(&costs)?;
        let id_length = hold.id.map_or(MADE_ID, str::len);
        let taken = Taken::of(id_length, (&lines, &policies), (&costs, &line_of));
        // Of a policy without limits nothing is held.
        let mut limited = 0;
        let held_at = policies.iter().map(|policy| {
            let is_limited = !policy.limits().is_empty();
            limited += usize::from(is_limited);
            is_limited.then(|| limited - 1)
        });
        let held_at: Vec<Option<usize>> = held_at.collect();
        let held = |(cost, i): (Cost, &usize)| HeldCharge { cost, line: held_at[*i] };
        let charges: Vec<HeldCharge> = costs.into_iter().zip(&line_of).map(held).collect();
        let is_held = |(line, at): (_, &Option<usize>)| at.map(|_| line);
        let mut book = lock(&self.book);
        let now = self.clock.now();
        self.release_due(&mut book, lines.iter().map(Line::spot), now);
        book.drop_expired(now);
        if let Some(id) = hold.id {
            self.free_id(&mut book, id, now);
        }
        if let Some(id) = hold.id
            && let Some(known) = book.find(id, now)
        {
            return if known.is_for(lines.iter().zip(&held_at).filter_map(is_held), &charges) {
                Ok(again(known, &lines, &line_of, now))
            } else {
                Err(BadReservation::Taken(id.to_owned()).into())
            };
        }
        self.find_room(&mut book, &taken, now)?;
        let mut shards = lock_current(&lines, &line_of, hold.charges)?;
        let now = one_instant(&mut shards, now);
        let (verdicts, holds) = judge(&lines, &mut shards, now);
        let mut held_lines = Vec::with_capacity(limited);
        for ((line, verdict), held_at) in lines.iter().zip(&verdicts).zip(&held_at) {
            let locked = line.locked(&mut shards);
            if holds && held_at.is_some() {
                let held = locked.hold(line.key, now, &line.cost, *verdict, now.after(ttl));
                let policy = locked.shard.policy_for(line.key, now).to_arc();
                let granted = match policy.is_shadow() {
                    true => line.cost.clone(),
                    false => line.cost.granted(verdict.grants()),
                };
                held_lines.push(HeldLine { line: line.clone(), granted, policy, held });
            } else if !holds && line.is_limited(&shards, now) {
                let locked = line.locked(&mut shards);
                locked.record(line.key, now, &line.cost, *verdict);
            }
        }
        let answer = |i: &usize| lines[*i].answer(&mut shards, now, verdicts[*i]);
        let mut answers: Vec<_> = line_of.iter().map(answer).collect();
        drop(shards);
        retry_together(&mut answers);
        if !holds {
            return Ok(Reserved::refused(answers));
        }
        let id = hold.id.map_or_else(|| book.ids.next(), str::to_owned);
        book.add(Reservation {
            id: id.as_str().into(),
            expires_at: now.after(ttl),
            on_expiry: hold.on_expiry,
            lines: held_lines,
            charges,
            settled: None,
            taken,
        });
        self.note_next_release(&book);
        Ok(Reserved::held(id, ttl, answers))
    }

    pub(super) fn settle(&self, id: &str, with: Settlement<'_>) -> Result<Settled, StoreError> {
        let unknown = || StoreError::UnknownReservation(id.to_owned());
        let mut book = lock(&self.book);
        let now = self.clock.now();
        let spots: Vec<Spot> = {
            let known = book.find(id, now).ok_or_else(unknown)?;
            if let Some(settled) = &known.settled {
                return Ok(settled.clone());
            }
            known.lines.iter().map(|held| held.line.spot()).collect()
        };
        self.release_due(&mut book, spots.into_iter(), now);
        book.drop_expired(now);
        let known = book.find(id, now).ok_or_else(unknown)?;
        let settled = known.settlement(with, now)?;
        known.apply(now, &settled.used);
        book.note_settled(id, &settled);
        self.note_next_release(&book);
        Ok(settled)
    }

    /// Finds room for another reservation. Expired ones go first.
    fn find_room(
        &self,
        book: &mut Book,
        wanted: &[Taken],
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let policies = self.places.tables();
        let mut found = book.find_room(wanted, policies, now);
        for _ in 0..TRIES_FOR_ROOM {
            if found.is_ok() || book.next_release().is_none_or(|at| at > now) {
                break;
            }
            self.release_due(book, std::iter::empty(), now);
            found = book.find_room(wanted, policies, now);
        }
        found
    }

    /// Releases expired reservations: all for these keys, and a few of the others.
    fn release_due(&self, book: &mut Book, spots: impl Iterator<Item = Spot>, now: Timestamp) {
        if book.next_release().is_none_or(|at| at > now) {
            return;
        }
        for spot in spots {
            while let Some(due) = book.take_due(Some(spot), now) {
                due.release();
            }
        }
        for _ in 0..RELEASED_PER_CALL {
            match book.take_due(None, now) {
                Some(due) => due.release(),
                None => break,
            }
        }
        self.note_next_release(book);
    }

    /// Releases the expired reservation of an id, so that the id can be used again. It may not have been released yet,
    /// if many are due, and it may be for other keys: once its id is reused, it could not be found any more.
    fn free_id(&self, book: &mut Book, id: &str, now: Timestamp) {
        if let Some(over) = book.take_expired(id, now)
            && over.awaits_release()
        {
            over.release();
            self.note_next_release(book);
        }
    }

    /// Tells checks when the next release is due. Only after the shards were changed: a check that sees that
    /// nothing is due must find it done.
    fn note_next_release(&self, book: &Book) {
        let at = book.next_release().map_or(u64::MAX, Timestamp::as_nanos);
        self.next_release.store(at, Ordering::Release);
    }

    /// To be called before a key is asked about, with no lock held: an expired reservation of it may
    /// have to be released first. Costs one load where none is.
    #[inline]
    pub(super) fn release_before(&self, now: Timestamp, spot: impl FnOnce() -> Spot) {
        if now.as_nanos() >= self.next_release.load(Ordering::Acquire) {
            self.release_now(std::iter::once(spot()), now);
        }
    }

    /// The same for several keys.
    pub(super) fn release_before_all(&self, lines: &[Line]) {
        let now = self.clock.now();
        if now.as_nanos() >= self.next_release.load(Ordering::Acquire) {
            self.release_now(lines.iter().map(Line::spot), now);
        }
    }

    #[cold]
    fn release_now(&self, spots: impl Iterator<Item = Spot>, now: Timestamp) {
        self.release_due(&mut lock(&self.book), spots, now);
    }
}

/// What was used of a charge that nothing limits, in the units that it was reserved in. As elsewhere, of requests that are
/// not named as many as were reserved.
fn used_of_unlimited(used: &Cost, reserved: &Cost) -> Cost {
    if let (Some(units), _) | (None, Some(units)) =
        (used.plain(), reserved.plain().map(|_| used.most()))
    {
        return units.into();
    }
    let used_of = |unit: &str| used.units().find(|(name, _)| *name == unit).map(|(_, n)| n);
    reserved.map(|unit, held| used_of(unit).unwrap_or(if unit == "requests" { held } else { 0 }))
}

/// Decides all lines, all or nothing; returns the decisions and whether all were admitted.
fn judge(lines: &[Line], shards: &mut Shards<'_>, now: Timestamp) -> (Vec<Verdict>, bool) {
    let mut verdicts: Vec<Verdict> = lines.iter().map(|line| line.judge(shards, now)).collect();
    withhold(lines, shards, now, &mut verdicts);
    let holds = |(line, verdict): (&Line, &Verdict)| match line.is_limited(shards, now) {
        true => verdict.holds(&line.policy(shards, now)),
        false => verdict.admits(),
    };
    let holds = lines.iter().zip(&verdicts).all(holds);
    (verdicts, holds)
}

/// The answer for a reservation that already exists for these charges, with current numbers.
fn again(known: &Reservation, lines: &[Line], line_of: &[usize], now: Timestamp) -> Reserved {
    let mut shards = lock_all(lines);
    let now = one_instant(&mut shards, now);
    let answer = |(charge, i): (&HeldCharge, &usize)| {
        let granted = known.granted(charge);
        lines[*i].answer(&mut shards, now, Verdict::of_reservation(granted.most()))
    };
    Reserved {
        id: Some(known.id.as_ref().to_owned()),
        expires_in: known.expires_at.since(now),
        answers: known.charges.iter().zip(line_of).map(answer).collect(),
    }
}

impl Reservation {
    /// How much is held for a charge and those for the same key; all of it where nothing limits it.
    fn granted<'a>(&'a self, charge: &'a HeldCharge) -> &'a Cost {
        charge.line.map_or(&charge.cost, |i| &self.lines[i].granted)
    }

    /// The result of settling it this way.
    fn settlement(&self, with: Settlement<'_>, now: Timestamp) -> Result<Settled, StoreError> {
        let used = match with {
            Settlement::Cancel => self.charges.iter().map(|held| held.cost.granted(0)).collect(),
            Settlement::Commit(costs) if costs.len() == self.charges.len() => {
                let price = |(cost, held): (&Cost, &HeldCharge)| {
                    let Some(i) = held.line else { return Ok(used_of_unlimited(cost, &held.cost)) };
                    let HeldLine { line, policy: then, .. } = &self.lines[i];
                    price_of_held(cost, &held.cost, [&line.current_policy(now), then])
                };
                costs.iter().zip(&self.charges).map(price).collect::<Result<_, _>>()?
            }
            Settlement::Commit(costs) => {
                let (id, charges) = (self.id.to_string(), self.charges.len());
                return Err(BadReservation::Costs { id, charges, costs: costs.len() }.into());
            }
        };
        let held = self.charges.iter().map(|charge| self.granted(charge).clone()).collect();
        Ok(Settled::new(matches!(with, Settlement::Cancel), held, used))
    }

    /// Replaces the held units of each charge by those that were used.
    fn apply(&self, now: Timestamp, used: &[Cost]) {
        let mut of_lines = vec![Cost::from(0); self.lines.len()];
        for (charge, used) in self.charges.iter().zip(used) {
            if let Some(i) = charge.line {
                of_lines[i] = of_lines[i].plus(used);
            }
        }
        let mut shards = lock_all(self.lines.iter().map(|held| &held.line));
        let now = one_instant(&mut shards, now);
        for (HeldLine { line, policy, held, .. }, used) in self.lines.iter().zip(of_lines) {
            line.locked(&mut shards).settle(line.key, now, policy, held, &used);
        }
    }

    /// Gives everything back, as of the instant at which it expired.
    fn release(&self) {
        self.apply(self.expires_at, &vec![Cost::from(0); self.charges.len()]);
    }
}
