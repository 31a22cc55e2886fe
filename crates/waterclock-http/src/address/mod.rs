//! The client's address of a request, found behind proxies.

mod forwarded;

pub use self::forwarded::parse_address;

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use http::HeaderMap;
use http::header::FORWARDED;
use ipnet::{IpNet, Ipv4Net};

/// How many hops are read. Real chains have a few; the rest of a longer list is forged.
const MAX_HOPS: usize = 64;
const X_FORWARDED_FOR: &str = "x-forwarded-for";
/// The bits of an IPv6 address before an IPv4 address that is mapped into it.
const MAPPED_BITS: u8 = 96;
/// Providers give one subscriber a /64 or more.
const DEFAULT_IPV6_PREFIX: u8 = 64;

/// Which header field of a trusted proxy is used.
///
/// Choose the field that the proxy writes: the other one is passed on as the client sent it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ForwardedHeader {
    /// `X-Forwarded-For`, and `Forwarded` only if a request has no `X-Forwarded-For` at all.
    ///
    /// Safe behind every proxy that writes `X-Forwarded-For`, as nearly all do: a `Forwarded` field that
    /// a client sends is then never read. Behind a proxy that writes `Forwarded` and passes on a client's
    /// `X-Forwarded-For`, choose [`Forwarded`](ForwardedHeader::Forwarded).
    #[default]
    Either,
    /// Only `X-Forwarded-For`.
    XForwardedFor,
    /// Only `Forwarded` (RFC 7239).
    Forwarded,
}

/// Finds the client's address of a request. By default it trusts no proxy and so reads no header.
///
/// ```
/// use std::net::IpAddr;
/// use http::HeaderMap;
/// use waterclock_http::ClientIp;
///
/// let client_ip = ClientIp::behind(["10.0.0.0/8"])?;
/// let mut headers = HeaderMap::new();
/// headers.insert("x-forwarded-for", "1.2.3.4, 2001:db8:1:2:3::4, 10.0.0.2".parse()?);
///
/// // Both proxies are trusted; the entry left of the client may be forged by the client.
/// let proxy = IpAddr::from([10, 0, 0, 1]);
/// assert_eq!(client_ip.key(proxy, &headers).to_string(), "2001:db8:1:2::/64");
///
/// // The headers of an untrusted peer are ignored.
/// let stranger = IpAddr::from([203, 0, 113, 7]);
/// assert_eq!(client_ip.key(stranger, &headers).to_string(), "203.0.113.7");
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct ClientIp {
    proxies: TrustedProxies,
    header: ForwardedHeader,
    ipv6_prefix: u8,
}

