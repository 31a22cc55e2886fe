//! A line that is any JSON object; fields are named by their paths, such as `user.id` or `headers.0`.

mod number;
#[cfg(test)]
mod tests;
mod walk;

use std::collections::BTreeMap;

use serde::de::{DeserializeSeed, IgnoredAny};

use self::walk::{Below, Object};
use crate::expr::{Kind, Names, Row, Value, quoted};
use crate::trace::shown::shown;

/// How many different fields expressions may name: each is a bit of a word.
const MOST_PATHS: usize = 64;

/// The fields that are asked for.
pub(super) struct Json {
    paths: Vec<String>,
    /// What the first line of the log is, by which it is judged which fields there are.
    first: String,
}

impl Names for Json {
    fn find(&mut self, name: &str) -> Result<(usize, Kind), String> {
        if let Some(place) = self.paths.iter().position(|path| path == name) {
            return Ok((place, Kind::Any));
        }
        if self.paths.len() == MOST_PATHS {
            return Err(format!("at most {MOST_PATHS} different fields can be named"));
        }
        self.paths.push(name.to_owned());
        Ok((self.paths.len() - 1, Kind::Any))
    }

    fn has(&mut self, name: &str) -> bool {
        let asked = [name.to_owned()];
        read(&asked, &self.first).is_ok_and(|found| found.value(0) != Value::Missing)
    }
}

impl Json {
    pub(super) fn new(first: String) -> Json {
        Json { paths: Vec::new(), first }
    }

    /// What the first line has, if that is an object.
    pub(super) fn fields_of_first(&self) -> Option<String> {
        let fields: BTreeMap<String, IgnoredAny> = serde_json::from_str(&self.first).ok()?;
        let fields: Vec<String> = fields.into_keys().take(MOST_PATHS).collect();
        Some(quoted(&fields.join(", ")))
    }

    pub(super) fn parse<'l>(&'l self, line: &'l str) -> Result<Found<'l>, String> {
        read(&self.paths, line)
    }
}

/// What a line says about the fields that are asked for.
pub(super) struct Found<'l> {
    paths: &'l [String],
    values: Vec<Value<'l>>,
}

impl Row for Found<'_> {
    fn value(&self, place: usize) -> Value<'_> {
        match self.values.get(place) {
            None => Value::Missing,
            Some(Value::Text(text)) => Value::text(text),
            Some(other) => other.clone(),
        }
    }

    fn name(&self, place: usize) -> String {
        self.paths.get(place).cloned().unwrap_or_default()
    }
}

fn read<'l>(paths: &'l [String], line: &'l str) -> Result<Found<'l>, String> {
    let mut found = Found { paths, values: vec![Value::Missing; paths.len()] };
    let all =
        Below { asked: u64::MAX.checked_shl(bits(paths)).map_or(u64::MAX, |rest| !rest), at: 0 };
    let mut json = serde_json::Deserializer::from_str(line);
    Object { below: all, found: &mut found }
        .deserialize(&mut json)
        .and_then(|()| json.end())
        .map_err(|error| complaint(&error))?;
    Ok(found)
}

fn bits(paths: &[String]) -> u32 {
    u32::try_from(paths.len()).unwrap_or(u32::MAX)
}

fn complaint(error: &serde_json::Error) -> String {
    format!("this line is not a JSON object: {} at column {}", words(error), error.column())
}

/// What is wrong, without the place. It may quote the line.
fn words(error: &serde_json::Error) -> String {
    let words = error.to_string();
    shown(words.rsplit_once(" at line ").map_or(words.as_str(), |(words, _)| words))
}
