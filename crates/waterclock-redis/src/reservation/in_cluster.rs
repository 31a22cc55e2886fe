//! Reservations in a cluster, where the record of a reservation and those of its keys are in different slots.
//!
//! To reserve, the reservation is written first, as pending; then its keys are charged, slot by slot; then it is written
//! as made. To settle, it is first written as settling, with what was used; then its keys are adjusted, slot by slot; then
//! it is written as settled. In each slot, the script that charges or adjusts notes that in the same step. So every
//! step can be repeated: a caller that got no answer, or another after its node crashed, asks again with the same id
//! and finishes what was begun. The slot of the reservation decides whether it is settled or expires.

use std::time::Duration;

use tokio::time::{Instant, timeout_at};
use waterclock::{Failure, Reserved, StoreError, Timestamp, Verb};
use waterclock_core::store::ReservedUnits;

use super::note::{HeldUnits, Note};
use super::{Change, GRACE, STANDS_STILL, Wanted, differences};
use crate::call::{Action, Call, Found, KeyCharge, OtherScript, Reply, foreign};
use crate::direct::Direct;
use crate::keyspace::{DueId, RecordKey};
use crate::script::Kind;
use crate::shape::put;
use crate::slots::{parts_after_refusal, slots, some};

/// The reservation is pending: another caller is making it, or crashed.
pub(super) fn unfinished(id: &str) -> StoreError {
    StoreError::failed(
        Failure::Overloaded,
        format!(
            "reservation `{id}` is pending: its caller is making it or crashed; reserve again with the same id to finish it"
        ),
    )
}

/// What the slots hold for a reservation.
enum Holding {
    /// All of it: what of each key, and the states before, unless some of it was held already.
    Held(Vec<HeldUnits>, Option<Vec<Found>>),
    /// One slot refused: the states, or that it can note no more; and how many slots hold something that is to be taken
    /// back.
    Refused(Result<Vec<Found>, StoreError>, usize),
}

impl Direct {
    pub(super) async fn reserve_across_slots(
        &self,
        at: Option<Timestamp>,
        mut wanted: Wanted,
        by: Instant,
    ) -> Result<Reserved, StoreError> {
        let (now, known) = self.look(at, &wanted.key, wanted.arguments(), by).await?;
        let is_new = known.is_none();
        let mut note = match known {
            None => Note { expires_at: now.after(wanted.ttl), ..wanted.note.clone() },
            Some(known) => {
                let known = Note::read(&known)?;
                if !known.is_pending() || !known.is_for(&wanted.note) {
                    return self.made(at, &wanted, &known, now, by).await;
                }
                known
            }
        };
        // What another caller has begun goes on as it began.
        (wanted.ttl, wanted.note.releases) = (note.expires_at.since(now), note.releases);
        let wanted = &wanted;
        let pending = note.write();
        let (held, found) = match self.hold_in_slots(at, wanted, &note, now, by).await {
            Ok(Holding::Held(held, found)) => (held, found),
            Ok(Holding::Refused(found, slots)) => {
                // First the id, so that no other caller goes on with what is taken back then.
                let is_gone = self.replace(at, &wanted.key, &pending, None, by).await;
                if !is_gone.map_err(StoreError::after_sending)? {
                    return self.finished_elsewhere(at, wanted, &note, slots, by).await;
                }
                self.undo_in_slots(at, wanted, &note, slots, by).await;
                return found.map(|mut found| wanted.refused(&wanted.hold(&mut found).0));
            }
            Err(error) => {
                // Where nothing was charged, the id is free again.
                if is_new && !error.may_have_charged() {
                    _ = self.replace(at, &wanted.key, &pending, None, by).await;
                }
                return Err(error);
            }
        };
        note.held = held;
        let made = Some((note.write(), left_ms(&note, now)));
        let is_made = self.replace(at, &wanted.key, &pending, made, by).await;
        match (is_made.map_err(StoreError::after_sending)?, found) {
            (true, Some(mut found)) => {
                self.keep(at, wanted, &note, by).await?;
                Ok(wanted.reserved(&wanted.hold(&mut found).0))
            }
            (true, None) => self.made(at, wanted, &note, now, by).await,
            (false, _) => {
                let slots = slots(&wanted.keys).len();
                self.finished_elsewhere(at, wanted, &note, slots, by).await
            }
        }
    }

    /// A reservation that exists already.
    async fn made(
        &self,
        at: Option<Timestamp>,
        wanted: &Wanted,
        known: &Note,
        now: Timestamp,
        by: Instant,
    ) -> Result<Reserved, StoreError> {
        if known.is_for(&wanted.note) && !known.is_pending() {
            self.keep(at, wanted, known, by).await?;
        }
        self.reserve_again(at, wanted, known, now, by).await
    }

