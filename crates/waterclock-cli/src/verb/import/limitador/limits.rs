//! The limits of a file of Limitador, and the descriptors that each of them counts.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_saphyr::Spanned;
use waterclock_config::Pattern;

use super::super::notes::Notes;
use super::super::source::{Source, not_yaml, problem};
use super::condition;
use crate::output::Failure;

/// A limit, and what it looks at.
pub(super) struct Limit {
    pub(super) namespace: String,
    pub(super) max_value: u64,
    pub(super) seconds: u64,
    pub(super) name: Option<String>,
    /// The entries that its conditions ask for, in the order of their keys.
    pub(super) conditions: Vec<(String, Pattern)>,
    /// Whether there are conditions that entries cannot tell.
    pub(super) has_more: bool,
    /// The entries that have a counter for each of their values, in order.
    pub(super) variables: Vec<String>,
    /// `file:line`.
    pub(super) place: String,
}

#[derive(Deserialize)]
struct Written {
    namespace: String,
    max_value: u64,
    seconds: u64,
    name: Option<String>,
    #[serde(default)]
    conditions: Vec<String>,
    #[serde(default)]
    variables: Vec<String>,
    /// Only tells limits apart.
    #[serde(default, rename = "id")]
    _id: Option<IgnoredAny>,
    #[serde(flatten)]
    others: BTreeMap<String, IgnoredAny>,
}

pub(super) fn read(source: &Source, notes: &mut Notes) -> Result<Vec<Limit>, Failure> {
    let file = &source.name;
    let lists: Vec<Vec<Spanned<Written>>> =
        serde_saphyr::from_multiple(&source.text).map_err(|error| not_yaml(file, error))?;
    let mut limits = Vec::new();
    for written in lists.into_iter().flatten() {
        let at = written.referenced;
        let place = format!("{file}:{}", at.line());
        let written = written.value;
        if written.namespace.is_empty() {
            return Err(problem(file, Some(at), "`namespace` must not be empty"));
        }
        if written.seconds == 0 {
            return Err(problem(file, Some(at), "`seconds` must be at least 1"));
        }
        for other in written.others.keys() {
            notes.add(&place, format!("`{other}` has no counterpart and is left out"));
        }
        let (conditions, has_more) = conditions(&written.conditions, &place, notes);
        let variables = variables(&written.variables, &conditions, &place, notes);
        let Written { namespace, max_value, seconds, name, .. } = written;
        let name = name.filter(|name| !name.is_empty());
        limits.push(Limit {
            namespace,
            max_value,
            seconds,
            name,
            conditions,
            has_more,
            variables,
            place,
        });
    }
    Ok(limits)
}

/// The entries that conditions ask for, and whether there are conditions that entries cannot tell.
fn conditions(
    written: &[String],
    place: &str,
    notes: &mut Notes,
) -> (Vec<(String, Pattern)>, bool) {
    let (mut all, mut has_more): (Vec<(String, Pattern)>, bool) = (Vec::new(), false);
    for condition in written {
        match condition::entries(condition) {
            Ok(entries) => all.extend(entries),
            Err(part) => {
                has_more = true;
                notes.add(place, format!("the condition `{part}` has no counterpart in rules; let Envoy decide it, and send this limit's entry `generic_key` when it holds"));
            }
        }
    }
    all.sort_by(|(one, _), (other, _)| one.cmp(other));
    all.dedup();
    // A descriptor has one entry of a key, so the first condition about it stands.
    all.dedup_by(|second, first| {
        let is_second = second.0 == first.0;
        if is_second {
            has_more = true;
            notes.add(place, format!("two conditions about `{}` cannot be one entry; let Envoy decide them, and send this limit's entry `generic_key` when both hold", first.0));
        }
        is_second
    });
    (all, has_more)
}

/// The variables, in order and each once. One that a condition fixes has one value, and is none.
fn variables(
    written: &[String],
    conditions: &[(String, Pattern)],
    place: &str,
    notes: &mut Notes,
) -> Vec<String> {
    let mut variables: Vec<String> = Vec::new();
    for text in written {
        variables.push(condition::variable(text).unwrap_or_else(|| {
            notes.add(place, format!("the variable `{text}` has no counterpart; let Envoy send its value as an entry of that name"));
            text.clone()
        }));
    }
    variables.sort();
    variables.dedup();
    let is_fixed = |name: &String| {
        conditions.iter().any(|(key, value)| key == name && matches!(value, Pattern::Exact(_)))
    };
    variables.retain(|name| !is_fixed(name));
    variables
}
