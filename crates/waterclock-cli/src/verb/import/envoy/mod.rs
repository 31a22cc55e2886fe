//! Envoy's reference rate limit service: YAML files of domains and descriptors.

mod reference;
mod rules;
mod tree;

pub(in super::super) use self::reference::reference_domains;

use self::rules::{Effect, Imports};
use super::source::Source;
use super::toml::{Translation, descriptor, line, list, one_line, quoted};
use crate::output::Failure;

const ABOUT: &[&str] = &[
    "Windows are aligned to the clock, and every descriptor is counted alone, refused or not, as Envoy's",
    "reference rate limit service does. Without `mode` and `charge`, refused requests cost nothing; `gcra` and",
    "`rolling-window` do not admit twice as much around the edge of two windows.",
];

/// Every limit becomes a policy, and a rule that sends it the same descriptors. Files of the same domain are merged.
pub(super) fn translate(sources: &[Source]) -> Result<Translation, Failure> {
    let mut documents = Vec::new();
    for source in sources {
        documents.extend(tree::read(source)?);
    }
    let imported = rules::of(&tree::grow(documents)?)?;
    let mut tables = String::new();
    for rule in &imported.rules {
        policy(&mut tables, rule);
    }
    for rule in &imported.rules {
        self::rule(&mut tables, rule);
    }
    Ok(Translation { about: ABOUT, notes: imported.notes, tables })
}

fn policy(out: &mut String, rule: &Imports) {
    let Effect::Policy { name, requests, per, shadow } = &rule.effect else { return };
    super::toml::policy(out, name, &rule.place);
    line(
        out,
        &format!(
            "limits = [{{ algorithm = \"fixed-window\", limit = {requests}, per = \"{per}\", align = \"epoch\" }}]"
        ),
    );
    line(out, "mode = \"uniform\"");
    line(out, "headers = \"none\"");
    if *shadow {
        line(out, "shadow = true");
    }
}

fn rule(out: &mut String, rule: &Imports) {
    line(out, "");
    if matches!(rule.effect, Effect::Barrier) {
        let place = one_line(&rule.place);
        line(out, &format!("# The descriptor at {place} keeps these from less specific rules."));
    }
    line(out, "[[rules]]");
    line(out, &format!("domain = {}", quoted(&rule.domain)));
    descriptor(out, &rule.entries);
    if let Some(key) = &rule.key {
        line(out, &format!("key = [{}]", list(key)));
    }
    line(
        out,
        &match &rule.effect {
            Effect::Unlimited | Effect::Barrier => "unlimited = true".to_owned(),
            Effect::Refuse => "refuse = true".to_owned(),
            Effect::Policy { name, .. } => format!("policy = \"{name}\"\ncharge = \"count\""),
        },
    );
    if let Some(name) = &rule.name {
        line(out, &format!("name = {}", quoted(name)));
    }
    if !rule.replaces.is_empty() {
        line(out, &format!("replaces = [{}]", list(&rule.replaces)));
    }
}
