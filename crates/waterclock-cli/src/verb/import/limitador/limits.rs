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
    /// What its conditions ask for, in the order of their keys. `None` if one of them cannot be told by entries.
    pub(super) conditions: Option<Vec<(String, Pattern)>>,
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
        let (conditions, variables) = match entries(&written, &place, notes) {
            Entries::Never => continue,
            Entries::Told { conditions, variables } => (conditions, variables),
        };
        if conditions.as_ref().is_some_and(Vec::is_empty) && variables.is_empty() {
            notes.add(&place, "counts all requests of its namespace; Envoy has to send the descriptor of this limit with each");
        }
        let Written { namespace, max_value, seconds, name, .. } = written;
        let name = name.filter(|name| !name.is_empty());
        limits.push(Limit { namespace, max_value, seconds, name, conditions, variables, place });
    }
    Ok(limits)
}

enum Entries {
    Told {
        conditions: Option<Vec<(String, Pattern)>>,
        variables: Vec<String>,
    },
    /// The conditions exclude each other.
    Never,
}

fn entries(written: &Written, place: &str, notes: &mut Notes) -> Entries {
    let mut conditions: Option<Vec<(String, Pattern)>> = Some(Vec::new());
    for condition in &written.conditions {
        let told = condition::entries(condition);
        if let Err(part) = &told {
            notes.add(place, format!("the condition `{part}` has no counterpart in rules; Envoy has to decide it and send the descriptor of this limit when it holds"));
        }
        conditions = conditions.zip(told.ok()).map(|(all, more)| [all, more].concat());
    }
    let mut variables: Vec<String> = Vec::new();
    for text in &written.variables {
        let Some(variable) = condition::variable(text) else {
            notes.add(place, format!("the variable `{text}` has no counterpart; Envoy has to send its value as an entry of that name"));
            variables.push(text.clone());
            continue;
        };
        variables.push(variable);
    }
    variables.sort();
    variables.dedup();
    let Some(mut conditions) = conditions else {
        return Entries::Told { conditions: None, variables };
    };
    conditions.sort_by(|(one, _), (other, _)| one.cmp(other));
    conditions.dedup();
    for pair in conditions.windows(2) {
        if pair[0].0 == pair[1].0 {
            notes.add(
                place,
                format!(
                    "two conditions about `{}` cannot be one entry; the limit is left out",
                    pair[0].0
                ),
            );
            return Entries::Never;
        }
    }
    // A variable that a condition fixes has one value.
    let is_fixed = |name: &String| {
        conditions.iter().any(|(key, value)| key == name && matches!(value, Pattern::Exact(_)))
    };
    variables.retain(|name| !is_fixed(name));
    Entries::Told { conditions: Some(conditions), variables }
}
