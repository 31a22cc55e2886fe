//! How a rule charges the hits of a descriptor: `charge` and `unit`.

use waterclock::{Limit, Mode, Policy};

use super::policy::PolicyConfig;
use super::rules::{RuleConfig, Then};
use super::suggest::{all_of, did_you_mean};
use super::table::Table;

/// How a rule charges. Exhaustive: what applies rules must know every way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RuleCharge {
    /// With the other descriptors of the request, all or nothing.
    #[default]
    Check,
    /// Whatever is left, into debt if necessary: a cost that is known only afterwards.
    Debit,
    /// As Envoy's reference service counts: each descriptor alone, refused or not.
    Count,
}

impl RuleCharge {
    /// As files spell them.
    pub(crate) const WORDS: &'static [&'static str] = &["check", "debit", "count"];

    /// As files spell it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            RuleCharge::Check => "check",
            RuleCharge::Debit => "debit",
            RuleCharge::Count => "count",
        }
    }

    pub(crate) fn parse(word: &str) -> Option<RuleCharge> {
        let all = [RuleCharge::Check, RuleCharge::Debit, RuleCharge::Count];
        all.into_iter().find(|charge| charge.name() == word)
    }
}

/// Notes what cannot work. A policy that cannot be read has faults of its own.
pub(super) fn verify(table: &Table<'_>, rule: &RuleConfig, policy: Option<&PolicyConfig>) {
    let fault = |key: &str, rest: String| {
        if let Some(field) = table.field(key) {
            field.faults.push(field.fault(rest));
        }
    };
    let Then::Policy(name) = &rule.then else {
        for key in ["charge", "unit"] {
            fault(key, "goes with `policy`; this rule has none".to_owned());
        }
        return;
    };
    let Some(policy) = policy.map(PolicyConfig::policy) else { return };
    if let Some(unit) = rule.unit.as_deref().filter(|unit| !policy.counts(unit))
        && !policy.limits().is_empty()
    {
        let units: Vec<&str> = policy.units().collect();
        let hint = did_you_mean(unit, units.iter().copied());
        let counted = all_of(&units);
        fault("unit", format!("names `{unit}`, and policy `{name}` counts {counted}{hint}"));
    } else if rule.unit.is_none() && policy.counts_several() && !policy.counts("requests") {
        table.fault(format!(
            "`{name}` counts several units, none of them requests; set `unit` to the one that Envoy's hits are"
        ));
    }
    match rule.charge {
        RuleCharge::Count if policy.mode() != Mode::CountRefusals => {
            let rest = format!(
                "is \"count\", which counts refused requests, too; set `mode = \"uniform\"` in policy `{name}`"
            );
            fault("charge", rest);
        }
        RuleCharge::Debit if !policy.limits().is_empty() && !takes_debits(policy, rule) => {
            let rest = format!(
                "is \"debit\", and policy `{name}` has no limit that a debit changes; gaps, slots, error rates and \
                 concurrency count events"
            );
            fault("charge", rest);
        }
        _ => {}
    }
}

/// Whether one of the limits counts units of this rule.
fn takes_debits(policy: &Policy, rule: &RuleConfig) -> bool {
    let unit = rule.unit.as_deref().unwrap_or("requests");
    let is_asked = |limit: &&Limit| !policy.counts_several() || limit.unit() == unit;
    let counts = |limit: &Limit| limit.max_cost().is_some() && limit.lease().is_none();
    policy.limits().iter().filter(is_asked).any(counts)
}
