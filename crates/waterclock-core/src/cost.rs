//! How much is asked for: one number, or one for each unit that a policy counts.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

use crate::MAX_LIMITS;

/// How much is asked for.
///
/// A plain number applies to every limit. A policy that counts several units takes a number for each of them:
///
/// ```
/// use waterclock_core::Cost;
///
/// let cost = Cost::of_units([("requests", 1), ("tokens", 800)]);
/// assert_eq!((cost.of("requests"), cost.of("tokens"), cost.of("bytes")), (1, 800, 0));
/// assert_eq!(Cost::from(3).of("tokens"), 3);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cost(Units);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Units {
    /// So many of every unit.
    One(u64),
    /// So many of each, and nothing of others; in the order of their names.
    Each(Arc<[Named]>),
}

/// A unit, and how much of it.
type Named = (Box<str>, u64);

impl From<u64> for Cost {
    #[inline]
    fn from(units: u64) -> Self {
        Self(Units::One(units))
    }
}

/// Nothing.
impl Default for Cost {
    fn default() -> Self {
        Self::from(0)
    }
}

/// One number is that number.
impl PartialEq<u64> for Cost {
    fn eq(&self, units: &u64) -> bool {
        self.plain() == Some(*units)
    }
}

impl Cost {
    /// So much of each of these units, and nothing of others. What is named twice is added up.
    pub fn of_units<N: Into<Box<str>>>(units: impl IntoIterator<Item = (N, u64)>) -> Self {
        let mut named: Vec<Named> = units.into_iter().map(|(unit, n)| (unit.into(), n)).collect();
        named.sort_unstable();
        named.dedup_by(|(unit, n), (kept, sum)| {
            let is_same = unit == kept;
            *sum = if is_same { sum.saturating_add(*n) } else { *sum };
            is_same
        });
        Self(Units::Each(named.into()))
    }

    /// How much of a unit.
    #[inline]
    #[must_use]
    pub fn of(&self, unit: &str) -> u64 {
        match &self.0 {
            Units::One(n) => *n,
            Units::Each(named) => {
                named.iter().find(|(name, _)| **name == *unit).map_or(0, |(_, n)| *n)
            }
        }
    }

    /// The plain number that applies to every limit, if it is one.
    #[inline]
    #[must_use]
    pub fn plain(&self) -> Option<u64> {
        if let Units::One(n) = self.0 { Some(n) } else { None }
    }

    /// The units that are named, in the order of their names.
    pub fn units(&self) -> impl Iterator<Item = (&str, u64)> {
        let named = if let Units::Each(named) = &self.0 { &**named } else { &[] };
        named.iter().map(|(unit, n)| (&**unit, *n))
    }

    /// The largest number in it: zero if nothing is asked for.
    #[inline]
    #[must_use]
    pub fn most(&self) -> u64 {
        match &self.0 {
            Units::One(n) => *n,
            Units::Each(named) => named.iter().map(|(_, n)| *n).max().unwrap_or(0),
        }
    }

    /// Whether nothing is asked for.
    #[inline]
    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.most() == 0
    }

    /// The sum, unit by unit. A plain number is added to every unit that the other names.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        match (&self.0, &other.0) {
            (Units::One(a), Units::One(b)) => Self::from(a.saturating_add(*b)),
            (Units::Each(a), Units::Each(b)) => Self::of_units(a.iter().chain(&**b).cloned()),
            (Units::One(n), Units::Each(_)) => other.map(|_, named| named.saturating_add(*n)),
            (Units::Each(_), Units::One(n)) => self.map(|_, named| named.saturating_add(*n)),
        }
    }

    /// Whether it is at least as much as the other of every unit.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        match (self.plain(), other.plain()) {
            (Some(a), Some(b)) => a >= b,
            (None, Some(b)) => b == 0,
            (_, None) => other.units().all(|(unit, n)| self.of(unit) >= n),
        }
    }

    /// What of it was granted, if a decision grants so much: all of it or nothing where units are named.
    #[must_use]
    pub fn granted(&self, granted: u64) -> Self {
        match self.plain() {
            Some(_) => Self::from(granted),
            None if granted > 0 => self.clone(),
            None => self.map(|_, _| 0),
        }
    }

    /// The same with other numbers of the units that are named; one number stays as it is.
    #[must_use]
    pub fn map(&self, number: impl Fn(&str, u64) -> u64) -> Self {
        match &self.0 {
            Units::One(_) => self.clone(),
            Units::Each(named) => {
                let changed = |(unit, n): &Named| (unit.clone(), number(unit, *n));
                Self(Units::Each(named.iter().map(changed).collect()))
            }
        }
    }
}

/// As people write it: `3`, or `requests=1,tokens=800`.
impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(n) = self.plain() {
            return write!(f, "{n}");
        }
        for (i, (unit, n)) in self.units().enumerate() {
            let comma = if i > 0 { "," } else { "" };
            write!(f, "{comma}{unit}={n}")?;
        }
        Ok(())
    }
}

impl FromStr for Cost {
    type Err = CostError;

