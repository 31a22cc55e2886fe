//! Charges as the server wants them asked.

use std::borrow::Cow;

use http::Method;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;
use waterclock::{Charge, Cost, Hold, OnExpiry, Outcome, Settlement, StoreError, Verb};

use super::key::key_text;

/// One request to the server.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) body: Vec<u8>,
}

impl Call {
    /// Which policies there are.
    pub(super) fn about_policies() -> Self {
        Self { method: Method::GET, path: "/v1/policies".to_owned(), body: Vec::new() }
    }

    fn post(path: String, body: Vec<u8>) -> Self {
        Self { method: Method::POST, path, body }
    }
}

/// The calls that do what a verb says, one after the other. The last one is answered with decisions.
pub(super) fn calls(verb: Verb, charges: &[Charge<'_>]) -> Result<Vec<Call>, StoreError> {
    if verb == Verb::Reset {
        let mut calls = charges.iter().map(forget).collect::<Result<Vec<Call>, _>>()?;
        calls.extend(self::calls(Verb::Peek, charges)?);
        return Ok(calls);
    }
    let (path, outcome) = match verb {
        Verb::Check => ("/v1/check", None),
        Verb::Peek | Verb::Reset => ("/v1/peek", None),
        Verb::Refund => ("/v1/refund", None),
        Verb::Debit => ("/v1/report", None),
        Verb::Report(Outcome::Ok) => ("/v1/report", Some("ok")),
        Verb::Report(Outcome::Error) => ("/v1/report", Some("error")),
    };
    let beside = Beside { outcome, ..Beside::default() };
    Ok(vec![Call::post(path.to_owned(), body_of(charges, beside)?)])
}

/// The call that holds charges.
pub(super) fn reserve(hold: &Hold<'_>) -> Result<Call, StoreError> {
    // What would not last a microsecond longer is not worth a complaint.
    let ttl = hold.ttl.map(|ttl| format!("{}us", ttl.as_nanos().div_ceil(1_000)));
    let on_expiry = match hold.on_expiry {
        OnExpiry::Keep => None,
        OnExpiry::Release => Some("release"),
    };
    let beside = Beside { ttl, id: hold.id, on_expiry, outcome: None };
    Ok(Call::post("/v1/reserve".to_owned(), body_of(hold.charges, beside)?))
}

/// The call that settles a reservation.
pub(super) fn settle(id: &str, with: Settlement<'_>) -> Result<Call, StoreError> {
    #[derive(Serialize)]
    struct Used<'a> {
        cost: &'a [Cost],
    }
    let path = format!("/v1/reservations/{}", utf8_percent_encode(id, NON_ALPHANUMERIC));
    match with {
        Settlement::Commit(cost) => {
            let body = serde_json::to_vec(&Used { cost }).map_err(unwritable)?;
            Ok(Call::post(format!("{path}/commit"), body))
        }
        Settlement::Cancel => Ok(Call { method: Method::DELETE, path, body: Vec::new() }),
    }
}

/// Forgets a key, which administrators may do.
fn forget(charge: &Charge<'_>) -> Result<Call, StoreError> {
    if charge.key.is_empty() {
        let reason = "the empty key cannot be reset on a server, because it has no path there; \
                      wait for it, or give units back";
        return Err(StoreError::Unfit(reason.to_owned()));
    }
    let key = key_text(charge.key);
    let policy = utf8_percent_encode(charge.policy, NON_ALPHANUMERIC);
    let key = utf8_percent_encode(&key, NON_ALPHANUMERIC);
    let path = format!("/v1/policies/{policy}/keys/{key}");
    Ok(Call { method: Method::DELETE, path, body: Vec::new() })
}

#[derive(Serialize)]
struct Line<'a> {
    policy: &'a str,
    key: Cow<'a, str>,
    cost: Cost,
}

