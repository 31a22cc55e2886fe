//! The hops in `X-Forwarded-For` and `Forwarded` (RFC 7239), the last hop first.
//!
//! Lines are read from their end, because our own proxies wrote the end. Read from the front, one stray
//! quote by the client could swallow it. A hop is `None` if it is not an address; empty list entries are
//! skipped, as in any list of a header.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use http::HeaderValue;
use http::header::GetAll;

/// Addresses separated by commas.
pub(super) fn x_forwarded_for(
    lines: GetAll<'_, HeaderValue>,
) -> impl Iterator<Item = Option<IpAddr>> {
    lines
        .into_iter()
        .rev()
        .flat_map(|line| line.as_bytes().rsplit(|byte| *byte == b','))
        .map(<[u8]>::trim_ascii)
        .filter(|entry| !entry.is_empty())
        .map(|entry| std::str::from_utf8(entry).ok().and_then(parse_address))
}

/// Elements separated by commas; an element is `name=value` pairs separated by semicolons, and a value may
/// be a quoted string.
pub(super) fn forwarded(lines: GetAll<'_, HeaderValue>) -> impl Iterator<Item = Option<IpAddr>> {
    lines
        .into_iter()
        .rev()
        .flat_map(|line| UnquotedSplit { rest: Some(line.as_bytes()), separator: b',' })
        .filter(|element| !element.trim_ascii().is_empty())
        .map(|element| forwarded_for(std::str::from_utf8(element).ok()?))
}

/// The `for` address of an element; `unknown` and `_hidden` are not addresses.
fn forwarded_for(element: &str) -> Option<IpAddr> {
    let mut found = None;
    for pair in (UnquotedSplit { rest: Some(element.as_bytes()), separator: b';' }) {
        let pair = std::str::from_utf8(pair).ok()?.trim_ascii();
        if pair.is_empty() {
            continue;
        }
        let (name, value) = pair.split_once('=')?;
        if !name.eq_ignore_ascii_case("for") {
            continue;
        }
        // RFC 7239 forbids a second `for`, and either could be meant.
        if found.replace(unquoted(value)?).is_some() {
            return None;
        }
    }
    parse_address(&found?)
}

/// The content of a quoted string, or a plain value as it is.
fn unquoted(value: &str) -> Option<String> {
    let Some(inner) = value.strip_prefix('"') else {
        return (!value.contains('"')).then(|| value.to_owned());
    };
    let mut characters = inner.strip_suffix('"')?.chars();
    let mut text = String::new();
    while let Some(character) = characters.next() {
        text.push(match character {
            '\\' => characters.next()?,
            '"' => return None,
            plain => plain,
        });
    }
    Some(text)
}

/// Splits at separators outside of quotes, the last part first.
struct UnquotedSplit<'a> {
    rest: Option<&'a [u8]>,
    separator: u8,
}

impl<'a> Iterator for UnquotedSplit<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = self.rest?;
        let mut quoted = false;
        for (at, byte) in rest.iter().enumerate().rev() {
            match *byte {
                // A quote after a backslash is part of the text. An opening quote follows an equals sign.
                b'"' if !quoted || !rest[..at].ends_with(b"\\") => quoted = !quoted,
                byte if byte == self.separator && !quoted => {
                    self.rest = Some(&rest[..at]);
                    return Some(&rest[at + 1..]);
                }
                _ => {}
            }
        }
        self.rest = None;
        Some(rest)
    }
}

/// The address in a text as proxies write it: `203.0.113.7`, `203.0.113.7:4711`, `2001:db8::1`, `[2001:db8::1]`,
/// `[2001:db8::1]:4711`, the last three also with a zone (`%eth0`).
///
/// Ports and zones do not identify a client and are dropped. An IPv4 address mapped into IPv6 becomes IPv4.
///
/// ```
/// use waterclock_http::parse_address;
///
/// assert_eq!(parse_address("[2001:db8::1]:4711"), "2001:db8::1".parse().ok());
/// assert_eq!(parse_address("::ffff:203.0.113.7"), "203.0.113.7".parse().ok());
/// assert_eq!(parse_address("unknown"), None);
/// ```
#[must_use]
pub fn parse_address(text: &str) -> Option<IpAddr> {
    let address: IpAddr = if let Some(inner) = text.strip_prefix('[') {
        let (address, port) = inner.split_once(']')?;
        if !port.is_empty() {
            accept_port(port.strip_prefix(':')?)?;
        }
        ipv6(address)?.into()
    } else {
        match text.split_once(':') {
            None => text.parse::<Ipv4Addr>().ok()?.into(),
            // A second colon means IPv6, which without brackets has no port.
            Some((_, rest)) if rest.contains(':') => ipv6(text)?.into(),
            Some((address, port)) => {
                accept_port(port)?;
                address.parse::<Ipv4Addr>().ok()?.into()
            }
        }
    };
    Some(address.to_canonical())
}

fn ipv6(text: &str) -> Option<Ipv6Addr> {
    let address = match text.split_once('%') {
        Some((_, "")) => return None,
        Some((address, _zone)) => address,
        None => text,
    };
    address.parse().ok()
}

fn accept_port(text: &str) -> Option<()> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    (digits && text.parse::<u16>().is_ok()).then_some(())
}
