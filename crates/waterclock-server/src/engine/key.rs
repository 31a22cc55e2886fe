//! Keys: what shares a budget, formed by the policy from what the caller sends.

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;

use sha2::{Digest, Sha256};
use waterclock::Subject;
use waterclock_http::{ClientIp, compose_key, parse_address};

use super::ActivePolicy;
use crate::observe::KeyFields;

/// The longest key, in bytes.
pub use waterclock_config::MAX_KEY;

/// The field whose value is the address of a client.
const ADDRESS_FIELD: &str = "client_ip";
/// Entries of descriptors whose values are addresses of clients.
const ADDRESS_ENTRIES: [&str; 2] = ["remote_address", "client_ip"];

/// A key, with what lists and overrides are compared with.
#[derive(Clone, Debug)]
pub struct Key<'a> {
    bytes: Cow<'a, [u8]>,
    /// The name under which lists know it, if that is not the key itself.
    listed_as: Option<Vec<u8>>,
    address: Option<IpAddr>,
}

/// Why a key cannot be formed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BadKey {
    /// The field of the request that is wrong or missing.
    pub field: String,
    /// One sentence.
    pub reason: String,
}

impl BadKey {
    fn new(field: impl Into<String>, reason: impl Into<String>) -> BadKey {
        BadKey { field: field.into(), reason: reason.into() }
    }
}

impl fmt::Display for BadKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl std::error::Error for BadKey {}

impl<'a> Key<'a> {
    fn new(bytes: Cow<'a, [u8]>, address: Option<IpAddr>) -> Result<Key<'a>, BadKey> {
        if bytes.len() > MAX_KEY {
            let found = bytes.len();
            let reason = format!("a key must be at most {MAX_KEY} bytes long; found {found}");
            return Err(BadKey::new("key", reason));
        }
        if is_hash(&bytes) {
            let listed_as = Some(bytes.to_vec());
            return Ok(Key { bytes: Cow::Owned(hash(&bytes)), listed_as, address });
        }
        Ok(Key { bytes, listed_as: None, address })
    }

    /// The same key, which borrows nothing.
    pub(super) fn into_owned(self) -> Key<'static> {
        Key { bytes: Cow::Owned(self.bytes.into_owned()), ..self }
    }

    /// The key as the store knows it.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The key as a [`Scope`](waterclock::Scope) is asked about it.
    #[inline]
    pub(super) fn subject(&self) -> Subject<'_> {
        let subject = Subject::new(&self.bytes).with_address(self.address);
        match &self.listed_as {
            Some(name) => subject.listed_as(name),
            None => subject,
        }
    }
}

