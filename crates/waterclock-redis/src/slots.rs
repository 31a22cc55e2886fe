//! A check over keys of several slots of a cluster, which no one script can reach.
//!
//! The slots are called in order, and what they admit is held. When one refuses, what the earlier ones hold is put
//! back as it was, or refunded if the key was used since. No limit is ever exceeded; a concurrent check may be
//! refused for at most this round trip.

use tokio::time::Instant;
use waterclock::{Mode, StoreError, Timestamp, Verb};

use crate::call::{Action, Call, Found, KeyCharge, answer_keys};
use crate::direct::Direct;

impl Direct {
    /// As [`Direct::run`], for keys of several slots.
    pub(crate) async fn run_across_slots(
        &self,
        verb: Verb,
        call: Call<'_>,
    ) -> Result<Vec<Found>, StoreError> {
        let Call { keys, at, .. } = call;
        let mut order: Vec<usize> = (0..keys.len()).collect();
        order.sort_by_key(|key| keys[*key].record.slot);
        let same_slot = |a: &usize, b: &usize| keys[*a].record.slot == keys[*b].record.slot;
        let mut found: Vec<Option<Found>> = keys.iter().map(|_| None).collect();
        let mut taken: Vec<Taken> = Vec::new();
        let mut is_refused = false;
        for group in order.chunk_by(same_slot) {
            for (action, part) in parts(verb, is_refused, keys, group) {
                let part_keys: Vec<KeyCharge> = part.iter().map(|key| keys[*key].clone()).collect();
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
            self.put_back(at, taken).await;
        }
        Ok(found.into_iter().flatten().collect())
    }

    /// Undoes what was taken. What cannot be undone stays charged, which admits less.
    async fn put_back(&self, at: Option<Timestamp>, taken: Vec<Taken>) {
        for Taken { key, before, after } in taken {
            let by = Instant::now() + self.deadline;
            let restored = self.replace(&key.record, &after, before, by).await;
            // The key was used since. An error may mean that it was restored: then a refund would give back the units
            // of others.
            if let Ok(false) = restored {
                let (action, keys) = (Action::Apply(Verb::Refund), std::slice::from_ref(&key));
                _ = self.run(Call { action, keys, at, by }).await;
            }
        }
    }
}

/// What was charged in the hope that all other slots admit, too.
struct Taken {
    key: KeyCharge,
    before: Option<(Vec<u8>, u64)>,
    after: Vec<u8>,
}

impl Taken {
    fn of((key, found): (&KeyCharge, &Found)) -> Option<Self> {
        let after = found.after.clone().filter(|_| !always_records(key))?;
        let ttl_ms = found.state.record(&key.entry.policy, &key.entry.shape).map(|(_, ttl)| ttl);
        let before = found.before.clone().zip(ttl_ms);
        Some(Self { key: key.clone(), before, after })
    }
}

/// Whether a charge is made whatever becomes of the others.
fn always_records(key: &KeyCharge) -> bool {
    key.entry.policy.is_shadow() || key.entry.policy.mode() == Mode::CountRefusals
}

/// How the keys of one slot are called. Once refused, the rest is only peeked at, for its numbers; but what always
/// records does.
fn parts(
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
    let mut states: Vec<Found> = found
        .iter()
        .map(|found| Found { state: found.state.clone(), before: None, after: None })
        .collect();
    let answers = answer_keys(Verb::Check, keys, &mut states);
    answers.iter().any(|answer| !answer.decision.is_allowed())
}
