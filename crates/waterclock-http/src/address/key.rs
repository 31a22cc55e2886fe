use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use super::AddressError;

const HOUSEHOLD: u8 = 64;

/// How many leading bits of an IPv6 address make one client. An IPv4 address is one client.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grouping(u8);

impl Default for Grouping {
    fn default() -> Self {
        Self(HOUSEHOLD)
    }
}

impl Grouping {
    pub(super) fn new(bits: u8) -> Result<Self, AddressError> {
        if (1..=128).contains(&bits) { Ok(Self(bits)) } else { Err(AddressError::NotAPrefix(bits)) }
    }

    pub(super) fn key(self, address: IpAddr) -> AddressKey {
        match address.to_canonical() {
            IpAddr::V6(address) => {
                let mask = u128::MAX << (128 - u32::from(self.0));
                let first = Ipv6Addr::from_bits(address.to_bits() & mask);
                AddressKey { first: first.into(), prefix: (self.0 < 128).then_some(self.0) }
            }
            address => AddressKey { first: address, prefix: None },
        }
    }
}

/// What the requests of one client share: an address, or the network it is in.
///
/// Its text is the key: `203.0.113.7`, or `2001:db8:1:2::/64`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AddressKey {
    first: IpAddr,
    /// None where it is one address.
    prefix: Option<u8>,
}

impl fmt::Display for AddressKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.prefix {
            Some(prefix) => write!(f, "{}/{prefix}", self.first),
            None => write!(f, "{}", self.first),
        }
    }
}
