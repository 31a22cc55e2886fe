//! Requests as they arrive, and the client that they are counted for.

use std::net::IpAddr;

use http::{HeaderMap, HeaderName, HeaderValue};
use waterclock_http::{AddressError, ClientIp, ForwardedHeader, TrustedProxies};

/// Ours: two networks and one proxy at the edge.
const OURS: [&str; 3] = ["10.0.0.0/8", "2001:db8:ff::/48", "192.0.2.1"];
const STRANGER: &str = "203.0.113.7";
const PROXY: &str = "10.0.0.1";

fn header_map(lines: &[(&str, &[u8])]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        let name = HeaderName::from_bytes(name.as_bytes()).expect("a name");
        headers.append(name, HeaderValue::from_bytes(value).expect("a value"));
    }
    headers
}

fn key(finder: &ClientIp, peer: &str, lines: &[(&str, &[u8])]) -> String {
    let peer: IpAddr = peer.parse().expect("an address");
    finder.key(peer, &header_map(lines)).to_string()
}

/// peer, header lines (name, value), the key.
type Row<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a str);

fn holds(finder: &ClientIp, rows: &[Row<'_>]) {
    for (peer, lines, expected) in rows {
        let bytes: Vec<(&str, &[u8])> =
            lines.iter().map(|(name, value)| (*name, value.as_bytes())).collect();
        assert_eq!(key(finder, peer, &bytes), *expected, "peer {peer} with {lines:?}");
    }
}

const XFF: &str = "X-Forwarded-For";
const FWD: &str = "Forwarded";

#[test]
fn no_proxy_is_trusted_by_default() {
    let rows: [Row<'_>; 6] = [
        (STRANGER, &[], "203.0.113.7"),
        (STRANGER, &[(XFF, "1.2.3.4")], "203.0.113.7"),
        (STRANGER, &[(FWD, "for=1.2.3.4"), (XFF, "10.0.0.1")], "203.0.113.7"),
        ("127.0.0.1", &[(XFF, "1.2.3.4")], "127.0.0.1"),
        ("::1", &[(XFF, "1.2.3.4")], "::/64"),
        ("::ffff:203.0.113.7", &[(XFF, "1.2.3.4")], "203.0.113.7"),
    ];
    holds(&ClientIp::default(), &rows);
    holds(&ClientIp::behind([""; 0]).expect("none"), &rows);
}

#[test]
fn x_forwarded_for() {
    holds(
        &ClientIp::behind(OURS).expect("valid"),
        &[
            // Forged, without one of our proxies in between.
            (STRANGER, &[(XFF, "1.2.3.4")], "203.0.113.7"),
            (STRANGER, &[(XFF, "1.2.3.4, 10.0.0.2")], "203.0.113.7"),
            ("192.0.2.2", &[(XFF, "1.2.3.4")], "192.0.2.2"),
            // Behind one, two and three proxies.
            (PROXY, &[], "10.0.0.1"),
            (PROXY, &[(XFF, "203.0.113.7")], "203.0.113.7"),
            (PROXY, &[(XFF, "203.0.113.7, 10.9.9.9")], "203.0.113.7"),
            (PROXY, &[(XFF, "203.0.113.7, 192.0.2.1,10.9.9.9")], "203.0.113.7"),
            // What the client typed stands left of what our proxy saw.
            (PROXY, &[(XFF, "1.2.3.4, 203.0.113.7")], "203.0.113.7"),
            (PROXY, &[(XFF, "10.0.0.5, 203.0.113.7")], "203.0.113.7"),
            (PROXY, &[(XFF, "1.2.3.4, 203.0.113.7, 10.0.0.2")], "203.0.113.7"),
            (PROXY, &[(XFF, "garbage, 203.0.113.7")], "203.0.113.7"),
            // All of them ours: the first.
            (PROXY, &[(XFF, "10.0.0.9, 10.0.0.2")], "10.0.0.9"),
            (PROXY, &[(XFF, "2001:db8:ff:1::9, 10.0.0.2")], "2001:db8:ff:1::/64"),
            // Several lines are one list, the last line last.
            (PROXY, &[(XFF, "1.2.3.4"), (XFF, "203.0.113.7")], "203.0.113.7"),
            (PROXY, &[(XFF, "203.0.113.7"), (XFF, "10.0.0.2"), (XFF, "10.0.0.3")], "203.0.113.7"),
            (PROXY, &[(XFF, "1.2.3.4, 203.0.113.7"), (XFF, "10.0.0.2")], "203.0.113.7"),
            // Ports, brackets, zones, mapped addresses.
            (PROXY, &[(XFF, "203.0.113.7:4711")], "203.0.113.7"),
            (PROXY, &[(XFF, "2001:db8:1:2:3:4:5:6")], "2001:db8:1:2::/64"),
            (PROXY, &[(XFF, "[2001:db8:1:2:3:4:5:6]")], "2001:db8:1:2::/64"),
            (PROXY, &[(XFF, "[2001:db8:1:2::1]:65535")], "2001:db8:1:2::/64"),
            (PROXY, &[(XFF, "2001:DB8:1:2::")], "2001:db8:1:2::/64"),
            (PROXY, &[(XFF, "fe80::1%eth0")], "fe80::/64"),
            (PROXY, &[(XFF, "[fe80::1%25eth0]:80")], "fe80::/64"),
            (PROXY, &[(XFF, "::ffff:203.0.113.7")], "203.0.113.7"),
            (PROXY, &[(XFF, "[::ffff:cb00:7107]:80")], "203.0.113.7"),
            (PROXY, &[(XFF, "203.0.113.7, ::ffff:10.0.0.2")], "203.0.113.7"),
            ("::ffff:10.0.0.1", &[(XFF, "203.0.113.7")], "203.0.113.7"),
            ("2001:db8:ff::1", &[(XFF, "203.0.113.7")], "203.0.113.7"),
            ("2001:db8:fe::1", &[(XFF, "203.0.113.7")], "2001:db8:fe::/64"),
            // Empty elements are none.
            (PROXY, &[(XFF, "")], "10.0.0.1"),
            (PROXY, &[(XFF, " , ,")], "10.0.0.1"),
            (PROXY, &[(XFF, ", 203.0.113.7,, 10.0.0.2 ,")], "203.0.113.7"),
            (PROXY, &[(XFF, "203.0.113.7"), (XFF, "")], "203.0.113.7"),
            (PROXY, &[(XFF, " \t203.0.113.7\t ")], "203.0.113.7"),
        ],
    );
}

#[test]
fn an_invalid_entry_ends_the_walk_at_the_hop_after_it() {
    let finder = ClientIp::behind(OURS).expect("valid");
    let malformed = [
        "garbage",
        "unknown",
        "_hidden",
        "unix:",
        "203.0.113",
        "203.0.113.256",
        "0203.0.113.7",
        "203.0.113.7:",
        "203.0.113.7:99999",
        "203.0.113.7:+80",
        "203.0.113.7:http",
        "[203.0.113.7]",
        "203.0.113.7%eth0",
        "[2001:db8::1",
        "2001:db8::1]",
        "[2001:db8::1]80",
        "[2001:db8::1]:",
        "[]",
        "[]:80",
        ":",
        "::1::",
        "fe80::1%",
        "2001:db8::12345",
        "203.0.113.7 203.0.113.8",
        "\"203.0.113.7\"",
        "for=203.0.113.7",
        "203.0.113.7/32",
        "localhost",
    ];
    for hop in malformed {
        let (last, between) = (hop.to_owned(), format!("203.0.113.7, {hop}, 10.0.0.2"));
        assert_eq!(key(&finder, PROXY, &[(XFF, last.as_bytes())]), "10.0.0.1", "{hop}");
        assert_eq!(key(&finder, PROXY, &[(XFF, between.as_bytes())]), "10.0.0.2", "{hop}");
    }
    for bytes in [&b"\xff\xfe"[..], "203.0.113.７".as_bytes(), b"10.0.0.2\x80"] {
        assert_eq!(key(&finder, PROXY, &[(XFF, bytes)]), "10.0.0.1", "{bytes:?}");
        assert_eq!(key(&finder, PROXY, &[(FWD, bytes)]), "10.0.0.1", "{bytes:?}");
    }
}

#[test]
fn forwarded() {
    holds(
        &ClientIp::behind(OURS).expect("valid"),
        &[
            (STRANGER, &[(FWD, "for=1.2.3.4")], "203.0.113.7"),
            (PROXY, &[(FWD, "for=203.0.113.7")], "203.0.113.7"),
            (PROXY, &[(FWD, "For=\"203.0.113.7:4711\"")], "203.0.113.7"),
            (PROXY, &[(FWD, "FOR=\"[2001:db8:1:2::1]:4711\"")], "2001:db8:1:2::/64"),
            (PROXY, &[(FWD, "for=\"[2001:db8:1:2::1]\"")], "2001:db8:1:2::/64"),
            (PROXY, &[(FWD, "for=\"203.0.\\113.7\"")], "203.0.113.7"),
            (PROXY, &[(FWD, "for=1.2.3.4, for=203.0.113.7, for=10.0.0.2")], "203.0.113.7"),
            (PROXY, &[(FWD, "for=10.0.0.9,for=10.0.0.2")], "10.0.0.9"),
            // Several parameters, in any order.
            (
                PROXY,
                &[(FWD, "proto=https;for=203.0.113.7;by=10.0.0.1;host=a.example")],
                "203.0.113.7",
            ),
            (PROXY, &[(FWD, "by=10.0.0.1 ; for=203.0.113.7;")], "203.0.113.7"),
            // Commas, semicolons and quotes in quoted strings.
            (PROXY, &[(FWD, "for=203.0.113.7;ext=\"a, for=1.2.3.4\"")], "203.0.113.7"),
            (PROXY, &[(FWD, "ext=\"a;for=1.2.3.4\";for=203.0.113.7")], "203.0.113.7"),
            (PROXY, &[(FWD, "for=203.0.113.7;ext=\"\\\", for=1.2.3.4\"")], "203.0.113.7"),
            (PROXY, &[(FWD, "for=203.0.113.7;ext=\"\\\\\", for=10.0.0.2")], "203.0.113.7"),
            (PROXY, &[(FWD, "for=203.0.113.7;ext=\"\\\\\\\", x\", for=10.0.0.2")], "203.0.113.7"),
            // A client's stray quote does not swallow what our proxy wrote behind it.
            (PROXY, &[(FWD, "for=\"1.2.3.4, for=203.0.113.7")], "203.0.113.7"),
            (PROXY, &[(FWD, "for=1.2.3.4;a=\", for=203.0.113.7;host=\"a\"")], "203.0.113.7"),
            (PROXY, &[(FWD, "a=\"\\"), (FWD, "for=\"203.0.113.7\"")], "203.0.113.7"),
            // Several lines.
            (PROXY, &[(FWD, "for=1.2.3.4"), (FWD, "for=203.0.113.7")], "203.0.113.7"),
            (PROXY, &[(FWD, "for=203.0.113.7;proto=http"), (FWD, "for=10.0.0.2")], "203.0.113.7"),
            // No address: hidden, unknown, missing, twice, broken.
            (PROXY, &[(FWD, "for=203.0.113.7, for=unknown")], "10.0.0.1"),
            (PROXY, &[(FWD, "for=203.0.113.7, for=_hidden, for=10.0.0.2")], "10.0.0.2"),
            (PROXY, &[(FWD, "for=203.0.113.7, for=\"_x:80\"")], "10.0.0.1"),
            (PROXY, &[(FWD, "for=203.0.113.7, proto=https")], "10.0.0.1"),
            (PROXY, &[(FWD, "for=203.0.113.7;for=203.0.113.8")], "10.0.0.1"),
            (PROXY, &[(FWD, "for=203.0.113.7;for=203.0.113.7")], "10.0.0.1"),
            (PROXY, &[(FWD, "for = 203.0.113.7")], "10.0.0.1"),
            (PROXY, &[(FWD, "for=\"203.0.113.7")], "10.0.0.1"),
            (PROXY, &[(FWD, "for=203.0.113.7\"")], "10.0.0.1"),
            (PROXY, &[(FWD, "for=\"")], "10.0.0.1"),
            (PROXY, &[(FWD, "for=\"\\\"")], "10.0.0.1"),
            (PROXY, &[(FWD, "for=")], "10.0.0.1"),
            (PROXY, &[(FWD, "203.0.113.7")], "10.0.0.1"),
            (PROXY, &[(FWD, ", ,;, for=203.0.113.7,")], "203.0.113.7"),
            (PROXY, &[(FWD, ";")], "10.0.0.1"),
        ],
    );
}

#[test]
fn one_of_the_two_headers_is_believed() {
    let both = [(XFF, &b"203.0.113.7"[..]), (FWD, b"for=198.51.100.9")];
    let standard = &both[1..];
    let behind = || ClientIp::behind(OURS).expect("valid");
    assert_eq!(key(&behind(), PROXY, &both), "203.0.113.7");
    assert_eq!(key(&behind(), PROXY, standard), "198.51.100.9");
    // Even one that says nothing: our proxy wrote it.
    assert_eq!(key(&behind(), PROXY, &[(XFF, b""), both[1]]), "10.0.0.1");
    let only_x = behind().header(ForwardedHeader::XForwardedFor);
    assert_eq!(key(&only_x, PROXY, &both), "203.0.113.7");
    assert_eq!(key(&only_x, PROXY, standard), "10.0.0.1");
    let only_standard = behind().header(ForwardedHeader::Forwarded);
    assert_eq!(key(&only_standard, PROXY, &both), "198.51.100.9");
    assert_eq!(key(&only_standard, PROXY, &both[..1]), "10.0.0.1");
}

#[test]
fn the_walk_has_an_end() {
    let finder = ClientIp::behind(OURS).expect("valid");
    let chain = |proxies: usize| {
        let ours = (1..=proxies).rev().map(|i| format!(", 10.1.0.{i}"));
        format!("203.0.113.7{}", ours.collect::<String>())
    };
    assert_eq!(key(&finder, PROXY, &[(XFF, chain(63).as_bytes())]), "203.0.113.7");
    assert_eq!(key(&finder, PROXY, &[(XFF, chain(64).as_bytes())]), "10.1.0.64");
    assert_eq!(key(&finder, PROXY, &[(XFF, chain(200).as_bytes())]), "10.1.0.64");
    let long = format!("{}203.0.113.7", "1.2.3.4, ".repeat(200_000));
    assert_eq!(key(&finder, PROXY, &[(XFF, long.as_bytes())]), "203.0.113.7");
    let long = format!("for={}", "\\\"".repeat(500_000));
    assert_eq!(key(&finder, PROXY, &[(FWD, long.as_bytes())]), "10.0.0.1");
}

#[test]
fn ipv6_is_grouped_as_told() {
    let client = [(XFF, &b"2001:db8:1:2:3:4:5:6"[..])];
    for (bits, expected) in [
        (128, "2001:db8:1:2:3:4:5:6"),
        (127, "2001:db8:1:2:3:4:5:6/127"),
        (56, "2001:db8:1::/56"),
        (48, "2001:db8:1::/48"),
        (1, "::/1"),
    ] {
        let finder = ClientIp::behind(OURS).and_then(|finder| finder.ipv6_prefix(bits));
        let finder = finder.expect("valid");
        assert_eq!(key(&finder, PROXY, &client), expected);
        assert_eq!(key(&finder, "::ffff:203.0.113.7", &[]), "203.0.113.7", "IPv4 stays itself");
    }
    for bits in [0, 129, 255] {
        let refused = ClientIp::default().ipv6_prefix(bits).map(|_| ());
        assert_eq!(refused, Err(AddressError::InvalidPrefix(bits)));
    }
}

#[test]
fn networks_are_parsed_or_refused() {
    let contains = |network: &str, address: &str| {
        let proxies = TrustedProxies::parse([network]).expect("a network");
        proxies.contains(address.parse().expect("an address"))
    };
    assert!(contains("127.0.0.1/8", "127.255.0.1"));
    assert!(contains("0.0.0.0/0", "::ffff:203.0.113.7"));
    assert!(!contains("::/0", "203.0.113.7"), "an IPv4 address is none, however it is written");
    assert!(contains("::ffff:10.0.0.0/104", "10.255.0.1"));
    assert!(!contains("::ffff:10.0.0.0/104", "11.0.0.1"));
    assert!(contains("::ffff:10.0.0.1", "10.0.0.1"));
    assert!(contains(" 2001:db8::/32 ", "2001:db8:ffff::1"));
    assert!(!contains("10.0.0.1", "10.0.0.2"));
    for wrong in ["", "10.0.0.0/33", "10.0.0/8", "::/129", "localhost", "10.0.0.0/-1", "10.0.0.0/"]
    {
        let error = ClientIp::behind(["10.0.0.0/8", wrong]).map(|_| ()).expect_err(wrong);
        assert_eq!(error, AddressError::InvalidNetwork(wrong.to_owned()));
        assert!(error.to_string().contains(&format!("{wrong:?}")), "{error}");
    }
}
