//! Holding and settling in this process.
//!
//! The book is locked first, then shards. What is held is charged as by a check; the book only remembers
//! how to settle it.

mod book;

use waterclock_core::store::Verdict;
use waterclock_core::{Cost, Policy, Timestamp};

use super::Shared;
use super::apply::{Line, Shards, Spot, lock_all, one_instant};
use crate::clock::Clock;
use crate::store::{BadReservation, Hold, Reserved, Settled, Settlement};
use crate::store::{Charge, Failure, StoreError, Verb};
use crate::store::{price_of_held, retry_together, withhold_unless_all_admit};
use crate::sync::{Arc, Ordering, lock};
pub(super) use book::Book;
use book::{HeldLine, Reservation};

/// How many expired reservations of other keys a call releases: few, so that no call becomes slow.
const RELEASED_PER_CALL: usize = 64;

impl<C: Clock> Shared<C> {
    pub(super) fn reserve(&self, hold: &Hold<'_>) -> Result<Reserved, StoreError> {
        let (lines, line_of) = self.lines(Verb::Check, hold.charges)?;
        self.make_room(&lines);
        let policies: Vec<_> = lines.iter().map(Line::current_policy).collect();
        let ttl = hold.checked_ttl(&policies.iter().map(|policy| &**policy).collect::<Vec<_>>())?;
        let price = |(charge, i): (&Charge<'_>, &usize)| {
            Verb::Check.price(&policies[*i], Some(&charge.cost))
        };
        let costs: Vec<Cost> =
            hold.charges.iter().zip(&line_of).map(price).collect::<Result<_, _>>()?;
        let charges: Vec<(Cost, usize)> = costs.into_iter().zip(line_of).collect();
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
            return if known.is_for(&lines, &charges) {
                Ok(again(known, now))
            } else {
                Err(BadReservation::Taken(id.to_owned()).into())
            };
        }
        if book.is_full() {
            let reason = format!(
                "{} reservations are held or were settled just now, and there is no room for more; \
                 nothing was charged",
                book.max()
            );
            return Err(StoreError::failed(Failure::Overloaded, reason));
        }
        let mut shards = lock_all(&lines);
        let now = one_instant(&mut shards, now);
        let (verdicts, holds) = judge(&lines, &mut shards, now);
        let mut held_lines = Vec::with_capacity(lines.len());
        for (line, verdict) in lines.iter().zip(&verdicts) {
            let locked = line.locked(&mut shards);
            if holds {
                let held = locked.hold(line.key, now, &line.cost, *verdict, now.after(ttl));
                let policy = Arc::clone(locked.shard.policy(line.key.under));
                let granted = match policy.is_shadow() {
                    true => line.cost.clone(),
                    false => line.cost.granted(verdict.grants()),
                };
                held_lines.push(HeldLine { line: line.clone(), granted, policy, held });
            } else {
                locked.record(line.key, now, &line.cost, *verdict);
            }
        }
        let answer = |(_, i): &(Cost, usize)| lines[*i].answer(&mut shards, now, verdicts[*i]);
        let mut answers: Vec<_> = charges.iter().map(answer).collect();
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
        let settled = known.settlement(with)?;
        known.apply(now, &settled.used);
        book.note_settled(id, &settled);
        self.note_next_release(&book);
        Ok(settled)
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

/// Decides all lines, all or nothing; returns the decisions and whether all were admitted.
fn judge(lines: &[Line], shards: &mut Shards<'_>, now: Timestamp) -> (Vec<Verdict>, bool) {
    let judge = |line: &Line| line.shard(shards).judge(line.key, now, &line.cost);
    let mut verdicts: Vec<Verdict> = lines.iter().map(judge).collect();
    let policies: Vec<&Policy> = lines.iter().map(|line| line.policy(shards)).collect();
    withhold_unless_all_admit(&policies, &mut verdicts);
    let holds = policies.iter().zip(&verdicts).all(|(policy, verdict)| verdict.holds(policy));
    (verdicts, holds)
}

/// The answer for a reservation that already exists, with current numbers.
fn again(known: &Reservation, now: Timestamp) -> Reserved {
    let mut shards = lock_all(known.lines.iter().map(|held| &held.line));
    let now = one_instant(&mut shards, now);
    let answer = |(_, i): &(Cost, usize)| {
        let HeldLine { line, granted, .. } = &known.lines[*i];
        line.answer(&mut shards, now, Verdict::of_reservation(granted.most()))
    };
    Reserved {
        id: Some(known.id.as_ref().to_owned()),
        expires_in: known.expires_at.since(now),
        answers: known.charges.iter().map(answer).collect(),
    }
}

impl Reservation {
    /// The result of settling it this way.
    fn settlement(&self, with: Settlement<'_>) -> Result<Settled, StoreError> {
        let used = match with {
            Settlement::Cancel => self.charges.iter().map(|(cost, _)| cost.granted(0)).collect(),
            Settlement::Commit(costs) if costs.len() == self.charges.len() => {
                let price = |(cost, (held, i)): (&Cost, &(Cost, usize))| {
                    let (now, then) =
                        (self.lines[*i].line.current_policy(), &self.lines[*i].policy);
                    price_of_held(cost, held, [&now, then])
                };
                costs.iter().zip(&self.charges).map(price).collect::<Result<_, _>>()?
            }
            Settlement::Commit(costs) => {
                let (id, charges) = (self.id.to_string(), self.charges.len());
                return Err(BadReservation::Costs { id, charges, costs: costs.len() }.into());
            }
        };
        let held = self.charges.iter().map(|(_, i)| self.lines[*i].granted.clone()).collect();
        Ok(Settled::new(matches!(with, Settlement::Cancel), held, used))
    }

    /// Replaces the held units of each charge by those that were used.
    fn apply(&self, now: Timestamp, used: &[Cost]) {
        let mut of_lines = vec![Cost::from(0); self.lines.len()];
        for ((_, i), used) in self.charges.iter().zip(used) {
            of_lines[*i] = of_lines[*i].plus(used);
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
