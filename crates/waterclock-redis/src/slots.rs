//! A check over keys of several slots of a cluster, which no one script can reach.
//!
//! The slots are called in order, and what they admit is held. When one refuses, what the earlier ones hold is taken
//! back where it was charged: in its own window if that has not ended, and from a bucket what has not drained. When all
//! admit, the store confirms every charge before it answers. A charge that was not confirmed, because the caller or this
//! node stopped, is taken back a second after the deadline, by the next script about that key. No limit is ever exceeded; a concurrent check may be refused meanwhile.

use std::time::Duration;

use tokio::time::{Instant, timeout_at};
use waterclock::{Failure, Mode, StoreError, Timestamp, Verb};

use crate::call::{Action, Call, Found, KeyCharge, Marks, OtherScript, answer_keys};
use crate::direct::Direct;
use crate::keyspace::DueId;
use crate::overrides::{has_begun, is_changed};
use crate::script::Kind;

/// How much longer than its deadline a check may take before what it holds is taken back.
const UNDONE_AFTER: Duration = Duration::from_secs(1);

impl Direct {
    /// As [`Direct::run`], for keys of several slots.
    pub(crate) async fn run_across_slots(
        &self,
        verb: Verb,
        call: Call<'_>,
    ) -> Result<Vec<Found>, StoreError> {
        let Call { keys, at, .. } = call;
        let id = DueId::new(&self.ids.next(), Timestamp::ZERO);
        let hold_us = u64::try_from((self.deadline + UNDONE_AFTER).as_micros()).unwrap_or(u64::MAX);
        let mut found: Vec<Option<Found>> = keys.iter().map(|_| None).collect();
        let mut taken: Vec<Taken> = Vec::new();
        let mut is_refused = false;
        for slot in slots(keys) {
            let parts = match verb {
                Verb::Check if is_refused => parts_after_refusal(keys, &slot),
                Verb::Check => vec![(Action::Hold { id, hold_us }, slot)],
                other => vec![(Action::Apply(other), slot)],
            };
            for (action, part) in parts {
                let part_keys = some(keys, &part);
                let results = match self.run(Call { action, keys: &part_keys, ..call }).await {
                    Ok(results) => results,
                    Err(error)
                        if is_changed(&error)
                            && matches!(verb, Verb::Check | Verb::Peek | Verb::Reset) =>
                    {
                        // The call is made again: what it holds would be counted twice.
                        self.put_back(at, id, taken).await;
                        return Err(error);
                    }
                    Err(error) => {
                        // The caller has waited long enough; the rest happens in the background.
                        let this = self.clone();
                        tokio::spawn(async move { this.put_back(at, id, taken).await });
                        // What is no check is not put back.
                        let is_begun = verb != Verb::Check && found.iter().any(Option::is_some);
                        return Err(if is_begun { has_begun(error) } else { error });
                    }
                };
                if matches!(action, Action::Hold { .. }) {
                    is_refused = refuses(&part_keys, &results);
                    if !is_refused {
                        taken.extend(part_keys.iter().zip(&results).filter_map(Taken::of));
                    }
                }
                for (key, result) in part.into_iter().zip(results) {
                    found[key] = Some(result);
                }
            }
        }
        if is_refused {
            // It goes on when the caller has waited long enough.
            let this = self.clone();
            let undo = tokio::spawn(async move { this.put_back(at, id, taken).await });
            _ = timeout_at(call.by, undo).await;
        } else if !taken.is_empty() {
            self.stand_by(at, id, taken, call.by).await?;
        }
        Ok(found.into_iter().flatten().collect())
    }

