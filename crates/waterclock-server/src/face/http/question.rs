//! The body of a check: read quickly when it is right, explained slowly when it is not.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use waterclock::Cost;

use super::problem::Problem;
use waterclock_config::did_you_mean;

/// Checks in one question.
const MOST_CHECKS: usize = 1_024;

/// Which call a body is read for: some take more than charges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    Decide,
    Reserve,
    Report,
}

impl Call {
    /// What may stand beside the charges.
    fn takes(self) -> &'static [&'static str] {
        match self {
            Call::Decide => &[],
            Call::Reserve => &["ttl", "id", "on_expiry"],
            Call::Report => &["outcome"],
        }
    }
}

/// A body, understood.
#[derive(Debug)]
pub(super) struct Question<'a> {
    pub(super) charges: Charges<'a>,
    pub(super) beside: Beside<'a>,
}

/// One or several charges.
#[derive(Debug)]
pub(super) enum Charges<'a> {
    One(Line<'a>),
    Several { lines: Vec<Line<'a>>, atomic: bool },
}

/// What some calls take beside the charges.
#[derive(Debug)]
pub(super) struct Beside<'a> {
    pub(super) ttl: Option<Text<'a>>,
    pub(super) id: Option<Text<'a>>,
    pub(super) on_expiry: Option<Text<'a>>,
    pub(super) outcome: Option<Text<'a>>,
}

impl Beside<'_> {
    /// Whether there is nothing that this call does not take.
    fn fits(&self, call: Call) -> bool {
        let holds = self.ttl.is_some() || self.id.is_some() || self.on_expiry.is_some();
        (!holds || call == Call::Reserve) && (self.outcome.is_none() || call == Call::Report)
    }
}

/// One charge as the caller writes it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Line<'a> {
    #[serde(borrow)]
    pub(super) policy: Text<'a>,
    #[serde(borrow)]
    pub(super) key: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) fields: Option<Fields<'a>>,
    /// Beside a key; fields have one of their own.
    #[serde(borrow)]
    pub(super) tier: Option<Text<'a>>,
    #[serde(default, deserialize_with = "present")]
    pub(super) cost: Option<Cost>,
}

/// Everything that can be in a body: one charge or several of them, and what stands beside.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Body<'a> {
    #[serde(borrow)]
    policy: Option<Text<'a>>,
    #[serde(borrow)]
    key: Option<Text<'a>>,
    #[serde(borrow)]
    fields: Option<Fields<'a>>,
    #[serde(borrow)]
    tier: Option<Text<'a>>,
    #[serde(default, deserialize_with = "present")]
    cost: Option<Cost>,
    #[serde(borrow, default, deserialize_with = "present")]
    checks: Option<Vec<Line<'a>>>,
    #[serde(default, deserialize_with = "present")]
    atomic: Option<bool>,
    #[serde(borrow)]
    ttl: Option<Text<'a>>,
    #[serde(borrow)]
    id: Option<Text<'a>>,
    #[serde(borrow)]
    on_expiry: Option<Text<'a>>,
    #[serde(borrow)]
    outcome: Option<Text<'a>>,
}

/// Absent is one thing, `null` another.
fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

impl<'a> Body<'a> {
    /// Nothing, if it has both one charge and several, or neither.
    fn understood(self) -> Option<Question<'a>> {
        let Body { policy, key, fields, tier, cost, checks, atomic, .. } = self;
        let beside =
            Beside { ttl: self.ttl, id: self.id, on_expiry: self.on_expiry, outcome: self.outcome };
        let charges = match (policy, checks) {
            (Some(policy), None) if atomic.is_none() => {
                Charges::One(Line { policy, key, fields, tier, cost })
            }
            (None, Some(lines))
                if key.is_none() && fields.is_none() && tier.is_none() && cost.is_none() =>
            {
                Charges::Several { lines, atomic: atomic.unwrap_or(true) }
            }
            _ => return None,
        };
        Some(Question { charges, beside })
    }
}

/// Borrowed from the body where it has no escapes.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub(super) struct Text<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);

/// Fields of a request, by name. Numbers and flags stand for their text.
#[derive(Debug)]
pub(super) struct Fields<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

/// A request is described by fewer fields than this.
const MOST_FIELDS: usize = 64;

