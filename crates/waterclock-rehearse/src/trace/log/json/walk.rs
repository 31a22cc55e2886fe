//! The way through an object to the fields that are asked for, past all others.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use serde_json::value::RawValue;

use super::number::number;
use super::{Found, words};
use crate::expr::Value;

/// Which fields can be found from here on, and how much of their paths has led here.
#[derive(Clone, Copy)]
pub(super) struct Below {
    pub(super) asked: u64,
    pub(super) at: usize,
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

pub(super) struct Object<'f, 'l> {
    pub(super) below: Below,
    pub(super) found: &'f mut Found<'l>,
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
