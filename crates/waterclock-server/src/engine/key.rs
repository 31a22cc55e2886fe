//! What shares a budget: formed by the policy from what the caller sends.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use waterclock::Policy;

/// The longest key, in bytes.
pub const MAX_KEY: usize = 1_024;

/// A key, and what the configuration says about it in particular.
#[derive(Clone, Debug)]
pub struct Key<'a> {
    bytes: Cow<'a, [u8]>,
    standing: Standing,
}

/// What the configuration says about a key.
#[derive(Clone, Debug, Default)]
pub enum Standing {
    /// What it says about everybody.
    #[default]
    Limited,
    /// Always refused.
    Blocked,
    /// Never refused.
    Exempt,
    /// Limits of its own.
    Override(Arc<Policy>),
}

/// Why something is no key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadKey {
    /// The field of the request that is wrong or missing.
    pub field: String,
    /// One sentence.
    pub reason: String,
}

impl BadKey {
    pub(super) fn new(field: impl Into<String>, reason: impl Into<String>) -> BadKey {
        BadKey { field: field.into(), reason: reason.into() }
    }
}

impl fmt::Display for BadKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl<'a> Key<'a> {
    pub(super) fn new(bytes: Cow<'a, [u8]>, standing: Standing) -> Result<Key<'a>, BadKey> {
        if bytes.len() > MAX_KEY {
            let found = bytes.len();
            let reason = format!("a key must be at most {MAX_KEY} bytes long; found {found}");
            return Err(BadKey::new("key", reason));
        }
        Ok(Key { bytes, standing })
    }

    /// As the store knows it.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// What the configuration says about it.
    #[must_use]
    pub fn standing(&self) -> &Standing {
        &self.standing
    }
}

/// Whether a text is so many values in the form of [`compose_key`](waterclock_http::compose_key), as answers
/// show them.
pub(super) fn is_composed(text: &[u8], values: usize) -> bool {
    let mut rest = text;
    for _ in 0..values {
        let Some(colon) = rest.iter().position(|byte| *byte == b':') else { return false };
        let length =
            std::str::from_utf8(&rest[..colon]).ok().and_then(|digits| digits.parse().ok());
        let Some(end) = length.and_then(|length: usize| length.checked_add(colon + 1)) else {
            return false;
        };
        if rest.get(end) != Some(&b',') {
            return false;
        }
        rest = &rest[end + 1..];
    }
    rest.is_empty()
}

#[cfg(test)]
mod tests {
    use waterclock_http::compose_key;

    use super::*;

    #[test]
    fn composed_keys_are_known_again() {
        let text = compose_key(["a:1,", "", "é"]);
        assert!(is_composed(&text, 3));
        for (text, values) in [(&*text, 2), (&text[1..], 3), (b"9:a,".as_slice(), 1), (b"", 1)] {
            assert!(!is_composed(text, values));
        }
        assert!(!is_composed(b"18446744073709551615:a,", 1));
    }

    #[test]
    fn keys_have_a_longest() {
        assert!(Key::new(vec![b'a'; MAX_KEY].into(), Standing::Limited).is_ok());
        assert!(Key::new(vec![b'a'; MAX_KEY + 1].into(), Standing::Limited).is_err());
    }
}
