//! The server's replies, read back. What does not add up is no answer.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use serde::{Deserialize, Deserializer};
use waterclock::{
    Answer, Applied, BadReservation, Charge, Cost, Decision, DecisionParts, Failure, LimitDecision,
    LimitSet, Policy, Settled, Source, StoreError,
};

/// A reply.
pub(super) struct Reply {
    pub(super) status: StatusCode,
    pub(super) body: Bytes,
}

impl Reply {
    /// The decisions, in the order of the charges.
    pub(super) fn answers(
        &self,
        base: &str,
        charges: &[Charge<'_>],
        policies: &[Arc<Policy>],
    ) -> Result<Vec<Answer>, StoreError> {
        let decisions = match charges {
            [_] => serde_json::from_slice::<ReadDecision<'_>>(&self.body).map(|one| vec![one]),
            _ => serde_json::from_slice::<ReadDecisions<'_>>(&self.body).map(|all| all.decisions),
        };
        let decisions = match decisions {
            Ok(decisions) if decisions.len() == charges.len() => decisions,
            Ok(_) => return Err(malformed(base, "not as many answers as charges")),
            // A refusal of this client, and not of the charges.
            Err(_) if self.status == StatusCode::TOO_MANY_REQUESTS => {
                return Err(self.error(base, charges));
            }
            Err(error) => return Err(malformed(base, error)),
        };
        let total =
            charges.iter().fold(0_u64, |sum, charge| sum.saturating_add(charge.cost.most()));
        let both = decisions.into_iter().zip(charges).zip(policies);
        both.map(|((decision, charge), policy)| decision.answer(charge, total, policy))
            .collect::<Result<_, String>>()
            .map_err(|reason| malformed(base, reason))
    }

    /// The id of a reservation that was made, and how long it is held.
    pub(super) fn reservation(&self, base: &str) -> Result<(String, Duration), StoreError> {
        #[derive(Deserialize)]
        struct Reserved {
            reservation: Reservation,
        }
        #[derive(Deserialize)]
        struct Reservation {
            id: String,
            expires_in_us: u64,
        }
        let read: Reserved =
            serde_json::from_slice(&self.body).map_err(|error| malformed(base, error))?;
        let Reservation { id, expires_in_us } = read.reservation;
        Ok((id, Duration::from_micros(expires_in_us)))
    }

    /// How a reservation was settled.
    pub(super) fn settled(&self, base: &str) -> Result<Settled, StoreError> {
        #[derive(Deserialize)]
        struct ReadSettled {
            cancelled: bool,
            held: Vec<Cost>,
            used: Vec<Cost>,
        }
        let ReadSettled { cancelled, held, used } =
            serde_json::from_slice(&self.body).map_err(|error| malformed(base, error))?;
        Ok(Settled::new(cancelled, held, used))
    }

    /// What a reply without a decision means.
    pub(super) fn error(&self, base: &str, charges: &[Charge<'_>]) -> StoreError {
        let status = self.status.as_u16();
        let problem = self.problem();
        let why = problem.as_ref().map_or("no reason given", |problem| &*problem.detail);
        let unfit = || self.rejection(base);
        match (self.status, &problem) {
            (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN, _) => {
                let reason = format!("{base} rejects the token ({status}): {why}");
                StoreError::failed(Failure::Auth, reason)
            }
            (StatusCode::TOO_MANY_REQUESTS, _) => {
                // Not by this server, which refuses with a decision: by a proxy before it.
                let reason = format!("{base} rejects this client ({status}): {why}");
                StoreError::failed(Failure::Auth, reason)
            }
            // Its own store failed, and its policy denies then. A fallback here would undo that.
            (StatusCode::SERVICE_UNAVAILABLE, Some(Problem { failure: Some(kind), .. })) => {
                let known = Failure::ALL.into_iter().find(|known| known.name() == kind);
                // A newer server may know other kinds.
                let kind = known.unwrap_or(Failure::BadReply);
                StoreError::Denied { kind, reason: format!("{base} denies: {why}") }
            }
            // It has too much to do, and says so before it decides.
            (StatusCode::SERVICE_UNAVAILABLE, Some(_)) => {
                let reason = format!("{base} answers {status}: {why}");
                StoreError::failed(Failure::BadReply, reason).before_charging()
            }
            // The call itself is wrong, and a fallback cannot know better.
            (StatusCode::NOT_FOUND, Some(_)) => match charges {
                [charge] => StoreError::UnknownPolicy(charge.policy.to_owned()),
                _ => unfit(),
            },
            (StatusCode::BAD_REQUEST | StatusCode::PAYLOAD_TOO_LARGE, Some(_)) => unfit(),
            _ => StoreError::failed(Failure::BadReply, format!("{base} answers {status}: {why}")),
        }
    }

    /// The call itself is wrong.
    pub(super) fn rejection(&self, base: &str) -> StoreError {
        let problem = self.problem();
        let why = problem.as_ref().map_or("no reason given", |problem| &*problem.detail);
        StoreError::unfit(format!("{base} rejects the call: {why}"))
    }

    /// The same for a reservation, which may itself be wrong.
    pub(super) fn reservation_error(&self, base: &str, charges: &[Charge<'_>]) -> StoreError {
        match self.problem() {
            Some(Problem { detail, field: Some(field), .. })
                if self.status == StatusCode::BAD_REQUEST
                    && ["id", "ttl", "on_expiry", "cost"].contains(&&*field) =>
            {
                BadReservation::Other(detail.into()).into()
            }
            _ => self.error(base, charges),
        }
    }

    pub(super) fn problem(&self) -> Option<Problem> {
        serde_json::from_slice(&self.body).ok()
    }
}

/// Why a server does not decide.
#[derive(Deserialize)]
pub(super) struct Problem {
    detail: String,
    /// How its own store failed, if that is why.
    failure: Option<String>,
    /// Which field of the request is wrong.
    field: Option<String>,
}

pub(super) fn malformed(base: &str, reason: impl std::fmt::Display) -> StoreError {
    StoreError::failed(Failure::BadReply, format!("unexpected reply of {base}: {reason}"))
}

/// The decisions about several charges.
#[derive(Deserialize)]
struct ReadDecisions<'a> {
    #[serde(borrow)]
    decisions: Vec<ReadDecision<'a>>,
}

/// The decision about one charge. `null` has a meaning; a missing field is an error.
#[derive(Deserialize)]
struct ReadDecision<'a> {
    #[serde(borrow)]
    policy: Cow<'a, str>,
    cost: Cost,
    granted: Cost,
    #[serde(flatten)]
    numbers: Numbers,
    refused_by: Vec<String>,
    #[serde(default)]
    shadow_refused_by: Vec<String>,
    /// Absent from older servers, and then taken for 0.
    #[serde(default = "at_once")]
    next_same_us: Option<u64>,
    #[serde(default)]
    counter: Option<i64>,
    #[serde(borrow)]
    source: Cow<'a, str>,
    #[serde(borrow)]
    limits: Vec<ReadLimit<'a>>,
}

#[derive(Deserialize)]
struct ReadLimit<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(flatten)]
    numbers: Numbers,
}

