//! Headers made of anything: no stranger gains by them, and nothing panics.

use std::net::IpAddr;

use fastrand::Rng;
use http::{HeaderMap, HeaderValue};
use waterclock_http::{ClientIp, ForwardedHeader};

const ROUNDS: usize = 200_000;
const HEADERS: [ForwardedHeader; 3] =
    [ForwardedHeader::Either, ForwardedHeader::XForwardedFor, ForwardedHeader::Forwarded];

#[test]
fn without_a_trusted_peer_no_header_changes_the_key() {
    let mut rng = Rng::with_seed(0xadd);
    for _ in 0..ROUNDS {
        let header = *rng.choice(&HEADERS).expect("some");
        let finder = ClientIp::behind(["10.0.0.0/8", "fd00::/8"]).expect("valid").header(header);
        let peer = loop {
            let peer = address(&mut rng);
            if !ours(peer) {
                break peer;
            }
        };
        let headers = headers(&mut rng);
        let plain = finder.key(peer, &HeaderMap::new());
        assert_eq!(finder.address(peer, &headers), peer.to_canonical(), "{peer} {headers:?}");
        assert_eq!(finder.key(peer, &headers), plain, "{peer} {headers:?}");
        assert_eq!(finder.key(peer, &headers), finder.group(peer), "{peer} {headers:?}");
    }
}

/// Our proxy wrote the last entry; whatever stands before it, that is the client.
#[test]
fn behind_a_trusted_peer_the_client_is_the_one_the_proxy_saw() {
    let mut rng = Rng::with_seed(0xbad);
    let finder = ClientIp::behind(["10.0.0.0/8", "fd00::/8"]).expect("valid");
    let peer = IpAddr::from([10, 0, 0, 1]);
    let mut distinct = 0;
    for _ in 0..ROUNDS {
        let client = address(&mut rng);
        let name = *rng.choice(&["x-forwarded-for", "forwarded"]).expect("some");
        let own = match (name, client) {
            ("forwarded", IpAddr::V4(client)) => format!("for={client};proto=https"),
            ("forwarded", IpAddr::V6(client)) => format!("host=\"a,b\";for=\"[{client}]:80\""),
            _ => client.to_string(),
        };
        let mut headers = HeaderMap::new();
        let typed = value(&mut rng);
        if rng.bool() {
            headers.append(name, header_value(&[&typed[..], b", ", own.as_bytes()].concat()));
        } else {
            headers.append(name, header_value(&typed));
            headers.append(name, header_value(own.as_bytes()));
        }
        let found = finder.address(peer, &headers);
        if !ours(client) {
            assert_eq!(found, client.to_canonical(), "{headers:?}");
            distinct += 1;
        }
    }
    assert!(distinct > ROUNDS / 2, "{distinct}");
}

/// Not only text: every byte a header value can hold.
#[test]
fn any_bytes_lead_to_an_address() {
    let mut rng = Rng::with_seed(0xff);
    let finder = ClientIp::behind(["0.0.0.0/0", "::/0"]).expect("valid");
    for _ in 0..ROUNDS {
        let (peer, headers) = (address(&mut rng), headers(&mut rng));
        for header in HEADERS {
            let _ = finder.clone().header(header).key(peer, &headers).to_string();
        }
    }
}

fn ours(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => address.octets()[0] == 10,
        IpAddr::V6(address) => address.octets()[0] == 0xfd,
    }
}

fn address(rng: &mut Rng) -> IpAddr {
    let four: [u8; 4] = [*rng.choice(&[10, 127, 203, 255]).expect("some"), 0, 0, rng.u8(..)];
    match rng.u8(..3) {
        0 => IpAddr::from(four),
        1 => std::net::Ipv4Addr::from(four).to_ipv6_mapped().into(),
        _ => {
            let first = *rng.choice(&[0xfd00, 0x2001, 0xfe80]).expect("some");
            IpAddr::from([first, rng.u16(..), 0, rng.u16(..), 0, 0, 0, rng.u16(..)])
        }
    }
}

fn headers(rng: &mut Rng) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for _ in 0..rng.usize(..4) {
        let name = *rng.choice(&["x-forwarded-for", "forwarded", "x-real-ip"]).expect("some");
        headers.append(name, header_value(&value(rng)));
    }
    headers
}

/// Pieces of what such headers are made of, in any order, and some bytes of any kind.
fn value(rng: &mut Rng) -> Vec<u8> {
    const PIECES: [&str; 20] = [
        ",", ", ", ";", "=", "\"", "\\", "[", "]", ":", "%", " ", "for=", "For=\"", "by=",
        "unknown", "_x", "1.2.3.4", "10.0.0.2", "::1", "4711",
    ];
    let mut value = Vec::new();
    for _ in 0..rng.usize(..14) {
        match rng.u8(..8) {
            0 => value.push(rng.u8(..)),
            1 => value.extend_from_slice(address(rng).to_string().as_bytes()),
            _ => value.extend_from_slice(rng.choice(PIECES).expect("some").as_bytes()),
        }
    }
    value
}

/// What the HTTP parser lets through: no control characters but the tab.
fn header_value(bytes: &[u8]) -> HeaderValue {
    let allowed = |byte: &u8| *byte == b'\t' || (*byte >= b' ' && *byte != 0x7f);
    let bytes: Vec<u8> = bytes.iter().copied().filter(allowed).collect();
    HeaderValue::from_bytes(&bytes).expect("only allowed bytes are left")
}
