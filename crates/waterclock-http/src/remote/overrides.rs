//! Overrides of single keys: the calls, and what the server answers.

use http::{Method, StatusCode};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::{Deserialize, Serialize};
use waterclock::{KeyOverride, OverridePage, Policy, StoreError};
use waterclock_config::{OverrideChange, OverrideJson, OverrideLine};

use super::reply::{Reply, malformed};
use super::request::{BYTES, Call, key_path, key_text, unwritable};

/// The call that sets an override.
pub(super) fn set_override_call(policy: &str, new: &KeyOverride) -> Result<Call, StoreError> {
    let body = serde_json::to_vec(&OverrideLine::new(new).without_key()).map_err(unwritable)?;
    let path = override_path(policy, &new.key)?;
    Ok(Call { method: Method::PUT, path, body })
}

/// The call that reads an override.
pub(super) fn read_override_call(policy: &str, key: &[u8]) -> Result<Call, StoreError> {
    let path = override_path(policy, key)?;
    Ok(Call { method: Method::GET, path, body: Vec::new() })
}

/// The call that clears an override: a list of one line, because that is answered with whether there was one.
pub(super) fn clear_override_call(policy: &str, key: &[u8]) -> Result<Call, StoreError> {
    #[derive(Serialize)]
    struct Line<'a> {
        key: &'a str,
        clear: bool,
    }
    let line = serde_json::to_vec(&Line { key: &key_text(key), clear: true });
    Ok(Call::post(overrides_path(policy), line.map_err(unwritable)?))
}

/// The call that lists overrides.
pub(super) fn overrides_call(policy: &str, after: Option<&str>, count: usize) -> Call {
    let after = after.map_or_else(String::new, |after| {
        format!("&after={}", utf8_percent_encode(after, NON_ALPHANUMERIC))
    });
    let path = format!("{}?count={}{after}", overrides_path(policy), count.clamp(1, 1_000));
    Call { method: Method::GET, path, body: Vec::new() }
}

fn overrides_path(policy: &str) -> String {
    format!("/v1/policies/{}/overrides", utf8_percent_encode(policy, NON_ALPHANUMERIC))
}

fn override_path(policy: &str, key: &[u8]) -> Result<String, StoreError> {
    if key.is_empty() {
        let reason = "the empty key cannot have an override over HTTP, because it has no path";
        return Err(StoreError::unfit(reason));
    }
    Ok(format!("{}/override", key_path(policy, key)))
}

/// The key of a text that [`key_text`] has made.
fn key_of_text(text: Vec<u8>) -> Vec<u8> {
    let hex = |hex: &[u8]| {
        let byte = |pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        hex.chunks(2).map(byte).collect::<Option<Vec<u8>>>()
    };
    let bytes = text.strip_prefix(BYTES.as_bytes()).and_then(hex);
    bytes.filter(|bytes| key_text(bytes).as_bytes() == text).unwrap_or(text)
}

impl Reply {
    /// An override without its key, of a policy.
    pub(super) fn override_of(
        &self,
        base: &str,
        key: &[u8],
        policy: &Policy,
    ) -> Result<KeyOverride, StoreError> {
        let read = OverrideJson::read(&self.body);
        let rule = read.and_then(|read| read.rule(policy.mode(), policy.limits()));
        let (rule, expires_in) = rule.map_err(|bad| malformed(base, bad))?;
        Ok(KeyOverride::new(key, rule).expires_in(expires_in))
    }

    /// How many overrides a list has cleared.
    pub(super) fn cleared(&self, base: &str) -> Result<u64, StoreError> {
        #[derive(Deserialize)]
        struct Loaded {
            cleared: u64,
        }
        let read: Loaded =
            serde_json::from_slice(&self.body).map_err(|error| malformed(base, error))?;
        Ok(read.cleared)
    }

    /// Some overrides of a policy.
    pub(super) fn overrides(
        &self,
        base: &str,
        policy: &Policy,
    ) -> Result<OverridePage, StoreError> {
        #[derive(Deserialize)]
        struct ReadPage {
            overrides: Vec<OverrideJson>,
            next: Option<String>,
        }
        let read: ReadPage =
            serde_json::from_slice(&self.body).map_err(|error| malformed(base, error))?;
        let one = |line: &OverrideJson| match line.change(policy.mode(), policy.limits()) {
            Ok(OverrideChange::Set(new)) => {
                let KeyOverride { key, rule, expires_in, .. } = new;
                Ok(KeyOverride::new(key_of_text(key), rule).expires_in(expires_in))
            }
            Ok(OverrideChange::Clear(_)) => Err(malformed(base, "an override that clears")),
            Err(bad) => Err(malformed(base, bad)),
        };
        let overrides = read.overrides.iter().map(one).collect::<Result<_, _>>()?;
        Ok(OverridePage::new(overrides, read.next))
    }

    /// What a reply without an answer means, for a call about the overrides of a policy.
    pub(super) fn administration_error(&self, base: &str, policy: &str) -> StoreError {
        match (self.status, self.problem()) {
            (StatusCode::NOT_FOUND, Some(_)) => StoreError::UnknownPolicy(policy.to_owned()),
            _ => self.error(base, &[]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_back() {
        for key in [&b"\xff"[..], b"bytes:ff", b"ff", b"bytes:", b"", b"\xff\x00", b"alice"] {
            assert_eq!(key_of_text(key_text(key).into_owned().into_bytes()), key);
        }
        assert_eq!(key_of_text(b"bytes:FF".to_vec()), b"bytes:FF", "made by another program");
    }
}
