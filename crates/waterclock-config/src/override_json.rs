//! Overrides of single keys as JSON: read by the server, written by it and by its clients.

use std::fmt;
use std::time::Duration;

use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use waterclock::{Decimal, Factor, FactorError, KeyOverride, Limit, Mode, Override};

use super::{LimitFields, Micros, other_units, read_limits};

/// A factor in JSON: a number or a string. It is read digit by digit, never as a floating-point number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FactorJson(Result<Factor, FactorError>);

impl FactorJson {
    /// The factor, or what is wrong with it.
    pub fn factor(self) -> Result<Factor, FactorError> {
        self.0
    }

    fn read(json: &str) -> Result<Factor, FactorError> {
        if json.starts_with('"') {
            let text: String = serde_json::from_str(json).map_err(|_| FactorError::NoNumber)?;
            return text.parse();
        }
        match json.as_bytes().first() {
            Some(b'-') => Err(FactorError::Negative),
            // JavaScript writes small numbers with an exponent.
            Some(b'0'..=b'9') => {
                Decimal::parse_scientific(json).ok_or(FactorError::ManyDigits)?.try_into()
            }
            _ => Err(FactorError::NoNumber),
        }
    }
}

impl<'de> Deserialize<'de> for FactorJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<FactorJson, D::Error> {
        let json = Box::<RawValue>::deserialize(deserializer)?;
        Ok(FactorJson(FactorJson::read(json.get())))
    }
}

/// A field that is wrong, and why: one sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadField {
    /// Its name.
    pub field: &'static str,
    /// What would be right.
    pub reason: String,
}

impl BadField {
    fn new(field: &'static str, reason: impl Into<String>) -> BadField {
        BadField { field, reason: reason.into() }
    }
}

impl fmt::Display for BadField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl std::error::Error for BadField {}

/// An override as it is sent: one rule, for how long, and in a list for which key.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OverrideJson {
    block: bool,
    exempt: bool,
    #[serde(deserialize_with = "present")]
    limits: Option<Vec<Value>>,
    #[serde(deserialize_with = "present")]
    factor: Option<FactorJson>,
    #[serde(deserialize_with = "present")]
    tier: Option<String>,
    #[serde(deserialize_with = "present")]
    expires_in: Option<String>,
    #[serde(deserialize_with = "present")]
    expires_in_us: Option<u64>,
    #[serde(deserialize_with = "present")]
    key: Option<String>,
    #[serde(deserialize_with = "present")]
    key_hex: Option<String>,
    clear: bool,
}

/// Tells `null`, which is wrong, from a field that is left out.
fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// What a line of a list does.
#[derive(Debug, PartialEq)]
pub enum OverrideChange {
    /// Sets an override.
    Set(KeyOverride),
    /// Clears the one of this key.
    Clear(Vec<u8>),
}

const ONE_RULE: &str = "an override must have one of \"limits\": [\"100/s\", …], \"block\": true, \
                        \"exempt\": true, \"factor\": 0.5 and \"tier\": \"name\"";

impl OverrideJson {
    /// Reads an object.
    pub fn read(json: &[u8]) -> Result<OverrideJson, BadField> {
        // An array would be read as the fields in their order.
        if json.trim_ascii_start().first() == Some(&b'[') {
            return Err(BadField::new("body", ONE_RULE));
        }
        serde_json::from_slice(json)
            .map_err(|error| BadField::new("body", format!("{ONE_RULE}: {error}")))
    }

    /// An override without a key: the rule, and for how long it applies. `mode` and `limits` are the policy's.
    pub fn rule(
        &self,
        mode: Mode,
        limits: &[Limit],
    ) -> Result<(Override, Option<Duration>), BadField> {
        if self.key.is_some() || self.key_hex.is_some() || self.clear {
            let reason = "`key`, `key_hex` and `clear` are for lists of overrides";
            return Err(BadField::new("body", reason));
        }
        self.rule_of_key(mode, limits)
    }

    /// A line of a list, which names its key.
    pub fn change(&self, mode: Mode, limits: &[Limit]) -> Result<OverrideChange, BadField> {
        let key = match (&self.key, &self.key_hex) {
            (Some(key), None) => key.clone().into_bytes(),
            (None, Some(hex)) => read_hex(hex).ok_or_else(|| {
                BadField::new("key_hex", "`key_hex` must be the bytes of a key in hexadecimal")
            })?,
            _ => return Err(BadField::new("key", "send `key` or `key_hex`")),
        };
        if !self.clear {
            let (rule, expires_in) = self.rule_of_key(mode, limits)?;
            return Ok(OverrideChange::Set(KeyOverride::new(key, rule).expires_in(expires_in)));
        }
        if self.rules() > 0 || self.expires_in.is_some() || self.expires_in_us.is_some() {
            return Err(BadField::new("clear", "`clear` goes with a key and nothing else"));
        }
        Ok(OverrideChange::Clear(key))
    }

