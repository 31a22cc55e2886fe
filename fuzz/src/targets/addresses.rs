//! Forwarded addresses: header fields from strangers, of which only what trusted proxies wrote counts.
//!
//! The first line is the peer's address, the others are header fields: `X-Forwarded-For` or, after a `f`, `Forwarded`.

use std::net::{IpAddr, Ipv4Addr};

use http::header::{FORWARDED, HeaderMap, HeaderName, HeaderValue};
use libfuzzer_sys::Corpus;
use waterclock_http::{ClientIp, ForwardedHeader, TrustedProxies, parse_address};

use crate::planted::planted;

const TRUSTED: [&str; 3] = ["10.0.0.0/8", "192.0.2.1", "2001:db8::/32"];
const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

pub fn run(data: &[u8]) -> Corpus {
    let text = String::from_utf8_lossy(data);
    let mut lines = text.lines();
    let peer = lines.next().and_then(parse_address);
    let peer = peer.unwrap_or(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)));
    let (mut headers, mut split) = (HeaderMap::new(), HeaderMap::new());
    let mut entries = Vec::new();
    for line in lines {
        round_trip(line);
        let (name, value) = match line.strip_prefix('f') {
            Some(value) => (FORWARDED, value),
            None => (X_FORWARDED_FOR, line),
        };
        let Ok(field) = HeaderValue::from_str(value) else { continue };
        headers.append(name.clone(), field);
        if name == X_FORWARDED_FOR {
            entries.extend(value.split(','));
            for entry in value.split(',') {
                split.append(X_FORWARDED_FOR, HeaderValue::from_str(entry).expect("a part"));
            }
        }
    }
    let proxies = TrustedProxies::parse(TRUSTED).expect("networks");
    let clients = ClientIp::behind(TRUSTED).expect("networks");
    for header in
        [ForwardedHeader::Either, ForwardedHeader::XForwardedFor, ForwardedHeader::Forwarded]
    {
        let clients = clients.clone().header(header);
        let address = clients.address(peer, &headers);
        assert_eq!(address, address.to_canonical());
        if !proxies.contains(peer) {
            assert_eq!(address, peer.to_canonical());
        }
        let key = clients.key(peer, &headers).to_string();
        assert_eq!(key, clients.group(address).to_string());
    }
    let clients = clients.header(ForwardedHeader::XForwardedFor);
    let address = clients.address(peer, &headers);
    assert_eq!(address, clients.address(peer, &split), "a list may stand in several fields");
    assert_eq!(address, walked(&proxies, peer, &entries));
    Corpus::Keep
}

/// What the parser reads, it reads again.
fn round_trip(text: &str) {
    if let Some(address) = parse_address(text) {
        assert_eq!(parse_address(&address.to_string()), Some(address));
        let bracketed = format!("[{address}]:1");
        assert_eq!(parse_address(&bracketed), Some(address).filter(IpAddr::is_ipv6));
    }
}

/// The rule once more: from the last entry back, past those that are trusted.
fn walked(proxies: &TrustedProxies, peer: IpAddr, entries: &[&str]) -> IpAddr {
    let mut client = peer.to_canonical();
    let is_said = |entry: &&str| !entry.is_empty() || planted("an_empty_entry_ends_the_list");
    let entries = entries.iter().map(|entry| entry.trim_ascii()).filter(is_said);
    for entry in entries.rev().take(64) {
        if !proxies.contains(client) {
            break;
        }
        let Some(address) = parse_address(entry) else { break };
        client = address;
    }
    client
}
