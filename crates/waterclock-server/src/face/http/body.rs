//! The JSON body of a check: one fast pass if it is valid, a slow one that names the wrong field if it is not.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use waterclock::Cost;

use super::problem::Problem;
use waterclock_config::{FactorJson, did_you_mean};

/// Checks in one body.
const MAX_CHECKS: usize = 1_024;

/// The verbs a body is read for: some take options beside the charges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verbs {
    Decide,
    Reserve,
    Report,
    Wait,
}

impl Verbs {
    /// The options it takes.
    fn options(self) -> &'static [&'static str] {
        match self {
            Verbs::Decide => &[],
            Verbs::Reserve => &["ttl", "id", "on_expiry"],
            Verbs::Report => &["outcome"],
            Verbs::Wait => &["within"],
        }
    }
}

/// A valid body.
#[derive(Debug)]
pub(super) struct CheckBody<'a> {
    pub(super) charges: Charges<'a>,
    pub(super) options: Options<'a>,
}

/// One or several charges.
#[derive(Debug)]
pub(super) enum Charges<'a> {
    One(Charge<'a>),
    Several { charges: Vec<Charge<'a>>, atomic: bool },
}

impl<'a> Charges<'a> {
    pub(super) fn as_slice(&self) -> &[Charge<'a>] {
        match self {
            Charges::One(charge) => std::slice::from_ref(charge),
            Charges::Several { charges, .. } => charges,
        }
    }

    /// The names of the charges' policies; the same in a row once.
    pub(super) fn policies(&self) -> impl Iterator<Item = &str> {
        let mut last = None;
        let names = self.as_slice().iter().map(|charge| &*charge.policy.0);
        names.filter(move |name| last.replace(*name) != Some(*name))
    }
}

/// What some verbs take beside the charges.
#[derive(Debug)]
pub(super) struct Options<'a> {
    pub(super) ttl: Option<Text<'a>>,
    pub(super) id: Option<Text<'a>>,
    pub(super) on_expiry: Option<Text<'a>>,
    pub(super) outcome: Option<Text<'a>>,
    pub(super) within: Option<Text<'a>>,
}

impl Options<'_> {
    /// Whether these verbs take all that is given.
    fn fits(&self, verbs: Verbs) -> bool {
        let holds = self.ttl.is_some() || self.id.is_some() || self.on_expiry.is_some();
        (!holds || verbs == Verbs::Reserve)
            && (self.outcome.is_none() || verbs == Verbs::Report)
            && (self.within.is_none() || verbs == Verbs::Wait)
    }
}

/// One charge as the caller sends it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Charge<'a> {
    #[serde(borrow)]
    pub(super) policy: Text<'a>,
    #[serde(borrow)]
    pub(super) key: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) fields: Option<Fields<'a>>,
    /// Options a key; fields have one of their own.
    #[serde(borrow)]
    pub(super) tier: Option<Text<'a>>,
    pub(super) factor: Option<FactorJson>,
    #[serde(default, deserialize_with = "present")]
    pub(super) cost: Option<Cost>,
}

/// Everything that can be in a body: one charge or several, and options.
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
    factor: Option<FactorJson>,
    #[serde(default, deserialize_with = "present")]
    cost: Option<Cost>,
    #[serde(borrow, default, deserialize_with = "present")]
    checks: Option<Vec<Charge<'a>>>,
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
    #[serde(borrow)]
    within: Option<Text<'a>>,
}

/// Tells `null`, which is wrong, from a field that is left out.
fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

impl<'a> Body<'a> {
    /// `None` if it has both one charge and several, or neither.
    fn into_checks(self) -> Option<CheckBody<'a>> {
        let Body { policy, key, fields, tier, factor, cost, checks, atomic, .. } = self;
        let options = Options {
            ttl: self.ttl,
            id: self.id,
            on_expiry: self.on_expiry,
            outcome: self.outcome,
            within: self.within,
        };
        let charges = match (policy, checks) {
            (Some(policy), None) if atomic.is_none() => {
                Charges::One(Charge { policy, key, fields, tier, factor, cost })
            }
            (None, Some(charges))
                if key.is_none()
                    && fields.is_none()
                    && tier.is_none()
                    && factor.is_none()
                    && cost.is_none() =>
            {
                Charges::Several { charges, atomic: atomic.unwrap_or(true) }
            }
            _ => return None,
        };
        Some(CheckBody { charges, options })
    }
}

