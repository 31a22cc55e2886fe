//! Limits that count the same descriptors become one policy.

use waterclock_config::Pattern;

use super::super::names::Names;
use super::limits::Limit;

/// The key of an entry that Envoy makes up, for what entries of a request cannot tell.
const GENERIC: &str = "generic_key";

/// The limits that look at the same entries.
pub(super) struct Group {
    pub(super) namespace: String,
    pub(super) entries: Vec<(String, Pattern)>,
    /// Entries that have a counter for each of their values.
    pub(super) key: Vec<String>,
    pub(super) limits: Vec<Window>,
    pub(super) place: String,
}

/// So much in so many seconds.
#[derive(Clone)]
pub(super) struct Window {
    pub(super) max_value: u64,
    pub(super) seconds: u64,
    pub(super) name: Option<String>,
}

/// The groups, in the order of the file.
pub(super) fn of(limits: Vec<Limit>) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    // Values that no two limits share.
    let mut generic = Names::default();
    for limit in limits {
        let mut entries = entries(&limit);
        if limit.has_more {
            let value = Pattern::Exact(generic.keep(&generic_value(&limit)));
            entries.insert(0, (GENERIC.to_owned(), value));
        }
        let window =
            Window { max_value: limit.max_value, seconds: limit.seconds, name: limit.name };
        let is_same = |group: &&mut Group| {
            group.namespace == limit.namespace
                && group.entries == entries
                && group.key == limit.variables
        };
        match groups.iter_mut().find(is_same) {
            Some(group) => group.limits.push(window),
            None => groups.push(Group {
                namespace: limit.namespace,
                entries,
                key: limit.variables,
                limits: vec![window],
                place: limit.place,
            }),
        }
    }
    groups
}

/// Conditions, then variables.
fn entries(limit: &Limit) -> Vec<(String, Pattern)> {
    let mut entries = limit.conditions.clone();
    let is_known = |name: &str| limit.conditions.iter().any(|(key, _)| key == name);
    let variables = limit.variables.iter().filter(|name| !is_known(name));
    entries.extend(variables.map(|name| (name.clone(), Pattern::Any)));
    entries
}

/// What Envoy is to call a limit.
fn generic_value(limit: &Limit) -> String {
    let numbers = || format!("{}-per-{}s", limit.max_value, limit.seconds);
    limit.name.clone().unwrap_or_else(numbers)
}
