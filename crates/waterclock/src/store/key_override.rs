//! Limits of single keys, as data that a store keeps.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use waterclock_core::store::Persist as _;
use waterclock_core::{Algorithm, Factor, Gcra, LeakyBucket, Limit, Policy, PolicyError};

use super::StoreError;
use crate::sync::Arc;

/// What applies to one key instead of its policy's limits. A store [keeps](super::Store::set_override) it, beside what
/// the key has spent.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Override {
    /// Always refuse it.
    Block,
    /// Never refuse it, and charge nothing.
    Exempt,
    /// Its own limits, whatever tier or factor a call names.
    Limits(Arc<[Limit]>),
    /// The limits it would have otherwise, by this factor.
    Factor(Factor),
    /// The limits of this tier, whatever tier a call names.
    Tier(Box<str>),
}

impl Override {
    /// Its own limits.
    pub fn limits<L: Into<Limit>>(
        limits: impl IntoIterator<Item = L>,
    ) -> Result<Self, PolicyError> {
        let limits: Vec<Limit> = limits.into_iter().map(Into::into).collect();
        let policy = Policy::new("override", limits)?;
        Ok(Self::Limits(policy.limits().into()))
    }

    /// For stores: the policy with these limits in place of its own; `None` if the override has none.
    pub fn policy(&self, base: &Policy) -> Result<Option<Policy>, StoreError> {
        let Self::Limits(limits) = self else { return Ok(None) };
        let policy = Policy::new(base.name(), limits.iter().cloned())?.with_mode(base.mode())?;
        if !policy.counts_as(base) {
            return Err(StoreError::unfit(format!(
                "the override counts other units than policy `{}`; let its limits count the same",
                base.name()
            )));
        }
        Ok(Some(policy))
    }

    /// In one word, as the faces spell it.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Block => "block",
            Self::Exempt => "exempt",
            Self::Limits(_) => "limits",
            Self::Factor(_) => "factor",
            Self::Tier(_) => "tier",
        }
    }
}

/// The name of the [variant](super::Store::set_variant) that a tier of a policy is.
#[must_use]
pub fn tier_variant(policy: &str, tier: &str) -> String {
    format!("{policy}@tier:{tier}")
}

/// As stores keep it: a letter for the kind, and its numbers.
impl fmt::Display for Override {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Block => f.write_str("b"),
            Self::Exempt => f.write_str("e"),
            Self::Factor(factor) => write!(f, "f{factor}"),
            Self::Tier(tier) => write!(f, "t{tier}"),
            Self::Limits(limits) => {
                f.write_str("l")?;
                limits.iter().try_for_each(|limit| write!(f, "{}", LimitText(limit)))
            }
        }
    }
}

/// A limit on a line: what it counts and whether it is in shadow, if it is not as usual; its calendar; its definition.
struct LimitText<'a>(&'a Limit);

impl fmt::Display for LimitText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limit = self.0;
        if limit.is_shadow() {
            f.write_str("?")?;
        }
        if limit.unit() != "requests" {
            limit.unit().bytes().try_for_each(|byte| write!(f, "{byte:02x}"))?;
            f.write_str("%")?;
        }
        #[cfg(feature = "calendar")]
        if let Some((unit, zone)) = calendar_of(limit) {
            write!(f, "{}@{zone}|", unit.name())?;
        }
        if let Some((limit, per)) = as_written(limit) {
            write!(f, "{limit}:{}=", per.as_nanos())?;
        }
        match Policy::new("override", [limit.clone()]) {
            Ok(policy) => f.write_str(&policy.definition()),
            Err(_) => Err(fmt::Error),
        }
    }
}

/// The numbers of a bucket as they were given, if its definition has others: 10 per 20 s is 1 per 2 s there. 0 is a
/// leaky bucket that drips one by one, which is gcra inside.
fn as_written(limit: &Limit) -> Option<(u64, Duration)> {
    let Algorithm::Gcra(gcra) = limit.algorithm() else { return None };
    if gcra.is_leaky_bucket() {
        return Some((0, gcra.period()));
    }
    let (step_ns, scale) = gcra.unit_ns();
    let given = (gcra.limit(), gcra.period());
    (given != (scale, Duration::from_nanos(step_ns))).then_some(given)
}

#[cfg(feature = "calendar")]
fn calendar_of(limit: &Limit) -> Option<(waterclock_core::CalendarUnit, &str)> {
    let waterclock_core::Algorithm::FixedWindow(window) = limit.algorithm() else { return None };
    let waterclock_core::Align::Calendar(calendar) = window.align() else { return None };
    Some((calendar.unit()?, calendar.time_zone()?))
}

/// Why a text is no override that a store has kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BadOverride;

impl fmt::Display for BadOverride {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the text is not an override that a store has written")
    }
}

impl std::error::Error for BadOverride {}

impl FromStr for Override {
    type Err = BadOverride;

    fn from_str(text: &str) -> Result<Self, BadOverride> {
        let (kind, rest) = text.split_at_checked(1).ok_or(BadOverride)?;
        match (kind, rest) {
            ("b", "") => Ok(Self::Block),
            ("e", "") => Ok(Self::Exempt),
            ("f", factor) => factor.parse().map(Self::Factor).map_err(|_| BadOverride),
            ("t", tier) => Ok(Self::Tier(tier.into())),
            ("l", lines) => {
                let limits =
                    lines.split_inclusive('\n').map(read_limit).collect::<Option<Vec<_>>>();
                Self::limits(limits.ok_or(BadOverride)?).map_err(|_| BadOverride)
            }
            _ => Err(BadOverride),
        }
    }
}