/// Borrowed from the body where it has no escapes.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub(super) struct Text<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);

/// Fields of a request, by name. Numbers and booleans become text.
#[derive(Debug)]
pub(super) struct Fields<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

/// Fields of one request.
const MAX_FIELDS: usize = 64;

impl Fields<'_> {
    pub(super) fn get(&self, name: &str) -> Option<Cow<'_, str>> {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| Cow::Borrowed(&**value))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Fields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Fields<'a>, D::Error> {
        struct FieldsVisitor;
        impl<'de> Visitor<'de> for FieldsVisitor {
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
                        _ => return Err(A::Error::custom("a field is not a string")),
                    };
                    // Another reader of the body may take the second where we take the first.
                    if fields.iter().any(|(known, _)| *known == name) {
                        return Err(A::Error::custom("a field is given twice"));
                    }
                    if fields.len() == MAX_FIELDS {
                        return Err(A::Error::custom("too many fields"));
                    }
                    fields.push((name, value));
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(FieldsVisitor)
    }
}

impl<'a> CheckBody<'a> {
    pub(super) fn read(body: &'a [u8], verbs: Verbs) -> Result<CheckBody<'a>, Problem> {
        // Validated at once, and not once for each text in it.
        let text = str::from_utf8(body).ok();
        let read = text.and_then(|text| serde_json::from_str::<Body<'a>>(text).ok()?.into_checks());
        let Some(parsed) = read.filter(|parsed| parsed.options.fits(verbs)) else {
            return Err(explain(body, verbs));
        };
        if let Charges::Several { charges, .. } = &parsed.charges {
            if charges.is_empty() {
                return Err(Problem::bad("checks", "`checks` must hold at least one check"));
            }
            if charges.len() > MAX_CHECKS {
                let found = charges.len();
                let detail =
                    format!("`checks` must hold at most {MAX_CHECKS} checks; found {found}");
                return Err(Problem::bad("checks", detail));
            }
        }
        Ok(parsed)
    }
}

/// Names the field that is wrong in a body that cannot be read.
fn explain(body: &[u8], verbs: Verbs) -> Problem {
    let value: Value = match serde_json::from_slice(body) {
        Ok(value) => value,
        Err(error) => return Problem::bad("body", format!("the body must be JSON: {error}")),
    };
    let Value::Object(top) = &value else {
        return Problem::bad("body", "the body must be a JSON object");
    };
    let is_text = |name: &str| top.get(name).is_none_or(|text| text.is_string() || text.is_null());
    if let Some(name) = verbs.options().iter().find(|name| !is_text(name)) {
        return Problem::bad(*name, format!("`{name}` must be a string"));
    }
    let Some(checks) = top.get("checks") else {
        return explain_charge(&value, "", verbs.options());
    };
    let is_allowed =
        |name: &str| ["checks", "atomic"].contains(&name) || verbs.options().contains(&name);
    if let Some(name) = top.keys().find(|name| !is_allowed(name)) {
        return Problem::bad(name, format!("`{name}` cannot be used with `checks`"));
    }
    if top.get("atomic").is_some_and(|atomic| !atomic.is_boolean()) {
        return Problem::bad("atomic", "`atomic` must be true or false");
    }
    let Value::Array(charges) = checks else {
        return Problem::bad("checks", "`checks` must be an array of checks");
    };
    let is_wrong = |charge: &&Value| Charge::deserialize(*charge).is_err();
    match charges.iter().enumerate().find(|(_, charge)| is_wrong(charge)) {
        Some((at, charge)) => explain_charge(charge, &format!("checks[{at}]."), &[]),
        None => Problem::bad("checks", "a field in `checks` is given twice"),
    }
}

fn explain_charge(charge: &Value, before: &str, options: &[&str]) -> Problem {
    const KNOWN: [&str; 6] = ["policy", "key", "fields", "tier", "factor", "cost"];
    let Value::Object(charge) = charge else {
        let name = before.trim_end_matches('.');
        return Problem::bad(name, format!("`{name}` must be an object with `policy` and `key`"));
    };
    let must = |name: &str, be: &str| {
        Problem::bad(format!("{before}{name}"), format!("`{before}{name}` must be {be}"))
    };
    let known = || KNOWN.iter().chain(options).copied();
    if let Some(name) = charge.keys().find(|name| !known().any(|known| known == name.as_str())) {
        let hint = did_you_mean(name, known());
        return Problem::bad(format!("{before}{name}"), format!("unknown field `{name}`{hint}"));
    }
    if !charge.get("policy").is_some_and(Value::is_string) {
        return must("policy", "the name of a policy");
    }
    let is_text =
        |name| charge.get(name).is_none_or(|value: &Value| value.is_string() || value.is_null());
    if let Some(name) = ["key", "tier"].into_iter().find(|name| !is_text(*name)) {
        return must(name, "a string");
    }
    match charge.get("fields") {
        None | Some(Value::Null) => {}
        Some(Value::Object(fields)) => {
            let odd = |value: &&Value| value.is_null() || value.is_array() || value.is_object();
            if let Some((name, _)) = fields.iter().find(|(_, value)| odd(value)) {
                return must(&format!("fields.{name}"), "a string");
            }
            if fields.len() > MAX_FIELDS {
                return must("fields", &format!("an object of at most {MAX_FIELDS} strings"));
            }
        }
        Some(_) => return must("fields", "an object of strings"),
    }
    if charge.get("cost").is_some_and(|cost| Cost::deserialize(cost).is_err()) {
        return must("cost", "a whole number from 0, or a map of units to such numbers");
    }
    // A JSON map keeps the last of two, and then nothing is wrong with it.
    Problem::bad("body", "a field is given twice")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(body: &str) -> String {
        match CheckBody::read(body.as_bytes(), Verbs::Decide) {
            Ok(parsed) => panic!("{parsed:?}"),
            Err(problem) => format!("{problem:?}"),
        }
    }

    #[test]
    fn reads_one_and_several() {
        let read = |body: &'static [u8]| CheckBody::read(body, Verbs::Decide).unwrap().charges;
        let one = read(br#"{"policy":"p","key":"k\u0041","cost":3}"#);
        assert!(matches!(one, Charges::One(Charge { cost: Some(cost), .. }) if cost == 3));
        let several = read(br#"{"checks":[{"policy":"p","key":"k"}],"atomic":false}"#);
        assert!(matches!(several, Charges::Several { atomic: false, .. }));
        let fields = br#"{"policy":"p","fields":{"a":"x","b":7,"c":true}}"#;
        let Charges::One(charge) = read(fields) else { panic!() };
        assert_eq!(charge.fields.unwrap().get("b").as_deref(), Some("7"));
    }

    #[test]
    fn names_the_wrong_field() {
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
            (r#"{"checks":[{"policy":"p"}],"policy":"p"}"#, "cannot be used with"),
            (r#"{"checks":[{"policy":"p"}],"atomic":1}"#, "`atomic` must be"),
            (r#"{"policy":"p","key":"k","ttl":"1s"}"#, "unknown field `ttl`"),
            (r#"{"policy":"p","key":"k","atomic":true}"#, "unknown field `atomic`"),
            (r#"{"checks":[{"policy":"p","key":"k"}],"outcome":"ok"}"#, "cannot be used with"),
        ] {
            let found = problem(body);
            assert!(found.contains(says), "{body}: {found}");
        }
    }

    #[test]
    fn each_verb_takes_its_own_options() {
        for (verbs, body) in [
            (Verbs::Reserve, r#"{"policy":"p","key":"k","ttl":"1s","id":"i","on_expiry":"keep"}"#),
            (Verbs::Reserve, r#"{"checks":[{"policy":"p","key":"k"}],"ttl":"1s"}"#),
            (Verbs::Report, r#"{"policy":"p","key":"k","outcome":"ok"}"#),
            (Verbs::Wait, r#"{"policy":"p","key":"k","within":"1s"}"#),
        ] {
            assert!(CheckBody::read(body.as_bytes(), verbs).is_ok(), "{body}");
            for other in [Verbs::Decide, Verbs::Reserve, Verbs::Report, Verbs::Wait] {
                assert_eq!(CheckBody::read(body.as_bytes(), other).is_ok(), other == verbs);
            }
        }
        let odd = br#"{"policy":"p","key":"k","ttl":30}"#;
        let found = format!("{:?}", CheckBody::read(odd, Verbs::Reserve).unwrap_err());
        assert!(found.contains("`ttl` must be a string"), "{found}");
    }
}
