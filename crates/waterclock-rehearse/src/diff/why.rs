//! Why a check is decided differently: which limit, and whose doing.
//!
//! Either the rules are other ones, or the calls before are: what a policy refuses does not count later. A third run tells
//! the two apart. It has the new rules, and counts the calls that the old policy counted. If it decides as the new
//! policy does, the rules are the reason; otherwise the calls before are.

use serde_json::{Value, json};
use waterclock::{Action, Decision, Limit, Mode, Policy};
use waterclock_config::english::in_short;

use crate::report::Checked;

/// Why a check is newly refused or newly allowed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Reason {
    is_refused: bool,
    cause: Cause,
    /// The limit that refuses, or refused; empty if it was none.
    limit: String,
    /// Its numbers before and now, where they changed.
    numbers: Option<(String, String)>,
}

/// What is different.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Cause {
    /// The block list.
    Blocked,
    /// Whether the key has limits at all.
    Exempt,
    /// Whether the policy applies to the key.
    Rollout,
    ShadowPolicy,
    /// The limit is in one of the two policies only.
    OneSide,
    ShadowLimit,
    /// The limit's numbers.
    Numbers,
    /// What the key is formed from, and so which calls share a budget.
    Key,
    /// Whether a part of a cost may be granted.
    Parts,
    /// Whether refused calls count.
    CountedRefusals,
    /// Which calls before were allowed.
    CallsBefore,
}

/// Both decisions about a check that differ, and the one that tells why.
pub(super) struct Change<'c> {
    pub(super) was: &'c Checked<'c>,
    pub(super) is: &'c Checked<'c>,
    /// What the new rules decide where the old calls count.
    pub(super) with_old_calls: &'c Decision,
    pub(super) is_same_key: bool,
}

impl Change<'_> {
    /// A reason for each limit that refuses now, or refused before; at least one.
    pub(super) fn reasons(&self) -> Vec<Reason> {
        let is_refused = self.is.is_refused();
        let refuses = if is_refused { self.is } else { self.was };
        let reason = |cause, limit: Option<&Limit>| Reason {
            is_refused,
            cause,
            limit: limit.map(|limit| limit.name().to_owned()).unwrap_or_default(),
            numbers: None,
        };
        let policy = refuses.resolved.policy();
        let limits: Vec<&Limit> =
            refuses.decision.refused_by().iter().filter_map(|at| policy.limits().get(at)).collect();
        if let Some(cause) = self.about_the_key(is_refused) {
            return vec![reason(cause, limits.first().copied())];
        }
        let of_limit = |limit: &&Limit| {
            let (cause, numbers) = self.about_the_limit(limit, is_refused);
            Reason { numbers, ..reason(cause, Some(limit)) }
        };
        limits.iter().map(of_limit).collect()
    }

    /// What no limit decided.
    fn about_the_key(&self, is_refused: bool) -> Option<Cause> {
        let (refuses, allows) = if is_refused { (self.is, self.was) } else { (self.was, self.is) };
        let action = |checked: &Checked<'_>| checked.resolved.resolution().action;
        match (action(refuses), action(allows)) {
            (Action::Block, _) => Some(Cause::Blocked),
            (_, Action::Exempt | Action::Unlimited) => Some(Cause::Exempt),
            (_, Action::Shadow) => Some(Cause::Rollout),
            _ if allows.resolved.policy().is_shadow() => Some(Cause::ShadowPolicy),
            _ => None,
        }
    }

    fn about_the_limit(
        &self,
        limit: &Limit,
        is_refused: bool,
    ) -> (Cause, Option<(String, String)>) {
        let (old, new) = (self.was.resolved.policy(), self.is.resolved.policy());
        let other = named(if is_refused { old } else { new }, limit.name());
        let Some((_, other)) = other else { return (Cause::OneSide, None) };
        if other.is_shadow() {
            return (Cause::ShadowLimit, None);
        }
        let by_rules = named(new, limit.name())
            .is_some_and(|(at, _)| self.with_old_calls.refused_by().iter().any(|by| by == at));
        let modes = (old.mode(), new.mode());
        if by_rules == is_refused {
            let (before, now) = if is_refused { (other, limit) } else { (limit, other) };
            match modes {
                _ if before != now => (Cause::Numbers, Some(numbers(before, now))),
                _ if !self.is_same_key => (Cause::Key, None),
                (before, now) if before != now => (Cause::Parts, None),
                _ => (Cause::CallsBefore, None),
            }
        } else if modes.0 != modes.1 && [modes.0, modes.1].contains(&Mode::CountRefusals) {
            (Cause::CountedRefusals, None)
        } else {
            (Cause::CallsBefore, None)
        }
    }
}