impl ActivePolicy {
    /// A key that the caller has formed.
    pub fn key<'a>(&self, text: &'a [u8]) -> Result<Key<'a>, BadKey> {
        let fields = self.key_fields();
        let has_address = fields.iter().any(|name| name == ADDRESS_FIELD);
        // Most keys have no address, and allocate nothing here.
        let mut values = Vec::new();
        let mut keep = |value| {
            if has_address {
                values.push(value);
            }
        };
        if fields.len() > 1 {
            decompose(text, fields.len(), keep).ok_or_else(|| {
                let (name, fields) = (self.name(), fields.join(" and "));
                let reason = format!("policy `{name}` forms its key from {fields}; send `fields`");
                BadKey::new("fields", reason)
            })?;
        } else {
            keep(text);
        }
        if has_address {
            let named = fields.iter().map(|name| &**name).zip(values);
            return key_of_values(&named.collect::<Vec<_>>());
        }
        Key::new(Cow::Borrowed(text), self.scope().address_in(text))
    }

    /// The fields that form a key and their values; none for a key that callers pass themselves.
    pub(crate) fn fields_of(&self, key: &str) -> KeyFields {
        let fields = self.key_fields();
        let mut values = Vec::with_capacity(fields.len());
        let found = match fields {
            [_] => {
                values.push(key.to_owned());
                Some(())
            }
            _ => decompose(key.as_bytes(), fields.len(), |value| {
                values.push(String::from_utf8_lossy(value).into_owned());
            }),
        };
        // A length that ends within a character is not one that this server wrote.
        let is_text = values.iter().all(|value| !value.contains(char::REPLACEMENT_CHARACTER));
        match found {
            Some(()) if is_text => fields.iter().cloned().zip(values).collect(),
            _ => Vec::new(),
        }
    }

    /// The key of a client whose address is all that is known.
    pub fn key_of_client(&self, client: IpAddr) -> Result<Key<'static>, BadKey> {
        let text = ClientIp::default().group(client).to_string().into_bytes();
        Key::new(Cow::Owned(text), Some(client.to_canonical()))
    }

    /// The key of a request with these fields.
    pub fn key_of_fields<'f>(
        &self,
        field: impl Fn(&str) -> Option<Cow<'f, str>>,
    ) -> Result<Key<'static>, BadKey> {
        let value = |name: &'_ _| {
            field(name).ok_or_else(|| {
                let reason = format!("policy `{}` needs the field `{name}`", self.name());
                BadKey::new(name, reason)
            })
        };
        let fields = self.key_fields();
        if fields.is_empty() {
            let reason = format!("policy `{}` has no key fields; send `key`", self.name());
            return Err(BadKey::new("key", reason));
        }
        let values: Vec<Cow<'f, str>> =
            fields.iter().map(|name| value(&**name)).collect::<Result<_, _>>()?;
        let named = fields.iter().zip(&values).map(|(name, value)| (&**name, value.as_bytes()));
        key_of_values(&named.collect::<Vec<_>>())
    }

    /// The key of a descriptor with these fields. One that should be an address and is none counts as it stands: a
    /// proxy would admit what is answered with an error.
    pub fn key_of_descriptor<'f>(&self, field: impl Fn(&str) -> &'f [u8]) -> Key<'static> {
        let values = self.key_fields().iter().map(|name| (&**name, field(name)));
        let (bytes, address) = joined(&values.collect::<Vec<_>>());
        let listed_as = is_hash(&bytes).then(|| bytes.clone());
        Key { bytes: Cow::Owned(shortened(bytes)), listed_as, address }
    }

    /// The key of a descriptor of a domain, from those of its entries that share a budget.
    ///
    /// Different domains, entry keys or values always make different keys, whatever bytes they contain. Lists and
    /// overrides are compared with the value itself where there is only one.
    pub fn key_of_entries<'e>(
        &self,
        domain: &'e str,
        entries: impl Iterator<Item = (&'e str, &'e [u8])>,
    ) -> Key<'static> {
        let entries: Vec<(&str, &[u8])> = entries.collect();
        let parts = entries.iter().flat_map(|(key, value)| {
            [Cow::Borrowed(key.as_bytes()), normalised((*key, *value), &ADDRESS_ENTRIES)]
        });
        let domain = Cow::Borrowed(domain.as_bytes());
        let bytes = shortened(compose_key(std::iter::once(domain).chain(parts)));
        let listed_as = match *entries {
            [(_, value)] if self.scope().names_keys() => Some(value.to_vec()),
            _ => None,
        };
        let address = address_of(&entries, &ADDRESS_ENTRIES);
        Key { bytes: Cow::Owned(bytes), listed_as, address }
    }
}

/// The key that these fields form. An address must be one; lists name single addresses, and budgets are shared by groups.
fn key_of_values(values: &[(&str, &[u8])]) -> Result<Key<'static>, BadKey> {
    let (bytes, address) = joined(values);
    if address.is_none() && values.iter().any(|(name, _)| *name == ADDRESS_FIELD) {
        let reason = "`client_ip` must be an IP address such as 203.0.113.7 or 2001:db8::1";
        return Err(BadKey::new(ADDRESS_FIELD, reason));
    }
    Key::new(Cow::Owned(bytes), address)
}

/// Values as one, addresses in their canonical spelling; and the address, if there is one.
fn joined(values: &[(&str, &[u8])]) -> (Vec<u8>, Option<IpAddr>) {
    let spelled = values.iter().map(|value| normalised(*value, &[ADDRESS_FIELD]));
    let bytes = match &*spelled.collect::<Vec<_>>() {
        [one] => one.to_vec(),
        several => compose_key(several),
    };
    (bytes, address_of(values, &[ADDRESS_FIELD]))
}

