//! What happens, whatever it was read from; and how a line of our own says it.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use waterclock::{Cost, CostError, Outcome, Policy, Timestamp, Verb};

use super::own::value::{Text, Units, Whole, Word};

/// What happens, to which key, and when.
pub struct Event<'a> {
    pub t_us: u64,
    pub key: Cow<'a, str>,
    /// What is usual, where nobody says.
    pub cost: Option<Cost>,
    pub op: Op,
    pub tier: Option<Cow<'a, str>>,
    /// The keys that the policies after the first make of the same line, where each makes its own.
    pub other_keys: Cow<'a, [String]>,
}

impl Event<'_> {
    /// The same, independent of the line it was read from.
    pub fn into_owned(self) -> Event<'static> {
        let owned = |text: Cow<'_, str>| Cow::Owned(text.into_owned());
        Event {
            key: owned(self.key),
            tier: self.tier.map(owned),
            other_keys: Cow::Owned(self.other_keys.into_owned()),
            ..self
        }
    }

    /// What it is to the policy at this place, of those that the trace is read for.
    pub fn under(&self, place: usize) -> Event<'_> {
        let other = place.checked_sub(1).and_then(|place| self.other_keys.get(place));
        Event {
            key: Cow::Borrowed(other.map_or(&*self.key, String::as_str)),
            tier: self.tier.as_deref().map(Cow::Borrowed),
            other_keys: Cow::Borrowed(&[]),
            cost: self.cost.clone(),
            ..*self
        }
    }

    /// What it costs, as a policy counts. It need not count every unit: another one that is tried may.
    pub fn cost_under(&self, policy: &Policy) -> Result<Cost, CostError> {
        match &self.cost {
            Some(cost) if cost.plain().is_none() => {
                let counted = Cost::of_units(cost.units().filter(|(unit, _)| policy.counts(unit)));
                self.verb().price(policy, Some(&counted))
            }
            cost => self.verb().price(policy, cost.as_ref()),
        }
    }
}

/// What is wrong with a cost, where it is one number and a policy counts several units, or names a unit that none of
/// them counts.
pub(super) fn misunderstood<'p>(
    mut policies: impl Iterator<Item = &'p Policy> + Clone,
    verb: Verb,
    cost: Option<&Cost>,
) -> Option<CostError> {
    let Some(cost) = cost.filter(|cost| cost.plain().is_none()) else {
        return policies.find_map(|policy| verb.price(policy, cost).err());
    };
    let is_counted = |unit: &str| policies.clone().any(|policy| policy.counts(unit));
    let (unknown, _) = cost.units().find(|(unit, _)| !is_counted(unit))?;
    verb.price(policies.next()?, Some(&Cost::of_units([(unknown, 0)]))).err()
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Op {
    Check,
    Peek,
    Refund,
    Report(Outcome),
    Reset,
}

impl Op {
    /// Whether something is given back or forgotten, whoever the key is.
    pub fn gives_back(self) -> bool {
        matches!(self, Op::Refund | Op::Reset)
    }

    /// Named in the answer where the answer is not about the operation itself.
    pub fn answer_names_it(self) -> Option<&'static str> {
        match self {
            Op::Check | Op::Peek => None,
            Op::Refund => Some("refund"),
            Op::Report(_) => Some("report"),
            Op::Reset => Some("reset"),
        }
    }
}

const KEYS: [&str; 6] = ["t_us", "key", "cost", "op", "outcome", "tier"];
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
        let (mut op, mut outcome, mut tier) = (None, None, None);
        while let Some(name) = map.next_key_seed(Word { what: "key", known: &KEYS })? {
            let is_twin = match name {
                "t_us" => {
                    t_us.replace(map.next_value_seed(Whole { name, most: LATEST_US })?).is_some()
                }
                "cost" => cost.replace(map.next_value_seed(Units(name))?).is_some(),
                "key" => key.replace(map.next_value_seed(Text("key"))?).is_some(),
                "tier" => tier.replace(map.next_value_seed(Text("tier"))?).is_some(),
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
                return Err(A::Error::custom(format!("`{name}` stands twice in one event")));
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
            other_keys: Cow::Borrowed(&[]),
        })
    }
}
