//! Which descriptors get which policy: the `[[rules]]` of the configuration.

use std::collections::HashMap;
use std::sync::Arc;

use prost_types::Struct;
use waterclock::{Cost, Limit, Policy};
use waterclock_config::{EntryConfig, Pattern, RuleCharge, RuleConfig, RuleMatch, Then};

pub use crate::contained_rules::{Contained, ContainedRules};
use crate::engine::{ActivePolicy, Key, TIER};
use crate::reference::{Hits, Unit, charge_of};

/// One entry of a descriptor: its key and its value.
pub type Entry<'a> = (&'a str, &'a [u8]);

/// The rules of a configuration, by domain.
#[derive(Default)]
pub struct Rules {
    domains: HashMap<Box<str>, Node>,
    contained: HashMap<Box<str>, ContainedRules>,
    /// The same for buckets of quota, whose entries have no order: here in that of their keys.
    buckets: HashMap<Box<str>, Node>,
}

impl Rules {
    /// The rules of a file, with the policies they name.
    pub(crate) fn new(
        specs: &[RuleConfig],
        policy: impl Fn(&str) -> Option<Arc<ActivePolicy>>,
    ) -> Rules {
        let mut rules = Rules::default();
        for spec in specs {
            // The configuration has rejected unknown policies already.
            let Some(rule) = Rule::new(spec, &policy) else { continue };
            if spec.matches == RuleMatch::Contains {
                let domain = rules.contained.entry(spec.domain.as_str().into()).or_default();
                domain.insert(&spec.descriptor, Arc::new(rule));
                continue;
            }
            let domain = rules.domains.entry(spec.domain.as_str().into()).or_default();
            let rule = Arc::new(rule);
            domain.insert(&spec.descriptor, Arc::clone(&rule));
            let mut entries = spec.descriptor.clone();
            entries.sort_by(|a, b| a.key.cmp(&b.key));
            if entries.is_sorted_by(|a, b| a.key < b.key) {
                rules
                    .buckets
                    .entry(spec.domain.as_str().into())
                    .or_default()
                    .insert(&entries, rule);
            }
        }
        rules
    }

