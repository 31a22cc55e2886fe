//! What a cost is to a policy: the units that its limits count.

use alloc::boxed::Box;

use crate::{Cost, CostError, Policy};

/// The unit that every check has some of.
const REQUESTS: &str = "requests";

impl Policy {
    /// The units that its limits count, each once, in policy order.
    pub fn units(&self) -> impl Iterator<Item = &str> {
        let limits = self.limits();
        let is_first = |i: usize| limits[..i].iter().all(|limit| limit.unit() != limits[i].unit());
        (0..limits.len()).filter(move |i| is_first(*i)).map(move |i| limits[i].unit())
    }

    /// Whether one of its limits counts this unit.
    #[must_use]
    pub fn counts(&self, unit: &str) -> bool {
        self.limits().iter().any(|limit| limit.unit() == unit)
    }

    /// Whether both count the same units, so that what is a cost for one is a cost for the other. Policies that
    /// count one unit each do, whatever they call it, and one without limits takes any cost.
    #[must_use]
    pub fn counts_as(&self, other: &Self) -> bool {
        let one_each = !self.counts_several() && !other.counts_several();
        let has_none = self.limits().is_empty() || other.limits().is_empty();
        one_each
            || has_none
            || (self.units().all(|unit| other.counts(unit))
                && other.units().all(|u| self.counts(u)))
    }

    /// So many requests. A policy that counts several units, none of them requests, gets a plain number, which
    /// [`price`](Self::price) rejects.
    #[must_use]
    pub fn requests(&self, n: u64) -> Cost {
        match self.counts_several() && self.counts(REQUESTS) {
            true => Cost::of_units([(REQUESTS, n)]),
            false => Cost::from(n),
        }
    }

    /// One of each unit.
    #[must_use]
    pub fn one_of_each(&self) -> Cost {
        match self.counts_several() {
            true => Cost::of_units(self.units().map(|unit| (unit, 1))),
            false => Cost::from(1),
        }
    }

    /// A cost as this policy counts: one number if all its limits count one unit, else a number for each unit.
    /// Units that the cost does not name are 0, `requests` are as many as given.
    pub fn price(&self, cost: &Cost, requests: u64) -> Result<Cost, CostError> {
        if let Some(n) = cost.plain() {
            return match self.counts_several() {
                false => Ok(Cost::from(n)),
                // Nothing is nothing in any unit.
                true if n == 0 => Ok(self.one_of_each().map(|_, _| 0)),
                true => {
                    Err(CostError::Unnamed { policy: self.name().into(), units: self.unit_names() })
                }
            };
        }
        let of = |unit: &str| match cost.units().find(|(named, _)| *named == unit) {
            Some((_, n)) => n,
            None if unit == REQUESTS => requests,
            None => 0,
        };
        if self.limits().is_empty() {
            return Ok(cost.plus(&Cost::of_units([(REQUESTS, of(REQUESTS) - cost.of(REQUESTS))])));
        }
        if let Some((unknown, _)) = cost.units().find(|(unit, _)| !self.counts(unit)) {
            return Err(CostError::UnknownUnit {
                policy: self.name().into(),
                units: self.unit_names(),
                unknown: unknown.into(),
            });
        }
        match self.counts_several() {
            true => Ok(Cost::of_units(self.units().map(|unit| (unit, of(unit))))),
            false => Ok(Cost::from(self.units().map(of).next().unwrap_or(0))),
        }
    }

    fn unit_names(&self) -> Box<[Box<str>]> {
        self.units().map(Box::from).collect()
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString as _;
    use alloc::vec;

    use super::*;
    use crate::Limit;

    fn policy(units: &[&str]) -> Policy {
        let limit = |unit: &&str| Limit::per_minute(10).with_name(unit).with_unit(unit);
        Policy::new("llm", units.iter().map(limit)).unwrap()
    }

    #[test]
    fn a_policy_of_one_unit_takes_a_number() {
        for (units, named, number) in [
            (vec!["requests"], Cost::of_units([("requests", 4)]), 4),
            (vec!["requests"], Cost::of_units::<&str>([]), 1),
            (vec!["tokens"], Cost::of_units([("tokens", 4)]), 4),
            (vec!["tokens"], Cost::of_units::<&str>([]), 0),
        ] {
            assert_eq!(policy(&units).price(&named, 1), Ok(Cost::from(number)), "{units:?}");
            assert_eq!(policy(&units).price(&Cost::from(9), 1), Ok(Cost::from(9)));
            assert_eq!(policy(&units).requests(2), Cost::from(2));
        }
        let error = policy(&["requests"]).price(&Cost::of_units([("tokens", 4)]), 1).unwrap_err();
        assert_eq!(error.to_string(), "policy `llm` counts `requests`, not `tokens`");
        let tokens = Cost::of_units([("tokens", 4)]);
        let all = Cost::of_units([("requests", 1), ("tokens", 4)]);
        assert_eq!(policy(&[]).price(&tokens, 1), Ok(all), "what limits nothing takes anything");
    }

    #[test]
    fn a_policy_of_several_takes_one_for_each() {
        let llm = policy(&["requests", "tokens", "requests2"]);
        let all = |requests, tokens| {
            Ok(Cost::of_units([("requests", requests), ("tokens", tokens), ("requests2", 0)]))
        };
        let tokens = Cost::of_units([("tokens", 800)]);
        assert_eq!(llm.price(&tokens, 1), all(1, 800));
        assert_eq!(llm.price(&tokens, 0), all(0, 800));
        assert_eq!(llm.price(&llm.requests(2), 1), all(2, 0));
        assert_eq!(
            llm.price(&llm.price(&tokens, 0).unwrap(), 1),
            all(0, 800),
            "is a price already"
        );
        assert_eq!(llm.price(&Cost::from(0), 1), all(0, 0));
        let two = policy(&["requests", "tokens"]);
        let error = two.price(&Cost::from(5), 1).unwrap_err().to_string();
        assert_eq!(error, "policy `llm` counts `requests` and `tokens`; name them in the cost");
        let other = policy(&["tokens", "bytes"]);
        assert!(other.price(&other.requests(1), 1).is_err(), "no cost was named");
        assert!(two.counts_as(&policy(&["tokens", "requests"])) && !two.counts_as(&other));
        assert!(policy(&["a"]).counts_as(&policy(&["b"])) && !policy(&["a"]).counts_as(&two));
    }
}