    fn from_str(text: &str) -> Result<Self, CostError> {
        if let Ok(n) = text.parse::<u64>() {
            return Ok(Self::from(n));
        }
        let unit = |part: &str| {
            let (unit, n) = part.split_once('=')?;
            let is_name = !unit.is_empty() && unit.trim() == unit;
            Some((Box::from(unit), n.parse::<u64>().ok()?)).filter(|_| is_name)
        };
        let wrong = || CostError::Malformed(text.chars().take(64).collect());
        // One more than there may be is enough to complain.
        let units: Option<Vec<Named>> = text.split(',').take(MAX_LIMITS + 1).map(unit).collect();
        Self::of_few_units(units.ok_or_else(wrong)?)
    }
}

impl Cost {
    /// As [`Cost::of_units`], for input from outside: no more units than a policy can count, none named twice.
    pub fn of_few_units(units: Vec<(Box<str>, u64)>) -> Result<Self, CostError> {
        let count = units.len();
        if count > MAX_LIMITS {
            return Err(CostError::ManyUnits);
        }
        let cost = Self::of_units(units);
        match cost.units().count() == count {
            true => Ok(cost),
            false => Err(CostError::TwiceNamed),
        }
    }
}

/// Why a cost is invalid, or invalid for a policy. Displays as one sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CostError {
    /// The text is no cost; its first 64 characters.
    Malformed(Box<str>),
    /// More units than a policy can count.
    ManyUnits,
    /// A unit that is named twice.
    TwiceNamed,
    /// One number for a policy that counts several units.
    Unnamed {
        /// The policy.
        policy: Box<str>,
        /// The units that it counts.
        units: Box<[Box<str>]>,
    },
    /// A unit that the policy does not count.
    UnknownUnit {
        /// The policy.
        policy: Box<str>,
        /// The units that it counts.
        units: Box<[Box<str>]>,
        /// The unit that it does not.
        unknown: Box<str>,
    },
}

impl fmt::Display for CostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = |f: &mut fmt::Formatter<'_>, policy: &str, units: &[Box<str>]| {
            write!(f, "policy `{policy}` counts ")?;
            units.iter().enumerate().try_for_each(|(i, unit)| {
                let and = if i > 0 { " and " } else { "" };
                write!(f, "{and}`{unit}`")
            })
        };
        match self {
            Self::Malformed(text) => write!(
                f,
                "a cost is a whole number, or units as in `requests=1,tokens=800`, not `{text}`"
            ),
            Self::ManyUnits => write!(f, "a cost is of at most {MAX_LIMITS} units"),
            Self::TwiceNamed => f.write_str("a cost names a unit twice"),
            Self::Unnamed { policy, units } => {
                counts(f, policy, units)?;
                f.write_str("; name them in the cost")
            }
            Self::UnknownUnit { policy, units, unknown } => {
                counts(f, policy, units)?;
                write!(f, ", not `{unknown}`")
            }
        }
    }
}

impl core::error::Error for CostError {}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::{String, ToString};

    use super::*;

    #[test]
    fn sums_and_compares_unit_by_unit() {
        let (a, b) = (Cost::of_units([("x", 2), ("y", 3)]), Cost::of_units([("y", 4), ("z", 5)]));
        let both = a.plus(&b);
        assert_eq!(both, Cost::of_units([("x", 2), ("y", 7), ("z", 5)]));
        assert_eq!(a.plus(&Cost::from(1)), Cost::of_units([("x", 3), ("y", 4)]));
        assert_eq!(Cost::from(1).plus(&a), a.plus(&Cost::from(1)));
        assert!(both.covers(&a) && both.covers(&b) && !a.covers(&b) && !b.covers(&a));
        assert!(Cost::from(3).covers(&Cost::from(3)) && !Cost::from(3).covers(&Cost::from(4)));
        assert!(Cost::from(3).covers(&a) && !Cost::from(2).covers(&a) && !a.covers(&Cost::from(1)));
        assert_eq!((a.most(), a.granted(0).most(), a.granted(3)), (3, 0, a.clone()));
        assert!(Cost::of_units::<&str>([]).is_zero() && Cost::of_units([("x", 0)]).is_zero());
        assert_eq!(Cost::of_units([("x", u64::MAX), ("y", 1), ("x", 1)]).of("x"), u64::MAX);
    }

    #[test]
    fn is_written_and_read() {
        let cost = Cost::of_units([("y", 3), ("x", 2)]);
        assert_eq!(cost.to_string(), "x=2,y=3");
        assert_eq!("y=3,x=2".parse(), Ok(cost));
        assert_eq!("7".parse(), Ok(Cost::from(7)));
        let wrong = ["", "-1", "x", "x=", "=1", "x=1,", "x =1", "x=-1", "1,2", "x=1.5", "x=1,x=1"];
        for wrong in wrong {
            assert!(wrong.parse::<Cost>().is_err(), "{wrong}");
        }
        let many: Vec<String> = (0..100_000).map(|n| format!("u{n}=1")).collect();
        let error = many.join(",").parse::<Cost>().unwrap_err();
        assert_eq!(error.to_string(), "a cost is of at most 16 units");
        assert!(many[..16].join(",").parse::<Cost>().is_ok());
    }
}
