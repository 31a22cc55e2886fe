//! The vocabulary of the file, and its JSON Schema.
//!
//! Readers, suggestions and the schema use the same tables of keys, so they cannot disagree.

use serde_json::{Map, Value, json};
pub(crate) use waterclock::MAX_UNITS;

use super::SECTIONS;
use super::algorithm::{self, ALGORITHMS, AlgorithmWord, CALENDAR, COMMON};
use super::duration::Micros;
use super::legacy;

/// One key of a table.
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) shape: Shape,
    /// The default as JSON, where there is one.
    pub(crate) default: Option<&'static str>,
    /// A value as a file would have it, for keys that must be there.
    pub(crate) example: Option<&'static str>,
    pub(crate) description: &'static str,
}

impl Key {
    pub(crate) const fn new(name: &'static str, shape: Shape, description: &'static str) -> Key {
        Key { name, shape, default: None, example: None, description }
    }

    pub(crate) const fn default(self, default: &'static str) -> Key {
        Key { default: Some(default), ..self }
    }

    pub(crate) const fn such_as(self, example: &'static str) -> Key {
        Key { example: Some(example), ..self }
    }
}

/// What a value looks like.
pub(crate) enum Shape {
    /// `true` or `false`.
    Flag,
    /// An integer in this range.
    Whole { least: u64, most: u64 },
    /// A string such as `"1h30m"`.
    Duration,
    /// The old limits' times: a duration, or a number of milliseconds.
    Milliseconds,
    /// A string such as `"12.5%"`.
    Percent,
    /// An exact decimal, 0 or more.
    Factor,
    /// Any string.
    Text,
    /// A string that this function accepts; its error is half a sentence.
    Syntax(fn(&str) -> Result<(), String>),
    /// One of these strings.
    Word(&'static [&'static str]),
    /// An array.
    List(&'static Shape),
    /// A table with these keys.
    Table(&'static [Key]),
    /// This string, or a table with these keys.
    WordOrTable(&'static str, &'static [Key]),
    /// A table whose keys the user chooses.
    MapOf(&'static Shape),
    /// A limit: a table, or shorthand.
    Limit,
}

/// An amount of units, at least one.
pub(crate) const UNITS: Shape = Shape::Whole { least: 1, most: MAX_UNITS };

const SHORTHAND: &str = r"^[0-9_]+ *(/| per ) *[0-9.a-zµμ]+( +[0-9.a-zµμ-]+)*$";

/// The schema of `waterclock.toml`, as editors understand it.
pub fn schema() -> Value {
    let mut schema = table(SECTIONS);
    let own = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "waterclock.toml",
        "$defs": { "limit": limit(), "duration": { "type": "string", "pattern": duration() } },
    });
    merge(&mut schema, own);
    schema
}

fn duration() -> String {
    let units: Vec<&str> = Micros::unit_names().collect();
    format!(r"^([0-9]+(\.[0-9]+)? *({}) *)+$", units.join("|"))
}

/// Keys that come with an example are those that must be there.
fn table(keys: &[Key]) -> Value {
    let required: Vec<&str> =
        keys.iter().filter(|key| key.example.is_some()).map(|key| key.name).collect();
    let properties: Map<String, Value> =
        keys.iter().map(|key| (key.name.to_owned(), property(key))).collect();
    let mut table =
        json!({ "type": "object", "additionalProperties": false, "properties": properties });
    if !required.is_empty() {
        merge(&mut table, json!({ "required": required }));
    }
    table
}

fn property(key: &Key) -> Value {
    let mut property = shape(&key.shape);
    merge(&mut property, json!({ "description": key.description }));
    if let Some(default) =
        key.default.and_then(|default| serde_json::from_str::<Value>(default).ok())
    {
        merge(&mut property, json!({ "default": default }));
    }
    property
}

fn shape(shape: &Shape) -> Value {
    match shape {
        Shape::Flag => json!({ "type": "boolean" }),
        Shape::Whole { least, most } => {
            json!({ "type": "integer", "minimum": least, "maximum": most })
        }
        Shape::Duration => json!({ "$ref": "#/$defs/duration" }),
        Shape::Milliseconds => {
            json!({ "anyOf": [{ "type": "number", "minimum": 0 }, { "$ref": "#/$defs/duration" }] })
        }
        Shape::Percent => json!({ "type": "string", "pattern": r"^[0-9]+(\.[0-9]{1,2})?%$" }),
        Shape::Factor => json!({ "type": "number", "minimum": 0 }),
        Shape::Text | Shape::Syntax(_) => json!({ "type": "string" }),
        Shape::Word(words) => json!({ "enum": words }),
        Shape::List(element) => json!({ "type": "array", "items": self::shape(element) }),
        Shape::Table(keys) => table(keys),
        Shape::WordOrTable(word, keys) => json!({ "oneOf": [{ "enum": [word] }, table(keys)] }),
        Shape::MapOf(value) => {
            json!({ "type": "object", "additionalProperties": self::shape(value) })
        }
        Shape::Limit => json!({ "$ref": "#/$defs/limit" }),
    }
}

/// Shorthand, or one table for each algorithm.
fn limit() -> Value {
    let shorthand = json!({ "type": "string", "pattern": SHORTHAND });
    let tables = ALGORITHMS.iter().map(limit_table);
    json!({ "oneOf": std::iter::once(shorthand).chain(tables).collect::<Vec<Value>>() })
}

fn limit_table(algorithm: &AlgorithmWord) -> Value {
    let belongs = |key: &&Key| COMMON.contains(&key.name) || algorithm.takes.contains(&key.name);
    let properties: Map<String, Value> = algorithm::KEYS
        .iter()
        .filter(belongs)
        .map(|key| (key.name.to_owned(), limit_property(key, algorithm.word)))
        .collect();
    if algorithm.word == legacy::WORD {
        return legacy_table(properties);
    }
    let required: Vec<&str> =
        std::iter::once("algorithm").chain(algorithm.needs.iter().copied()).collect();
    json!({ "type": "object", "additionalProperties": false, "properties": properties, "required": required })
}

/// Limits as Misskey and Sharkey define them, which name no algorithm.
fn legacy_table(mut properties: Map<String, Value>) -> Value {
    properties.extend(legacy::THEIRS.iter().map(|key| (key.name.to_owned(), property(key))));
    let says_so =
        ["algorithm", "type", "max", "duration", "minInterval", "size", "dripRate", "dripSize"];
    let one_of_these = says_so.map(|name| json!({ "required": [name] }));
    json!({ "type": "object", "additionalProperties": false, "properties": properties, "anyOf": one_of_these })
}

/// A few keys look different from algorithm to algorithm.
fn limit_property(key: &Key, word: &str) -> Value {
    let mut property = property(key);
    match (word, key.name) {
        (_, "algorithm") => merge(&mut property, json!({ "enum": [word] })),
        ("fixed-window", "per") => {
            property = json!({ "anyOf": [{ "$ref": "#/$defs/duration" }, { "enum": CALENDAR }], "description": key.description });
        }
        ("legacy", "min_interval") => {
            property = shape(&Shape::Milliseconds);
            merge(&mut property, json!({ "description": key.description }));
        }
        _ => {}
    }
    property
}

fn merge(into: &mut Value, from: Value) {
    if let (Value::Object(into), Value::Object(from)) = (into, from) {
        into.extend(from);
    }
}
