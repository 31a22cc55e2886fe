//! The files of the reference service, and the descriptors of each domain as that service understands them.

use serde::Deserialize;
use serde_saphyr::{Location, Spanned};
use waterclock_config::Pattern;

use super::super::source::{Source, not_yaml, problem};
use crate::output::Failure;

/// A domain and where its descriptors begin.
pub(super) struct Domain {
    pub(super) name: String,
    pub(super) nodes: Vec<Node>,
}

/// One descriptor of the file: an entry, perhaps with a limit, perhaps with more entries below.
pub(super) struct Node {
    pub(super) key: String,
    pub(super) value: Pattern,
    pub(super) limit: Option<Limit>,
    /// All values that match have one budget.
    pub(super) is_shared: bool,
    /// Has settings that only concern that service's statistics.
    pub(super) is_measured: bool,
    pub(super) below: Vec<Node>,
    /// `file:line`, for comments.
    pub(super) place: String,
}

/// What happens to descriptors that end here.
pub(super) struct Limit {
    pub(super) kind: Kind,
    pub(super) name: Option<String>,
    pub(super) replaces: Vec<String>,
}

pub(super) enum Kind {
    Unlimited,
    /// So many requests per time; in shadow, none is refused.
    Window {
        requests: u32,
        per: &'static str,
        shadow: bool,
    },
}

/// Puts documents of the same domain together.
pub(super) fn grow(documents: Vec<Document>) -> Result<Vec<Domain>, Failure> {
    let mut domains: Vec<Domain> = Vec::new();
    for Document { file, root } in documents {
        let name = root.domain.value;
        if name.is_empty() {
            let at = Some(root.domain.referenced);
            return Err(problem(&file, at, "`domain` must not be empty"));
        }
        let known = domains.iter().position(|domain| domain.name == name);
        let at = known.unwrap_or_else(|| {
            domains.push(Domain { name, nodes: Vec::new() });
            domains.len() - 1
        });
        add(&file, &mut domains[at].nodes, root.descriptors.unwrap_or_default())?;
    }
    Ok(domains)
}

fn add(
    file: &str,
    nodes: &mut Vec<Node>,
    descriptors: Vec<Spanned<Descriptor>>,
) -> Result<(), Failure> {
    for descriptor in descriptors {
        let at = descriptor.referenced;
        let node = node(file, at, descriptor.value)?;
        if nodes.iter().any(|other| other.key == node.key && other.value == node.value) {
            let which = match &node.value {
                Pattern::Any => "no value".to_owned(),
                value => format!("the value {value}"),
            };
            let sentence = format!(
                "there is another descriptor with the key `{}` and {which} beside this one; put them together",
                node.key
            );
            return Err(problem(file, Some(at), sentence));
        }
        nodes.push(node);
    }
    Ok(())
}

fn node(file: &str, at: Location, descriptor: Descriptor) -> Result<Node, Failure> {
    let refuse = |sentence: &str| Err(problem(file, Some(at), sentence));
    let key = descriptor.key.unwrap_or_default();
    let value = descriptor.value.filter(|value| !value.is_empty());
    if key.is_empty() {
        return refuse("a descriptor needs a `key`");
    }
    if value.is_none() && key.ends_with('*') {
        return refuse(
            "a `*` at the end of a `key` has no counterpart here; only values have wildcards",
        );
    }
    if descriptor.quota_mode {
        return refuse("`quota_mode` has no counterpart in rules; `waterclock ratelimit` reads it");
    }
    let value = value.as_deref().map_or(Pattern::Any, Pattern::parse);
    if descriptor.share_threshold && !matches!(value, Pattern::Prefix(_)) {
        return refuse("`share_threshold` needs a `value` that ends with `*`");
    }
    let shadow = descriptor.shadow_mode;
    let limit = descriptor.rate_limit.map(|limit| limit_of(file, limit, shadow)).transpose()?;
    let mut below = Vec::new();
    add(file, &mut below, descriptor.descriptors.unwrap_or_default())?;
    Ok(Node {
        key,
        value,
        limit,
        is_shared: descriptor.share_threshold,
        is_measured: descriptor.detailed_metric || descriptor.value_to_metric,
        below,
        place: format!("{file}:{}", at.line()),
    })
}

fn limit_of(file: &str, limit: Spanned<RateLimit>, shadow: bool) -> Result<Limit, Failure> {
    let at = Some(limit.referenced);
    let limit = limit.value;
    let kind = match (limit.unlimited, limit.unit) {
        (true, None) => Kind::Unlimited,
        (true, Some(_)) => {
            return Err(problem(file, at, "`unlimited` goes without a `unit`; remove one of them"));
        }
        (false, unit) => {
            let unit = unit.unwrap_or_default();
            let Some(per) = period(&unit) else {
                let sentence = format!(
                    "`unit` must be second, minute, hour, day, week, month or year; found {unit:?}"
                );
                return Err(problem(file, at, sentence));
            };
            // The reference service takes a missing number for 0, and that for a refusal.
            Kind::Window { requests: limit.requests_per_unit.unwrap_or(0), per, shadow }
        }
    };
    let replaces = limit.replaces.unwrap_or_default().into_iter().map(|replaced| replaced.name);
    let replaces: Vec<String> = replaces.collect();
    let name = limit.name.filter(|name| !name.is_empty());
    if replaces.iter().any(|replaced| Some(replaced) == name.as_ref()) {
        return Err(problem(file, at, "a limit cannot replace itself; `replaces` names others"));
    }
    Ok(Limit { kind, name, replaces })
}

/// As long as the reference service takes them to be.
fn period(unit: &str) -> Option<&'static str> {
    match unit.to_ascii_lowercase().as_str() {
        "second" => Some("1s"),
        "minute" => Some("1m"),
        "hour" => Some("1h"),
        "day" => Some("1d"),
        "week" => Some("7d"),
        "month" => Some("30d"),
        "year" => Some("365d"),
        _ => None,
    }
}

/// One document: a domain and its descriptors.
pub(super) struct Document {
    pub(super) file: String,
    pub(super) root: Root,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Root {
    pub(super) domain: Spanned<String>,
    pub(super) descriptors: Option<Vec<Spanned<Descriptor>>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Descriptor {
    pub(super) key: Option<String>,
    pub(super) value: Option<String>,
    pub(super) rate_limit: Option<Spanned<RateLimit>>,
    pub(super) descriptors: Option<Vec<Spanned<Descriptor>>>,
    #[serde(default)]
    pub(super) shadow_mode: bool,
    #[serde(default)]
    pub(super) quota_mode: bool,
    #[serde(default)]
    pub(super) detailed_metric: bool,
    #[serde(default)]
    pub(super) value_to_metric: bool,
    #[serde(default)]
    pub(super) share_threshold: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RateLimit {
    pub(super) requests_per_unit: Option<u32>,
    pub(super) unit: Option<String>,
    #[serde(default)]
    pub(super) unlimited: bool,
    pub(super) name: Option<String>,
    pub(super) replaces: Option<Vec<Replaced>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Replaced {
    pub(super) name: String,
}

/// The documents of a file.
pub(super) fn read(source: &Source) -> Result<Vec<Document>, Failure> {
    let file = &source.name;
    let roots: Vec<Root> =
        serde_saphyr::from_multiple(&source.text).map_err(|error| not_yaml(file, error))?;
    if roots.is_empty() {
        return Err(Failure::from(format!("{file}: holds no `domain`")));
    }
    Ok(roots.into_iter().map(|root| Document { file: file.clone(), root }).collect())
}