/// What a decision and each of its limits have in common.
#[derive(Deserialize)]
struct Numbers {
    allowed: bool,
    #[serde(deserialize_with = "number_or_null")]
    limit: Option<u64>,
    #[serde(deserialize_with = "number_or_null")]
    remaining: Option<u64>,
    #[serde(deserialize_with = "number_or_null")]
    retry_after_us: Option<u64>,
    #[serde(deserialize_with = "number_or_null")]
    next_unit_us: Option<u64>,
    reset_after_us: u64,
}

fn at_once() -> Option<u64> {
    Some(0)
}

fn number_or_null<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    Option::deserialize(deserializer)
}

impl ReadDecision<'_> {
    /// The answer to this charge, with the limits in the order of `policy`; or what is wrong with it. All charges of
    /// the check cost `total`: those of one key are answered as one.
    fn answer(self, charge: &Charge<'_>, total: u64, policy: &Policy) -> Result<Answer, String> {
        if self.policy != charge.policy || self.cost != charge.cost {
            return Err("the answer is to another question".to_owned());
        }
        // By the call's factor, limits have the same names and other numbers.
        let scaled = charge.factor.and_then(|factor| policy.scaled(policy.name(), factor).ok());
        let scaled = scaled.map(Arc::new);
        let policy = scaled.as_deref().unwrap_or(policy);
        let granted = self.granted.most();
        if granted > total {
            return Err("more is granted than was requested".to_owned());
        }
        let source = Source::parse(&self.source)
            .ok_or_else(|| format!("unknown decision source `{}`", self.source))?;
        let LimitDecision { allowed, limit, remaining, retry_after, next_unit, reset_after } =
            self.numbers.decision();
        let decision = Decision::from_parts(DecisionParts {
            allowed,
            granted,
            limit,
            remaining,
            retry_after,
            next_unit,
            reset_after,
            counter: self.counter,
            refused_by: limits_of(policy, &self.refused_by),
            shadow_refused_by: limits_of(policy, &self.shadow_refused_by),
        });
        let own = |limit: &waterclock::Limit| {
            let read = self.limits.iter().find(|read| read.name == limit.name());
            read.map_or(UNLIMITED, |read| read.numbers.decision())
        };
        let answer = Answer::new(decision, policy.limits().iter().map(own).collect());
        let next_same = self.next_same_us.map(Duration::from_micros);
        let applied = scaled.map(|policy| Applied::new(policy, false));
        Ok(answer.with_source(source).with_next_same(next_same).with_applied(applied))
    }
}