impl Fields<'_> {
    pub(super) fn get(&self, name: &str) -> Option<Cow<'_, str>> {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| Cow::Borrowed(&**value))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Fields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Fields<'a>, D::Error> {
        struct OfFields;
        impl<'de> Visitor<'de> for OfFields {
            type Value = Fields<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of fields")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields = Vec::new();
                while let Some((Text(name), value)) = map.next_entry::<Text<'de>, Value>()? {
                    let value = match value {
                        Value::String(text) => Cow::Owned(text),
                        Value::Number(number) => Cow::Owned(number.to_string()),
                        Value::Bool(flag) => Cow::Borrowed(if flag { "true" } else { "false" }),
                        _ => return Err(A::Error::custom("a field is no text")),
                    };
                    // Others who read this may take the last of two where we take the first.
                    if fields.iter().any(|(known, _)| *known == name) {
                        return Err(A::Error::custom("a field is there twice"));
                    }
                    if fields.len() == MOST_FIELDS {
                        return Err(A::Error::custom("there are too many fields"));
                    }
                    fields.push((name, value));
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(OfFields)
    }
}

impl<'a> Question<'a> {
    pub(super) fn read(body: &'a [u8], call: Call) -> Result<Question<'a>, Problem> {
        let read = serde_json::from_slice::<Body<'a>>(body).ok().and_then(Body::understood);
        let Some(question) = read.filter(|question| question.beside.fits(call)) else {
            return Err(explain(body, call));
        };
        if let Charges::Several { lines, .. } = &question.charges {
            if lines.is_empty() {
                return Err(Problem::bad("checks", "`checks` must hold at least one check"));
            }
            if lines.len() > MOST_CHECKS {
                let found = lines.len();
                let detail =
                    format!("`checks` must hold at most {MOST_CHECKS} checks; found {found}");
                return Err(Problem::bad("checks", detail));
            }
        }
        Ok(question)
    }
}

/// What is wrong with a body that cannot be read, by the name of the field.
fn explain(body: &[u8], call: Call) -> Problem {
    let value: Value = match serde_json::from_slice(body) {
        Ok(value) => value,
        Err(error) => return Problem::bad("body", format!("the body must be JSON: {error}")),
    };
    let Value::Object(top) = &value else {
        return Problem::bad("body", "the body must be a JSON object");
    };
    let is_text = |name: &str| top.get(name).is_none_or(|text| text.is_string() || text.is_null());
    if let Some(name) = call.takes().iter().find(|name| !is_text(name)) {
        return Problem::bad(*name, format!("`{name}` must be a string"));
    }
    let Some(checks) = top.get("checks") else { return explain_line(&value, "", call.takes()) };
    let stands_beside =
        |name: &str| ["checks", "atomic"].contains(&name) || call.takes().contains(&name);
    if let Some(name) = top.keys().find(|name| !stands_beside(name)) {
        return Problem::bad(name, format!("`{name}` cannot stand beside `checks`"));
    }
    if top.get("atomic").is_some_and(|atomic| !atomic.is_boolean()) {
        return Problem::bad("atomic", "`atomic` must be true or false");
    }
    let Value::Array(lines) = checks else {
        return Problem::bad("checks", "`checks` must be an array of checks");
    };
    let wrong = |line: &&Value| Line::deserialize(*line).is_err();
    match lines.iter().enumerate().find(|(_, line)| wrong(line)) {
        Some((at, line)) => explain_line(line, &format!("checks[{at}]."), &[]),
        None => Problem::bad("checks", "in `checks` a name is there twice"),
    }
}

fn explain_line(line: &Value, before: &str, beside: &[&str]) -> Problem {
    const KNOWN: [&str; 5] = ["policy", "key", "fields", "tier", "cost"];
    let Value::Object(line) = line else {
        let name = before.trim_end_matches('.');
        return Problem::bad(name, format!("`{name}` must be an object with `policy` and `key`"));
    };
    let must = |name: &str, be: &str| {
        Problem::bad(format!("{before}{name}"), format!("`{before}{name}` must be {be}"))
    };
    let known = || KNOWN.iter().chain(beside).copied();
    if let Some(name) = line.keys().find(|name| !known().any(|known| known == name.as_str())) {
        let hint = did_you_mean(name, known());
        return Problem::bad(format!("{before}{name}"), format!("unknown field `{name}`{hint}"));
    }
    if !line.get("policy").is_some_and(Value::is_string) {
        return must("policy", "the name of a policy");
    }
    if line.get("key").is_some_and(|key| !key.is_string() && !key.is_null()) {
        return must("key", "a string");
    }
    if line.get("tier").is_some_and(|tier| !tier.is_string() && !tier.is_null()) {
        return must("tier", "a string");
    }
    if line.get("fields").is_some_and(|fields| !fields.is_object() && !fields.is_null()) {
        return must("fields", "an object of strings");
    }
    if line.get("fields").is_some() {
        let fields = line.get("fields").and_then(Value::as_object);
        let odd = |value: &&Value| value.is_null() || value.is_array() || value.is_object();
        if let Some((name, _)) =
            fields.and_then(|fields| fields.iter().find(|(_, value)| odd(value)))
        {
            return must(&format!("fields.{name}"), "a string");
        }
        if fields.is_some_and(|fields| fields.len() > MOST_FIELDS) {
            return must("fields", &format!("an object of at most {MOST_FIELDS} strings"));
        }
    }
    if line.get("cost").is_some_and(|cost| Cost::deserialize(cost).is_err()) {
        return must("cost", "a whole number from 0, or a map of units to such numbers");
    }
    // Read into a map, where the last of two stays, nothing is wrong with it.
    Problem::bad("body", "a name is there twice")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(body: &str) -> String {
        match Question::read(body.as_bytes(), Call::Decide) {
            Ok(question) => panic!("{question:?}"),
            Err(problem) => format!("{problem:?}"),
        }
    }

    #[test]
    fn reads_one_and_several() {
        let read = |body: &'static [u8]| Question::read(body, Call::Decide).unwrap().charges;
        let one = read(br#"{"policy":"p","key":"k\u0041","cost":3}"#);
        assert!(matches!(one, Charges::One(Line { cost: Some(cost), .. }) if cost == 3));
        let several = read(br#"{"checks":[{"policy":"p","key":"k"}],"atomic":false}"#);
        assert!(matches!(several, Charges::Several { atomic: false, .. }));
        let fields = br#"{"policy":"p","fields":{"a":"x","b":7,"c":true}}"#;
        let Charges::One(line) = read(fields) else { panic!() };
        assert_eq!(line.fields.unwrap().get("b").as_deref(), Some("7"));
    }

    #[test]
    fn names_the_field_that_is_wrong() {
        for (body, says) in [
            ("", "must be JSON"),
            ("[]", "must be a JSON object"),
            ("{}", "`policy` must be"),
            (r#"{"policy":1,"key":"k"}"#, "`policy` must be"),
            (r#"{"policy":"p","key":1}"#, "`key` must be a string"),
            (r#"{"policy":"p","key":"k","cost":-1}"#, "`cost` must be a whole number"),
            (r#"{"policy":"p","key":"k","cost":1.5}"#, "`cost` must be a whole number"),
            (r#"{"policy":"p","key":"k","cost":"1"}"#, "`cost` must be a whole number"),
            (r#"{"policy":"p","key":"k","tier":2}"#, "`tier` must be a string"),
            (r#"{"policy":"p","keys":"k"}"#, "did you mean `key`"),
            (r#"{"policy":"p","fields":[]}"#, "`fields` must be an object"),
            (r#"{"policy":"p","fields":{"a":null}}"#, "`fields.a` must be a string"),
            (r#"{"policy":"p","policy":"q","key":"k"}"#, "twice"),
            (r#"{"policy":"p","key":"k","key":"l"}"#, "twice"),
            (r#"{"policy":"p","fields":{"a":"x","a":"y"}}"#, "twice"),
            (r#"{"checks":[{"policy":"p","key":"k","key":"l"}]}"#, "twice"),
            (r#"{"checks":[]}"#, "at least one"),
            (r#"{"checks":{}}"#, "must be an array"),
            (r#"{"checks":[{"policy":"p","key":"k"},{"key":"k"}]}"#, "`checks[1].policy` must be"),
            (r#"{"checks":[{"policy":"p"}],"policy":"p"}"#, "cannot stand beside"),
            (r#"{"checks":[{"policy":"p"}],"atomic":1}"#, "`atomic` must be"),
            (r#"{"policy":"p","key":"k","ttl":"1s"}"#, "unknown field `ttl`"),
            (r#"{"policy":"p","key":"k","atomic":true}"#, "unknown field `atomic`"),
            (r#"{"checks":[{"policy":"p","key":"k"}],"outcome":"ok"}"#, "cannot stand beside"),
        ] {
            let found = problem(body);
            assert!(found.contains(says), "{body}: {found}");
        }
    }

    #[test]
    fn each_call_takes_what_is_its_own() {
        for (call, body) in [
            (Call::Reserve, r#"{"policy":"p","key":"k","ttl":"1s","id":"i","on_expiry":"keep"}"#),
            (Call::Reserve, r#"{"checks":[{"policy":"p","key":"k"}],"ttl":"1s"}"#),
            (Call::Report, r#"{"policy":"p","key":"k","outcome":"ok"}"#),
        ] {
            assert!(Question::read(body.as_bytes(), call).is_ok(), "{body}");
            for other in [Call::Decide, Call::Reserve, Call::Report] {
                assert_eq!(Question::read(body.as_bytes(), other).is_ok(), other == call);
            }
        }
        let odd = br#"{"policy":"p","key":"k","ttl":30}"#;
        let found = format!("{:?}", Question::read(odd, Call::Reserve).unwrap_err());
        assert!(found.contains("`ttl` must be a string"), "{found}");
    }
}
