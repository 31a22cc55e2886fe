//! A check over keys of several slots of a cluster, which no one script can reach.
//!
//! The slots are called in order, and what they admit is held. When one refuses, what the earlier ones hold is taken
//! back where it was charged: in its own window if that has not ended, and from a bucket what has not drained. No
//! limit is ever exceeded; a concurrent check may be refused for at most this round trip.

use tokio::time::{Instant, timeout_at};
use waterclock::{Mode, StoreError, Timestamp, Verb};

use crate::call::{Action, Call, Found, KeyCharge, OtherScript, answer_keys};
use crate::direct::Direct;
use crate::script::Kind;

impl Direct {
    /// As [`Direct::run`], for keys of several slots.
    pub(crate) async fn run_across_slots(
        &self,
        verb: Verb,
        call: Call<'_>,
    ) -> Result<Vec<Found>, StoreError> {
        let Call { keys, at, .. } = call;
        let mut found: Vec<Option<Found>> = keys.iter().map(|_| None).collect();
        let mut taken: Vec<Taken> = Vec::new();
        let mut is_refused = false;
        for slot in slots(keys) {
            for (action, part) in parts(verb, is_refused, keys, &slot) {
                let part_keys = some(keys, &part);
                let results = match self.run(Call { action, keys: &part_keys, ..call }).await {
                    Ok(results) => results,
                    Err(error) => {
                        // The caller has waited long enough; the rest happens in the background.
                        let this = self.clone();
                        tokio::spawn(async move { this.put_back(at, taken).await });
                        // What is no check is not put back.
                        let is_begun = verb != Verb::Check && found.iter().any(Option::is_some);
                        return Err(if is_begun { error.after_sending() } else { error });
                    }
                };
                if action == Action::Hold {
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
            let undo = tokio::spawn(async move { this.put_back(at, taken).await });
            _ = timeout_at(call.by, undo).await;
        }
        Ok(found.into_iter().flatten().collect())
    }

    /// Undoes what was taken. What cannot be undone stays charged, which admits less.
    async fn put_back(&self, at: Option<Timestamp>, taken: Vec<Taken>) {
        for Taken { key, marks } in taken {
            let by = Instant::now() + self.deadline;
            let keys = std::slice::from_ref(&key);
            let call = Call { action: Action::Apply(Verb::Refund), keys, at, by };
            let head = vec![[call.count(), vec![0]].concat()];
            let undo = OtherScript { kind: Kind::Undo, reservation: None, head, tail: vec![marks] };
            // Not repeated: without an answer it may have been done.
            _ = self.run_script(call, Some(&undo)).await;
        }
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
    marks: Vec<u8>,
}

impl Taken {
    fn of((key, found): (&KeyCharge, &Found)) -> Option<Self> {
        let marks = found.marks.clone().filter(|_| !always_records(key))?;
        Some(Self { key: key.clone(), marks })
    }
}

/// Whether a charge is made whatever becomes of the others.
fn always_records(key: &KeyCharge) -> bool {
    key.entry.policy.is_shadow() || key.entry.policy.mode() == Mode::CountRefusals
}

/// How the keys of one slot are called. Once refused, the rest is only peeked at, for its numbers; but what always
/// records does.
pub(crate) fn parts(
    verb: Verb,
    is_refused: bool,
    keys: &[KeyCharge],
    group: &[usize],
) -> Vec<(Action, Vec<usize>)> {
    let group = group.iter().copied();
    let mut parts = match verb {
        Verb::Check if is_refused => {
            let (always, others) = group.partition(|key| always_records(&keys[*key]));
            vec![(Action::Apply(Verb::Check), always), (Action::Apply(Verb::Peek), others)]
        }
        Verb::Check => vec![(Action::Hold, group.collect())],
        other => vec![(Action::Apply(other), group.collect())],
    };
    parts.retain(|(_, part): &(Action, Vec<usize>)| !part.is_empty());
    parts
}

/// Whether a policy that can refuse did.
fn refuses(keys: &[KeyCharge], found: &[Found]) -> bool {
    let answers = answer_keys(Verb::Check, keys, &mut found.to_vec());
    answers.iter().any(|answer| !answer.decision.is_allowed())
}
