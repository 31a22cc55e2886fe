//! Limitador: YAML files of limits with conditions and variables.

mod condition;
mod groups;
mod limits;

use std::collections::HashSet;

use waterclock_config::Micros;

use self::groups::{Group, Window};
use super::names::Names;
use super::notes::Notes;
use super::source::Source;
use super::toml::{Translation, descriptor, line, list, policy, quoted};
use crate::output::Failure;

const ABOUT: &[&str] = &[
    "A counter's window starts with its first request, refused requests cost nothing, and all limits of a request admit",
    "it or none is charged, as in Limitador. All rules apply whose entries a descriptor contains.",
];

/// The most limits that a policy has.
const MOST_LIMITS: usize = 16;

pub(super) fn translate(sources: &[Source]) -> Result<Translation, Failure> {
    let mut notes = Notes::default();
    let mut all = Vec::new();
    for source in sources {
        all.extend(limits::read(source, &mut notes)?);
    }
    let groups = groups::of(all);
    if groups.is_empty() {
        return Err("there are no limits in these files: nothing to import".into());
    }
    let (mut names, mut policies, mut rules) = (Names::default(), String::new(), String::new());
    for group in &groups {
        if group.limits.len() > MOST_LIMITS {
            return Err(format!(
                "{}: {} limits count the same descriptor, and a policy has {MOST_LIMITS} at most; remove some",
                group.place,
                group.limits.len()
            )
            .into());
        }
        let refuses = group.limits.iter().any(|limit| limit.max_value == 0);
        let name = (!refuses).then(|| write_policy(&mut policies, group, &mut names));
        write_rule(&mut rules, group, name.as_deref());
    }
    Ok(Translation { about: ABOUT, notes: notes.into_notes(), tables: policies + &rules })
}

fn write_policy(out: &mut String, group: &Group, names: &mut Names) -> String {
    let name = match &group.limits[..] {
        [Window { name: Some(name), .. }] => names.keep(&format!("{}-{name}", group.namespace)),
        _ => names.of_path(&group.namespace, &group.entries),
    };
    policy(out, &name, &group.place);
    line(out, "limits = [");
    let mut taken = HashSet::new();
    for limit in &group.limits {
        let per = Micros(limit.seconds.saturating_mul(1_000_000));
        let own = match &limit.name {
            Some(name) => name.clone(),
            None => format!("per {}", per.in_words()),
        };
        let numbered = (2_u32..).map(|number| format!("{own} {number}"));
        let all = std::iter::once(own.clone()).chain(numbered);
        let own = all.into_iter().find(|name| taken.insert(name.clone())).unwrap_or_default();
        line(
            out,
            &format!(
                "  {{ name = {}, algorithm = \"fixed-window\", limit = {}, per = \"{per}\" }},",
                quoted(&own),
                limit.max_value
            ),
        );
    }
    line(out, "]");
    line(out, "headers = \"none\"");
    name
}

/// A rule for the policy of this name; without one it refuses.
fn write_rule(out: &mut String, group: &Group, policy: Option<&str>) {
    line(out, "");
    line(out, "[[rules]]");
    line(out, &format!("domain = {}", quoted(&group.namespace)));
    descriptor(out, &group.entries);
    line(out, "match = \"contains\"");
    match policy {
        Some(name) => {
            line(out, &format!("key = [{}]", list(&group.key)));
            line(out, &format!("policy = {}", quoted(name)));
        }
        None => line(out, "refuse = true"),
    }
}