fn read_limit(line: &str) -> Option<Limit> {
    let (is_shadow, line) = line.strip_prefix('?').map_or((false, line), |line| (true, line));
    // Names and units are written in hexadecimal digits, so that none of the marks is part of them.
    let (unit, line) = line.split_once('%').map_or((None, line), |(unit, line)| (Some(unit), line));
    let (calendar, line) = match line.split_once('|') {
        Some((calendar, line)) => (Some(calendar), line),
        None => (None, line),
    };
    let (given, line) =
        line.split_once('=').map_or((None, line), |(given, line)| (Some(given), line));
    let policy = Policy::from_definition("override", line)?;
    let [limit] = policy.limits() else { return None };
    let mut limit = limit.clone();
    if let Some(given) = given {
        limit = with_given(&limit, given)?;
    }
    if let Some(calendar) = calendar {
        limit = on_calendar(&limit, calendar)?;
    }
    if let Some(unit) = unit {
        limit = limit.with_unit(&read_hex(unit)?);
    }
    Some(limit.with_shadow(is_shadow))
}

/// The same bucket, with its numbers as they were given.
fn with_given(limit: &Limit, given: &str) -> Option<Limit> {
    let Algorithm::Gcra(gcra) = limit.algorithm() else { return None };
    let (units, per_ns) = given.split_once(':')?;
    let (units, per) = (units.parse().ok()?, Duration::from_nanos(per_ns.parse().ok()?));
    if units == 0 {
        let leaky =
            LeakyBucket::new(gcra.capacity(), 1, per).ok()?.with_overdraft(gcra.overdraft());
        return named_as(limit, leaky.into());
    }
    let same = Gcra::new(units, per).ok().filter(|same| same.unit_ns() == gcra.unit_ns())?;
    let same = same.with_capacity(gcra.capacity()).with_overdraft(gcra.overdraft());
    named_as(limit, same.into())
}

/// Another limit with the name of this one, and its gap.
fn named_as(limit: &Limit, other: Limit) -> Option<Limit> {
    let other = other.with_name(limit.name());
    match limit.min_interval() {
        Some(gap) => other.with_min_interval(gap).ok(),
        None => Some(other),
    }
}

fn read_hex(hex: &str) -> Option<String> {
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    String::from_utf8(hex.as_bytes().chunks(2).map(byte).collect::<Option<_>>()?).ok()
}

#[cfg(feature = "calendar")]
fn on_calendar(limit: &Limit, text: &str) -> Option<Limit> {
    let (unit, zone) = text.split_once('@')?;
    let unit = waterclock_core::CalendarUnit::parse(unit)?;
    let window = crate::calendar::fixed_window(limit.max_cost()?, unit, zone).ok()?;
    named_as(limit, window.into())
}

#[cfg(not(feature = "calendar"))]
fn on_calendar(_limit: &Limit, _text: &str) -> Option<Limit> {
    None
}

/// The override of a key, as a store has it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct KeyOverride {
    /// The key.
    pub key: Vec<u8>,
    /// What applies to it.
    pub rule: Override,
    /// For how much longer; `None`: until it is cleared.
    pub expires_in: Option<Duration>,
}

impl KeyOverride {
    /// An override of a key until it is cleared.
    pub fn new(key: impl Into<Vec<u8>>, rule: Override) -> Self {
        Self { key: key.into(), rule, expires_in: None }
    }

    /// The same for so long.
    #[must_use]
    pub fn expires_in(mut self, expires_in: Option<Duration>) -> Self {
        self.expires_in = expires_in;
        self
    }
}

/// Some overrides of a policy, in an order that stays the same.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct OverridePage {
    /// At most as many as were asked for.
    pub overrides: Vec<KeyOverride>,
    /// Where the next page starts; `None` if this is the last.
    pub next: Option<String>,
}

impl OverridePage {
    /// Some overrides, and where the next page starts.
    #[must_use]
    pub fn new(overrides: Vec<KeyOverride>, next: Option<String>) -> Self {
        Self { overrides, next }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use waterclock_core::RollingWindow;

    #[test]
    fn every_kind_of_override_reads_back_as_it_was() {
        let hour = Duration::from_secs(3_600);
        let mut limits = vec![
            Limit::from(Gcra::new(10, hour).unwrap().with_capacity(3)).with_unit("tokens"),
            LeakyBucket::new(10, 3, hour).unwrap().with_name("leaky / | ?"),
            LeakyBucket::new(10, 1, hour)
                .unwrap()
                .with_name("by one")
                .with_min_interval(hour)
                .unwrap(),
            Limit::from(RollingWindow::new(5, hour).unwrap()).with_shadow(true).with_unit("bytes"),
        ];
        #[cfg(feature = "calendar")]
        limits.push(
            Limit::from(
                crate::calendar::fixed_window(
                    9,
                    waterclock_core::CalendarUnit::Day,
                    "Europe/Berlin",
                )
                .unwrap(),
            )
            .with_unit("cents"),
        );
        limits.rotate_left(1);
        for rule in [
            Override::Block,
            Override::Exempt,
            Override::Factor("0.25".parse().unwrap()),
            Override::Tier("pro".into()),
            Override::limits(limits).unwrap(),
        ] {
            let text = rule.to_string();
            assert_eq!(text.parse::<Override>().as_ref(), Ok(&rule), "{text}");
        }
        for text in ["", "x", "bb", "f-1", "lnonsense\n"] {
            assert_eq!(text.parse::<Override>(), Err(BadOverride), "{text}");
        }
    }
}
