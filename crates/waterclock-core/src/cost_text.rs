//! A cost in JSON and the like: a whole number, or a map of units to whole numbers.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Cost, MAX_LIMITS};

impl Serialize for Cost {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.plain() {
            Some(units) => serializer.serialize_u64(units),
            None => serializer.collect_map(self.units()),
        }
    }
}

impl<'de> Deserialize<'de> for Cost {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reading)
    }
}

struct Reading;

/// A number in a map.
struct Whole(u64);

impl<'de> Deserialize<'de> for Whole {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_u64(InMap).map(Self)
    }
}

struct InMap;

impl Visitor<'_> for InMap {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the numbers of a cost must be whole and from 0")
    }

    fn visit_u64<E: Error>(self, n: u64) -> Result<u64, E> {
        Ok(n)
    }
}

impl<'de> Visitor<'de> for Reading {
    type Value = Cost;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number from 0, or a map of units to such numbers")
    }

    fn visit_u64<E: Error>(self, units: u64) -> Result<Cost, E> {
        Ok(Cost::from(units))
    }

    fn visit_i64<E: Error>(self, units: i64) -> Result<Cost, E> {
        u64::try_from(units).map(Cost::from).map_err(|_| E::custom("a cost is not below 0"))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Cost, A::Error> {
        let mut units: Vec<(Box<str>, u64)> = Vec::new();
        // One more than there may be is enough to complain.
        while units.len() <= MAX_LIMITS
            && let Some((unit, Whole(n))) = map.next_entry()?
        {
            units.push((unit, n));
        }
        Cost::of_few_units(units).map_err(A::Error::custom)
    }
}