#[derive(Serialize)]
struct Together<'a> {
    checks: Vec<Line<'a>>,
    atomic: bool,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Charged<'a> {
    One(Line<'a>),
    Several(Together<'a>),
}

/// What some calls say beside the charges.
#[derive(Default, Serialize)]
struct Beside<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    on_expiry: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<&'static str>,
}

#[derive(Serialize)]
struct Body<'a> {
    #[serde(flatten)]
    charges: Charged<'a>,
    #[serde(flatten)]
    beside: Beside<'a>,
}

/// The body of a question: short for one charge, all or nothing for several.
fn body_of(charges: &[Charge<'_>], beside: Beside<'_>) -> Result<Vec<u8>, StoreError> {
    let charges = match charges {
        [charge] => Charged::One(line(charge)),
        _ => Charged::Several(together(charges)),
    };
    serde_json::to_vec(&Body { charges, beside }).map_err(unwritable)
}

fn unwritable(error: serde_json::Error) -> StoreError {
    StoreError::Unfit(format!("the charges cannot be written: {error}"))
}

fn line<'a>(charge: &Charge<'a>) -> Line<'a> {
    Line { policy: charge.policy, key: key_text(charge.key), cost: charge.cost.clone() }
}

fn together<'a>(charges: &[Charge<'a>]) -> Together<'a> {
    Together { checks: charges.iter().map(line).collect(), atomic: true }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn charge(key: &[u8]) -> Charge<'_> {
        Charge { policy: "a/b", key, cost: 2.into() }
    }

    #[test]
    fn one_is_asked_shortly_and_several_together() {
        let calls = calls(Verb::Check, &[charge("\"é".as_bytes())]).unwrap();
        let body = String::from_utf8_lossy(&calls[0].body);
        assert_eq!(body, r#"{"policy":"a/b","key":"\"é","cost":2}"#);
        let calls = super::calls(Verb::Refund, &[charge(b"k"), charge(b"\xff")]).unwrap();
        let body = String::from_utf8_lossy(&calls[0].body);
        let both = r#"{"checks":[{"policy":"a/b","key":"k","cost":2},{"policy":"a/b","key":"bytes:ff","cost":2}],"atomic":true}"#;
        assert_eq!((&*body, &*calls[0].path), (both, "/v1/refund"));
    }

    #[test]
    fn reports_and_reservations_say_more_than_charges() {
        let body = |call: &Call| String::from_utf8_lossy(&call.body).into_owned();
        let error = calls(Verb::Report(Outcome::Error), &[charge(b"k")]).unwrap();
        let said = r#"{"policy":"a/b","key":"k","cost":2,"outcome":"error"}"#;
        assert_eq!((&*error[0].path, &*body(&error[0])), ("/v1/report", said));
        let hold = Hold {
            id: Some("i/1"),
            ttl: Some(std::time::Duration::from_nanos(1_500_001)),
            charges: &[charge(b"k")],
            on_expiry: OnExpiry::Release,
        };
        let said = r#"{"policy":"a/b","key":"k","cost":2,"ttl":"1501us","id":"i/1","on_expiry":"release"}"#;
        assert_eq!(body(&reserve(&hold).unwrap()), said);
        let commit = settle("i/1", Settlement::Commit(&[7.into()])).unwrap();
        assert_eq!(commit.path, "/v1/reservations/i%2F1/commit");
        assert_eq!(body(&commit), r#"{"cost":[7]}"#);
        assert_eq!(settle("i/1", Settlement::Cancel).unwrap().method, Method::DELETE);
    }

    #[test]
    fn a_reset_forgets_and_then_peeks() {
        let calls = calls(Verb::Reset, &[charge(b"k/.."), charge("é".as_bytes())]).unwrap();
        let paths: Vec<&str> = calls.iter().map(|call| &*call.path).collect();
        let forget = ["/v1/policies/a%2Fb/keys/k%2F%2E%2E", "/v1/policies/a%2Fb/keys/%C3%A9"];
        assert_eq!(paths, [forget[0], forget[1], "/v1/peek"]);
        assert!(super::calls(Verb::Reset, &[charge(b"")]).is_err());
    }
}
