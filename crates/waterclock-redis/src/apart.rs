//! A check over keys that no one script can reach: slots of a cluster.
//!
//! The slots are asked in order, and what they admit is held. When one refuses, what the earlier ones
//! hold is put back as it was, or refunded where somebody has used the key since. So no limit is ever
//! exceeded; a check that comes in between may be refused for at most this round trip.

use std::sync::Arc;

use tokio::time::Instant;
use waterclock::{Mode, StoreError, Timestamp, Verb};

use crate::decide::{Found, How, Line, answer_lines};
use crate::store::Inner;

impl Inner {
    /// As `run`, for lines of several slots.
    pub(crate) async fn run_apart(
        self: &Arc<Self>,
        at: Option<Timestamp>,
        verb: Verb,
        lines: &[Line],
        by: Instant,
    ) -> Result<Vec<Found>, StoreError> {
        let mut order: Vec<usize> = (0..lines.len()).collect();
        order.sort_by_key(|line| lines[*line].record.slot);
        let same_slot = |a: &usize, b: &usize| lines[*a].record.slot == lines[*b].record.slot;
        let mut found: Vec<Option<Found>> = lines.iter().map(|_| None).collect();
        let mut held: Vec<Held> = Vec::new();
        let mut refused = false;
        for group in order.chunk_by(same_slot) {
            for (how, part) in parts(verb, refused, lines, group) {
                let part_lines: Vec<Line> = part.iter().map(|line| lines[*line].clone()).collect();
                let results = match self.run(at, how, &part_lines, by).await {
                    Ok(results) => results,
                    Err(error) => {
                        // The caller has waited long enough; what is held is put back behind its back.
                        let inner = Arc::clone(self);
                        tokio::spawn(async move { inner.put_back(at, held).await });
                        return Err(error);
                    }
                };
                if how == How::Hold {
                    refused = refuses(&part_lines, &results);
                    if !refused {
                        held.extend(part_lines.iter().zip(&results).filter_map(Held::of));
                    }
                }
                for (line, result) in part.into_iter().zip(results) {
                    found[line] = Some(result);
                }
            }
        }
        if refused {
            self.put_back(at, held).await;
        }
        Ok(found.into_iter().flatten().collect())
    }

    /// Undoes what was held. What cannot be undone stays charged, which admits less.
    async fn put_back(&self, at: Option<Timestamp>, held: Vec<Held>) {
        for Held { line, before, after } in held {
            let by = Instant::now() + self.deadline;
            let restored = self.replace(&line.record, &line.record, &after, before, by).await;
            // Somebody has used the key since. An error may mean that it was restored: then a refund
            // would give others' units back.
            if let Ok(false) = restored {
                let refund = How::Apply(Verb::Refund);
                _ = self.run(at, refund, std::slice::from_ref(&line), by).await;
            }
        }
    }
}

/// What was charged in the hope that all others admit, too.
struct Held {
    line: Line,
    before: Option<(Vec<u8>, u64)>,
    after: Vec<u8>,
}

impl Held {
    fn of((line, found): (&Line, &Found)) -> Option<Self> {
        let after = found.after.clone().filter(|_| !always_records(line))?;
        let ttl_ms = found.held.record(&line.entry.policy, &line.entry.shape).map(|(_, ttl)| ttl);
        let before = found.before.clone().zip(ttl_ms);
        Some(Self { line: line.clone(), before, after })
    }
}

/// Whether a charge is made whatever becomes of the others.
fn always_records(line: &Line) -> bool {
    line.entry.policy.is_shadow() || line.entry.policy.mode() == Mode::CountRefusals
}

/// How the lines of one slot are asked. Once refused, the rest is only looked at, for its numbers;
/// but what always records does.
fn parts(verb: Verb, refused: bool, lines: &[Line], group: &[usize]) -> Vec<(How, Vec<usize>)> {
    let group = group.iter().copied();
    let mut parts = match verb {
        Verb::Check if refused => {
            let (always, others) = group.partition(|line| always_records(&lines[*line]));
            vec![(How::Apply(Verb::Check), always), (How::Apply(Verb::Peek), others)]
        }
        Verb::Check => vec![(How::Hold, group.collect())],
        other => vec![(How::Apply(other), group.collect())],
    };
    parts.retain(|(_, part): &(How, Vec<usize>)| !part.is_empty());
    parts
}

/// Whether a policy that can refuse did.
fn refuses(lines: &[Line], found: &[Found]) -> bool {
    let mut states: Vec<Found> = found
        .iter()
        .map(|found| Found { held: found.held.clone(), before: None, after: None })
        .collect();
    let answers = answer_lines(Verb::Check, lines, &mut states);
    answers.iter().any(|answer| !answer.decision.is_allowed())
}