    /// The most specific rule for a descriptor: entry by entry from the first, an exact value goes before a long
    /// prefix, a short prefix and any value.
    #[must_use]
    pub fn find(&self, domain: &str, descriptor: &[Entry<'_>]) -> Option<&Arc<Rule>> {
        self.domains.get(domain)?.find(descriptor)
    }

    /// The rules of a domain that apply wherever a descriptor contains their entries, if it has any.
    #[must_use]
    pub fn contained(&self, domain: &str) -> Option<&ContainedRules> {
        self.contained.get(domain)
    }

    /// The most specific rule for a bucket of quota, which has exactly the rule's entries in whatever order: entry by
    /// entry in the order of their keys, in which `bucket` must be. Of rules with the same entries in different orders,
    /// the first of the file.
    #[must_use]
    pub fn find_bucket(&self, domain: &str, bucket: &[Entry<'_>]) -> Option<&Arc<Rule>> {
        self.buckets.get(domain)?.find(bucket)
    }

    /// Whether a rule is about this domain.
    pub(crate) fn knows(&self, domain: &str) -> bool {
        self.domains.contains_key(domain) || self.contained.contains_key(domain)
    }
}

/// What applies to the descriptors that a rule matches.
pub struct Rule {
    /// What it does.
    pub effect: Effect,
    /// How its policy is charged.
    pub charge: RuleCharge,
    /// What a hit is; `None` is a request.
    unit: Option<Box<str>>,
    /// The keys of its entries, in their order.
    entries: Vec<Box<str>>,
    /// The entries that form the key; `None` is all of them.
    key: Option<Vec<Box<str>>>,
    name: Option<Box<str>>,
    replaces: Vec<Box<str>>,
    /// For a limit of the reference service's configuration.
    reference: Option<Box<ReferenceTerms>>,
}

/// What a limit of the reference service's configuration has beside a policy.
#[derive(Default)]
pub(crate) struct ReferenceTerms {
    /// The unit that answers name.
    pub(crate) unit: Unit,
    /// Whether it never refuses, whatever its policy decides.
    pub(crate) shadow: bool,
    /// Whether a request is refused only if all limits of this kind refuse.
    pub(crate) quota: bool,
    /// For the answer about descriptors that pass.
    pub(crate) metadata: Option<Struct>,
    /// None for limits that come with requests.
    pub(crate) hits: Option<Arc<Hits>>,
}

/// What a rule does.
pub enum Effect {
    /// A policy decides.
    Limit(Arc<ActivePolicy>),
    /// Everything is admitted.
    Admit,
    /// Nothing is.
    Refuse,
}

impl Rule {
    fn new(spec: &RuleConfig, policy: impl Fn(&str) -> Option<Arc<ActivePolicy>>) -> Option<Rule> {
        let boxed = |names: &[String]| names.iter().map(|name| name.as_str().into()).collect();
        Some(Rule {
            effect: match &spec.then {
                Then::Policy(name) => Effect::Limit(policy(name)?),
                Then::Unlimited => Effect::Admit,
                Then::Refuse => Effect::Refuse,
            },
            charge: spec.charge,
            unit: spec.unit.as_deref().map(Into::into),
            entries: spec.descriptor.iter().map(|entry| entry.key.as_str().into()).collect(),
            key: spec.key.as_deref().map(boxed),
            name: spec.name.as_deref().map(Into::into),
            replaces: boxed(&spec.replaces),
            reference: None,
        })
    }

    /// The rule of a limit of the reference service's configuration.
    pub(crate) fn of_reference(
        effect: Effect,
        terms: ReferenceTerms,
        key: Option<Vec<Box<str>>>,
        name: Option<Box<str>>,
        replaces: Vec<Box<str>>,
    ) -> Rule {
        let (charge, reference) = (charge_of(&effect), Some(Box::new(terms)));
        // Only rules of the file apply to buckets of quota.
        let entries = Vec::new();
        Rule { effect, charge, unit: None, entries, key, name, replaces, reference }
    }

    /// What it has beside a policy, if it comes from the reference service's configuration.
    pub(crate) fn reference(&self) -> Option<&ReferenceTerms> {
        self.reference.as_deref()
    }

    /// Whether limits that come with requests replace its numbers.
    pub(crate) fn takes_limits(&self) -> bool {
        let is_plain = |terms: &ReferenceTerms| !terms.shadow && !terms.quota;
        matches!(self.effect, Effect::Limit(_)) && self.reference().is_none_or(is_plain)
    }

    /// Whether it refuses nothing, whatever its policy decides.
    pub(crate) fn is_shadow(&self) -> bool {
        self.reference().is_some_and(|terms| terms.shadow)
    }

    /// What other rules call it.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// The names of rules that do not apply where this one does.
    pub fn replaces(&self) -> impl Iterator<Item = &str> {
        self.replaces.iter().map(|name| &**name)
    }

    /// What a hit is; `None` is a request.
    pub(crate) fn unit(&self) -> Option<&str> {
        self.unit.as_deref()
    }

    /// The entries of a bucket that this rule matches, in the rule's order: the descriptor of the same budget.
    pub(crate) fn in_order<'a>(&self, bucket: &[Entry<'a>]) -> Vec<Entry<'a>> {
        let entry = |name: &str| bucket.iter().find(|(key, _)| *key == name).copied();
        self.entries.iter().filter_map(|name| entry(name)).collect()
    }

    /// So many hits as the policy counts them. Units that they are not are 0, requests too.
    pub(crate) fn cost(&self, policy: &ActivePolicy, hits: u64) -> Cost {
        let policy = policy.scope().policy();
        match &self.unit {
            Some(hit) if policy.counts_several() => {
                policy.one_of_each().map(|unit, _| if *unit == **hit { hits } else { 0 })
            }
            _ => policy.requests(hits),
        }
    }

    /// Whether a limit counts what a hit is. Where the rule names no unit, any limit may be the one that is shown.
    pub(crate) fn is_of(&self, policy: &Policy, limit: &Limit) -> bool {
        !policy.counts_several() || self.unit.as_deref().is_none_or(|unit| unit == limit.unit())
    }

    /// The key of a descriptor that this rule matches.
    pub fn key(
        &self,
        policy: &ActivePolicy,
        domain: &str,
        descriptor: &[Entry<'_>],
    ) -> Key<'static> {
        if !policy.config().key.is_empty() {
            let field = |name: &str| {
                let entry = descriptor.iter().find(|(key, _)| *key == name);
                entry.map_or(&b""[..], |(_, value)| *value)
            };
            return policy.key_of_descriptor(field);
        }
        let shares = |key: &str| {
            match &self.key {
                Some(names) => names.iter().any(|name| **name == *key),
                // The key stays the same when the tier changes.
                None => key != TIER || !policy.has_tiers(),
            }
        };
        policy.key_of_entries(domain, descriptor.iter().copied().filter(|(key, _)| shares(key)))
    }
}

/// The rules of one domain as a tree, with a level for each entry of a descriptor.
#[derive(Default)]
struct Node {
    rule: Option<Arc<Rule>>,
    /// By the key of the next entry.
    next: HashMap<Box<str>, Branch>,
}

/// Where the value of an entry leads.
#[derive(Default)]
struct Branch {
    exact: HashMap<Box<[u8]>, Node>,
    /// The longest prefix first.
    prefixes: Vec<(Box<str>, Node)>,
    any: Option<Box<Node>>,
}

impl Node {
    fn insert(&mut self, descriptor: &[EntryConfig], rule: Arc<Rule>) {
        match descriptor {
            [] => _ = self.rule.get_or_insert(rule),
            [entry, rest @ ..] => {
                let branch = self.next.entry(entry.key.as_str().into()).or_default();
                branch.node(&entry.value).insert(rest, rule);
            }
        }
    }