impl ClientIp {
    /// The address that these proxies forward for. Proxies are CIDR blocks or single addresses.
    ///
    /// # Errors
    ///
    /// [`AddressError::InvalidNetwork`] for a text that is neither.
    pub fn behind(
        networks: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> Result<Self, AddressError> {
        Ok(TrustedProxies::parse(networks)?.into())
    }

    /// Sets which header field is used.
    #[must_use]
    pub fn header(mut self, header: ForwardedHeader) -> Self {
        self.header = header;
        self
    }

    /// Sets how many leading bits of an IPv6 address identify a client, from 1 to 128. 64 by default,
    /// because a client that has one address of such a network has all of them.
    ///
    /// # Errors
    ///
    /// [`AddressError::InvalidPrefix`] for any other number.
    pub fn ipv6_prefix(mut self, bits: u8) -> Result<Self, AddressError> {
        if !(1..=128).contains(&bits) {
            return Err(AddressError::InvalidPrefix(bits));
        }
        self.ipv6_prefix = bits;
        Ok(self)
    }

    /// The client's address, given the address of the connection's peer.
    ///
    /// Headers count only if the peer is a trusted proxy. Then the hops are walked from the last one back
    /// to the first that is not trusted: a client can forge everything before it. An entry that is not
    /// an address stops the walk at the hop after it. If all hops are trusted, the first is the client.
    #[must_use]
    pub fn address(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let peer = peer.to_canonical();
        if !self.proxies.contains(peer) {
            return peer;
        }
        let use_x = match self.header {
            ForwardedHeader::XForwardedFor => true,
            ForwardedHeader::Forwarded => false,
            ForwardedHeader::Either => headers.contains_key(X_FORWARDED_FOR),
        };
        match use_x {
            true => self.walk(peer, forwarded::x_forwarded_for(headers.get_all(X_FORWARDED_FOR))),
            false => self.walk(peer, forwarded::forwarded(headers.get_all(FORWARDED))),
        }
    }

    /// The key that the client's requests share: [`ClientIp::address`], grouped.
    #[must_use]
    pub fn key(&self, peer: IpAddr, headers: &HeaderMap) -> AddressKey {
        self.group(self.address(peer, headers))
    }

    /// The key of an address from another source.
    #[must_use]
    pub fn group(&self, address: IpAddr) -> AddressKey {
        match address.to_canonical() {
            IpAddr::V6(address) => {
                let bits = self.ipv6_prefix;
                let mask = u128::MAX << (128 - u32::from(bits));
                let first = Ipv6Addr::from_bits(address.to_bits() & mask);
                AddressKey { first: first.into(), prefix: (bits < 128).then_some(bits) }
            }
            address => AddressKey { first: address, prefix: None },
        }
    }

    /// Walks the hops before a trusted peer, the nearest first.
    fn walk(&self, peer: IpAddr, hops: impl Iterator<Item = Option<IpAddr>>) -> IpAddr {
        let mut last = peer;
        for hop in hops.take(MAX_HOPS) {
            match hop {
                Some(address) if self.proxies.contains(address) => last = address,
                Some(address) => return address,
                None => return last,
            }
        }
        last
    }
}

impl Default for ClientIp {
    fn default() -> Self {
        TrustedProxies::default().into()
    }
}

impl From<TrustedProxies> for ClientIp {
    fn from(proxies: TrustedProxies) -> Self {
        let header = ForwardedHeader::default();
        Self { proxies, header, ipv6_prefix: DEFAULT_IPV6_PREFIX }
    }
}

/// The networks whose forwarded headers are used. Empty by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustedProxies(Vec<IpNet>);

impl TrustedProxies {
    /// Parses CIDR blocks (`10.0.0.0/8`, `2001:db8::/32`) and single addresses.
    ///
    /// # Errors
    ///
    /// [`AddressError::InvalidNetwork`] for a text that is neither.
    pub fn parse(
        networks: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> Result<Self, AddressError> {
        networks.into_iter().map(|text| network(text.as_ref())).collect::<Result<_, _>>().map(Self)
    }

    /// Whether the address is in one of the networks. An IPv4 address mapped into IPv6 counts as IPv4.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|network| network.contains(&address))
    }
}

fn network(text: &str) -> Result<IpNet, AddressError> {
    let trimmed = text.trim();
    let network = match trimmed.parse::<IpAddr>() {
        Ok(address) => IpNet::from(address),
        Err(_) => trimmed.parse().map_err(|_| AddressError::InvalidNetwork(text.to_owned()))?,
    };
    Ok(unmapped(network).trunc())
}

/// Addresses are compared in their IPv4 form, so networks mapped into IPv6 take that form, too.
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

/// The key that the requests of one client share: an address, or the network it is in.
///
/// Its text is the key: `203.0.113.7`, or `2001:db8:1:2::/64`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AddressKey {
    first: IpAddr,
    /// `None` for a single address.
    prefix: Option<u8>,
}

impl AddressKey {
    /// The address, or the first of the network with the length of its prefix.
    pub(crate) fn parts(&self) -> (IpAddr, Option<u8>) {
        (self.first, self.prefix)
    }
}

impl fmt::Display for AddressKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.prefix {
            Some(prefix) => write!(f, "{}/{prefix}", self.first),
            None => write!(f, "{}", self.first),
        }
    }
}

/// Why addresses could not be configured.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AddressError {
    /// A trusted proxy that is neither an address nor a CIDR block.
    InvalidNetwork(String),
    /// An IPv6 prefix that is not between 1 and 128 bits long.
    InvalidPrefix(u8),
}

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InvalidNetwork(text) => write!(
                f,
                "the trusted proxy {text:?} is not a network: write an address or a CIDR block such as \
                 \"10.0.0.0/8\" or \"2001:db8::/32\""
            ),
            Self::InvalidPrefix(bits) => {
                write!(f, "an IPv6 prefix of {bits} bits does not exist: write 1 to 128")
            }
        }
    }
}

impl std::error::Error for AddressError {}
