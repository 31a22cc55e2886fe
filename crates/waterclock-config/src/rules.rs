//! The `[[rules]]` of the file: which descriptors get which policy.

use std::cmp::Ordering;
use std::fmt;

use super::english::Warning;
use super::policy::PolicyConfig;
use super::rule_charge::{self, RuleCharge};
use super::rule_match::RuleMatch;
use super::schema::{Key, Shape};
use super::suggest::{all_of, did_you_mean};
use super::table::{Field, Table};

/// Entries that the descriptor of a rule may have.
pub const MAX_ENTRIES: usize = 64;

/// The longest key or value of an entry of a rule, in bytes.
pub const MAX_TEXT: usize = 1_024;

pub(crate) const KEYS: &[Key] = &[
    Key::new("domain", Shape::Syntax(accept_name), "The domain that requests name.")
        .such_as("\"edge\""),
    Key::new(
        "descriptor",
        Shape::List(&Shape::Table(ENTRY)),
        "The entries of the descriptor, all of them, in order.",
    )
    .such_as("[{ key = \"remote_address\" }]"),
    Key::new(
        "match",
        Shape::Word(RuleMatch::WORDS),
        "`exact`: the descriptor has these entries and no others. `contains`: it has them, in any order, and all such rules apply.",
    )
    .default("\"exact\""),
    Key::new("policy", Shape::Text, "The policy of this file that decides."),
    Key::new(
        "key",
        Shape::List(&Shape::Text),
        "The entries that form the key, by name; without it all of them.",
    ),
    Key::new(
        "charge",
        Shape::Word(RuleCharge::WORDS),
        "`check`: all descriptors of a request, or none. `debit`: whatever is left, into debt. `count`: each alone, refused or not.",
    )
    .default("\"check\""),
    Key::new(
        "unit",
        Shape::Text,
        "What a hit is, for a policy that counts several units; without it a request.",
    ),
    Key::new("unlimited", Shape::Flag, "Admit everything, in place of a policy.").default("false"),
    Key::new("refuse", Shape::Flag, "Refuse everything, in place of a policy.").default("false"),
    Key::new(
        "name",
        Shape::Syntax(accept_name),
        "The name by which `replaces` of other rules refers to this one.",
    ),
    Key::new(
        "replaces",
        Shape::List(&Shape::Syntax(accept_name)),
        "Names of rules that do not apply to a request if this one matches it.",
    ),
];

pub(crate) const ENTRY: &[Key] = &[
    Key::new("key", Shape::Syntax(accept_name), "The entry's key.").such_as("\"remote_address\""),
    Key::new(
        "value",
        Shape::Syntax(accept_value),
        "The entry's value, or its beginning with a `*` at the end; without it any value.",
    ),
];

/// A rule as the file has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleConfig {
    /// The domain that requests name.
    pub domain: String,
    /// Every entry of the descriptor, in order.
    pub descriptor: Vec<EntryConfig>,
    /// Which descriptors have these entries.
    pub matches: RuleMatch,
    /// The entries that form the key; `None` is all of them.
    pub key: Option<Vec<String>>,
    /// What the rule does with a descriptor that matches.
    pub then: Then,
    /// How its policy is charged.
    pub charge: RuleCharge,
    /// The unit of the policy that hits are; `None` is requests.
    pub unit: Option<String>,
    /// The name by which `replaces` of other rules refers to it.
    pub name: Option<String>,
    /// Names of rules that do not apply to a request if this one matches it.
    pub replaces: Vec<String>,
}

/// One entry of a rule's descriptor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryConfig {
    /// The entry's key.
    pub key: String,
    /// Which values it may have.
    pub value: Pattern,
}

/// What a rule does. Exhaustive: what applies rules must know every effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Then {
    /// This policy decides.
    Policy(String),
    /// Everything is admitted.
    Unlimited,
    /// Everything is refused.
    Refuse,
}

