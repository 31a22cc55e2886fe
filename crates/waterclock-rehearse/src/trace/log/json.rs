//! A line that is any JSON object; fields are named by their paths, such as `user.id` or `headers.0`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::expr::{Kind, Names, Row, Value, quoted};
use crate::terminal::shown;

/// How many different fields expressions may name: each is a bit of a word.
const MOST_PATHS: usize = 64;

/// The fields that expressions name.
pub(super) struct Json {
    paths: Vec<String>,
    /// The first line of the log, which tells what fields there are.
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

/// The values of a line for the fields that expressions name.
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
        .map_err(|error| problem(&error))?;
    Ok(found)
}

fn bits(paths: &[String]) -> u32 {
    u32::try_from(paths.len()).unwrap_or(u32::MAX)
}

fn problem(error: &serde_json::Error) -> String {
    format!("this line is not a JSON object: {} at column {}", words(error), error.column())
}

/// What is wrong, without the place. The parser may quote the line.
fn words(error: &serde_json::Error) -> String {
    let words = error.to_string();
    shown(words.rsplit_once(" at line ").map_or(words.as_str(), |(words, _)| words))
}

/// Which fields can be found from here on, and how much of their paths has led here.
#[derive(Clone, Copy)]
struct Below {
    asked: u64,
    at: usize,
}

/// Where a member of an object or a list leads.
#[derive(Clone, Copy)]
struct Member {
    field: Option<usize>,
    below: Below,
}

impl Below {
    fn member(self, paths: &[String], key: &str) -> Member {
        let (mut field, mut asked) = (None, 0);
        for (place, path) in
            paths.iter().enumerate().filter(|(place, _)| self.asked >> place & 1 == 1)
        {
            match path.get(self.at..).and_then(|rest| rest.strip_prefix(key)) {
                Some("") => field = Some(place),
                Some(rest) if rest.starts_with('.') => asked |= 1 << place,
                _ => {}
            }
        }
        Member { field, below: Below { asked, at: self.at + key.len() + 1 } }
    }
}

struct Object<'f, 'l> {
    below: Below,
    found: &'f mut Found<'l>,
}

impl<'l> DeserializeSeed<'l> for Object<'_, 'l> {
    type Value = ();

    fn deserialize<D: Deserializer<'l>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'l> Visitor<'l> for Object<'_, 'l> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'l>>(self, mut map: A) -> Result<(), A::Error> {
        let paths = self.found.paths;
        while let Some(member) = map.next_key_seed(Key { below: self.below, paths })? {
            map.next_value_seed(Field { member, found: &mut *self.found })?;
        }
        Ok(())
    }
}

struct Key<'l> {
    below: Below,
    paths: &'l [String],
}

impl<'l> DeserializeSeed<'l> for Key<'_> {
    type Value = Member;

    fn deserialize<D: Deserializer<'l>>(self, deserializer: D) -> Result<Member, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Key<'_> {
    type Value = Member;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a key")
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<Member, E> {
        Ok(self.below.member(self.paths, key))
    }
}

struct Field<'f, 'l> {
    member: Member,
    found: &'f mut Found<'l>,
}

impl<'l> Field<'_, 'l> {
    fn set<E>(self, value: Value<'l>) -> Result<(), E> {
        if let Some(place) = self.member.field {
            self.found.values[place] = value;
        }
        Ok(())
    }
}

impl<'l> DeserializeSeed<'l> for Field<'_, 'l> {
    type Value = ();

    fn deserialize<D: Deserializer<'l>>(self, deserializer: D) -> Result<(), D::Error> {
        if self.member.field.is_none() && self.member.below.asked == 0 {
            return deserializer.deserialize_ignored_any(IgnoredAny).map(|_| ());
        }
        if self.member.field.is_none() {
            return deserializer.deserialize_any(self);
        }
        // Numbers are wanted digit by digit.
        let written = <&RawValue>::deserialize(deserializer)?.get();
        if written.starts_with(|first: char| first == '-' || first.is_ascii_digit()) {
            return self.set(number(written));
        }
        let mut value = serde_json::Deserializer::from_str(written);
        value.deserialize_any(self).map_err(|error| D::Error::custom(words(&error)))
    }
}

impl<'l> Visitor<'l> for Field<'_, 'l> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("any value")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'l str) -> Result<(), E> {
        self.set(Value::text(text))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        self.set(Value::Text(Cow::Owned(text.to_owned())))
    }

    // Numbers come here only where a field below them is asked for, which they do not have.

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E: Error>(self, truth: bool) -> Result<(), E> {
        self.set(Value::Truth(truth))
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.set(Value::Missing)
    }

    fn visit_map<A: MapAccess<'l>>(self, map: A) -> Result<(), A::Error> {
        Object { below: self.member.below, found: self.found }.visit_map(map)
    }

    fn visit_seq<A: SeqAccess<'l>>(self, mut list: A) -> Result<(), A::Error> {
        for place in 0usize.. {
            let member = self.member.below.member(self.found.paths, &place.to_string());
            if list.next_element_seed(Field { member, found: &mut *self.found })?.is_none() {
                break;
            }
        }
        Ok(())
    }
}

