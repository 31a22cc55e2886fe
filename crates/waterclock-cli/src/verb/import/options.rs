//! Options of libraries, as JSON: one object of options, an object of name → options, or an array of options.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use waterclock_config::Micros;

use super::source::Source;
use crate::output::Failure;

/// The options of one limiter, in the order of the file.
pub(super) struct Options {
    /// Its name in the file, if it has one.
    pub(super) name: Option<String>,
    pub(super) fields: Vec<(String, Value)>,
    /// `limits.json`, and where in it: how errors begin.
    place: String,
}

/// All limiters of a file. Those that are `null` are left out.
pub(super) fn read(source: &Source) -> Result<Vec<Options>, Failure> {
    let file = &source.name;
    let document: Document =
        serde_json::from_str(&source.text).map_err(|error| not_json(file, &error))?;
    let all: Vec<(Option<String>, Document)> = match document {
        Document::Object(fields) if is_named(&fields) => {
            fields.into_iter().map(|(name, options)| (Some(name), options)).collect()
        }
        Document::Object(fields) => vec![(None, Document::Object(fields))],
        Document::Array(items) => items.into_iter().map(|item| (None, item)).collect(),
        Document::Other(_) => Vec::new(),
    };
    let mut limiters = Vec::new();
    for (at, (name, options)) in all.into_iter().enumerate() {
        let place = match &name {
            Some(name) => format!("{file}: `{name}`"),
            None => format!("{file}: limiter {}", at + 1),
        };
        match options {
            Document::Object(fields) => {
                let fields = fields.into_iter().map(|(name, value)| (name, value.into())).collect();
                limiters.push(Options { name, fields, place });
            }
            Document::Other(Value::Null) => {}
            _ => return Err(format!("{place} must be an object of options").into()),
        }
    }
    match limiters.iter().all(|options| options.fields.is_empty()) {
        true => Err(format!("{file}: holds no limits: nothing to import").into()),
        false => Ok(limiters),
    }
}

/// Whether an object has limiters, not options. Options may be objects, too, but not all of them.
fn is_named(fields: &[(String, Document)]) -> bool {
    let is_limiter = |document: &Document| {
        matches!(document, Document::Object(_) | Document::Other(Value::Null))
    };
    fields.iter().all(|(_, document)| is_limiter(document))
}

fn not_json(file: &str, error: &serde_json::Error) -> Failure {
    let message = error.to_string();
    let sentence = message.rfind(" at line ").map_or(&*message, |end| &message[..end]);
    format!("{file}:{}:{}: {sentence}", error.line(), error.column()).into()
}

impl Options {
    /// An option, unless it is `null`.
    pub(super) fn get(&self, name: &str) -> Option<&Value> {
        let field = self.fields.iter().find(|(field, _)| field == name);
        field.map(|(_, value)| value).filter(|value| !value.is_null())
    }

    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.get(name)?.as_str()
    }

    pub(super) fn flag(&self, name: &str) -> Result<Option<bool>, Failure> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let flag = value.as_bool();
        flag.map(Some).ok_or_else(|| self.wrong(name, "must be true or false"))
    }

    /// A whole number of units.
    pub(super) fn units(&self, name: &str) -> Result<Option<u64>, Failure> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let whole = value.as_u64().or_else(|| whole(value.as_f64()?));
        whole.map(Some).ok_or_else(|| self.wrong(name, "must be a whole number"))
    }

    /// A time in a unit of so many microseconds, rounded up to a whole one.
    pub(super) fn time(&self, name: &str, unit_us: u32) -> Result<Option<Micros>, Failure> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let us = match value.as_u64() {
            Some(number) => number.checked_mul(unit_us.into()),
            None => value.as_f64().and_then(|number| whole((number * f64::from(unit_us)).ceil())),
        };
        let is_short = |us: &u64| *us <= MAX_US;
        us.filter(is_short)
            .map(|us| Some(Micros(us)))
            .ok_or_else(|| self.wrong(name, "must be a number, 0 or more and at most 100 years"))
    }

    /// An error about an option; the rest is half a sentence.
    pub(super) fn wrong(&self, name: &str, rest: &str) -> Failure {
        let found = self.get(name).map_or_else(String::new, |value| format!("; found {value}"));
        format!("{}: `{name}` {rest}{found}", self.place).into()
    }
}

/// 100 years.
const MAX_US: u64 = 36_525 * 86_400 * 1_000_000;

/// The number, if it is whole and exact.
fn whole(number: f64) -> Option<u64> {
    const EXACT: f64 = 9_007_199_254_740_991.0;
    let is_whole = (0.0..=EXACT).contains(&number) && number.fract() == 0.0;
    // In this range the conversion is exact.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    is_whole.then_some(number as u64)
}

/// JSON whose outer objects keep their order and have no name twice.
enum Document {
    Object(Vec<(String, Document)>),
    Array(Vec<Document>),
    Other(Value),
}

impl From<Document> for Value {
    fn from(document: Document) -> Value {
        match document {
            Document::Object(fields) => {
                fields.into_iter().map(|(name, value)| (name, Value::from(value))).collect()
            }
            Document::Array(items) => items.into_iter().map(Value::from).collect(),
            Document::Other(value) => value,
        }
    }
}

impl<'de> Deserialize<'de> for Document {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Document, D::Error> {
        deserializer.deserialize_any(InOrder)
    }
}

struct InOrder;

impl<'de> Visitor<'de> for InOrder {
    type Value = Document;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Document, A::Error> {
        let mut fields: Vec<(String, Document)> = Vec::new();
        while let Some((name, value)) = map.next_entry::<String, Document>()? {
            if fields.iter().any(|(known, _)| *known == name) {
                return Err(A::Error::custom(format!("`{name}` is here twice")));
            }
            fields.push((name, value));
        }
        Ok(Document::Object(fields))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Document, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Document::Array(items))
    }

    fn visit_bool<E: Error>(self, flag: bool) -> Result<Document, E> {
        Ok(Document::Other(flag.into()))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Document, E> {
        Ok(Document::Other(number.into()))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Document, E> {
        Ok(Document::Other(number.into()))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Document, E> {
        Ok(Document::Other(number.into()))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Document, E> {
        Ok(Document::Other(text.into()))
    }

    fn visit_unit<E: Error>(self) -> Result<Document, E> {
        Ok(Document::Other(Value::Null))
    }
}
