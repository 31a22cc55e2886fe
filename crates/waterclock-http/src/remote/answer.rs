//! The server's JSON, made into answers again. What does not add up is no answer.

use std::borrow::Cow;
use std::time::Duration;

use serde::{Deserialize, Deserializer};
use waterclock::{
    Answer, Charge, Cost, Decision, DecisionParts, LimitDecision, LimitSet, Policy, Source,
};

/// What the server says to several charges.
#[derive(Deserialize)]
pub(super) struct SaidTogether<'a> {
    #[serde(borrow)]
    pub(super) decisions: Vec<Said<'a>>,
}

/// What the server says to one charge. `null` has a meaning, and a field that is missing has none.
#[derive(Deserialize)]
pub(super) struct Said<'a> {
    #[serde(borrow)]
    policy: Cow<'a, str>,
    cost: Cost,
    allowed: bool,
    granted: Cost,
    #[serde(deserialize_with = "told")]
    limit: Option<u64>,
    #[serde(deserialize_with = "told")]
    remaining: Option<u64>,
    #[serde(deserialize_with = "told")]
    retry_after_us: Option<u64>,
    #[serde(deserialize_with = "told")]
    next_unit_us: Option<u64>,
    reset_after_us: u64,
    refused_by: Vec<String>,
    #[serde(default)]
    shadow_refused_by: Vec<String>,
    #[serde(borrow)]
    source: Cow<'a, str>,
    #[serde(borrow)]
    limits: Vec<SaidLimit<'a>>,
}

#[derive(Deserialize)]
struct SaidLimit<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    allowed: bool,
    #[serde(deserialize_with = "told")]
    limit: Option<u64>,
    #[serde(deserialize_with = "told")]
    remaining: Option<u64>,
    #[serde(deserialize_with = "told")]
    retry_after_us: Option<u64>,
    #[serde(deserialize_with = "told")]
    next_unit_us: Option<u64>,
    reset_after_us: u64,
}

/// A number or `null`, but there.
fn told<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    Option::deserialize(deserializer)
}

impl Said<'_> {
    /// The answer to this charge, with the limits in the places that `policy` has for them; or what is
    /// wrong with it. The charges of its check cost `together`: those of one key are answered as one.
    pub(super) fn answer(
        self,
        charge: &Charge<'_>,
        together: u64,
        policy: &Policy,
    ) -> Result<Answer, String> {
        if self.policy != charge.policy || self.cost != charge.cost {
            return Err("the answer is to another question".to_owned());
        }
        let granted = self.granted.most();
        if granted > together {
            return Err("more is granted than was asked for".to_owned());
        }
        let source = Source::parse(&self.source)
            .ok_or_else(|| format!("nobody is called `{}`", self.source))?;
        let decision = Decision::from_parts(DecisionParts {
            allowed: self.allowed,
            granted,
            limit: self.limit,
            remaining: self.remaining,
            retry_after: self.retry_after_us.map(Duration::from_micros),
            next_unit: self.next_unit_us.map(Duration::from_micros),
            reset_after: Duration::from_micros(self.reset_after_us),
            counter: None,
            refused_by: places(policy, &self.refused_by),
            shadow_refused_by: places(policy, &self.shadow_refused_by),
        });
        let own = |limit: &waterclock::Limit| {
            let said = self.limits.iter().find(|said| said.name == limit.name());
            said.map_or(UNSAID, SaidLimit::decision)
        };
        Ok(Answer { decision, limits: policy.limits().iter().map(own).collect(), source })
    }
}

/// A server whose configuration changed meanwhile may name limits that nobody here knows.
fn places(policy: &Policy, names: &[String]) -> LimitSet {
    let known = |name: &&String| policy.limits().iter().any(|limit| limit.name() == **name);
    policy.limits_named(names.iter().filter(known)).unwrap_or_default()
}

/// Of a limit that the server does not have any more: nothing stands in its way.
const UNSAID: LimitDecision = LimitDecision {
    allowed: true,
    limit: None,
    remaining: None,
    retry_after: Some(Duration::ZERO),
    next_unit: None,
    reset_after: Duration::ZERO,
};

impl SaidLimit<'_> {
    fn decision(&self) -> LimitDecision {
        LimitDecision {
            allowed: self.allowed,
            limit: self.limit,
            remaining: self.remaining,
            retry_after: self.retry_after_us.map(Duration::from_micros),
            next_unit: self.next_unit_us.map(Duration::from_micros),
            reset_after: Duration::from_micros(self.reset_after_us),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use waterclock::Limit;

    use super::*;

    fn policy() -> Policy {
        let limits =
            [Limit::per_second(5).with_name("fast"), Limit::per_minute(9).with_name("slow")];
        Policy::new("p", limits).unwrap()
    }

    fn line() -> Value {
        let limit = |name| {
            json!({"name": name, "allowed": name == "fast", "limit": 5, "remaining": 1,
                "retry_after_us": null, "next_unit_us": 7, "reset_after_us": 8})
        };
        json!({"key": "k", "cost": 3, "allowed": false, "granted": 0, "limit": 5, "remaining": 1,
            "retry_after_us": 9, "next_unit_us": null, "reset_after_us": 10,
            "refused_by": ["slow", "new"], "policy": "p", "source": "lease",
            "limits": [limit("new"), limit("slow")]})
    }

    fn read(line: &Value) -> Result<Answer, String> {
        let text = line.to_string();
        let said: Said<'_> = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        said.answer(&Charge { policy: "p", key: b"k", cost: 3.into() }, 3, &policy())
    }

    #[test]
    fn limits_are_found_by_name() {
        let answer = read(&line()).unwrap();
        assert!(policy().names(answer.decision.refused_by()).eq(["slow"]));
        assert_eq!(answer.source, Source::Lease);
        assert_eq!(answer.decision.retry_after(), Some(Duration::from_micros(9)));
        assert_eq!(answer.decision.next_unit(), None);
        assert_eq!(answer.limits[0], UNSAID);
        assert_eq!((answer.limits[1].allowed, answer.limits[1].retry_after), (false, None));
    }

    #[test]
    fn what_does_not_add_up_is_no_answer() {
        for (field, value) in [
            ("policy", json!("q")),
            ("cost", json!(2)),
            ("granted", json!(4)),
            ("source", json!("hearsay")),
            ("allowed", json!("yes")),
            ("remaining", json!(-1)),
            ("limits", json!(null)),
        ] {
            let mut line = line();
            line[field] = value;
            assert!(read(&line).is_err(), "{line}");
        }
        for field in ["retry_after_us", "next_unit_us", "limit", "remaining", "refused_by"] {
            let mut line = line();
            line.as_object_mut().unwrap().remove(field);
            assert!(read(&line).is_err(), "{field} is missing");
        }
    }
}
