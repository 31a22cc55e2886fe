//! Limits that count the same descriptors become one policy.
//!
//! Limitador applies every limit whose conditions hold; here one rule decides about a descriptor, the most specific one.
//! So a rule also has the limits of each less specific rule for the same keys.

use std::collections::BTreeSet;

use waterclock_config::Pattern;

use super::super::names::Names;
use super::super::notes::Notes;
use super::limits::Limit;

/// The key of an entry that Envoy makes up, for what entries of a request cannot tell.
const GENERIC: &str = "generic_key";

/// What a limit looks at.
struct Shape {
    namespace: String,
    entries: Vec<(String, Pattern)>,
    key: Vec<String>,
}

/// The limits of one descriptor.
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
pub(super) fn of(limits: Vec<Limit>, notes: &mut Notes) -> Vec<Group> {
    let shapes: Vec<Shape> = limits
        .iter()
        .filter(|limit| !limit.has_more)
        .map(|limit| Shape {
            namespace: limit.namespace.clone(),
            entries: entries(limit),
            key: limit.variables.clone(),
        })
        .collect();
    let mut groups: Vec<Group> = Vec::new();
    // Values that no two limits share, and that mean no namespace as a whole.
    let mut generic = Names::default();
    let namespaces: BTreeSet<&str> = limits.iter().map(|limit| &*limit.namespace).collect();
    for namespace in namespaces {
        generic.keep(namespace);
    }
    for limit in limits {
        let mut entries = entries(&limit);
        let is_split = !limit.has_more && is_split(&limit, &entries, &shapes);
        if is_split {
            notes.add(&limit.place, "its prefix overlaps another limit for the same entries; its descriptor begins with an entry of its own, which Envoy has to send, too");
        }
        if limit.has_more || is_split {
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
    let wider: Vec<Vec<Window>> = groups.iter().map(|group| wider(group, &groups)).collect();
    for (group, wider) in groups.iter_mut().zip(wider) {
        group.limits.extend(wider);
    }
    groups
}

/// Conditions, then variables. Both are in the order of their keys, so rules for the same keys are disjoint, or one is within
/// the other.
fn entries(limit: &Limit) -> Vec<(String, Pattern)> {
    let mut entries = limit.conditions.clone();
    let is_known = |name: &str| limit.conditions.iter().any(|(key, _)| key == name);
    let variables = limit.variables.iter().filter(|name| !is_known(name));
    entries.extend(variables.map(|name| (name.clone(), Pattern::Any)));
    if entries.is_empty() && !limit.has_more {
        entries.push((GENERIC.to_owned(), Pattern::Exact(limit.namespace.clone())));
    }
    entries
}

/// What Envoy is to call a limit.
fn generic_value(limit: &Limit) -> String {
    let numbers = || format!("{}-per-{}s", limit.max_value, limit.seconds);
    limit.name.clone().unwrap_or_else(numbers)
}

/// Whether another limit would take a part of what a prefix counts.
fn is_split(limit: &Limit, own: &[(String, Pattern)], shapes: &[Shape]) -> bool {
    let has_prefix = own.iter().any(|(_, value)| matches!(value, Pattern::Prefix(_)));
    let is_other = |shape: &Shape| shape.entries != own || shape.key != limit.variables;
    let takes = |shape: &Shape| {
        shape.namespace == limit.namespace && is_other(shape) && overlap(own, &shape.entries)
    };
    has_prefix && shapes.iter().any(takes)
}

/// Whether a descriptor may match both.
fn overlap(one: &[(String, Pattern)], other: &[(String, Pattern)]) -> bool {
    same_keys(one, other)
        && one
            .iter()
            .zip(other)
            .all(|((_, one), (_, other))| one.covers(other) || other.covers(one))
}

fn same_keys(one: &[(String, Pattern)], other: &[(String, Pattern)]) -> bool {
    one.len() == other.len() && one.iter().zip(other).all(|((one, _), (other, _))| one == other)
}

/// The limits of all less specific groups.
fn wider(group: &Group, groups: &[Group]) -> Vec<Window> {
    let covers = |other: &&Group| {
        other.namespace == group.namespace
            && other.entries != group.entries
            && same_keys(&other.entries, &group.entries)
            && other.entries.iter().zip(&group.entries).all(|((_, one), (_, own))| one.covers(own))
    };
    groups.iter().filter(covers).flat_map(|other| other.limits.clone()).collect()
}