    /// Visits no node twice, so it takes no longer than there are rules.
    fn find(&self, descriptor: &[Entry<'_>]) -> Option<&Arc<Rule>> {
        let [(key, value), rest @ ..] = descriptor else { return self.rule.as_ref() };
        let branch = self.next.get(*key)?;
        let exact = || branch.exact.get(*value).and_then(|node| node.find(rest));
        let by_prefix = || {
            let fits = |(prefix, _): &&(Box<str>, Node)| value.starts_with(prefix.as_bytes());
            branch.prefixes.iter().filter(fits).find_map(|(_, node)| node.find(rest))
        };
        let any = || branch.any.as_ref().and_then(|node| node.find(rest));
        exact().or_else(by_prefix).or_else(any)
    }
}

impl Branch {
    fn node(&mut self, value: &Pattern) -> &mut Node {
        match value {
            Pattern::Exact(text) => self.exact.entry(text.as_bytes().into()).or_default(),
            Pattern::Any => self.any.get_or_insert_default(),
            Pattern::Prefix(prefix) => {
                let known = self.prefixes.iter().position(|(other, _)| **other == **prefix);
                let at = known.unwrap_or_else(|| {
                    let at =
                        self.prefixes.partition_point(|(other, _)| other.len() >= prefix.len());
                    self.prefixes.insert(at, (prefix.as_str().into(), Node::default()));
                    at
                });
                &mut self.prefixes[at].1
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    /// Keys, and values if not any will do.
    type Entries<'a> = &'a [(&'a str, Option<&'a str>)];

    /// Rules are known by name here; what they do does not matter.
    fn tree(rules: &[(&str, Entries<'_>)]) -> Node {
        let mut tree = Node::default();
        for (name, descriptor) in rules {
            let entry = |(key, value): &(&str, Option<&str>)| EntryConfig {
                key: (*key).to_owned(),
                value: value.map_or(Pattern::Any, Pattern::parse),
            };
            let spec = RuleConfig {
                domain: "d".to_owned(),
                descriptor: descriptor.iter().map(entry).collect(),
                matches: RuleMatch::Exact,
                key: None,
                then: Then::Unlimited,
                charge: RuleCharge::default(),
                unit: None,
                name: Some((*name).to_owned()),
                replaces: Vec::new(),
            };
            let rule = Rule::new(&spec, |_| None).unwrap();
            tree.insert(&spec.descriptor, Arc::new(rule));
        }
        tree
    }

    fn found<'t>(tree: &'t Node, descriptor: &[(&str, &str)]) -> Option<&'t str> {
        let entries = descriptor.iter().map(|(key, value)| (*key, value.as_bytes()));
        let descriptor: Vec<Entry<'_>> = entries.collect();
        tree.find(&descriptor).and_then(|rule| rule.name())
    }

    #[test]
    fn the_most_specific_value_wins() {
        let tree = tree(&[
            ("any", &[("path", None)]),
            ("short", &[("path", Some("/a*"))]),
            ("long", &[("path", Some("/ab*"))]),
            ("exact", &[("path", Some("/abc"))]),
            ("everything", &[("host", Some("*"))]),
        ]);
        assert_eq!(found(&tree, &[("path", "/abc")]), Some("exact"));
        assert_eq!(found(&tree, &[("path", "/abcd")]), Some("long"));
        assert_eq!(found(&tree, &[("path", "/ab")]), Some("long"));
        assert_eq!(found(&tree, &[("path", "/a")]), Some("short"));
        assert_eq!(found(&tree, &[("path", "")]), Some("any"));
        assert_eq!(found(&tree, &[("host", "")]), Some("everything"));
        assert_eq!(found(&tree, &[("Path", "/a")]), None);
    }

    #[test]
    fn all_entries_in_order() {
        let tree = tree(&[("two", &[("a", None), ("b", None)]), ("one", &[("b", None)])]);
        assert_eq!(found(&tree, &[("a", "1"), ("b", "2")]), Some("two"));
        assert_eq!(found(&tree, &[("b", "2")]), Some("one"));
        for descriptor in [
            &[("a", "1")][..],
            &[("b", "2"), ("a", "1")],
            &[("a", "1"), ("b", "2"), ("c", "3")],
            &[],
        ] {
            assert_eq!(found(&tree, descriptor), None, "{descriptor:?}");
        }
    }

    #[test]
    fn the_first_entry_decides_first_and_dead_ends_are_left() {
        let tree = tree(&[
            ("first", &[("a", Some("x")), ("b", None)]),
            ("second", &[("a", None), ("b", Some("y"))]),
            ("third", &[("a", Some("x*")), ("b", Some("z")), ("c", None)]),
            ("fourth", &[("a", None), ("b", None), ("c", None)]),
        ]);
        assert_eq!(found(&tree, &[("a", "x"), ("b", "y")]), Some("first"));
        assert_eq!(found(&tree, &[("a", "w"), ("b", "y")]), Some("second"));
        assert_eq!(found(&tree, &[("a", "x"), ("b", "z"), ("c", "")]), Some("third"));
        assert_eq!(found(&tree, &[("a", "x"), ("b", "y"), ("c", "")]), Some("fourth"));
    }
}