    /// The keys stay charged when the reservation expires, if it is one that does. Before any caller knows of it: until
    /// then, nothing was used.
    async fn keep(
        &self,
        at: Option<Timestamp>,
        wanted: &Wanted,
        made: &Note,
        by: Instant,
    ) -> Result<(), StoreError> {
        if !made.releases {
            let id = DueId::new(&wanted.id, made.expires_at);
            self.confirm(at, id, &wanted.keys, by).await.map_err(StoreError::after_sending)?;
        }
        Ok(())
    }

    /// Another caller with the same id has made the reservation, or given it up.
    async fn finished_elsewhere(
        &self,
        at: Option<Timestamp>,
        wanted: &Wanted,
        note: &Note,
        slots: usize,
        by: Instant,
    ) -> Result<Reserved, StoreError> {
        let known = self.look(at, &wanted.key, Vec::new(), by).await;
        let (now, known) = known.map_err(StoreError::after_sending)?;
        let known = known.map(|known| Note::read(&known)).transpose()?;
        let is_same = |known: &Note| known.expires_at == note.expires_at && !known.is_pending();
        if let Some(known) = known.filter(is_same) {
            return self.made(at, wanted, &known, now, by).await;
        }
        self.undo_in_slots(at, wanted, note, slots, by).await;
        let reason = format!("reservation `{}` was given up before it was recorded", wanted.id);
        Err(StoreError::failed(Failure::Timeout, reason))
    }

    /// Charges the keys, one slot after the other. What was charged before by the same reservation is not charged again.
    async fn hold_in_slots(
        &self,
        at: Option<Timestamp>,
        wanted: &Wanted,
        note: &Note,
        now: Timestamp,
        by: Instant,
    ) -> Result<Holding, StoreError> {
        let slots = slots(&wanted.keys);
        let mut refused_at = slots.len();
        let mut found: Vec<Option<Found>> = wanted.keys.iter().map(|_| None).collect();
        let mut held: Vec<Option<HeldUnits>> = wanted.keys.iter().map(|_| None).collect();
        let (mut is_refused, mut is_resumed) = (false, false);
        for (n, slot) in slots.iter().enumerate() {
            if is_refused {
                for (action, part) in parts_after_refusal(&wanted.keys, slot) {
                    let keys = some(&wanted.keys, &part);
                    let states = self.run(Call { action, keys: &keys, at, by }).await;
                    let states = states.map_err(StoreError::after_sending)?;
                    part.into_iter().zip(states).for_each(|(key, state)| found[key] = Some(state));
                }
                continue;
            }
            let keys = some(&wanted.keys, slot);
            let part = wanted.part(slot);
            let reply = self.hold_in_slot(at, &part, note, now, slots.len() > 1, by).await;
            match reply {
                Ok(Reply::Found(states)) => {
                    let (answers, units) = part.hold(&mut states.clone());
                    // A part of what is asked for is not held if other slots have to hold theirs.
                    let is_whole = answers.iter().all(|answer| answer.decision.is_allowed());
                    match units.filter(|_| slots.len() == 1 || is_whole) {
                        Some(units) => {
                            slot.iter()
                                .zip(units)
                                .for_each(|(key, units)| held[*key] = Some(units));
                        }
                        None => (is_refused, refused_at) = (true, n),
                    }
                    slot.iter().zip(states).for_each(|(key, state)| found[*key] = Some(state));
                }
                Ok(Reply::Known(_, noted)) => {
                    is_resumed = true;
                    let noted = noted.ok_or_else(foreign)?;
                    let units = note.noted(&noted, slot)?;
                    slot.iter().zip(units).for_each(|(key, units)| held[*key] = Some(units));
                    let peek = Call { action: Action::Apply(Verb::Peek), keys: &keys, at, by };
                    let states = self.run(peek).await.map_err(StoreError::after_sending)?;
                    slot.iter().zip(states).for_each(|(key, state)| found[*key] = Some(state));
                }
                Ok(Reply::Full(error)) => return Ok(Holding::Refused(Err(error), n)),
                // What was charged before is found by the next attempt.
                Err(error) if n > 0 => return Err(error.after_sending()),
                Err(error) => return Err(error),
            }
        }
        let found: Vec<Found> = found.into_iter().flatten().collect();
        match held.into_iter().collect::<Option<Vec<HeldUnits>>>().filter(|_| !is_refused) {
            Some(held) => Ok(Holding::Held(held, (!is_resumed).then_some(found))),
            None => Ok(Holding::Refused(Ok(found), refused_at)),
        }
    }