    /// How many rules there are; one is right.
    fn rules(&self) -> usize {
        let (limits, factor) = (self.limits.is_some(), self.factor.is_some());
        [self.block, self.exempt, limits, factor, self.tier.is_some()]
            .into_iter()
            .filter(|is_there| *is_there)
            .count()
    }

    fn rule_of_key(
        &self,
        mode: Mode,
        limits: &[Limit],
    ) -> Result<(Override, Option<Duration>), BadField> {
        if self.rules() != 1 {
            return Err(BadField::new("body", ONE_RULE));
        }
        let rule = match (&self.limits, self.factor, &self.tier) {
            (Some(own), ..) => {
                let own = read_limits(own, mode)
                    .map_err(|invalid| BadField::new("limits", invalid.to_string()))?;
                if let Some(reason) = other_units(&own, limits) {
                    return Err(BadField::new("limits", reason));
                }
                Override::Limits(own.into())
            }
            (_, Some(factor), _) => {
                let factor = factor.factor();
                Override::Factor(
                    factor.map_err(|error| BadField::new("factor", error.to_string()))?,
                )
            }
            (.., Some(tier)) => Override::Tier(tier.as_str().into()),
            _ if self.block => Override::Block,
            _ => Override::Exempt,
        };
        Ok((rule, self.expiry()?))
    }

    fn expiry(&self) -> Result<Option<Duration>, BadField> {
        let micros = match (&self.expires_in, self.expires_in_us) {
            (None, None) => return Ok(None),
            (Some(text), None) => Micros::parse(text)
                .map_err(|half| BadField::new("expires_in", format!("`expires_in` {half}")))?,
            (None, Some(micros)) if (1..=Micros::MAX.0).contains(&micros) => Micros(micros),
            (None, Some(_)) => {
                let reason = "`expires_in_us` must be from 1 microsecond to 100 years";
                return Err(BadField::new("expires_in_us", reason));
            }
            (Some(_), Some(_)) => {
                let reason = "send `expires_in` or `expires_in_us`, not both";
                return Err(BadField::new("expires_in", reason));
            }
        };
        Ok(Some(micros.duration()))
    }
}

fn read_hex(hex: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let byte = |pair: &[u8]| match pair {
        [high, low] => Some(digit(*high)? * 16 + digit(*low)?),
        _ => None,
    };
    hex.as_bytes().chunks(2).map(byte).collect()
}

/// An override as it is shown: what [`OverrideJson`] reads, and a file too.
#[derive(Clone, Copy, Debug)]
pub struct OverrideLine<'a> {
    shown: &'a KeyOverride,
    has_key: bool,
}

impl<'a> OverrideLine<'a> {
    /// With its key: `key`, or `key_hex` if it is not UTF-8.
    #[must_use]
    pub fn new(shown: &'a KeyOverride) -> OverrideLine<'a> {
        OverrideLine { shown, has_key: true }
    }

    /// The same without the key.
    #[must_use]
    pub fn without_key(self) -> OverrideLine<'a> {
        OverrideLine { has_key: false, ..self }
    }
}

impl Serialize for OverrideLine<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let KeyOverride { key, rule, expires_in, .. } = self.shown;
        let mut map = serializer.serialize_map(None)?;
        match std::str::from_utf8(key) {
            _ if !self.has_key => {}
            Ok(text) => map.serialize_entry("key", text)?,
            Err(_) => {
                let hex: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
                map.serialize_entry("key_hex", &hex)?;
            }
        }
        match rule {
            Override::Limits(limits) => {
                let limits: Vec<Value> = limits.iter().map(as_in_a_file).collect();
                map.serialize_entry("limits", &limits)?;
            }
            Override::Factor(factor) => {
                // The digits as they are, which a number of Rust would round.
                let digits = RawValue::from_string(factor.to_string());
                map.serialize_entry("factor", &digits.map_err(serde::ser::Error::custom)?)?;
            }
            Override::Tier(tier) => map.serialize_entry("tier", tier)?,
            other => map.serialize_entry(other.kind(), &true)?,
        }
        if let Some(expires_in) = expires_in {
            map.serialize_entry("expires_in_us", &super::micros_up(*expires_in))?;
        }
        map.end()
    }
}

