//! Reservations in a cluster, where the record of a reservation and those of its keys lie in different slots.
//!
//! The reservation is written first, as one that is about to be made; then its keys are charged; then it is
//! made. Whoever crashes in between leaves either nothing but that note, or units that are charged and that
//! nobody can settle: as if the reservation had been made and dropped, and they stay charged like those.
//! Nothing is charged again, because the note stands in the way of its id until its time is over.
//!
//! To settle, the reservation is first noted as settled, by whoever is first, and only then are units given
//! back or debited, once. Whoever crashes in between leaves the estimate charged.

use std::sync::Arc;

use tokio::time::Instant;
use waterclock::{Failure, Reserved, StoreError, Timestamp, Verb};
use waterclock_core::store::ReservedUnits;

use super::note::Note;
use super::{A_LITTLE, Asked, differences};
use crate::decide::{Around, Found, How, Line, Told, bad_reply};
use crate::keyspace::RecordKey;
use crate::script::{ADJUST, HOLD};
use crate::stand_in::may_try_later;
use crate::store::Inner;

/// Somebody began to make it, and nobody knows yet what came of it.
pub(super) fn unfinished(id: &str) -> StoreError {
    StoreError::failed(
        Failure::Overloaded,
        format!("reservation `{id}` is being made, or whoever made it is gone; take another id"),
    )
}

impl Inner {
    pub(super) async fn reserve_apart(
        self: &Arc<Self>,
        at: Option<Timestamp>,
        asked: &Asked,
        by: Instant,
    ) -> Result<Reserved, StoreError> {
        let leases = |line: &Line| line.entry.policy.shortest_lease().is_some();
        if !self.are_together(&asked.lines) && asked.lines.iter().any(leases) {
            return Err(StoreError::Unfit(
                "in a cluster what is held at once cannot be held together with keys of other slots; \
                 reserve one key after the other"
                    .to_owned(),
            ));
        }
        let (now, known) = self.look(at, &asked.key, asked.arguments(), by).await?;
        if let Some(known) = known {
            return self.reserve_again(at, asked, &Note::read(&known)?, now, by).await;
        }
        let expires_at = now.after(asked.ttl);
        let mut note = Note { expires_at, ..asked.note.clone() };
        let pending = note.write();
        let mut found = match self.charge_apart(at, asked, by).await {
            Ok(found) => found,
            Err(error) => {
                // Where nothing was charged the id is free again; else it is in the way.
                if may_try_later(&error) {
                    _ = self.replace(&asked.key, &asked.key, &pending, None, by).await;
                }
                return Err(error);
            }
        };
        let (answers, held) = asked.hold(&mut found);
        let Some(held) = held else {
            // What is left of it expires.
            _ = self.replace(&asked.key, &asked.key, &pending, None, by).await;
            return Ok(asked.refused(&answers));
        };
        note.held = held;
        let kept_ms = u64::try_from((asked.ttl + A_LITTLE).as_millis()).unwrap_or(u64::MAX);
        let made = Some((note.write(), kept_ms));
        if self.replace(&asked.key, &asked.key, &pending, made, by).await? {
            Ok(asked.reserved(&answers))
        } else {
            let reason =
                format!("the time of reservation `{}` was over before it was made", asked.id);
            Err(StoreError::failed(Failure::Timeout, reason))
        }
    }

    async fn charge_apart(
        self: &Arc<Self>,
        at: Option<Timestamp>,
        asked: &Asked,
        by: Instant,
    ) -> Result<Vec<Found>, StoreError> {
        if !self.are_together(&asked.lines) {
            return self.run_apart(at, Verb::Check, &asked.lines, by).await;
        }
        let head = asked.arguments().into_iter().take(1).collect();
        let around = Around { script: &HOLD, reservation: None, head, tail: Vec::new() };
        let how = How::Apply(Verb::Check);
        match self.run_around(at, how, &asked.lines, Some(&around), by).await? {
            Told::Found(found) => Ok(found),
            Told::Known(..) => Err(bad_reply()),
        }
    }

    pub(super) async fn settle_apart(
        self: &Arc<Self>,
        at: Option<Timestamp>,
        key: &RecordKey,
        (seen, after): (Vec<u8>, Vec<u8>),
        lines: &[(Line, ReservedUnits)],
        now: Timestamp,
        by: Instant,
    ) -> Result<Told, StoreError> {
        let left = Note::read(&seen)?.expires_at.since(now) + A_LITTLE;
        let left_ms = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
        if !self.replace(key, key, &seen, Some((after, left_ms)), by).await? {
            let (now, known) = self.look(at, key, Vec::new(), by).await?;
            return Ok(Told::Known(now, known));
        }
        let mut order: Vec<&(Line, ReservedUnits)> = lines.iter().collect();
        order.sort_by_key(|(line, _)| line.record.slot);
        for group in order.chunk_by(|(a, _), (b, _)| a.record.slot == b.record.slot) {
            let group: Vec<(Line, ReservedUnits)> =
                group.iter().map(|held| (*held).clone()).collect();
            let keys: Vec<Line> = group.iter().map(|(line, _)| line.clone()).collect();
            let tail = differences(&group);
            let around = Around { script: &ADJUST, reservation: None, head: Vec::new(), tail };
            self.run_around(at, How::Apply(Verb::Debit), &keys, Some(&around), by).await?;
        }
        Ok(Told::Found(Vec::new()))
    }
}