/// The rules of the file. `written` are the names of its policies, readable or not.
pub(crate) fn read(
    fields: &[Field<'_>],
    written: &[&str],
    policies: &[PolicyConfig],
) -> Vec<RuleConfig> {
    let mut rules: Vec<RuleConfig> = Vec::new();
    for field in fields {
        let Some(table) = field.faults.keep(field.table("a rule", KEYS)) else { continue };
        let Some(rule) = rule(&table, written) else { continue };
        let is_same = |other: &&RuleConfig| {
            other.domain == rule.domain && other.descriptor == rule.descriptor
        };
        if rule.matches == RuleMatch::Exact
            && rules.iter().any(|other| other.matches == RuleMatch::Exact && is_same(&other))
        {
            let sentence = format!(
                "two rules of the domain `{}` have the same descriptor; remove one of them",
                rule.domain
            );
            table.fault(sentence);
        }
        let is_named = |policy: &&PolicyConfig| rule.then == Then::Policy(policy.name().to_owned());
        let policy = policies.iter().find(is_named);
        if let Some(policy) = policy {
            verify_key(&table, &rule, policy);
        }
        rule_charge::verify(&table, &rule, policy);
        rules.push(rule);
    }
    rules
}

fn rule(table: &Table<'_>, written: &[&str]) -> Option<RuleConfig> {
    table.verify();
    table.needs("domain");
    table.needs("descriptor");
    let matches =
        table.verified("match", Field::word).and_then(RuleMatch::parse).unwrap_or_default();
    let descriptor = descriptor(table, matches)?;
    let then = then(table, written)?;
    let key = table.field("key").and_then(|field| entries_named(&field, &descriptor));
    Some(RuleConfig {
        domain: table.verified("domain", Field::text)?.to_owned(),
        descriptor,
        matches,
        key,
        then,
        charge: table
            .verified("charge", Field::word)
            .and_then(RuleCharge::parse)
            .unwrap_or_default(),
        unit: table.verified("unit", Field::text).map(str::to_owned),
        name: table.verified("name", Field::text).map(str::to_owned),
        replaces: table.verified("replaces", Field::list).map_or_else(Vec::new, |list| {
            list.iter().filter_map(|field| field.text().ok()).map(str::to_owned).collect()
        }),
    })
}

fn descriptor(table: &Table<'_>, matches: RuleMatch) -> Option<Vec<EntryConfig>> {
    let field = table.field("descriptor")?;
    let elements = field.list().ok()?;
    // Every descriptor contains nothing.
    let least = usize::from(matches == RuleMatch::Exact);
    if !(least..=MAX_ENTRIES).contains(&elements.len()) {
        let rest = format!("must hold {least} to {MAX_ENTRIES} entries; found {}", elements.len());
        field.faults.push(field.fault(rest));
        return None;
    }
    let entry = |element: &Field<'_>| {
        let entry = element.table("an entry", ENTRY).ok()?;
        entry.needs("key");
        Some(EntryConfig {
            key: entry.verified("key", Field::text)?.to_owned(),
            value: entry.verified("value", Field::text).map_or(Pattern::Any, Pattern::parse),
        })
    };
    // Every entry is read, so that one run shows all faults.
    let entries: Vec<Option<EntryConfig>> = elements.iter().map(entry).collect();
    entries.into_iter().collect()
}

fn then(table: &Table<'_>, written: &[&str]) -> Option<Then> {
    let policy = table.field("policy");
    let flag = |name| table.verified(name, Field::flag).unwrap_or(false);
    let (unlimited, refuse) = (flag("unlimited"), flag("refuse"));
    let given: Vec<&str> =
        [("policy", policy.is_some()), ("unlimited", unlimited), ("refuse", refuse)]
            .into_iter()
            .filter_map(|(name, is_said)| is_said.then_some(name))
            .collect();
    match (given.len(), policy) {
        (1, Some(policy)) => {
            let name = policy.text().ok()?;
            if !written.contains(&name) {
                let hint = did_you_mean(name, written.iter().copied());
                let rest = format!("names `{name}`, which is not a policy of this file{hint}");
                policy.faults.push(policy.fault(rest));
            }
            Some(Then::Policy(name.to_owned()))
        }
        (1, None) => Some(if unlimited { Then::Unlimited } else { Then::Refuse }),
        (0, _) => {
            table.fault(
                "a rule needs `policy`, such as \"login\", or `unlimited = true`, or `refuse = true`",
            );
            None
        }
        _ => {
            let given = all_of(&given);
            table.fault(format!(
                "a rule has one of `policy`, `unlimited` and `refuse`; found {given}"
            ));
            None
        }
    }
}

/// The names of a rule's `key`, each of which must be an entry's.
fn entries_named(field: &Field<'_>, descriptor: &[EntryConfig]) -> Option<Vec<String>> {
    let mut names = Vec::new();
    for element in field.list().ok()? {
        let name = element.text().ok()?;
        let mut known = descriptor.iter().map(|entry| entry.key.as_str());
        if !known.any(|key| key == name) {
            let hint = did_you_mean(name, descriptor.iter().map(|entry| entry.key.as_str()));
            let rest = format!("names `{name}`, which is not an entry of the descriptor{hint}");
            field.faults.push(element.fault(rest));
        }
        names.push(name.to_owned());
    }
    Some(names)
}

/// A policy that forms its own key must find its fields in the descriptor.
fn verify_key(table: &Table<'_>, rule: &RuleConfig, policy: &PolicyConfig) {
    let has = |name: &str| rule.descriptor.iter().any(|entry| entry.key == name);
    for missing in policy.key.iter().filter(|name| !has(name)) {
        table.fault(format!(
            "policy `{}` forms its key from `{missing}`, which is not an entry of the descriptor",
            policy.name()
        ));
    }
    if let Some(field) = table.field("key").filter(|_| !policy.key.is_empty()) {
        let fields: Vec<&str> = policy.key.iter().map(String::as_str).collect();
        let rest = format!(
            "cannot be used with policy `{}`, which forms its own key from {}",
            policy.name(),
            all_of(&fields)
        );
        field.faults.push(field.fault(rest));
    }
}

fn accept_name(name: &str) -> Result<(), String> {
    if name.is_empty() {
        return Err("must not be empty".to_owned());
    }
    accept_value(name)
}

