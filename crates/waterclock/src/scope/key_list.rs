//! The keys that a scope exempts or blocks.

use std::collections::HashSet;
use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Net};

/// Keys, and networks of client addresses.
#[derive(Clone, Debug, Default)]
pub(super) struct KeyList {
    keys: HashSet<Box<[u8]>>,
    networks: Vec<IpNet>,
}

impl KeyList {
    pub(super) fn extend<K: AsRef<str>>(&mut self, entries: impl IntoIterator<Item = K>) {
        for entry in entries {
            let entry = entry.as_ref();
            let address = || entry.parse::<IpAddr>().ok().map(IpNet::from);
            self.networks.extend(entry.parse().ok().or_else(address).map(canonical));
            self.keys.insert(entry.as_bytes().into());
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    #[inline]
    pub(super) fn contains(&self, key: &[u8], address: Option<IpAddr>) -> bool {
        !self.is_empty()
            && (self.keys.contains(key)
                || address.is_some_and(|address| {
                    self.networks.iter().any(|network| network.contains(&address))
                }))
    }
}

/// A network of IPv4-mapped addresses (`::ffff:192.0.2.0/120`) as one of IPv4: addresses are compared in that form.
fn canonical(network: IpNet) -> IpNet {
    let IpNet::V6(mapped) = network else { return network };
    let v4 = mapped.addr().to_ipv4_mapped().zip(mapped.prefix_len().checked_sub(96));
    let v4 = v4.and_then(|(address, prefix)| Ipv4Net::new(address, prefix).ok());
    v4.map_or(network, IpNet::V4)
}
