//! Events as JSON: read without copying, with error messages that name the field.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, Unexpected, Visitor};
use waterclock::{Cost, Outcome, Timestamp};
use waterclock_config::{FactorJson, did_you_mean};

use super::event::{Event, Op, Request};
use crate::terminal::shown;

const KEYS: [&str; 7] = ["t_us", "key", "cost", "op", "outcome", "tier", "factor"];
const OPS: [&str; 5] = ["check", "peek", "refund", "report", "reset"];
/// The keys whose values are whole numbers.
pub(super) const WHOLE: [&str; 2] = ["t_us", "cost"];
const LATEST_US: u64 = Timestamp::MAX.as_nanos() / 1_000;

impl<'de: 'a, 'a> Deserialize<'de> for Event<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Event<'a>, D::Error> {
        deserializer.deserialize_map(EventVisitor)
    }
}

struct EventVisitor;

impl<'de> Visitor<'de> for EventVisitor {
    type Value = Event<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(r#"a line must be an event such as {"t_us": 0, "key": "alice"}"#)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Event<'de>, A::Error> {
        let (mut t_us, mut key, mut cost) = (None, None, None);
        let (mut op, mut outcome, mut tier, mut factor) = (None, None, None, None);
        while let Some(name) = map.next_key_seed(Word { what: "key", known: &KEYS })? {
            let is_twin = match name {
                "t_us" => {
                    t_us.replace(map.next_value_seed(Whole { name, most: LATEST_US })?).is_some()
                }
                "cost" => cost.replace(map.next_value_seed(Units(name))?).is_some(),
                "key" => key.replace(map.next_value_seed(Text("key"))?).is_some(),
                "tier" => tier.replace(map.next_value_seed(Text("tier"))?).is_some(),
                "factor" => {
                    let read = map.next_value::<FactorJson>()?.factor();
                    factor.replace(read.map_err(A::Error::custom)?).is_some()
                }
                "op" => {
                    op.replace(map.next_value_seed(Word { what: "op", known: &OPS })?).is_some()
                }
                _ => outcome
                    .replace(
                        map.next_value_seed(Word { what: "outcome", known: &["ok", "error"] })?,
                    )
                    .is_some(),
            };
            if is_twin {
                return Err(A::Error::custom(format!("`{name}` is there twice in one event")));
            }
        }
        let op = match (op, outcome) {
            (Some("report"), Some(outcome)) => Op::Report(Outcome::from(outcome == "ok")),
            (Some("report"), None) => {
                return Err(A::Error::custom("`report` needs an `outcome`, \"ok\" or \"error\""));
            }
            (_, Some(_)) => return Err(A::Error::custom("`outcome` belongs to `report` only")),
            (Some("peek"), None) => Op::Peek,
            (Some("refund"), None) => Op::Refund,
            (Some("reset"), None) => Op::Reset,
            (_, None) => Op::Check,
        };
        Ok(Event {
            t_us: t_us.ok_or_else(|| A::Error::custom("an event needs `t_us`"))?,
            key: key.unwrap_or(Cow::Borrowed("")),
            cost,
            op,
            tier,
            factor,
            other_keys: Cow::Borrowed(&[]),
            request: Request::default(),
            old_refused: None,
        })
    }
}

/// What a value must be that is not a whole number.
pub(super) fn must_be_whole(name: &str) -> String {
    format!("`{name}` must be a whole number from 0")
}

/// One of a few strings, without copying it.
struct Word {
    what: &'static str,
    known: &'static [&'static str],
}

impl<'de> DeserializeSeed<'de> for Word {
    type Value = &'static str;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<&'static str, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Word {
    type Value = &'static str;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "`{}` must be a string", self.what)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<&'static str, E> {
        self.known.iter().find(|word| **word == text).copied().ok_or_else(|| {
            let hint = did_you_mean(text, self.known.iter().copied());
            E::custom(format!("unknown {} `{}` in an event{hint}", self.what, shown(text)))
        })
    }
}

/// A whole number in a range that starts at 0.
struct Whole {
    name: &'static str,
    most: u64,
}

impl Whole {
    fn too_large<E: Error>(&self, value: Unexpected<'_>) -> E {
        let range = format!("{} to {}", must_be_whole(self.name), self.most);
        E::invalid_value(value, &range.as_str())
    }
}

impl<'de> DeserializeSeed<'de> for Whole {
    type Value = u64;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<u64, D::Error> {
        deserializer.deserialize_u64(self)
    }
}

impl Visitor<'_> for Whole {
    type Value = u64;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&must_be_whole(self.name))
    }

    fn visit_u64<E: Error>(self, whole: u64) -> Result<u64, E> {
        if whole <= self.most {
            Ok(whole)
        } else {
            Err(self.too_large(Unexpected::Unsigned(whole)))
        }
    }

    /// Also what is too large for 64 bits.
    fn visit_f64<E: Error>(self, float: f64) -> Result<u64, E> {
        let value = Unexpected::Float(float);
        Err(if float >= self.most as f64 {
            self.too_large(value)
        } else {
            E::invalid_type(value, &self)
        })
    }

    fn visit_i64<E: Error>(self, negative: i64) -> Result<u64, E> {
        Err(E::invalid_value(Unexpected::Signed(negative), &self))
    }
}

/// A whole number, or a map of units to whole numbers.
struct Units(pub(in crate::trace) &'static str);

impl Units {
    fn whole(&self) -> Whole {
        Whole { name: self.0, most: u64::MAX }
    }
}

impl<'de> DeserializeSeed<'de> for Units {
    type Value = Cost;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Cost, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Units {
    type Value = Cost;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.whole().expecting(formatter)
    }

    fn visit_u64<E: Error>(self, whole: u64) -> Result<Cost, E> {
        self.whole().visit_u64(whole).map(Cost::from)
    }

    fn visit_f64<E: Error>(self, float: f64) -> Result<Cost, E> {
        self.whole().visit_f64(float).map(Cost::from)
    }

    fn visit_i64<E: Error>(self, negative: i64) -> Result<Cost, E> {
        self.whole().visit_i64(negative).map(Cost::from)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Cost, A::Error> {
        Cost::deserialize(MapAccessDeserializer::new(map))
    }
}

/// A string, borrowed where the line holds it as it is.
struct Text(pub(in crate::trace) &'static str);

impl<'de> DeserializeSeed<'de> for Text {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Cow<'de, str>, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Text {
    type Value = Cow<'de, str>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "`{}` must be a string", self.0)
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Cow<'de, str>, E> {
        Ok(Cow::Borrowed(text))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Cow<'de, str>, E> {
        Ok(Cow::Owned(text.to_owned()))
    }
}
