//! The `[store]` section.

use super::field::Field;
use super::key::{Key, MAX_UNITS, Shape};
use super::table::Table;
use super::wording::quoted;

pub(crate) const KEYS: &[Key] = &[
    Key::new(
        "url",
        Shape::Syntax(accept_url),
        "memory: | redis://… | rediss://… | redis-cluster://h1,h2,h3 | redis-sentinel://…/service",
    )
    .default("\"memory:\""),
    Key::new("max_keys", Shape::Whole { least: 1, most: MAX_UNITS }, "memory: keys held at most.")
        .default("1000000"),
    Key::new("snapshot", Shape::Text, "memory: the file that state is written to on shutdown."),
    Key::new("snapshot_every", Shape::Duration, "memory: how often it is written besides."),
    Key::new("deadline", Shape::Duration, "redis: how long an answer may take.")
        .default("\"50ms\""),
    Key::new(
        "nodes",
        Shape::Whole { least: 1, most: 1_000_000 },
        "How many servers share the store.",
    )
    .default("1"),
    Key::new(
        "key_secret",
        Shape::Text,
        "redis: the secret of the keyed hash of keys, ${ENV} or file:…; the same on every node.",
    ),
];

const SCHEMES: &[&str] = &["redis://", "rediss://", "redis-cluster://", "redis-sentinel://"];

/// Complains about what is wrong; the store's URL.
pub(crate) fn read(table: &Table<'_>) -> String {
    table.verify();
    table.verified("url", Field::text).unwrap_or("memory:").to_owned()
}

/// Whether a URL names something that could be a store.
pub(crate) fn accept_url(url: &str) -> Result<(), String> {
    let has_host = |scheme: &&str| url.strip_prefix(*scheme).is_some_and(|rest| !rest.is_empty());
    if url == "memory:" || url.starts_with("${") || SCHEMES.iter().any(has_host) {
        Ok(())
    } else {
        Err(format!(
            "must be \"memory:\", or begin with redis://, rediss://, redis-cluster:// or redis-sentinel://; found {}",
            quoted(url)
        ))
    }
}
