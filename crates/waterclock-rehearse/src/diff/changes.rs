//! Counts of what changes for which keys, and what two files say differently.

use serde_json::Value;
use waterclock::Lease;
use waterclock_config::english::describe;
use waterclock_config::{Config, Micros, PolicyConfig, PolicyJson};

use crate::report::{Checked, Distinct, KeyCount, Keys, Record, Refusals};
use crate::timeline::Timeline;

const BINS: usize = 200;

/// What changes for one key.
#[derive(Clone, Copy, Default)]
pub(super) struct Change {
    pub(super) checks: u64,
    pub(super) newly_refused: u64,
    pub(super) newly_allowed: u64,
}

impl Change {
    pub(super) fn all(&self) -> u64 {
        self.newly_refused + self.newly_allowed
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

    pub(super) fn allowed(&self) -> u64 {
        self.checks - self.refused
    }
}

/// What changes for which keys.
#[derive(Default)]
pub(super) struct Changes {
    pub(super) all: Change,
    pub(super) keys: Keys<Change>,
    /// By the position of the new limit that refuses now.
    pub(super) refused_by: Vec<u64>,
    /// By the position of the old limit that refused before.
    pub(super) allowed_by: Vec<u64>,
    /// Some of the new refusals, to be drawn.
    pub(super) drawn: Refusals,
    /// All keys that were ever newly refused, and newly allowed.
    pub(super) refused_keys: Distinct,
    pub(super) allowed_keys: Distinct,
}

impl Changes {
    pub(super) fn add(&mut self, was: &Checked<'_>, is: &Checked<'_>) {
        let (was_refused, is_refused) = (was.is_refused(), is.is_refused());
        let add = |change: &mut Change| {
            change.checks += 1;
            change.newly_refused += u64::from(is_refused && !was_refused);
            change.newly_allowed += u64::from(was_refused && !is_refused);
        };
        add(&mut self.all);
        self.keys.note(is.key, add);
        if is_refused && !was_refused {
            count(&mut self.refused_by, is);
            self.refused_keys.add(is.key);
            self.drawn.add(|| is.refusal());
        } else if was_refused && !is_refused {
            count(&mut self.allowed_by, was);
            self.allowed_keys.add(is.key);
        }
    }

    pub(super) fn keys_refused(&self) -> KeyCount {
        self.keys.number_matching(&self.refused_keys, |change| change.newly_refused > 0)
    }

    pub(super) fn keys_allowed(&self) -> KeyCount {
        self.keys.number_matching(&self.allowed_keys, |change| change.newly_allowed > 0)
    }
}

/// Counts by limit; the custom limits of a key are not the policy's.
fn count(counts: &mut Vec<u64>, refused: &Checked<'_>) {
    if refused.resolved.is_by_key() {
        return;
    }
    counts.resize(counts.len().max(refused.resolved.policy().limits().len()), 0);
    refused.decision.refused_by().iter().for_each(|limit| counts[limit] += 1);
}

/// A policy that two files describe differently, line by line in plain English.
pub struct PolicyChange {
    /// Its name.
    pub policy: String,
    /// Lines of the old file only.
    pub removed: Vec<String>,
    /// Lines of the new file only.
    pub added: Vec<String>,
    /// Its numbers in both files, as `validate --json` shows them; none where it is not.
    pub(super) settings: (Option<Value>, Option<Value>),
}

impl PolicyChange {
    /// `added`, `removed` or `changed`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self.settings {
            (Some(_), None) => "removed",
            (None, _) => "added",
            (Some(_), Some(_)) => "changed",
        }
    }
}

/// The policies that change, in the order of the old file, then of the new.
#[must_use]
pub fn policy_changes(old: &Config, new: &Config) -> Vec<PolicyChange> {
    let find = |config: &Config, name: &str| config.policy(name).map(lines_of);
    let settings = |config: &Config, name: &str| {
        let policy = config.policy(name)?;
        Some(serde_json::to_value(PolicyJson::from(policy)).unwrap_or_default())
    };
    let only_new = new.policies.iter().filter(|policy| old.policy(policy.name()).is_none());
    let names = old.policies.iter().chain(only_new).map(|policy| policy.name());
    let change = |name: &str| {
        let (was, is) = (find(old, name), find(new, name));
        let (was, is) = (was.unwrap_or_default(), is.unwrap_or_default());
        let only = |one: &[String], other: &[String]| -> Vec<String> {
            one.iter().filter(|line| !other.contains(line)).cloned().collect()
        };
        PolicyChange {
            policy: name.to_owned(),
            removed: only(&was, &is),
            added: only(&is, &was),
            settings: (settings(old, name), settings(new, name)),
        }
    };
    let differs = |change: &PolicyChange| !change.removed.is_empty() || !change.added.is_empty();
    names.map(change).filter(differs).collect()
}

/// A policy in plain English.
fn lines_of(policy: &PolicyConfig) -> Vec<String> {
    let mut lines: Vec<String> = describe(policy).lines().map(str::to_owned).collect();
    match policy.serving.lease {
        Some(Lease::Units { size, ttl }) => {
            lines.push(format!("  leases of {size} for {}", Micros::from(ttl).in_words()));
        }
        Some(_) => lines.push("  automatic leases".to_owned()),
        None => {}
    }
    lines
}
