//! Reading a policy.

use std::collections::BTreeSet;

use waterclock::{Factor, Rollout};

use super::duration::Micros;
use super::error::Fault;
use super::limits;
use super::schema::{Key, Shape, UNITS};
use super::spec::{LimitSpec, PolicyConfig};
use super::suggest::{quoted, shown};
use super::table::Table;
use super::table::{Entry, Field};
use super::tiers::{self, Base};

pub(crate) const KEYS: &[Key] = &[
    Key::new(
        "key",
        Shape::List(&Shape::Syntax(accept_field_name)),
        "Request fields that form the key; without it the caller passes the key.",
    ),
    Key::new(
        "mode",
        Shape::Word(&["binary", "nary", "uniform"]),
        "The whole cost or nothing; what fits; or every attempt recorded.",
    )
    .default("\"binary\""),
    Key::new(
        "headers",
        Shape::Word(&["none", "retry-after", "ietf", "draft-03", "legacy"]),
        "How much a client is told.",
    )
    .default("\"retry-after\""),
    Key::new("shadow", Shape::Flag, "Decide and report, never refuse.").default("false"),
    Key::new(
        "rollout",
        Shape::Percent,
        "The share of keys that is limited; the others are in shadow.",
    )
    .default("\"100%\""),
    Key::new(
        "on_store_error",
        Shape::Word(&["local", "allow", "deny"]),
        "Who decides while the store is unreachable.",
    )
    .default("\"local\""),
    Key::new("factor", Shape::Factor, "Multiplies its limits: below 1 loosens, 0 disables.")
        .default("1"),
    Key::new(
        "tiers",
        Shape::MapOf(&Shape::Table(TIER)),
        "Multipliers that the request's `tier` field picks from.",
    ),
    Key::new(
        "exempt",
        Shape::List(&Shape::Text),
        "Keys, or prefixes of address keys, that are never limited.",
    ),
    Key::new(
        "block",
        Shape::List(&Shape::Text),
        "Keys, or prefixes of address keys, that are always refused.",
    ),
    Key::new(
        "overrides",
        Shape::MapOf(&Shape::List(&Shape::Limit)),
        "Limits of their own for single keys.",
    ),
    Key::new("lease", Shape::Table(LEASE), "Lease mode on a shared store."),
    Key::new(
        "limits",
        Shape::List(&Shape::Limit),
        "One to sixteen limits that admit together or not at all.",
    )
    .such_as("[\"10/s\"]"),
];

pub(crate) const TIER: &[Key] =
    &[Key::new("factor", Shape::Factor, "Below 1 loosens, 0 disables.").such_as("0.5")];

const LEASE: &[Key] = &[
    Key::new("size", UNITS, "Units taken from the store at a time.").such_as("100"),
    Key::new("ttl", Shape::Duration, "How long they may be held.").such_as("\"1s\""),
];

/// Nothing if there was something to complain about.
pub(crate) fn read(entry: &Entry<'_>, most_sharing: Option<usize>) -> Option<PolicyConfig> {
    let faults = entry.field.faults;
    let name = faults.keep(accept_name(entry));
    let what = format!("policy `{}`", entry.key);
    let table = faults.keep(entry.field.table(what.as_str(), KEYS).map_err(|_| {
        let found = shown(entry.field.value.get_ref());
        let sentence = format!("{what} must be a table with `limits`; found {found}");
        Fault::at(entry.field.at(), sentence)
    }))?;
    table.verify();
    let mode = table.verified("mode", Field::word).unwrap_or("binary");
    table.needs("limits");
    let (written, disabled) = limits::read(&table.field("limits")?, mode)?;
    let shadow = table.verified("shadow", Field::flag).unwrap_or(false);
    let factor = table.verified("factor", Field::factor).unwrap_or(Factor::ONE);
    let base = Base { name: entry.key, limits: &written, factor, mode, shadow };
    let scaled = base.scaled(entry.key, Factor::ONE).map_err(|sentence| {
        Fault::at(table.field("factor").map_or(table.at, |field| field.at()), sentence)
    });
    let (limits, built) = faults.keep(scaled)?;
    let tiers = tiers::read(&table, &base);
    let overrides = read_overrides(&table, mode, &limits);
    let lease = read_lease(&table);
    if built.counts_several() && lease.is_some() {
        let at = table.field("lease").map_or(table.at, |field| field.at());
        let sentence =
            "`lease` takes units of one kind out of the store, and these limits count several";
        faults.push(Fault::at(at, sentence.to_owned()));
    }
    tiers::refuse_too_many(&table, &tiers, overrides.len(), most_sharing);
    Some(PolicyConfig {
        name: name?,
        key: table.texts("key"),
        mode,
        headers: table.verified("headers", Field::word).unwrap_or("retry-after"),
        on_store_error: table.verified("on_store_error", Field::word).unwrap_or("local"),
        shadow,
        rollout: table.verified("rollout", Field::percent).unwrap_or(Rollout::EVERYBODY),
        factor,
        limits,
        tiers,
        disabled,
        exempt: table.texts("exempt"),
        block: table.texts("block"),
        overrides,
        lease,
        built,
    })
}

fn accept_name(entry: &Entry<'_>) -> Result<String, Fault> {
    let plain =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-".contains(&byte);
    if (1..=64).contains(&entry.key.len()) && entry.key.bytes().all(plain) {
        return Ok(entry.key.to_owned());
    }
    let sentence = format!(
        "the name of a policy must be 1 to 64 of a-z, 0-9, `_` and `-`; found {}",
        quoted(entry.key)
    );
    Err(Fault::at(entry.at, sentence))
}

fn accept_field_name(name: &str) -> Result<(), String> {
    if name.is_empty() {
        Err("must name request fields; found an empty name".to_owned())
    } else {
        Ok(())
    }
}

fn read_lease(table: &Table<'_>) -> Option<(u64, Micros)> {
    let lease = table.verified("lease", |field| field.table("`lease`", LEASE))?;
    lease.needs("size");
    lease.needs("ttl");
    Some((lease.verified("size", Field::whole)?, lease.verified("ttl", Field::micros)?))
}

fn read_overrides(
    table: &Table<'_>,
    mode: &str,
    instead_of: &[LimitSpec],
) -> Vec<(String, Vec<LimitSpec>)> {
    let entries = table.verified("overrides", Field::entries).unwrap_or_default();
    let of_key = |entry: &Entry<'_>| {
        let (limits, _) = limits::read(&entry.field, mode)?;
        if let Some(sentence) = other_units(&limits, instead_of) {
            entry.field.faults.push(Fault::at(entry.field.at(), sentence));
        }
        Some((entry.key.to_owned(), limits))
    };
    entries.iter().filter_map(of_key).collect()
}

/// Callers know which units a policy counts, and not who has limits of their own.
#[must_use]
pub fn other_units(limits: &[LimitSpec], instead_of: &[LimitSpec]) -> Option<String> {
    let units = |limits: &[LimitSpec]| -> BTreeSet<String> {
        limits.iter().map(|limit| limit.unit.to_string()).collect()
    };
    let (own, of_policy) = (units(limits), units(instead_of));
    let differ = own != of_policy && (own.len() > 1 || of_policy.len() > 1);
    differ.then(|| {
        let list = |units: BTreeSet<String>| {
            units.iter().map(|unit| format!("`{unit}`")).collect::<Vec<_>>().join(" and ")
        };
        format!(
            "limits of a key's own must count what those of the policy count, {}; found {}",
            list(of_policy),
            list(own)
        )
    })
}