    async fn hold_in_slot(
        &self,
        at: Option<Timestamp>,
        part: &Wanted,
        note: &Note,
        now: Timestamp,
        is_one_of_several: bool,
        by: Instant,
    ) -> Result<Reply, StoreError> {
        let call = Call { action: Action::Apply(Verb::Check), keys: &part.keys, at, by };
        let verb = if is_one_of_several { b'h' } else { b'c' };
        let DueId(due) = DueId::new(&part.id, note.expires_at);
        let mut head = [call.count(), part.held_us(), vec![verb, part.on_expiry()]].concat();
        head.extend(due);
        put(&mut head, u64::try_from(GRACE.as_micros()).unwrap_or(0));
        let other = OtherScript {
            kind: Kind::Hold,
            reservation: Some(part.keys[0].record.note(&part.id, note.expires_at)),
            changes_due: true,
            head: vec![head, self.noted_ms(note, now, Duration::ZERO)],
            tail: Vec::new(),
        };
        self.run_script(call, Some(&other)).await
    }

    /// How long a slot keeps its note from now on: longer than the reservation is kept, so that no later attempt charges or
    /// settles it again, and for a settlement that was begun at the last moment. And `more`.
    fn noted_ms(&self, note: &Note, now: Timestamp, more: Duration) -> Vec<u8> {
        let longer = u64::try_from((GRACE + self.deadline + more).as_millis()).unwrap_or(0);
        left_ms(note, now).saturating_add(longer).to_string().into_bytes()
    }

    /// Takes back what the first slots hold. It goes on when the caller has waited long enough; what cannot be taken back
    /// stays charged.
    async fn undo_in_slots(
        &self,
        at: Option<Timestamp>,
        wanted: &Wanted,
        note: &Note,
        first: usize,
        by: Instant,
    ) {
        let (this, id, expires_at) = (self.clone(), wanted.id.clone(), note.expires_at);
        let slots: Vec<Vec<KeyCharge>> =
            slots(&wanted.keys)[..first].iter().map(|slot| some(&wanted.keys, slot)).collect();
        let undo = tokio::spawn(async move {
            for keys in slots {
                let by = Instant::now() + this.deadline;
                let call = Call { action: Action::Apply(Verb::Refund), keys: &keys, at, by };
                let DueId(due) = DueId::new(&id, expires_at);
                let undo = OtherScript {
                    kind: Kind::Undo,
                    reservation: Some(keys[0].record.note(&id, expires_at)),
                    changes_due: true,
                    head: vec![[call.count(), vec![1], due.into()].concat()],
                    tail: Vec::new(),
                };
                _ = this.run_script(call, Some(&undo)).await;
            }
        });
        _ = timeout_at(by, undo).await;
    }

    /// Settles a reservation that was seen as made, or finishes what was begun before.
    pub(super) async fn settle_across_slots(
        &self,
        at: Option<Timestamp>,
        (id, key): (&str, &RecordKey),
        Change { seen, after, keys, held, releases }: Change<'_>,
        now: Timestamp,
        by: Instant,
    ) -> Result<Reply, StoreError> {
        let note = Note::read(&seen)?;
        let left_ms = left_ms(&note, now);
        let begun = match note.is_settling {
            true => seen,
            false => {
                let begun = Note { is_settling: true, ..Note::read(&after)? }.write();
                if !self.replace(at, key, &seen, Some((begun.clone(), left_ms)), by).await? {
                    let (now, known) = self.look(at, key, Vec::new(), by).await?;
                    return Ok(Reply::Known(now, known));
                }
                begun
            }
        };
        for slot in slots(keys) {
            let keys = some(keys, &slot);
            let held: Vec<&ReservedUnits> = slot.iter().map(|key| &held[*key]).collect();
            let call = Call { action: Action::Apply(Verb::Debit), keys: &keys, at, by };
            let DueId(due) = DueId::new(id, note.expires_at);
            let finish = OtherScript {
                kind: Kind::Finish,
                reservation: Some(keys[0].record.note(id, note.expires_at)),
                changes_due: true,
                head: vec![
                    [call.count(), due.into()].concat(),
                    self.noted_ms(&note, now, STANDS_STILL),
                ],
                tail: differences(&keys, held, releases),
            };
            self.run_script(call, Some(&finish)).await.map_err(StoreError::after_sending)?;
        }
        // If another caller has finished it meanwhile, it did so in the same way.
        self.replace(at, key, &begun, Some((after, left_ms)), by).await?;
        Ok(Reply::Found(Vec::new()))
    }
}

/// How long the record of a reservation is kept from now on.
fn left_ms(note: &Note, now: Timestamp) -> u64 {
    u64::try_from((note.expires_at.since(now) + GRACE).as_millis()).unwrap_or(u64::MAX)
}