fn accept_value(value: &str) -> Result<(), String> {
    if value.len() > MAX_TEXT {
        let found = value.len();
        return Err(format!("must be at most {MAX_TEXT} bytes long; found {found}"));
    }
    Ok(())
}

/// `edge [remote_address, path="/login*"]`, as messages show it.
impl fmt::Display for RuleConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let contains = if self.matches == RuleMatch::Contains { "contains " } else { "" };
        write!(f, "{} {contains}[", self.domain)?;
        for (place, entry) in self.descriptor.iter().enumerate() {
            let comma = if place == 0 { "" } else { ", " };
            match &entry.value {
                Pattern::Any => write!(f, "{comma}{}", entry.key)?,
                value => write!(f, "{comma}{}={value}", entry.key)?,
            }
        }
        f.write_str("]")
    }
}

/// Which values an entry may have. Exhaustive: what applies rules must know every pattern.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Pattern {
    /// This one.
    Exact(String),
    /// Those that begin like this.
    Prefix(String),
    /// Whatever it is.
    Any,
}

impl Pattern {
    /// As files write it: a `*` at the end stands for any rest, anywhere else for itself.
    #[must_use]
    pub fn parse(text: &str) -> Pattern {
        match text.strip_suffix('*') {
            Some(prefix) => Pattern::Prefix(prefix.to_owned()),
            None => Pattern::Exact(text.to_owned()),
        }
    }

    /// Whether it matches every value that the other one matches.
    #[must_use]
    pub fn covers(&self, other: &Pattern) -> bool {
        match (self, other) {
            (Pattern::Any, _) => true,
            (Pattern::Prefix(prefix), Pattern::Any) => prefix.is_empty(),
            (Pattern::Prefix(prefix), Pattern::Exact(text) | Pattern::Prefix(text)) => {
                text.starts_with(prefix.as_str())
            }
            (Pattern::Exact(text), other) => *other == Pattern::Exact(text.clone()),
        }
    }

    /// The more specific pattern is greater: exact value, longer prefix, shorter prefix, any value.
    #[must_use]
    pub fn specificity(&self, other: &Pattern) -> Ordering {
        let rank = |pattern: &Pattern| match pattern {
            Pattern::Exact(_) => (2, 0),
            Pattern::Prefix(prefix) => (1, prefix.len()),
            Pattern::Any => (0, 0),
        };
        rank(self).cmp(&rank(other))
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pattern::Exact(text) => write!(f, "{text:?}"),
            Pattern::Prefix(prefix) => write!(f, "{:?}", format!("{prefix}*")),
            Pattern::Any => f.write_str("any value"),
        }
    }
}

/// Rules that do not do what they seem to.
pub(crate) fn warnings(rules: &[RuleConfig], policies: &[PolicyConfig]) -> Vec<Warning> {
    let mut warnings = Vec::new();
    for (at, rule) in rules.iter().enumerate() {
        let about = |code, message| Warning { rule: Some(at), ..Warning::new(code, message) };
        if let Some(other) = rules.iter().find(|other| is_always_before(other, rule)) {
            let why = "is more specific and matches the same descriptors";
            let message = format!("rule {rule} can never match: {other} {why}");
            warnings.push(about("idle-rule", message));
        }
        let is_held = |policy: &&PolicyConfig| {
            rule.then == Then::Policy(policy.name().to_owned()) && policy.policy().reserves_only()
        };
        if let Some(policy) = policies.iter().find(is_held) {
            let name = policy.name();
            let message = format!(
                "rule {rule} always fails: policy `{name}` has a concurrency limit, and Envoy's protocol has no reservations"
            );
            let policy = Some(name.to_owned());
            warnings.push(Warning { policy, ..about("failing-rule", message) });
        }
        for name in &rule.replaces {
            if rules.iter().all(|other| other.name.as_ref() != Some(name)) {
                let message = format!("rule {rule} replaces `{name}`, but no rule has that name");
                warnings.push(about("unknown-rule", message));
            }
        }
        for entry in &rule.descriptor {
            if let Pattern::Exact(text) = &entry.value
                && text.contains('*')
            {
                let message = format!(
                    "rule {rule}: the `*` in {text:?} is not a wildcard; only one at the end is"
                );
                warnings.push(about("not-a-wildcard", message));
            }
        }
    }
    warnings
}

/// Whether `first` matches every descriptor that `second` matches, and takes precedence.
fn is_always_before(first: &RuleConfig, second: &RuleConfig) -> bool {
    if [first, second].iter().any(|rule| rule.matches == RuleMatch::Contains) {
        // All of these apply.
        return false;
    }
    if first.domain != second.domain || first.descriptor.len() != second.descriptor.len() {
        return false;
    }
    let pairs = || first.descriptor.iter().zip(&second.descriptor);
    let covers = pairs().all(|(a, b)| a.key == b.key && a.value.covers(&b.value));
    let difference =
        pairs().map(|(a, b)| a.value.specificity(&b.value)).find(|order| order.is_ne());
    covers && difference == Some(Ordering::Greater)
}
