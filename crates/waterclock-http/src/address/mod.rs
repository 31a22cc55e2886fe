//! Who a request comes from.

mod error;
mod forwarded;
mod hop;
mod key;
mod proxies;
mod x_forwarded_for;

use std::net::IpAddr;

use http::HeaderMap;
use http::header::FORWARDED;

pub use error::AddressError;
pub use key::AddressKey;
pub use proxies::TrustedProxies;

/// How many hops are looked at. Real chains have a few; the rest of a longer list was made up.
const MOST_HOPS: usize = 64;
const X_FORWARDED_FOR: &str = "x-forwarded-for";

/// Which header field of a trusted proxy is believed.
///
/// Believe the field that the proxy writes: the other one comes from the client as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ForwardedHeader {
    /// `X-Forwarded-For`, and `Forwarded` only where a request has no `X-Forwarded-For` at all.
    ///
    /// Safe behind every proxy that writes `X-Forwarded-For`, as nearly all do: then there always is
    /// one, so that a `Forwarded` sent by a client is never looked at. Behind a proxy that writes
    /// `Forwarded` and lets a client's `X-Forwarded-For` pass, choose
    /// [`Forwarded`](ForwardedHeader::Forwarded).
    #[default]
    Either,
    /// Only `X-Forwarded-For`.
    XForwardedFor,
    /// Only `Forwarded` (RFC 7239).
    Forwarded,
}

/// Finds the client's address of a request. By default it believes no header.
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
/// // The two proxies are ours; what stands left of the client is what the client typed.
/// let proxy = IpAddr::from([10, 0, 0, 1]);
/// assert_eq!(client_ip.key(proxy, &headers).to_string(), "2001:db8:1:2::/64");
///
/// // A stranger's headers are not believed.
/// let stranger = IpAddr::from([203, 0, 113, 7]);
/// assert_eq!(client_ip.key(stranger, &headers).to_string(), "203.0.113.7");
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct ClientIp {
    proxies: TrustedProxies,
    header: ForwardedHeader,
    grouping: key::Grouping,
}

impl ClientIp {
    /// The address that these proxies, given as CIDR blocks, forward for.
    pub fn behind(
        networks: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> Result<Self, AddressError> {
        Ok(TrustedProxies::parse(networks)?.into())
    }

    /// Sets which header field is believed.
    #[must_use]
    pub fn header(mut self, header: ForwardedHeader) -> Self {
        self.header = header;
        self
    }

    /// Sets how many leading bits of an IPv6 address make one client: 64 by default, because whoever
    /// has one address of such a network has all of them. From 1 to 128.
    pub fn ipv6_prefix(mut self, bits: u8) -> Result<Self, AddressError> {
        self.grouping = key::Grouping::new(bits)?;
        Ok(self)
    }

    /// The client's address, given who the connection comes from.
    ///
    /// Headers count only if the peer is a trusted proxy. Then the hops are walked from the last one
    /// backwards to the first that is not trusted: everything before it, a client can make up. A hop
    /// that is no address ends the walk at the hop behind it. If all are trusted, it is the first.
    #[must_use]
    pub fn address(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let peer = peer.to_canonical();
        if !self.proxies.contains(peer) {
            return peer;
        }
        let from_x = || self.walk(peer, x_forwarded_for::hops(headers.get_all(X_FORWARDED_FOR)));
        let from_standard = || self.walk(peer, forwarded::hops(headers.get_all(FORWARDED)));
        match self.header {
            ForwardedHeader::XForwardedFor => from_x(),
            ForwardedHeader::Forwarded => from_standard(),
            ForwardedHeader::Either if headers.contains_key(X_FORWARDED_FOR) => from_x(),
            ForwardedHeader::Either => from_standard(),
        }
    }

    /// The key that the client's requests share: [`ClientIp::address`], grouped.
    #[must_use]
    pub fn key(&self, peer: IpAddr, headers: &HeaderMap) -> AddressKey {
        self.group(self.address(peer, headers))
    }

    /// The key of an address found elsewhere.
    #[must_use]
    pub fn group(&self, address: IpAddr) -> AddressKey {
        self.grouping.key(address)
    }

    /// The peer is trusted; the hops are the ones before it, the nearest first.
    fn walk(&self, peer: IpAddr, hops: impl Iterator<Item = Option<IpAddr>>) -> IpAddr {
        let mut last = peer;
        for hop in hops.take(MOST_HOPS) {
            match hop {
                Some(address) if self.proxies.contains(address) => last = address,
                Some(address) => return address,
                None => return last,
            }
        }
        last
    }
}

impl From<TrustedProxies> for ClientIp {
    fn from(proxies: TrustedProxies) -> Self {
        Self { proxies, ..Self::default() }
    }
}