fn named<'p>(policy: &'p Policy, name: &str) -> Option<(usize, &'p Limit)> {
    policy.limits().iter().enumerate().find(|(_, limit)| limit.name() == name)
}

/// The numbers of a limit before and now; with the algorithm, if it is another one.
fn numbers(before: &Limit, now: &Limit) -> (String, String) {
    let (was, is) = (before.algorithm().name(), now.algorithm().name());
    let words = |limit: &Limit, algorithm: &str| match was == is {
        true => in_short(limit),
        false => format!("{} ({algorithm})", in_short(limit)),
    };
    (words(before, was), words(now, is))
}

impl Reason {
    /// A code for programs.
    fn code(&self) -> &'static str {
        let (refused, allowed) = match self.cause {
            Cause::Blocked => ("blocked", "no-longer-blocked"),
            Cause::Exempt => ("no-longer-exempt", "exempt"),
            Cause::Rollout => ("enrolled", "no-longer-enrolled"),
            Cause::ShadowPolicy => ("policy-enforced", "policy-in-shadow"),
            Cause::OneSide => ("limit-added", "limit-removed"),
            Cause::ShadowLimit => ("limit-enforced", "limit-in-shadow"),
            Cause::Numbers => ("limit-changed", "limit-changed"),
            Cause::Key => ("other-key", "other-key"),
            Cause::Parts => ("mode-changed", "mode-changed"),
            Cause::CountedRefusals => ("refusals-count", "refusals-no-longer-count"),
            Cause::CallsBefore => ("more-allowed-before", "fewer-allowed-before"),
        };
        if self.is_refused { refused } else { allowed }
    }

    /// One sentence for people, without its full stop.
    pub(super) fn sentence(&self) -> String {
        let limit = &self.limit;
        let by = format!("refused by `{limit}`");
        let (before, now) = self.numbers.as_ref().map_or(("", ""), |(before, now)| (before, now));
        if self.is_refused {
            match self.cause {
                Cause::Blocked => "refused because the key is blocked now".to_owned(),
                Cause::Exempt => format!("{by}, because the key is no longer exempt"),
                Cause::Rollout => format!("{by}, because the policy applies to the key now"),
                Cause::ShadowPolicy => format!("{by}: the policy was in shadow before"),
                Cause::OneSide => format!("{by}, which is new"),
                Cause::ShadowLimit => format!("{by}, which was in shadow before"),
                Cause::Numbers => format!("{by}, which was {before} and is {now}"),
                Cause::Key => format!("{by}, because other calls share the new key's budget"),
                Cause::Parts => format!("{by}, because the mode of the policy is another one"),
                Cause::CountedRefusals => format!("{by}, because refused calls count now"),
                Cause::CallsBefore => {
                    format!(
                        "{by}, because calls before that were refused are allowed now and count"
                    )
                }
            }
        } else {
            match self.cause {
                Cause::Blocked => "allowed because the key is no longer blocked".to_owned(),
                Cause::Exempt => "allowed because the key is exempt now".to_owned(),
                Cause::Rollout => {
                    "allowed because the policy no longer applies to the key".to_owned()
                }
                Cause::ShadowPolicy => "allowed because the policy is in shadow now".to_owned(),
                Cause::OneSide => format!("allowed because `{limit}` is gone"),
                Cause::ShadowLimit => format!("allowed because `{limit}` is in shadow now"),
                Cause::Numbers => {
                    format!("allowed because `{limit}` was {before} and is {now}")
                }
                Cause::Key => {
                    format!("allowed because fewer calls share the new key's budget of `{limit}`")
                }
                Cause::Parts => "allowed because the mode of the policy is another one".to_owned(),
                Cause::CountedRefusals => {
                    format!("allowed because the refused calls before no longer count in `{limit}`")
                }
                Cause::CallsBefore => format!(
                    "allowed because calls before that are refused now no longer count in `{limit}`"
                ),
            }
        }
    }

    /// For programs, with how many checks it explains.
    pub(super) fn json(&self, checks: u64) -> Value {
        let (before, now) = self.numbers.clone().unzip();
        json!({
            "code": self.code(),
            "change": if self.is_refused { "newly_refused" } else { "newly_allowed" },
            "limit": (!self.limit.is_empty()).then_some(&self.limit),
            "old": before,
            "new": now,
            "checks": checks,
            "sentence": self.sentence(),
        })
    }
}
