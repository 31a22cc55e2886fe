//! Who is treated otherwise by the new policy.

use crate::report::{Checked, Distinct, Keys, Number, Record, Refusals};
use crate::timeline::Timeline;

const BINS: usize = 200;

/// What changes for one key.
#[derive(Clone, Copy, Default)]
pub(super) struct Change {
    pub(super) checks: u64,
    pub(super) newly_refused: u64,
    pub(super) newly_admitted: u64,
}

impl Change {
    pub(super) fn all(&self) -> u64 {
        self.newly_refused + self.newly_admitted
    }
}

impl Record for Change {
    fn weight(&self) -> (u64, u64) {
        (self.all(), self.checks)
    }
}

/// What one of the two policies does in all.
pub(super) struct Side {
    pub(super) checks: u64,
    pub(super) refused: u64,
    pub(super) timeline: Timeline,
}

impl Side {
    pub(super) fn new() -> Side {
        Side { checks: 0, refused: 0, timeline: Timeline::new(BINS) }
    }

    pub(super) fn add(&mut self, checked: &Checked<'_>) {
        let is_refused = checked.is_refused();
        self.checks += 1;
        self.refused += u64::from(is_refused);
        self.timeline.add(checked.t_us, !is_refused);
    }

    pub(super) fn admitted(&self) -> u64 {
        self.checks - self.refused
    }
}

/// What changes for whom.
#[derive(Default)]
pub(super) struct Changes {
    pub(super) all: Change,
    pub(super) keys: Keys<Change>,
    /// By the place of the new limit that refuses now.
    pub(super) refused_by: Vec<u64>,
    /// By the place of the old limit that refused before.
    pub(super) admitted_by: Vec<u64>,
    /// Some of those who are refused now.
    pub(super) drawn: Refusals,
    /// Who was ever newly refused, and newly admitted.
    pub(super) refused_keys: Distinct,
    pub(super) admitted_keys: Distinct,
}

impl Changes {
    pub(super) fn add(&mut self, was: &Checked<'_>, is: &Checked<'_>) {
        let (was_refused, is_refused) = (was.is_refused(), is.is_refused());
        let add = |change: &mut Change| {
            change.checks += 1;
            change.newly_refused += u64::from(is_refused && !was_refused);
            change.newly_admitted += u64::from(was_refused && !is_refused);
        };
        add(&mut self.all);
        self.keys.note(is.key, add);
        if is_refused && !was_refused {
            count(&mut self.refused_by, is);
            self.refused_keys.add(is.key);
            self.drawn.add(|| is.refusal());
        } else if was_refused && !is_refused {
            count(&mut self.admitted_by, was);
            self.admitted_keys.add(is.key);
        }
    }

    pub(super) fn keys_refused(&self) -> Number {
        self.keys.number_such(&self.refused_keys, |change| change.newly_refused > 0)
    }

    pub(super) fn keys_admitted(&self) -> Number {
        self.keys.number_such(&self.admitted_keys, |change| change.newly_admitted > 0)
    }
}

/// Limits that only one key has are not the policy's.
fn count(counts: &mut Vec<u64>, refused: &Checked<'_>) {
    if refused.turn.is_particular() {
        return;
    }
    counts.resize(counts.len().max(refused.turn.policy().limits().len()), 0);
    refused.decision.refused_by().iter().for_each(|limit| counts[limit] += 1);
}
