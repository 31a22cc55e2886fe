//! What is due of a key: units that are given back at a time, unless they are settled or confirmed before (`due.lua`).
//!
//! It is noted in a list under a key beside the record. The record says when the first of it is over: until then no
//! script touches the list but those that add to it or take from it; after that, the next one gives back.

use redis::Value;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use waterclock::{Failure, StoreError, Timestamp};
use waterclock_core::store::ReservedUnits;

use crate::call::{KeyCharge, bad_reply, trace_args};
use crate::direct::Direct;
use crate::keyspace::{DueId, RecordKey, TAG_DIGITS};
use crate::link::Request;
use crate::policies::Entry;
use crate::script::CONFIRM;
use crate::shape::NUMBER;
use crate::slots::{slots, some};

/// How units are given back that were reserved with release: as if the reservation was cancelled.
pub(crate) const RELEASE: u8 = b'r';
/// Without release it is undone, unless it is confirmed.
pub(crate) const KEEP: u8 = b'k';
/// Where an entry says how, behind when it is over and its id; and then how many limits there are.
const HOW: usize = NUMBER + size_of::<DueId>();
/// Bytes of an entry before the numbers of its limits: those, and when it was charged.
const HEAD: usize = HOW + 2 + NUMBER;
/// Numbers of each limit.
const NUMBERS: usize = 4;

impl Direct {
    /// What was charged stands: it is not given back when its time is over. False if some of it is not noted, because it
    /// was confirmed before, or given back already.
    pub(crate) async fn confirm(
        &self,
        at: Option<Timestamp>,
        id: DueId,
        keys: &[KeyCharge],
        by: Instant,
    ) -> Result<bool, StoreError> {
        let confirm = |slot: Vec<usize>| {
            let (this, keys) = (self.clone(), some(keys, &slot));
            // It goes on if the caller leaves: then all of it stands, and not a part.
            tokio::spawn(async move { this.confirm_in_slot(at, id, &keys, by).await })
        };
        let under_way: Vec<JoinHandle<_>> = slots(keys).into_iter().map(confirm).collect();
        let mut is_noted = true;
        for confirmed in under_way {
            is_noted &= confirmed.await.map_err(|_| bad_reply())??;
        }
        Ok(is_noted)
    }

    async fn confirm_in_slot(
        &self,
        at: Option<Timestamp>,
        DueId(id): DueId,
        keys: &[KeyCharge],
        by: Instant,
    ) -> Result<bool, StoreError> {
        let mut args = trace_args(at);
        args.push(id.to_vec());
        let both = |key: &KeyCharge| [key.record.clone(), key.record.due()];
        let (slot, keys) = (keys[0].record.slot, keys.iter().flat_map(both));
        let keys: Vec<RecordKey> = keys.collect();
        let count = keys.len() / 2;
        let request = Request::Script { script: &CONFIRM, keys, args };
        match &*self.route.send(slot, request, by).await? {
            [Value::Int(_), confirmed @ ..] if confirmed.len() == count => {
                Ok(confirmed.iter().all(|one| *one == Value::Int(1)))
            }
            _ => Err(bad_reply()),
        }
    }
}

/// Whether something is due of a key, by its record.
pub(crate) fn is_noted(record: &[u8]) -> bool {
    match record {
        [1, ..] => false,
        [2, rest @ ..] => rest.iter().skip(TAG_DIGITS).take(NUMBER).any(|byte| *byte > 0),
        plain => plain.contains(&b'+'),
    }
}

/// The list under another definition of the policy. A limit with the same name and algorithm goes on with what was
/// reserved. What was to be undone stays charged; it can still be confirmed.
pub(crate) fn translated(list: &[u8], from: &Entry, to: &Entry) -> Option<Vec<u8>> {
    let size = HEAD + NUMBERS * NUMBER * from.policy.limits().len();
    let (entries, []) = (list.chunks_exact(size), list.chunks_exact(size).remainder()) else {
        return None;
    };
    let mut translated = Vec::with_capacity(list.len());
    for entry in entries {
        let (head, limits) = entry.split_at(HEAD);
        let (at, releases) =
            (Timestamp::from_micros(number(&head[HOW + 2..])), head[HOW] == RELEASE);
        let units = |limit: &[u8]| match number(&limit[..NUMBER]) {
            units if units > 0 && releases => Some((units, None)),
            _ => None,
        };
        let held = ReservedUnits::new(at, limits.chunks_exact(NUMBERS * NUMBER).map(units));
        translated.extend_from_slice(&head[..=HOW]);
        translated.push(u8::try_from(to.policy.limits().len()).unwrap_or(u8::MAX));
        translated.extend_from_slice(&head[HOW + 2..]);
        translated.extend(to.shape.releasing(&held.migrated(&from.policy, &to.policy)));
    }
    Some(translated)
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

/// No more can be noted of a key.
pub(crate) fn full(policy: &str) -> StoreError {
    let reason = format!(
        "256 reservations and checks of one key of policy `{policy}` are under way or to be released, and there is no \
         room for more; settle some, or reserve without `release`; nothing was charged"
    );
    StoreError::failed(Failure::Overloaded, reason)
}
