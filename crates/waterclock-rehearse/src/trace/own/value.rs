//! The values of an event, read without copying and complained about with their names.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, Unexpected, Visitor};
use waterclock::Cost;

use super::complaint::must_be_whole;
use crate::trace::shown::shown;
use waterclock_config::did_you_mean;

/// One of a few strings, without copying it.
pub(in crate::trace) struct Word {
    pub(in crate::trace) what: &'static str,
    pub(in crate::trace) known: &'static [&'static str],
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
pub(in crate::trace) struct Whole {
    pub(in crate::trace) name: &'static str,
    pub(in crate::trace) most: u64,
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
pub(in crate::trace) struct Units(pub(in crate::trace) &'static str);

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
pub(in crate::trace) struct Text(pub(in crate::trace) &'static str);

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
