//! Counts of what changes for which keys and why, and what two files say differently.

use std::collections::BTreeMap;

use serde_json::Value;
use waterclock::Lease;
use waterclock_config::english::describe;
use waterclock_config::{Config, Micros, PolicyConfig, PolicyJson};

use super::why::Reason;
use crate::report::{Checked, Distinct, KeyCount, Keys, Record};
use crate::timeline::Timeline;

/// So many that a part of a page can be looked at closely.
const BINS: usize = 1_000;
/// How many reasons are told apart. Only files with custom limits for very many keys have more.
const MOST_REASONS: usize = 1_000;
/// How many of them a key remembers.
const REASONS_OF_A_KEY: usize = 4;

/// What changes for one key.
#[derive(Clone, Copy, Default)]
pub(super) struct Change {
    pub(super) checks: u64,
    pub(super) newly_refused: u64,
    pub(super) newly_allowed: u64,
    /// The number of a reason, counted from 1, and how many checks it explains.
    reasons: [(u16, u32); REASONS_OF_A_KEY],
}

impl Change {
    fn explain(&mut self, reason: u16) {
        let is_its_own = |(known, _): &&mut (u16, u32)| *known == reason || *known == 0;
        if let Some((known, checks)) = self.reasons.iter_mut().find(is_its_own) {
            (*known, *checks) = (reason, checks.saturating_add(1));
        }
    }

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

/// What changes for which keys, and why.
pub(super) struct Changes {
    pub(super) all: Change,
    pub(super) keys: Keys<Change>,
    /// By the position of the new limit that refuses now.
    pub(super) refused_by: Vec<u64>,
    /// By the position of the old limit that refused before.
    pub(super) allowed_by: Vec<u64>,
    /// Checks over time: those that are not newly refused, and those that are not newly allowed, count as allowed.
    pub(super) refused_over_time: Timeline,
    pub(super) allowed_over_time: Timeline,
    /// Each reason with its number, and how many checks each explains.
    reasons: BTreeMap<Reason, u16>,
    explained: Vec<u64>,
    /// All keys that were ever newly refused, and newly allowed.
    pub(super) refused_keys: Distinct,
    pub(super) allowed_keys: Distinct,
}

impl Changes {
    pub(super) fn new() -> Changes {
        Changes {
            all: Change::default(),
            keys: Keys::default(),
            refused_by: Vec::new(),
            allowed_by: Vec::new(),
            refused_over_time: Timeline::new(BINS),
            allowed_over_time: Timeline::new(BINS),
            reasons: BTreeMap::new(),
            explained: Vec::new(),
            refused_keys: Distinct::default(),
            allowed_keys: Distinct::default(),
        }
    }

    /// Counts a check; `reasons` tell why it is decided differently, if it is.
    pub(super) fn add(&mut self, was: &Checked<'_>, is: &Checked<'_>, reasons: Vec<Reason>) {
        let (was_refused, is_refused) = (was.is_refused(), is.is_refused());
        let (is_newly_refused, is_newly_allowed) =
            (is_refused && !was_refused, was_refused && !is_refused);
        let numbers: Vec<u16> = reasons.into_iter().map(|reason| self.number_of(reason)).collect();
        let add = |change: &mut Change| {
            change.checks += 1;
            change.newly_refused += u64::from(is_newly_refused);
            change.newly_allowed += u64::from(is_newly_allowed);
            numbers.iter().filter(|number| **number > 0).for_each(|number| change.explain(*number));
        };
        add(&mut self.all);
        self.keys.note(is.key, add);
        self.refused_over_time.add(is.t_us, !is_newly_refused);
        self.allowed_over_time.add(is.t_us, !is_newly_allowed);
        if is_newly_refused {
            count(&mut self.refused_by, is);
            self.refused_keys.add(is.key);
        } else if is_newly_allowed {
            count(&mut self.allowed_by, was);
            self.allowed_keys.add(is.key);
        }
    }

    /// The number of a reason, counted from 1, which explains one check more; 0 where there are too many.
    fn number_of(&mut self, reason: Reason) -> u16 {
        let next = u16::try_from(self.reasons.len() + 1).unwrap_or(u16::MAX);
        let is_full = self.reasons.len() >= MOST_REASONS;
        let number = match self.reasons.get(&reason) {
            Some(number) => *number,
            None if is_full => return 0,
            None => {
                self.reasons.insert(reason, next);
                self.explained.push(0);
                next
            }
        };
        self.explained[usize::from(number) - 1] += 1;
        number
    }

    /// Each reason with the checks that it explains, most of them first.
    pub(super) fn reasons(&self) -> Vec<(&Reason, u64)> {
        let checks = |number: &u16| self.explained[usize::from(*number) - 1];
        let mut all: Vec<(&Reason, u64)> =
            self.reasons.iter().map(|(reason, number)| (reason, checks(number))).collect();
        all.sort_by_key(|(_, checks)| std::cmp::Reverse(*checks));
        all
    }

    /// The same for one key.
    pub(super) fn reasons_of(&self, change: &Change) -> Vec<(&Reason, u64)> {
        let checks = |number: u16| {
            change.reasons.iter().find(|(known, _)| *known == number).map(|(_, checks)| *checks)
        };
        let mut all: Vec<(&Reason, u64)> = self
            .reasons
            .iter()
            .filter_map(|(reason, number)| Some((reason, u64::from(checks(*number)?))))
            .collect();
        all.sort_by_key(|(_, checks)| std::cmp::Reverse(*checks));
        all
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
