//! Lists of keys in the configuration: who is exempt, who is blocked.

use std::collections::HashSet;
use std::net::IpAddr;

use ipnet::IpNet;

/// Keys, and networks of keys that are addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct List {
    keys: HashSet<Vec<u8>>,
    networks: Vec<IpNet>,
}

impl List {
    pub(super) fn new(entries: &[String]) -> List {
        let network = |entry: &String| {
            let address = || entry.parse::<IpAddr>().ok().map(IpNet::from);
            entry.parse::<IpNet>().ok().or_else(address)
        };
        List {
            keys: entries.iter().map(|entry| entry.clone().into_bytes()).collect(),
            networks: entries.iter().filter_map(network).collect(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Whether the key is in it, as it is or as the address of a client.
    pub(super) fn holds(&self, key: &[u8], address: Option<IpAddr>) -> bool {
        if self.keys.is_empty() {
            return false;
        }
        let in_network =
            |address: IpAddr| self.networks.iter().any(|network| network.contains(&address));
        self.keys.contains(key) || address.is_some_and(in_network)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_networks() {
        let list = List::new(&["alice".into(), "10.0.0.0/8".into(), "2001:db8::1".into()]);
        let address = |text: &str| text.parse().ok();
        assert!(list.holds(b"alice", None));
        assert!(list.holds(b"10.1.2.3", address("10.1.2.3")));
        assert!(list.holds(b"x", address("2001:db8::1")));
        assert!(!list.holds(b"11.1.2.3", address("11.1.2.3")));
        assert!(!list.holds(b"bob", None));
    }
}