/// The limits of these names. A server whose configuration changed may name others, which are left out.
fn limits_of(policy: &Policy, names: &[String]) -> LimitSet {
    let known = |name: &&String| policy.limits().iter().any(|limit| limit.name() == **name);
    policy.limits_named(names.iter().filter(known)).unwrap_or_default()
}

/// For a limit that the server does not have any more.
const UNLIMITED: LimitDecision = LimitDecision {
    allowed: true,
    limit: None,
    remaining: None,
    retry_after: Some(Duration::ZERO),
    next_unit: None,
    reset_after: Duration::ZERO,
};

impl Numbers {
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
        let said: ReadDecision<'_> =
            serde_json::from_str(&text).map_err(|error| error.to_string())?;
        said.answer(&Charge::new("p", b"k", 3), 3, &policy())
    }

    #[test]
    fn limits_are_found_by_name() {
        let answer = read(&line()).unwrap();
        assert!(policy().names(answer.decision.refused_by()).eq(["slow"]));
        assert_eq!(answer.source, Source::Lease);
        assert_eq!(answer.decision.retry_after(), Some(Duration::from_micros(9)));
        assert_eq!(answer.decision.next_unit(), None);
        assert_eq!(answer.limits[0], UNLIMITED);
        assert_eq!((answer.limits[1].allowed, answer.limits[1].retry_after), (false, None));
    }

    #[test]
    fn a_server_that_is_overloaded_charged_nothing() {
        let error = |status, body: &'static str| {
            let body = Bytes::from_static(body.as_bytes());
            Reply { status, body }.error("http://server", &[])
        };
        let overloaded = error(StatusCode::SERVICE_UNAVAILABLE, r#"{"detail":"overloaded"}"#);
        assert_eq!(overloaded.failure(), Some(Failure::BadReply));
        assert!(!overloaded.may_have_charged());
        // What stands between may have passed the call on.
        assert!(error(StatusCode::SERVICE_UNAVAILABLE, "<html>").may_have_charged());
        assert!(error(StatusCode::BAD_GATEWAY, r#"{"detail":"?"}"#).may_have_charged());
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
