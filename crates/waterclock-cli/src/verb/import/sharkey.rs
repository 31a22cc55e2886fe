//! Sharkey: limits of endpoints, `{ type: 'bucket', size, dripRate, dripSize }` or `{ duration, max, minInterval }`.
//!
//! The configuration takes both as they are, so this only names the policies.

use serde_json::Value;

use super::names::Names;
use super::notes::Notes;
use super::options::{self, Options};
use super::source::Source;
use super::toml::{Translation, line, policy};
use crate::output::Failure;

const ABOUT: &[&str] = &[
    "Each limit is a leaky bucket, as in Sharkey. A user's rateLimitFactor is the `factor` of a check.",
];

/// The keys of both kinds of limit, without those that only name it.
const KEYS: [&str; 7] = ["type", "size", "dripRate", "dripSize", "max", "duration", "minInterval"];

pub(super) fn translate(sources: &[Source]) -> Result<Translation, Failure> {
    let (mut notes, mut names, mut tables) = (Notes::default(), Names::default(), String::new());
    for source in sources {
        for options in options::read(source)? {
            let (given, name) = endpoint(&options, &mut names, &mut notes)?;
            if !limits_anything(&options) {
                notes.add(&given, "has neither `size`, nor `max` and `duration`, nor `minInterval`, and so limits nothing; it is left out");
                continue;
            }
            let fields: Vec<String> = KEYS
                .iter()
                .filter_map(|key| Some(format!("{key} = {}", number(&options, key)?)))
                .collect();
            for (key, _) in &options.fields {
                if key != "key" && !KEYS.contains(&key.as_str()) {
                    notes.add(&given, format!("`{key}` is no part of a limit and is left out"));
                }
            }
            policy(&mut tables, &name, &source.name);
            line(&mut tables, "headers = \"legacy\"");
            // A minimum interval alone could be a limit of any kind.
            let kind = if fields.len() == 1 { "algorithm = \"legacy\", " } else { "" };
            line(&mut tables, &format!("limits = [{{ {kind}{} }}]", fields.join(", ")));
        }
    }
    Ok(Translation { about: ABOUT, notes: notes.into_notes(), tables })
}

/// The name of an endpoint in the file, and of its policy.
pub(super) fn endpoint(
    options: &Options,
    names: &mut Names,
    notes: &mut Notes,
) -> Result<(String, String), Failure> {
    let given = options.name.as_deref().or_else(|| options.text("key"));
    let given = given.ok_or_else(|| options.wrong("key", "is needed: it names the limit"))?;
    let name = names.of_limiter(given, notes);
    Ok((given.to_owned(), name))
}

fn limits_anything(options: &Options) -> bool {
    let has = |name: &str| options.get(name).is_some();
    let is_zero = |name: &str| options.get(name).and_then(Value::as_f64) == Some(0.0);
    let by_max = has("max") && has("duration") && !is_zero("duration");
    let by_interval =
        has("minInterval") && !is_zero("minInterval") && !(has("max") && has("duration"));
    has("size") || options.text("type") == Some("bucket") || by_max || by_interval
}

/// A value as TOML has it.
fn number(options: &Options, key: &str) -> Option<String> {
    match options.get(key)? {
        Value::String(text) => Some(super::toml::quoted(text)),
        value => Some(value.to_string()),
    }
}
