//! Rules that apply wherever a descriptor contains their entries: those with `match = "contains"`.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use waterclock_config::{EntryConfig, Pattern};

use crate::engine::TIER;
use crate::rules::{Effect, Entry, Rule};

/// The rules of one domain.
#[derive(Default)]
pub struct ContainedRules {
    rules: Vec<(Vec<EntryConfig>, Arc<Rule>)>,
    /// The numbers of rules, by the key of one of their entries.
    by_key: HashMap<Box<str>, Vec<usize>>,
    /// Those without entries, which every descriptor contains.
    always: Vec<usize>,
}

/// A rule that applies to a request.
pub struct Contained<'r> {
    /// The place of the descriptor that contains its entries.
    pub at: usize,
    /// The rule.
    pub rule: &'r Rule,
    /// What it looks at: its own entries in its own order, and the tier.
    pub entries: Vec<Entry<'r>>,
}

impl ContainedRules {
    pub(crate) fn insert(&mut self, entries: &[EntryConfig], rule: Arc<Rule>) {
        let number = self.rules.len();
        self.rules.push((entries.to_vec(), rule));
        // An entry with a value tells rules apart better than one that any value matches.
        let telling = entries.iter().find(|entry| matches!(entry.value, Pattern::Exact(_)));
        match telling.or(entries.first()) {
            Some(entry) => self.by_key.entry(entry.key.as_str().into()).or_default().push(number),
            None => self.always.push(number),
        }
    }

    /// The rules that apply to a request, each once: to the first descriptor that contains it.
    #[must_use]
    pub fn find<'r, 'd>(
        &'r self,
        descriptors: impl Iterator<Item = &'d [Entry<'r>]>,
    ) -> Vec<Contained<'r>>
    where
        'r: 'd,
    {
        let mut found = Vec::new();
        let mut is_found = vec![false; self.rules.len()];
        for (at, descriptor) in descriptors.enumerate() {
            // In order, so that a rule costs little however many entries there are.
            let given: BTreeSet<Entry<'r>> = descriptor.iter().copied().collect();
            let keys: BTreeSet<&str> = given.iter().map(|(key, _)| *key).collect();
            let of_keys = keys.iter().filter_map(|key| self.by_key.get(*key)).flatten();
            for number in self.always.iter().chain(of_keys) {
                let (wanted, rule) = &self.rules[*number];
                if is_found[*number] {
                    continue;
                }
                if let Some(entries) = contained(wanted, rule, &given) {
                    is_found[*number] = true;
                    found.push(Contained { at, rule, entries });
                }
            }
        }
        found
    }
}

/// The entries of a rule as a descriptor has them; `None` if it does not have them all.
fn contained<'r>(
    wanted: &'r [EntryConfig],
    rule: &Rule,
    given: &BTreeSet<Entry<'r>>,
) -> Option<Vec<Entry<'r>>> {
    // Of several values of a key, the first that fits.
    let beginning = |key: &'r str, prefix: &'r [u8]| {
        let first = given.range((key, prefix)..).next().copied();
        first.filter(|(found, value)| *found == key && value.starts_with(prefix))
    };
    let entry = |entry: &'r EntryConfig| match &entry.value {
        Pattern::Exact(text) => given.get(&(entry.key.as_str(), text.as_bytes())).copied(),
        Pattern::Prefix(prefix) => beginning(&entry.key, prefix.as_bytes()),
        Pattern::Any => beginning(&entry.key, b""),
    };
    let mut entries: Vec<Entry<'r>> = wanted.iter().map(entry).collect::<Option<_>>()?;
    let has_tiers = matches!(&rule.effect, Effect::Limit(policy) if policy.has_tiers());
    if has_tiers && wanted.iter().all(|entry| entry.key != TIER) {
        entries.extend(beginning(TIER, b""));
    }
    Some(entries)
}

#[cfg(test)]
mod tests {
    use waterclock_config::{RuleCharge, RuleConfig, RuleMatch, Then};

    use super::*;
    use crate::rules::Rules;

    type Entries<'a> = &'a [(&'a str, Option<&'a str>)];

    /// Rules are known by name here; what they do does not matter.
    fn rules(all: &[(&str, Entries<'_>)]) -> Rules {
        let entry = |(key, value): &(&str, Option<&str>)| EntryConfig {
            key: (*key).to_owned(),
            value: value.map_or(Pattern::Any, Pattern::parse),
        };
        let rule = |(name, entries): &(&str, Entries<'_>)| RuleConfig {
            domain: "d".to_owned(),
            descriptor: entries.iter().map(entry).collect(),
            matches: RuleMatch::Contains,
            key: None,
            then: Then::Unlimited,
            charge: RuleCharge::default(),
            unit: None,
            name: Some((*name).to_owned()),
            replaces: Vec::new(),
        };
        Rules::new(&all.iter().map(rule).collect::<Vec<_>>(), |_| None)
    }

    fn found(rules: &Rules, descriptors: &[&[(&str, &str)]]) -> Vec<String> {
        let descriptors: Vec<Vec<Entry<'_>>> = descriptors
            .iter()
            .map(|descriptor| {
                descriptor.iter().map(|(key, value)| (*key, value.as_bytes())).collect()
            })
            .collect();
        let contained = rules.contained("d").unwrap();
        let mut found: Vec<String> = contained
            .find(descriptors.iter().map(|descriptor| &**descriptor))
            .into_iter()
            .map(|found| format!("{} {}", found.at, found.rule.name().unwrap()))
            .collect();
        found.sort();
        found
    }

    #[test]
    fn all_rules_that_are_contained_apply_once() {
        let rules = rules(&[
            ("get", &[("method", Some("GET")), ("user", None)]),
            ("path", &[("path", Some("/a*"))]),
            ("user", &[("user", None)]),
            ("all", &[]),
        ]);
        let request: &[(&str, &str)] =
            &[("x", "y"), ("user", "u"), ("method", "GET"), ("path", "/ab")];
        assert_eq!(found(&rules, &[request]), ["0 all", "0 get", "0 path", "0 user"]);
        assert_eq!(
            found(&rules, &[&[("path", "/b")], request]),
            ["0 all", "1 get", "1 path", "1 user"]
        );
        assert_eq!(
            found(&rules, &[&[("path", "/b"), ("path", "/a"), ("path", "/c")]]),
            ["0 all", "0 path"]
        );
        assert_eq!(found(&rules, &[&[("method", "GET")], &[("user", "u")]]), ["0 all", "1 user"]);
        assert!(rules.contained("e").is_none() && rules.find("d", &[("user", b"u")]).is_none());
    }
}
