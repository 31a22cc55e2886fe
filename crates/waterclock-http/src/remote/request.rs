//! Requests to the server.

use std::borrow::Cow;
use std::fmt::Write as _;

use http::Method;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;
use waterclock::{Charge, Cost, Detail, Hold, OnExpiry, Outcome, Settlement, StoreError, Verb};

/// What stands before the bytes of a key that is not UTF-8, in hexadecimal.
pub(super) const BYTES: &str = "bytes:";

/// One request to the server.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) body: Vec<u8>,
}

impl Call {
    /// The list of policies.
    pub(super) fn policies() -> Self {
        Self { method: Method::GET, path: "/v1/policies".to_owned(), body: Vec::new() }
    }

    pub(super) fn post(path: String, body: Vec<u8>) -> Self {
        Self { method: Method::POST, path, body }
    }
}

/// The calls of a verb, one after the other. The last one is answered with decisions.
pub(super) fn calls(verb: Verb, charges: &[Charge<'_>]) -> Result<Vec<Call>, StoreError> {
    if verb == Verb::Reset {
        let mut calls = charges.iter().map(reset_call).collect::<Result<Vec<Call>, _>>()?;
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
        other => {
            let name = other.name();
            return Err(StoreError::unfit(format!("the server does not know the verb `{name}`")));
        }
    };
    let options = Options { outcome, ..Options::default() };
    Ok(vec![Call::post(path.to_owned(), body_of(charges, options)?)])
}

/// The call that holds charges.
pub(super) fn reserve_call(hold: &Hold<'_>) -> Result<Call, StoreError> {
    // The server counts whole microseconds.
    let ttl = hold.ttl.map(|ttl| format!("{}us", ttl.as_nanos().div_ceil(1_000)));
    let is_default = hold.on_expiry == OnExpiry::default();
    let on_expiry = (!is_default).then(|| hold.on_expiry.name());
    let options = Options { ttl, id: hold.id, on_expiry, outcome: None };
    Ok(Call::post("/v1/reserve".to_owned(), body_of(hold.charges, options)?))
}

/// The call that settles a reservation.
pub(super) fn settle_call(id: &str, with: Settlement<'_>) -> Result<Call, StoreError> {
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

/// Whether a key can be reset.
pub(super) fn resettable(charge: &Charge<'_>) -> Result<(), StoreError> {
    if charge.key.is_empty() {
        let reason = "the empty key cannot be reset over HTTP, because it has no path; refund its units \
                      instead";
        return Err(StoreError::unfit(reason));
    }
    Ok(())
}

/// The call that resets a key, which administrators may do.
fn reset_call(charge: &Charge<'_>) -> Result<Call, StoreError> {
    resettable(charge)?;
    let path = key_path(charge.policy, charge.key);
    Ok(Call { method: Method::DELETE, path, body: Vec::new() })
}

pub(super) fn key_path(policy: &str, key: &[u8]) -> String {
    let key = key_text(key);
    let key = utf8_percent_encode(&key, NON_ALPHANUMERIC);
    format!("/v1/policies/{}/keys/{key}", utf8_percent_encode(policy, NON_ALPHANUMERIC))
}

#[derive(Serialize)]
struct ChargeBody<'a> {
    policy: &'a str,
    key: Cow<'a, str>,
    cost: Cost,
    /// As text, which keeps every digit.
    #[serde(skip_serializing_if = "Option::is_none")]
    factor: Option<String>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Charged<'a> {
    One(ChargeBody<'a>),
    Several { checks: Vec<ChargeBody<'a>>, atomic: bool },
}

/// What some calls have beside the charges.
#[derive(Default, Serialize)]
struct Options<'a> {
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
    options: Options<'a>,
}

/// The body of a call: short for one charge, all or nothing for several.
fn body_of(charges: &[Charge<'_>], options: Options<'_>) -> Result<Vec<u8>, StoreError> {
    let charges = match charges {
        [charge] => Charged::One(charge_body(charge)),
        _ => Charged::Several { checks: charges.iter().map(charge_body).collect(), atomic: true },
    };
    serde_json::to_vec(&Body { charges, options }).map_err(unwritable)
}

pub(super) fn unwritable(error: serde_json::Error) -> StoreError {
    StoreError::unfit(
        Detail::from(format!("the charges cannot be written: {error}")).caused_by(error),
    )
}

fn charge_body<'a>(charge: &Charge<'a>) -> ChargeBody<'a> {
    let factor = charge.factor.map(|factor| factor.to_string());
    let (key, cost) = (key_text(charge.key), charge.cost.clone());
    ChargeBody { policy: charge.policy, key, cost, factor }
}

/// The text of a key. Two keys never have the same: a key that is sent as it is does not begin with `bytes:`, and
/// every other one does.
pub(super) fn key_text(key: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(key) {
        Ok(text) if !text.starts_with(BYTES) => Cow::Borrowed(text),
        _ => {
            let mut text = String::with_capacity(BYTES.len() + 2 * key.len());
            text.push_str(BYTES);
            key.iter().for_each(|byte| _ = write!(text, "{byte:02x}"));
            Cow::Owned(text)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn charge(key: &[u8]) -> Charge<'_> {
        Charge::new("a/b", key, 2)
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
        let scaled = charge(b"k").with_factor("0.25".parse().ok());
        let calls = super::calls(Verb::Peek, &[scaled]).unwrap();
        let body = String::from_utf8_lossy(&calls[0].body);
        assert_eq!(body, r#"{"policy":"a/b","key":"k","cost":2,"factor":"0.25"}"#);
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
        assert_eq!(body(&reserve_call(&hold).unwrap()), said);
        let commit = settle_call("i/1", Settlement::Commit(&[7.into()])).unwrap();
        assert_eq!(commit.path, "/v1/reservations/i%2F1/commit");
        assert_eq!(body(&commit), r#"{"cost":[7]}"#);
        assert_eq!(settle_call("i/1", Settlement::Cancel).unwrap().method, Method::DELETE);
    }

    #[test]
    fn a_reset_forgets_and_then_peeks() {
        let calls = calls(Verb::Reset, &[charge(b"k/.."), charge("é".as_bytes())]).unwrap();
        let paths: Vec<&str> = calls.iter().map(|call| &*call.path).collect();
        let forget = ["/v1/policies/a%2Fb/keys/k%2F%2E%2E", "/v1/policies/a%2Fb/keys/%C3%A9"];
        assert_eq!(paths, [forget[0], forget[1], "/v1/peek"]);
        assert!(super::calls(Verb::Reset, &[charge(b"")]).is_err());
    }

    #[test]
    fn text_is_sent_as_it_is() {
        for key in ["", "alice", "é\u{0}\"/..", "0xff", "byte:", "Bytes:00"] {
            assert_eq!(key_text(key.as_bytes()), key);
        }
    }

    #[test]
    fn no_two_keys_have_the_same_text() {
        let keys: [&[u8]; 8] = [
            b"\xff",
            b"bytes:ff",
            b"bytes:62797465733a6666",
            b"ff",
            b"bytes:",
            b"",
            b"\xff\x00",
            b"bytes:FF",
        ];
        let texts: HashSet<_> = keys.into_iter().map(key_text).collect();
        assert_eq!(texts.len(), keys.len());
        assert_eq!(key_text(b"\xff\x00"), "bytes:ff00");
    }
}
