//! `Forwarded` (RFC 7239): elements with commas between them, each written by the hop after it; an
//! element is `name=value` pairs with semicolons between them, and a value may be a quoted string.
//!
//! Lines are read from their end. The end is what our own proxies wrote; read from the front, one
//! stray quote of the client's would swallow it.

use std::net::IpAddr;

use http::HeaderValue;
use http::header::GetAll;

use super::hop;

/// The hops, the last first; `None` for one that is no address. Empty elements are skipped, as in any
/// list of a header.
pub(super) fn hops(lines: GetAll<'_, HeaderValue>) -> impl Iterator<Item = Option<IpAddr>> {
    lines
        .into_iter()
        .rev()
        .flat_map(|line| FromTheEnd { rest: Some(line.as_bytes()), separator: b',' })
        .filter(|element| !element.trim_ascii().is_empty())
        .map(|element| forwarded_for(std::str::from_utf8(element).ok()?))
}

/// The address that an element names; `unknown` and `_hidden` are no addresses.
fn forwarded_for(element: &str) -> Option<IpAddr> {
    let mut found = None;
    for pair in (FromTheEnd { rest: Some(element.as_bytes()), separator: b';' }) {
        let pair = std::str::from_utf8(pair).ok()?.trim_ascii();
        if pair.is_empty() {
            continue;
        }
        let (name, value) = pair.split_once('=')?;
        if !name.eq_ignore_ascii_case("for") {
            continue;
        }
        // Twice is not allowed, and whoever wrote it twice may mean either.
        if found.replace(unquoted(value)?).is_some() {
            return None;
        }
    }
    hop::parse(&found?)
}

/// What a quoted string says, or a plain value as it is.
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

/// The parts of a text between separators that are not in quotes, the last first.
struct FromTheEnd<'a> {
    rest: Option<&'a [u8]>,
    separator: u8,
}

impl<'a> Iterator for FromTheEnd<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = self.rest?;
        let mut quoted = false;
        for (at, byte) in rest.iter().enumerate().rev() {
            match *byte {
                // Inside of quotes, a quote behind a backslash is part of the text: the one that opens
                // them stands behind an equals sign.
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