/// What digits are worth, exactly where that can be had. What is too large or too fine to work with is a
/// text, which can still be a key: two numbers that differ stay two.
fn number(written: &str) -> Value<'_> {
    let is_whole = !written.contains(['.', 'e', 'E']);
    let rounded = || {
        let float = written.parse::<f64>().ok().filter(|_| !is_whole)?;
        float.to_string().parse().ok()
    };
    written.parse().ok().or_else(rounded).map_or(Value::text(written), Value::Number)
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;

    fn values(paths: &[&str], line: &str) -> Result<Vec<Option<String>>, String> {
        let mut json = Json::new(String::new());
        paths.iter().for_each(|path| drop(json.find(path)));
        let found = json.parse(line)?;
        Ok((0..paths.len())
            .map(|place| found.value(place).into_text().map(Cow::into_owned))
            .collect())
    }

    #[test]
    fn paths() {
        let line = r#"{"a":1,"user":{"id":"x\ty","b":[10,{"c":true},null]},"flat.name":2.50,"user.z":"w","n":null,"big":36893488147419103233}"#;
        let paths = [
            "a",
            "user.id",
            "user.b.0",
            "user.b.1.c",
            "flat.name",
            "user.z",
            "n",
            "user",
            "user.b.2",
            "big",
        ];
        let found = values(&paths, line).unwrap();
        let expected = ["1", "x\ty", "10", "true", "2.5", "w"];
        for (found, expected) in found.iter().zip(expected) {
            assert_eq!(found.as_deref(), Some(expected));
        }
        assert_eq!(found[6..9], [None, None, None]);
        assert_eq!(found[9].as_deref(), Some("36893488147419103233"));
    }

    #[test]
    fn what_is_no_object() {
        for line in ["", "[]", "1", "{", r#"{"a":}"#, r#"{"a":1} x"#, "nonsense"] {
            assert!(values(&["a"], line).is_err(), "{line}");
        }
        let deep = format!("{{\"a\":{}1{}}}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(values(&["a.0.0"], &deep), Ok(vec![None]));
        let path = "a".to_owned() + &".0".repeat(1_000);
        assert!(values(&[&path], &deep).is_err());
        assert_eq!(values(&["a"], "{}"), Ok(vec![None]));
        // A field and what is below it.
        for (line, expected) in [
            (r#"{"a":7}"#, [Some("7"), None]),
            (r#"{"a":{"b":"x"}}"#, [None, Some("x")]),
            (r#"{"a":{"b":{"c":1}}}"#, [None, None]),
        ] {
            let expected = expected.map(|text| text.map(str::to_owned));
            assert_eq!(values(&["a", "a.b"], line), Ok(expected.into()), "{line}");
        }
        let problem = values(&["a"], r#"{"b":1,"a":"\ud800"}"#).unwrap_err();
        assert!(problem.ends_with("hex escape at column 20"), "{problem}");
        let long = values(&["a"], &format!("\"{}\"", "\\u001b".repeat(1_000))).unwrap_err();
        assert!(long.len() < 200, "{long}");
    }

    #[test]
    fn nothing_panics() {
        let mut rng = fastrand::Rng::with_seed(4);
        let pieces = [
            "{", "}", "[", "]", "\"a\"", ":", ",", "1", "-", ".5", "null", "\"\\u00", "é",
            "\"b\":", "true",
        ];
        for _ in 0..30_000 {
            let length = rng.usize(0..12);
            let line: String = (0..length).map(|_| pieces[rng.usize(0..pieces.len())]).collect();
            let _ = values(&["a", "a.b", "a.0", "b"], &format!("{{\"a\":{line}"));
        }
    }

    #[test]
    fn digits_stay() {
        for (written, expected) in [
            ("18446744073709551615", "18446744073709551615"),
            ("18446744073709551617", "18446744073709551617"),
            ("-9223372036854775809", "-9223372036854775809"),
            ("2.50", "2.5"),
            ("-0", "0"),
            ("1.5e3", "1500"),
            ("25E-1", "2.5"),
        ] {
            assert_eq!(number(written), Value::Number(expected.parse().unwrap()));
        }
        let long = "9".repeat(50);
        for written in [long.as_str(), "1e300", "1e999", "-1e999", "1e-300"] {
            assert_eq!(number(written), Value::text(written));
        }
    }
}
