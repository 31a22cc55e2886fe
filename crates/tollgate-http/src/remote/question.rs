//! Charges as the server wants them asked.

use std::borrow::Cow;

use http::Method;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;
use tollgate::{Charge, StoreError, Verb};

use super::key::key_text;

/// Where the server answers, for the verbs that it answers in one call.
const PATHS: [(Verb, &str); 3] =
    [(Verb::Check, "/v1/check"), (Verb::Peek, "/v1/peek"), (Verb::Refund, "/v1/refund")];

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
}

/// The calls that do what a verb says, one after the other. The last one is answered with decisions.
pub(super) fn calls(verb: Verb, charges: &[Charge<'_>]) -> Result<Vec<Call>, StoreError> {
    if verb == Verb::Reset {
        let mut calls = charges.iter().map(forget).collect::<Result<Vec<Call>, _>>()?;
        calls.extend(self::calls(Verb::Peek, charges)?);
        return Ok(calls);
    }
    let Some((_, path)) = PATHS.iter().find(|(known, _)| *known == verb) else {
        return Err(StoreError::Unfit(format!(
            "a server does not serve {verb:?} to a store elsewhere; use a store of its own"
        )));
    };
    let path = (*path).to_owned();
    Ok(vec![Call { method: Method::POST, path, body: body_of(charges)? }])
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
    cost: u64,
}

#[derive(Serialize)]
struct Together<'a> {
    checks: Vec<Line<'a>>,
    atomic: bool,
}

/// The body of a question: short for one charge, all or nothing for several.
fn body_of(charges: &[Charge<'_>]) -> Result<Vec<u8>, StoreError> {
    let body = match charges {
        [charge] => serde_json::to_vec(&line(charge)),
        _ => serde_json::to_vec(&together(charges)),
    };
    body.map_err(|error| StoreError::Unfit(format!("the charges cannot be written: {error}")))
}

fn line<'a>(charge: &Charge<'a>) -> Line<'a> {
    Line { policy: charge.policy, key: key_text(charge.key), cost: charge.cost }
}

fn together<'a>(charges: &[Charge<'a>]) -> Together<'a> {
    Together { checks: charges.iter().map(line).collect(), atomic: true }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn charge(key: &[u8]) -> Charge<'_> {
        Charge { policy: "a/b", key, cost: 2 }
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
    fn a_reset_forgets_and_then_peeks() {
        let calls = calls(Verb::Reset, &[charge(b"k/.."), charge("é".as_bytes())]).unwrap();
        let paths: Vec<&str> = calls.iter().map(|call| &*call.path).collect();
        let forget = ["/v1/policies/a%2Fb/keys/k%2F%2E%2E", "/v1/policies/a%2Fb/keys/%C3%A9"];
        assert_eq!(paths, [forget[0], forget[1], "/v1/peek"]);
        assert!(super::calls(Verb::Reset, &[charge(b"")]).is_err());
    }
}
