//! Reservations in a cluster, where the record of a reservation and those of its keys are in different slots.
//!
//! To reserve, the reservation is written first, as pending; then its keys are charged; then it is written as made. A
//! crash in between leaves either only the pending record, or charged units that cannot be settled, as
//! those of a reservation that was dropped. Nothing is charged again: the pending record blocks its id until it
//! expires.
//!
//! To settle, the reservation is first written as settled, by the first caller only, and then units are refunded or
//! debited, once. A crash in between leaves the estimate charged.

use tokio::time::Instant;
use waterclock::{Failure, Reserved, StoreError, Timestamp, Verb};
use waterclock_core::store::ReservedUnits;

use super::note::Note;
use super::{Change, GRACE, Wanted, differences};
use crate::call::{Action, Call, Found, KeyCharge, OtherScript, Reply, bad_reply};
use crate::direct::Direct;
use crate::keyspace::RecordKey;
use crate::script::{ADJUST, HOLD};

/// The reservation is pending: another caller is making it, or crashed.
pub(super) fn unfinished(id: &str) -> StoreError {
    StoreError::failed(
        Failure::Overloaded,
        format!(
            "reservation `{id}` is pending: its caller is making it or crashed; use another id"
        ),
    )
}

impl Direct {
    pub(super) async fn reserve_across_slots(
        &self,
        at: Option<Timestamp>,
        wanted: &Wanted,
        by: Instant,
    ) -> Result<Reserved, StoreError> {
        let leases = |key: &KeyCharge| key.entry.policy.shortest_lease().is_some();
        if !self.share_a_slot(&wanted.keys) && wanted.keys.iter().any(leases) {
            return Err(StoreError::unfit(
                "in a cluster, a concurrency limit cannot be reserved together with keys of other slots; \
                 reserve one key after the other",
            ));
        }
        let (now, known) = self.look(at, &wanted.key, wanted.arguments(), by).await?;
        if let Some(known) = known {
            return self.reserve_again(at, wanted, &Note::read(&known)?, now, by).await;
        }
        let expires_at = now.after(wanted.ttl);
        let mut note = Note { expires_at, ..wanted.note.clone() };
        let pending = note.write();
        let mut found = match self.charge_keys(at, wanted, by).await {
            Ok(found) => found,
            Err(error) => {
                // Where nothing was charged, the id is free again.
                if !error.may_have_charged() {
                    _ = self.replace(&wanted.key, &pending, None, by).await;
                }
                return Err(error);
            }
        };
        let (answers, held) = wanted.hold(&mut found);
        let Some(held) = held else {
            // What is left of it expires.
            _ = self.replace(&wanted.key, &pending, None, by).await;
            return Ok(wanted.refused(&answers));
        };
        note.held = held;
        let kept_ms = u64::try_from((wanted.ttl + GRACE).as_millis()).unwrap_or(u64::MAX);
        let made = Some((note.write(), kept_ms));
        if self.replace(&wanted.key, &pending, made, by).await? {
            Ok(wanted.reserved(&answers))
        } else {
            let reason = format!("reservation `{}` expired before it was recorded", wanted.id);
            Err(StoreError::failed(Failure::Timeout, reason))
        }
    }

    async fn charge_keys(
        &self,
        at: Option<Timestamp>,
        wanted: &Wanted,
        by: Instant,
    ) -> Result<Vec<Found>, StoreError> {
        let call = Call { action: Action::Apply(Verb::Check), keys: &wanted.keys, at, by };
        if !self.share_a_slot(&wanted.keys) {
            return self.run_across_slots(Verb::Check, call).await;
        }
        let head = wanted.arguments().into_iter().take(1).collect();
        let other = OtherScript { script: &HOLD, reservation: None, head, tail: Vec::new() };
        match self.run_script(call, Some(&other)).await? {
            Reply::Found(found) => Ok(found),
            Reply::Known(..) => Err(bad_reply()),
        }
    }

    pub(super) async fn settle_across_slots(
        &self,
        at: Option<Timestamp>,
        key: &RecordKey,
        Change { seen, after, keys, held }: Change<'_>,
        now: Timestamp,
        by: Instant,
    ) -> Result<Reply, StoreError> {
        let left = Note::read(&seen)?.expires_at.since(now) + GRACE;
        let left_ms = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
        if !self.replace(key, &seen, Some((after, left_ms)), by).await? {
            let (now, known) = self.look(at, key, Vec::new(), by).await?;
            return Ok(Reply::Known(now, known));
        }
        let mut order: Vec<(&KeyCharge, &ReservedUnits)> = keys.iter().zip(held).collect();
        order.sort_by_key(|(key, _)| key.record.slot);
        for group in order.chunk_by(|(a, _), (b, _)| a.record.slot == b.record.slot) {
            let keys: Vec<KeyCharge> = group.iter().map(|(key, _)| (*key).clone()).collect();
            let tail = differences(&keys, group.iter().map(|(_, held)| *held));
            let other = OtherScript { script: &ADJUST, reservation: None, head: Vec::new(), tail };
            let call = Call { action: Action::Apply(Verb::Debit), keys: &keys, at, by };
            self.run_script(call, Some(&other)).await?;
        }
        Ok(Reply::Found(Vec::new()))
    }
}