    /// Confirms what was taken. If that fails, the check has failed, and what was not confirmed is taken back.
    async fn stand_by(
        &self,
        at: Option<Timestamp>,
        id: DueId,
        taken: Vec<Taken>,
        by: Instant,
    ) -> Result<(), StoreError> {
        let noted = taken.iter().filter(|taken| taken.marks.is_noted);
        let keys: Vec<KeyCharge> = noted.map(|taken| taken.key.clone()).collect();
        let this = self.clone();
        // It goes on if the caller leaves: then all of it stands, and not a part.
        let confirmed = tokio::spawn(async move {
            let confirmed = this.confirm(at, id, &keys, by).await;
            if !matches!(confirmed, Ok(true)) {
                this.put_back(at, id, taken).await;
            }
            confirmed
        });
        let late = |_| StoreError::failed(Failure::Timeout, "no answer");
        match timeout_at(by, confirmed).await.map_err(late)? {
            Ok(Ok(true)) => Ok(()),
            Ok(Err(error)) => Err(error.after_sending()),
            Ok(Ok(false)) | Err(_) => {
                let reason = "the check took so long that its charges were taken back";
                Err(StoreError::failed(Failure::Timeout, reason))
            }
        }
    }

    /// Undoes what was taken. What cannot be undone stays charged, which admits less, until the next script does so.
    async fn put_back(&self, at: Option<Timestamp>, id: DueId, taken: Vec<Taken>) {
        for Taken { key, marks } in taken {
            let by = Instant::now() + self.deadline;
            let keys = std::slice::from_ref(&key);
            let call = Call { action: Action::Apply(Verb::Refund), keys, at, by };
            // Not repeated: without an answer it may have been done.
            _ = self.undo(call, id, marks.bytes, marks.is_noted).await;
        }
    }

    /// Undoes the charge of one key by its marks.
    pub(crate) async fn undo(
        &self,
        call: Call<'_>,
        id: DueId,
        marks: Vec<u8>,
        changes_due: bool,
    ) -> Result<(), StoreError> {
        let undo = OtherScript {
            kind: Kind::Undo,
            reservation: None,
            changes_due,
            head: vec![[call.count(), vec![0], id.0.into()].concat()],
            tail: vec![marks],
        };
        self.run_script(call, Some(&undo)).await.map(drop)
    }
}

/// Which keys are in the same slot, in the order of slots.
pub(crate) fn slots(keys: &[KeyCharge]) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..keys.len()).collect();
    order.sort_by_key(|key| keys[*key].record.slot);
    let same_slot = |a: &usize, b: &usize| keys[*a].record.slot == keys[*b].record.slot;
    order.chunk_by(same_slot).map(<[usize]>::to_vec).collect()
}

/// Some of the keys.
pub(crate) fn some(keys: &[KeyCharge], which: &[usize]) -> Vec<KeyCharge> {
    which.iter().map(|key| keys[*key].clone()).collect()
}

/// What was charged in the hope that all other slots admit, too.
struct Taken {
    key: KeyCharge,
    marks: Marks,
}

impl Taken {
    fn of((key, found): (&KeyCharge, &Found)) -> Option<Self> {
        let marks = found.marks.clone().filter(|_| !always_records(key))?;
        Some(Self { key: key.clone(), marks })
    }
}

/// Whether a charge is made whatever becomes of the others.
pub(crate) fn always_records(key: &KeyCharge) -> bool {
    key.entry.policy.is_shadow() || key.entry.policy.mode() == Mode::CountRefusals
}

/// How the keys of one slot are called once another slot has refused: they are only peeked at, for their numbers; but
/// what always records does.
pub(crate) fn parts_after_refusal(keys: &[KeyCharge], slot: &[usize]) -> Vec<(Action, Vec<usize>)> {
    let (always, others) = slot.iter().copied().partition(|key| always_records(&keys[*key]));
    let mut parts = vec![(Action::Apply(Verb::Check), always), (Action::Apply(Verb::Peek), others)];
    parts.retain(|(_, part): &(Action, Vec<usize>)| !part.is_empty());
    parts
}

/// Whether a policy that can refuse did.
fn refuses(keys: &[KeyCharge], found: &[Found]) -> bool {
    let answers = answer_keys(Verb::Check, keys, &mut found.to_vec());
    answers.iter().any(|answer| !answer.decision.is_allowed())
}
