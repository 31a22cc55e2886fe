//! The tiers of a policy: the same budget by other numbers, for callers of some roles.

use std::sync::Arc;

use waterclock::store::tier_variant;
use waterclock::{Factor, Policy};

use super::error::Fault;
use super::limit::accept_name as accept_limit_name;
use super::schema::{Key, Shape};
use super::suggest::{did_you_mean, one_of, quoted};
use super::table::{Entry, Field, Table};

pub(crate) const TIERS: Key = Key::new(
    "tiers",
    Shape::MapOf(&Shape::Table(TIER)),
    "Further factors, chosen by the request's `tier`.",
);

pub(crate) const DEFAULT_TIER: Key = Key::new(
    "default_tier",
    Shape::Text,
    "The tier of requests whose tier is not known; without it, an unknown tier is an error.",
);

const TIER: &[Key] = &[Key::new(
    "factor",
    Shape::Factor,
    "Multiplies the policy's factor. 2: twice as strict, 0.5: half as strict, 0: no limit.",
)
.such_as("0.5")];

/// A tier of a policy.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TierConfig {
    /// The name that requests use.
    pub name: String,
    /// The tier's factor; it multiplies the policy's own.
    pub factor: Factor,
    /// The policy with its limits scaled; the policy itself if the factor is 1.
    pub policy: Arc<Policy>,
    /// Where it is in the file.
    pub(crate) place: usize,
}

impl TierConfig {
    /// Whether it shares keys with the policy under other numbers, so that a store must know it.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        !self.factor.is_one() && !self.policy.limits().is_empty()
    }
}

/// The default tier. One that is inherited is ignored by policies whose own `tiers` do not have it.
pub(crate) fn read_default_tier<'doc>(table: &Table<'doc>) -> Option<&'doc str> {
    let names = names_of(table);
    if table.own_field("default_tier").is_some() {
        return table.optional("default_tier", |field| one_of_tiers(field, &names));
    }
    table.verified("default_tier", Field::text).filter(|name| names.contains(name))
}

/// The names of the tiers, in the order of the file.
pub(crate) fn names_of<'doc>(table: &Table<'doc>) -> Vec<&'doc str> {
    let tiers = table.verified("tiers", Field::entries).unwrap_or_default();
    tiers.iter().map(|tier| tier.key).collect()
}

/// A word that must be the name of a tier.
pub(crate) fn one_of_tiers<'doc>(field: &Field<'doc>, names: &[&str]) -> Result<&'doc str, Fault> {
    let name = field.text()?;
    if names.contains(&name) {
        return Ok(name);
    }
    let found = quoted(name);
    Err(field.fault(match names {
        [] => format!("needs `tiers` to choose from; found {found}"),
        _ => {
            let hint = did_you_mean(name, names.iter().copied());
            format!("must be one of `tiers`, {}; found {found}{hint}", one_of(names))
        }
    }))
}

/// In the order of the file; without those that have a fault.
pub(crate) fn read_tiers(
    table: &Table<'_>,
    written: &Policy,
    factor: Factor,
    policy: &Arc<Policy>,
) -> Vec<TierConfig> {
    let entries = table.verified("tiers", Field::entries).unwrap_or_default();
    let is_inherited = table.own_field("tiers").is_none();
    let tier = |entry: &Entry<'_>| {
        let faults = entry.field.faults;
        let named = accept_tier_name(entry.key)
            .map_err(|rest| Fault::at(entry.at, format!("the name of a tier {rest}")));
        let table = entry.field.table(format!("tier `{}`", entry.key), TIER).ok()?;
        table.needs("factor");
        let field = table.field("factor")?;
        let own = field.factor().ok()?;
        faults.keep(named)?;
        let policy = if own.is_one() {
            Arc::clone(policy)
        } else {
            // Both factors at once, so that numbers are rounded once.
            let name = tier_variant(written.name(), entry.key);
            let both = factor.times(own).map_err(|error| error.to_string());
            let scaled =
                both.and_then(|by| written.scaled(&name, by).map_err(|error| error.to_string()));
            let of_policy = |message| format!("policy `{}`: {message}", written.name());
            let scaled = scaled.map_err(|message: String| match is_inherited {
                true => Fault::at(field.at(), of_policy(message)),
                false => Fault::at(field.at(), message),
            });
            Arc::new(faults.keep(scaled)?)
        };
        Some(TierConfig { name: entry.key.to_owned(), factor: own, policy, place: field.at() })
    };
    entries.iter().filter_map(tier).collect()
}

/// As names of limits, and without `@`, which other variants of the policy have in their names.
fn accept_tier_name(name: &str) -> Result<(), String> {
    match name.contains('@') {
        true => Err(format!("must not contain `@`; found {}", quoted(name))),
        false => accept_limit_name(name),
    }
}
