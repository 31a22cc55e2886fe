use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Net};

use super::AddressError;

/// The bits of an IPv6 address before an IPv4 address that is mapped into it.
const MAPPED_BITS: u8 = 96;

/// The networks whose word is believed about whom they forward for. By default there are none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustedProxies(Vec<IpNet>);

impl TrustedProxies {
    /// From CIDR blocks (`10.0.0.0/8`, `2001:db8::/32`) and single addresses.
    pub fn parse(
        networks: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> Result<Self, AddressError> {
        networks.into_iter().map(|text| network(text.as_ref())).collect::<Result<_, _>>().map(Self)
    }

    /// Whether this address is one of theirs. One mapped into IPv6 counts as the IPv4 address it is.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|network| network.contains(&address))
    }
}

fn network(text: &str) -> Result<IpNet, AddressError> {
    let wrong = || AddressError::NotANetwork(text.to_owned());
    let trimmed = text.trim();
    let network = match trimmed.parse::<IpAddr>() {
        Ok(address) => IpNet::from(address),
        Err(_) => trimmed.parse().map_err(|_| wrong())?,
    };
    Ok(unmapped(network).trunc())
}

/// Addresses are compared as IPv4 where they are that, so networks must be too.
fn unmapped(network: IpNet) -> IpNet {
    let (IpAddr::V6(address), bits) = (network.addr(), network.prefix_len()) else {
        return network;
    };
    let inner = bits.checked_sub(MAPPED_BITS).zip(address.to_ipv4_mapped());
    match inner.map(|(bits, address)| Ipv4Net::new(address, bits)) {
        Some(Ok(inner)) => inner.into(),
        _ => network,
    }
}
