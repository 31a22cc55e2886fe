//! What is wrong with a configuration. All or nothing: one fault rejects it whole.

use std::collections::{HashMap, HashSet};

use waterclock_config::{MAX_ENTRIES, MAX_TEXT};

use super::{Descriptor, Domain, Limit, Unit, seconds};

/// Domains with their faults found. Two of the same name are a fault, or become one if `merges`.
///
/// # Errors
///
/// The first fault, as a sentence.
pub(crate) fn merged(domains: Vec<Domain>, merges: bool) -> Result<Vec<Domain>, String> {
    let mut known: HashMap<String, usize> = HashMap::new();
    let mut all: Vec<Domain> = Vec::new();
    for domain in domains {
        if domain.name.is_empty() {
            return Err("a domain has no name; set `domain`".to_owned());
        }
        short("domain", &domain.name)?;
        match known.get(&domain.name) {
            Some(at) if merges => all[*at].descriptors.extend(domain.descriptors),
            Some(_) => {
                let name = &domain.name;
                return Err(format!("the domain `{name}` comes twice; put both together"));
            }
            None => {
                known.insert(domain.name.clone(), all.len());
                all.push(domain);
            }
        }
    }
    for domain in &all {
        level(&domain.descriptors, 1).map_err(|why| format!("domain `{}`: {why}", domain.name))?;
    }
    Ok(all)
}

fn level(descriptors: &[Descriptor], depth: usize) -> Result<(), String> {
    if depth > MAX_ENTRIES && !descriptors.is_empty() {
        return Err(format!("descriptors have at most {MAX_ENTRIES} entries"));
    }
    let mut seen = HashSet::new();
    for descriptor in descriptors {
        let Descriptor { key, value, .. } = descriptor;
        if key.is_empty() {
            return Err("a descriptor has no `key`".to_owned());
        }
        short("key", key)?;
        short("value", value)?;
        if !seen.insert((key.as_str(), value.as_str())) {
            let which = if value.is_empty() { "no value" } else { value };
            return Err(format!(
                "two descriptors beside each other have the key `{key}` and the value `{which}`; put them together"
            ));
        }
        if let Some(found) = &descriptor.limit {
            limit(found).map_err(|why| format!("descriptor `{key}`: {why}"))?;
        }
        level(&descriptor.below, depth + 1)?;
    }
    Ok(())
}

fn limit(limit: &Limit) -> Result<(), String> {
    let is_timed = seconds(limit.unit).is_some();
    if limit.unlimited && limit.unit != Unit::Unknown {
        return Err("`unlimited` goes without a `unit`; remove one of them".to_owned());
    }
    if !limit.unlimited && !is_timed {
        return Err("`unit` must be SECOND, MINUTE, HOUR, DAY, WEEK, MONTH or YEAR".to_owned());
    }
    if limit.replaces.iter().any(String::is_empty) {
        return Err("`replaces` needs the name of a limit".to_owned());
    }
    if limit.replaces.contains(&limit.name) {
        return Err("a limit cannot replace itself; `replaces` names others".to_owned());
    }
    short("name", &limit.name)
}

fn short(what: &str, text: &str) -> Result<(), String> {
    match text.len() {
        0..=MAX_TEXT => Ok(()),
        found => Err(format!("a `{what}` is {found} bytes long; {MAX_TEXT} are the most")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit_of(unit: Unit, requests: u32) -> Limit {
        Limit { unit, requests, ..Limit::default() }
    }

    fn entry(key: &str, value: &str, limit: Option<Limit>) -> Descriptor {
        let (key, value) = (key.to_owned(), value.to_owned());
        Descriptor { key, value, limit, ..Descriptor::default() }
    }

    fn domain(name: &str, descriptors: Vec<Descriptor>) -> Domain {
        Domain { name: name.to_owned(), descriptors }
    }

    /// The reference service rejects exactly these.
    #[test]
    fn one_fault_rejects_all() {
        let good = || domain("good", vec![entry("k", "", Some(limit_of(Unit::Week, 0)))]);
        let named = |name: &str, replaces: &str| Limit {
            name: name.to_owned(),
            replaces: vec![replaces.to_owned()],
            ..limit_of(Unit::Hour, 1)
        };
        let unlimited = |unit| Limit { unlimited: true, unit, ..Limit::default() };
        let nested = |below| Descriptor { below, ..entry("k", "", None) };
        let deep = (0..MAX_ENTRIES).fold(entry("k", "", None), |below, _| nested(vec![below]));
        for (bad, why) in [
            (domain("", Vec::new()), "no name"),
            (domain("good", Vec::new()), "comes twice"),
            (domain("d", vec![entry("", "v", None)]), "no `key`"),
            (domain("d", vec![nested(vec![entry("", "", None)])]), "no `key`"),
            (domain("d", vec![entry("k", "v", None), entry("k", "v", None)]), "put them together"),
            (domain("d", vec![entry("k", "", None), entry("k", "", None)]), "no value"),
            (domain("d", vec![entry("k", "", Some(limit_of(Unit::Unknown, 1)))]), "`unit`"),
            (domain("d", vec![entry("k", "", Some(unlimited(Unit::Day)))]), "`unlimited`"),
            (domain("d", vec![entry("k", "", Some(named("a", "")))]), "needs the name"),
            (domain("d", vec![entry("k", "", Some(named("a", "a")))]), "replace itself"),
            (domain("d", vec![deep]), "at most 64"),
            (domain("d", vec![entry(&"k".repeat(MAX_TEXT + 1), "", None)]), "bytes long"),
        ] {
            let error = merged(vec![good(), bad], false).unwrap_err();
            assert!(error.contains(why), "{why}: {error}");
        }
        let fine = entry("k", "", Some(unlimited(Unit::Unknown)));
        let other = domain("d", vec![fine, entry("k", "v", Some(named("a", "b")))]);
        assert_eq!(merged(vec![good(), other], false).unwrap().len(), 2);
    }

    #[test]
    fn domains_are_merged_where_that_is_asked_for() {
        let one = |key: &str| domain("d", vec![entry(key, "", None)]);
        let all = merged(vec![one("a"), one("b")], true).unwrap();
        assert_eq!((all.len(), all[0].descriptors.len()), (1, 2));
        assert!(merged(vec![one("a"), one("a")], true).is_err(), "twins are still a fault");
    }
}