/// A limit as a file has it: `"per": "1h"` where other answers say `"per_us": 3600000000`.
fn as_in_a_file(limit: &Limit) -> Value {
    let fields = serde_json::to_value(LimitFields::from(limit)).unwrap_or_default();
    let Value::Object(fields) = fields else { return fields };
    let shown = |(name, value): (String, Value)| match (name.strip_suffix("_us"), value.as_u64()) {
        (Some(name), Some(micros)) => (name.to_owned(), Micros(micros).to_string().into()),
        _ => (name, value),
    };
    Value::Object(fields.into_iter().map(shown).collect::<Map<String, Value>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(text: &str, limits: &[Limit]) -> Result<OverrideChange, BadField> {
        OverrideJson::read(text.as_bytes())?.change(Mode::Binary, limits)
    }

    #[test]
    fn factors_keep_every_digit() {
        let read = |json: &str| serde_json::from_str::<FactorJson>(json).unwrap().factor();
        for (json, shown) in [
            ("0.5", "0.5"),
            ("2", "2"),
            ("\"1.250\"", "1.25"),
            ("1e-7", "0.0000001"),
            ("0.123456789012345678", "0.123456789012345678"),
            ("\"0.000000000000000001\"", "0.000000000000000001"),
            ("0", "0"),
        ] {
            assert_eq!(read(json).unwrap().to_string(), shown, "{json}");
        }
        for (json, error) in [
            ("-0.5", FactorError::Negative),
            ("\"-1\"", FactorError::Negative),
            ("true", FactorError::NoNumber),
            ("[1]", FactorError::NoNumber),
            ("\"1e3\"", FactorError::NoNumber),
            ("\"half\"", FactorError::NoNumber),
            ("0.1234567890123456789", FactorError::ManyDigits),
            ("1e999999999999", FactorError::ManyDigits),
        ] {
            assert_eq!(read(json), Err(error), "{json}");
        }
    }

    #[test]
    fn what_is_shown_can_be_sent() {
        let shorthand =
            ["100/s", "7/h rolling-window", "3/d sliding-window", "9/d quota", "4/s even-slots"];
        let tables = [
            r#"{"algorithm":"leaky-bucket","capacity":10,"drip":3,"every":"1s","overdraft":true}"#,
            r#"{"algorithm":"fixed-window","limit":4,"per":"day","align":"calendar","timezone":"Europe/Berlin"}"#,
            r#"{"algorithm":"fixed-window","limit":4,"per":"1m30s","align":"epoch","shadow":true}"#,
            r#"{"algorithm":"min-interval","every":"90ms"}"#,
            r#"{"algorithm":"rolling-window","limit":9,"per":"1h","buckets":60,"name":"x"}"#,
            r#"{"algorithm":"gcra","limit":9,"per":"1h","min_interval":"70us"}"#,
            r#"{"algorithm":"error-rate","threshold":"12.5%","per":"1h","min_samples":9,"cool_down":"9s"}"#,
            r#"{"algorithm":"concurrency","limit":9,"lease":"30s"}"#,
        ];
        let limits =
            shorthand.map(|text| format!("{text:?}")).into_iter().chain(tables.map(str::to_owned));
        let mut rules: Vec<String> = limits.map(|limit| format!(r#""limits":[{limit}]"#)).collect();
        rules.extend(
            [r#""block":true"#, r#""exempt":true"#, r#""factor":0.25"#, r#""tier":"pro""#]
                .map(str::to_owned),
        );
        for rule in rules {
            for key in [r#""key":"alice""#, r#""key_hex":"00ff""#] {
                let Ok(OverrideChange::Set(first)) =
                    change(&format!("{{{key},{rule},\"expires_in\":\"2d\"}}"), &[])
                else {
                    panic!("{rule}")
                };
                let shown = serde_json::to_string(&OverrideLine::new(&first)).unwrap();
                assert_eq!(change(&shown, &[]), Ok(OverrideChange::Set(first)), "{shown}");
            }
        }
    }

    #[test]
    fn errors_name_the_field() {
        for (json, field) in [
            ("{}", "key"),
            (r#"{"key":"k"}"#, "body"),
            (r#"{"key":"k","key_hex":"00","block":true}"#, "key"),
            (r#"{"key_hex":"0","block":true}"#, "key_hex"),
            (r#"{"key":"k","block":true,"exempt":true}"#, "body"),
            (r#"{"key":"k","block":true,"clear":true}"#, "clear"),
            (r#"{"key":"k","factor":-1}"#, "factor"),
            (r#"{"key":"k","limits":[]}"#, "limits"),
            (r#"{"key":"k","limits":["100"]}"#, "limits"),
            (
                r#"{"key":"k","limits":[{"algorithm":"gcra","limit":1,"per":"1s","unit":"tokens"},"1/s"]}"#,
                "limits",
            ),
            (r#"{"key":"k","block":true,"expires_in":"2"}"#, "expires_in"),
            (r#"{"key":"k","block":true,"expires_in_us":0}"#, "expires_in_us"),
            (r#"{"key":"k","block":true,"expires_in":"2s","expires_in_us":1}"#, "expires_in"),
            (r#"{"key":"k","blocked":true}"#, "body"),
            (r#"{"key":"k","block":true,"tier":null}"#, "body"),
            ("[]", "body"),
            (" [true]", "body"),
        ] {
            assert_eq!(change(json, &[]).unwrap_err().field, field, "{json}");
        }
    }
}
