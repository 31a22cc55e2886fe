//! A check over keys that no one script can reach: slots of a cluster.
//!
//! The slots are asked in order, and what they admit is held. When one refuses, what the earlier ones
//! hold is put back as it was, or refunded where somebody has used the key since. So no limit is ever
//! exceeded; a check that comes in between may be refused for at most this round trip.

use tokio::time::Instant;
use tollgate::{StoreError, Timestamp, Verb};

use crate::decide::{Found, How, Line, answer_lines};
use crate::store::Inner;

impl Inner {
    /// As `run`, for lines of several slots.
    pub(crate) async fn run_apart(
        &self,
        at: Option<Timestamp>,
        verb: Verb,
        lines: &[Line],
        by: Instant,
    ) -> Result<Vec<Found>, StoreError> {
        let mut order: Vec<usize> = (0..lines.len()).collect();
        order.sort_by_key(|line| lines[*line].record.slot);
        let same_slot = |a: &usize, b: &usize| lines[*a].record.slot == lines[*b].record.slot;
        let mut found: Vec<Option<Found>> = lines.iter().map(|_| None).collect();
        let mut held: Vec<usize> = Vec::new();
        let mut refused = false;
        for group in order.chunk_by(same_slot) {
            let group_lines: Vec<Line> = group.iter().map(|line| lines[*line].clone()).collect();
            // Once refused, the rest is only looked at, for its numbers.
            let how = match verb {
                Verb::Check if refused => How::Apply(Verb::Peek),
                Verb::Check => How::Hold,
                other => How::Apply(other),
            };
            let results = match self.run(at, how, &group_lines, by).await {
                Ok(results) => results,
                Err(error) => {
                    self.put_back(at, lines, &found, &held, by).await;
                    return Err(error);
                }
            };
            if how == How::Hold {
                refused = refuses(&group_lines, &results);
                // A group that refuses charged nothing but what is always recorded.
                if !refused {
                    held.extend(group);
                }
            }
            for (line, result) in group.iter().zip(results) {
                found[*line] = Some(result);
            }
        }
        if refused {
            self.put_back(at, lines, &found, &held, by).await;
        }
        Ok(found.into_iter().flatten().collect())
    }

    /// Undoes what was held. Best effort: what cannot be undone stays charged, which admits less.
    async fn put_back(
        &self,
        at: Option<Timestamp>,
        lines: &[Line],
        found: &[Option<Found>],
        held: &[usize],
        by: Instant,
    ) {
        for &line in held {
            let (line, Some(found)) = (&lines[line], &found[line]) else { continue };
            let policy = &line.entry.policy;
            let always_recorded =
                policy.is_shadow() || policy.admits_by() == tollgate::Mode::Uniform;
            let Some(after) = found.after.as_deref().filter(|_| !always_recorded) else { continue };
            let before = found
                .before
                .clone()
                .and_then(|before| Some((before, found.held.record(policy, &line.entry.shape)?.1)));
            let restored = self.replace(&line.record, &line.record, after, before, by).await;
            if !restored.unwrap_or(false) {
                let refund = How::Apply(Verb::Refund);
                _ = self.run(at, refund, std::slice::from_ref(line), by).await;
            }
        }
    }
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
