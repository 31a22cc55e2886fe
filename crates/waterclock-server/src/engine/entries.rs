//! Keys of descriptors: formed from entries instead of fields that a policy names.

use std::borrow::Cow;

use sha2::{Digest, Sha256};
use waterclock_http::compose_key;

use super::address::{address_key, read_address};
use super::key::{BadKey, Key, MAX_KEY};
use super::served::Served;

/// Entries whose values are addresses of clients.
const ADDRESSES: [&str; 2] = ["remote_address", "client_ip"];

impl Served {
    /// The key of a descriptor of a domain, from those of its entries that share a budget.
    ///
    /// It tells domains, keys and values apart whatever they hold, and is the same whatever the
    /// limit's numbers are. The policy's lists and overrides see the value itself where there is
    /// only one.
    pub fn key_of_entries<'e>(
        &self,
        domain: &'e str,
        entries: impl Iterator<Item = (&'e str, &'e str)> + Clone,
    ) -> Result<Key<'static>, BadKey> {
        // An address has one spelling, and one budget with its neighbours.
        let spelled: Vec<(&str, Cow<'_, str>)> = entries
            .clone()
            .map(|(key, value)| match ADDRESSES.contains(&key) {
                true => (key, address_key(value.into())),
                false => (key, value.into()),
            })
            .collect();
        let parts = spelled.iter().flat_map(|(key, value)| [*key, &**value]);
        let bytes = bounded(compose_key(std::iter::once(domain).chain(parts)));
        let mut values = entries.clone().map(|(_, value)| value);
        let only = values.next().filter(|_| values.next().is_none());
        let address = entries
            .filter(|(key, _)| ADDRESSES.contains(key))
            .find_map(|(_, value)| read_address(value.as_bytes()));
        let standing = self.standing(only.map_or(&*bytes, str::as_bytes), address);
        Key::new(Cow::Owned(bytes), standing)
    }
}

/// What is too long for a key is known by its hash; no composition begins with a `#`.
fn bounded(composed: Vec<u8>) -> Vec<u8> {
    if composed.len() <= MAX_KEY {
        return composed;
    }
    let mut hashed = b"#".to_vec();
    hashed.extend_from_slice(&Sha256::digest(&composed));
    hashed
}