/// What a hashed key begins with.
const HASHED: u8 = b'#';

/// Replaces a key that is too long by its hash, and one that looks like a hash: no other key is equal to either.
fn shortened(key: Vec<u8>) -> Vec<u8> {
    if key.len() > MAX_KEY || is_hash(&key) { hash(&key) } else { key }
}

#[inline]
fn is_hash(key: &[u8]) -> bool {
    key.len() == 1 + <Sha256 as Digest>::output_size() && key[0] == HASHED
}

fn hash(key: &[u8]) -> Vec<u8> {
    let mut hashed = vec![HASHED];
    hashed.extend_from_slice(&Sha256::digest(key));
    hashed
}

/// The first address among the values of these names.
fn address_of(values: &[(&str, &[u8])], names: &[&str]) -> Option<IpAddr> {
    let mut addresses = values.iter().filter(|(name, _)| names.contains(name));
    addresses.find_map(|(_, value)| client_address(str::from_utf8(value).ok()?))
}

/// The canonical spelling of an address, grouped, if the value has one of these names; others stay as they are.
fn normalised<'v>((name, value): (&str, &'v [u8]), addresses: &[&str]) -> Cow<'v, [u8]> {
    match address_of(&[(name, value)], addresses) {
        Some(address) => ClientIp::default().group(address).to_string().into_bytes().into(),
        None => value.into(),
    }
}

/// The address that a caller sends as forwarded headers have it, or as answers show its group. Two spellings of one
/// client must not be two keys.
fn client_address(text: &str) -> Option<IpAddr> {
    let group = || {
        let first = text.split_once('/')?.0.parse().ok()?;
        (ClientIp::default().group(first).to_string() == text).then_some(first)
    };
    parse_address(text.trim_ascii()).or_else(group)
}

/// Finds the values of a text in the form of [`compose_key`], as answers show them; `None` if it is not so many of them.
fn decompose<'t>(text: &'t [u8], values: usize, mut found: impl FnMut(&'t [u8])) -> Option<()> {
    let mut rest = text;
    for _ in 0..values {
        let colon = rest.iter().position(|byte| *byte == b':')?;
        let length: usize = std::str::from_utf8(&rest[..colon]).ok()?.parse().ok()?;
        let (from, to) = (colon + 1, length.checked_add(colon + 1)?);
        if rest.get(to) != Some(&b',') {
            return None;
        }
        found(&rest[from..to]);
        rest = &rest[to + 1..];
    }
    rest.is_empty().then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn composed_keys_are_recognised() {
        let text = compose_key(["a:1,", "", "é"]);
        let mut values = Vec::new();
        assert!(decompose(&text, 3, |value| values.push(value)).is_some());
        assert_eq!(values, [b"a:1,".as_slice(), b"", "é".as_bytes()]);
        for (text, values) in [(&*text, 2), (&text[1..], 3), (b"9:a,".as_slice(), 1), (b"", 1)] {
            assert_eq!(decompose(text, values, drop), None);
        }
        assert_eq!(decompose(b"18446744073709551615:a,", 1, drop), None);
    }

    #[test]
    fn no_key_is_the_hash_of_another() {
        let long = vec![b'x'; MAX_KEY + 1];
        let hashed = shortened(long);
        assert!(is_hash(&hashed));
        let forged = shortened(hashed.clone());
        assert_ne!(forged, hashed);
        // Every face forms the same key.
        let key = Key::new(Cow::Borrowed(&hashed), None).unwrap();
        assert_eq!(key.bytes(), forged);
        assert_eq!(key.listed_as.as_deref(), Some(&*hashed), "lists name the key itself");
        for usual in [&b"#"[..], b"#general", &hashed[1..], &hashed[..32]] {
            assert_eq!(shortened(usual.to_vec()), usual);
        }
    }

    #[test]
    fn keys_have_a_maximum_length() {
        assert!(Key::new(vec![b'a'; MAX_KEY].into(), None).is_ok());
        assert!(Key::new(vec![b'a'; MAX_KEY + 1].into(), None).is_err());
    }
}
