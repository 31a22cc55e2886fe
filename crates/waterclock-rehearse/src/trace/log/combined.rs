//! A line as Apache and nginx write them by default:
//! `[host] address ident user [time] "request" status bytes ["referer" "agent" …]`.

use std::borrow::Cow;
use std::net::IpAddr;

use waterclock_config::did_you_mean;

use crate::expr::{Kind, Names, Row, Value};

/// A line in its parts.
pub(super) struct Combined<'l> {
    host: Option<&'l str>,
    address: &'l str,
    ident: &'l str,
    user: &'l str,
    time: &'l str,
    request: &'l str,
    status: &'l str,
    bytes: &'l str,
    /// What follows; it is parsed only when needed.
    rest: &'l str,
}

impl<'l> Combined<'l> {
    /// Splits a line. Servers escape quotes, so the first quote begins the request, whatever the user name is.
    pub(super) fn parse(line: &'l str) -> Result<Combined<'l>, String> {
        let (head, rest) =
            line.split_once('"').ok_or("there is no request in quotes in this line")?;
        let (before, time) = head
            .trim_ascii_end()
            .strip_suffix(']')
            .and_then(|head| head.rsplit_once('['))
            .ok_or("there is no [time] before the request")?;
        let (host, address, ident, user) = names(before.trim_ascii())
            .ok_or("before the [time] there must be: address ident user")?;
        let end = quoted_end(rest).ok_or("the request has no closing quote")?;
        let mut words = rest[end + 1..].trim_ascii_start().splitn(3, ' ');
        let (status, bytes) = (words.next().unwrap_or(""), words.next().unwrap_or("-"));
        if status.len() != 3 || !status.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err("after the request there must be a status such as 200".to_owned());
        }
        if bytes != "-" && (bytes.is_empty() || !bytes.bytes().all(|byte| byte.is_ascii_digit())) {
            return Err("after the status there must be a number of bytes, or -".to_owned());
        }
        let rest_of_line = words.next().unwrap_or("");
        Ok(Combined {
            host,
            address,
            ident,
            user,
            time,
            request: &rest[..end],
            status,
            bytes,
            rest: rest_of_line,
        })
    }

    fn method(&self) -> Option<&'l str> {
        self.target().map(|(method, _, _)| method)
    }

    /// Method, target and protocol; none where the client did not send HTTP.
    fn target(&self) -> Option<(&'l str, &'l str, Option<&'l str>)> {
        let (method, rest) = self.request.split_once(' ')?;
        match rest.rsplit_once(' ') {
            Some((target, protocol)) if protocol.starts_with("HTTP/") => {
                Some((method, target, Some(protocol)))
            }
            _ => Some((method, rest, None)),
        }
    }

    /// The target without scheme and host, which requests to proxies have.
    fn path_and_query(&self) -> Option<(&'l str, Option<&'l str>)> {
        let (_, target, _) = self.target()?;
        let after_scheme =
            target.strip_prefix("http://").or_else(|| target.strip_prefix("https://"));
        let target = match after_scheme {
            Some(rest) => rest.find('/').map_or("/", |slash| &rest[slash..]),
            None => target,
        };
        Some(match target.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (target, None),
        })
    }

    /// The words and quoted texts after the bytes.
    fn tail(&self) -> Tail<'l> {
        Tail { rest: self.rest }
    }

    /// The referer and the agent, where both are there in quotes.
    fn has_referer(&self) -> bool {
        let mut tail = self.tail();
        matches!((tail.next(), tail.next()), (Some((_, true)), Some((_, true))))
    }

    fn word_of_tail(&self, place: usize) -> Option<&'l str> {
        self.tail().nth(place).map(|(text, _)| text)
    }
}

impl Row for Combined<'_> {
    fn value(&self, place: usize) -> Value<'_> {
        let text = match place {
            CLIENT_IP => Some(self.address),
            1 => Some(self.ident),
            2 => Some(self.user),
            TIME => Some(self.time),
            4 => self.method(),
            5 => self.path_and_query().map(|(path, _)| path),
            6 => self.path_and_query().and_then(|(_, query)| query),
            7 => self.target().map(|(_, target, _)| target),
            8 => self.target().and_then(|(_, _, protocol)| protocol),
            STATUS => return number(self.status),
            // Servers write - where they sent nothing.
            BYTES => return number(if self.bytes == "-" { "0" } else { self.bytes }),
            11 | 12 if self.has_referer() => self.word_of_tail(place - 11),
            11 | 12 => None,
            13 => self.host,
            _ => self.word_of_tail(place - EXTRA + if self.has_referer() { 2 } else { 0 }),
        };
        match text {
            None | Some("-") => Value::Missing,
            Some(text) => Value::Text(unescaped(text)),
        }
    }

    fn name(&self, place: usize) -> String {
        match FIELDS.get(place) {
            Some(name) => (*name).to_owned(),
            None => format!("extra_{}", place - EXTRA + 1),
        }
    }
}

fn number(digits: &str) -> Value<'_> {
    digits.parse().map_or(Value::Missing, Value::Number)
}

/// Host, address, ident and user. A user may have spaces; a host is there only where it must be one. It may
/// look like an address, as it is what clients ask for: then the address that follows it is the client's.
fn names(before: &str) -> Option<(Option<&str>, &str, &str, &str)> {
    let (first, rest) = before.split_once(' ')?;
    let (second, more) = rest.split_once(' ')?;
    let is_address = |word: &str| word.parse::<IpAddr>().is_ok();
    let has_host =
        second != "-" && more.contains(' ') && (is_address(second) || !is_address(first));
    if !has_host {
        return Some((None, first, second, more));
    }
    let (ident, user) = more.split_once(' ')?;
    Some((Some(first), second, ident, user))
}

/// The fields there are, by their places.
const FIELDS: [&str; 14] = [
    "client_ip",
    "ident",
    "user",
    "time",
    "method",
    "path",
    "query",
    "uri",
    "protocol",
    "status",
    "bytes",
    "referer",
    "agent",
    "host",
];
const ALIASES: [(&str, usize); 2] = [("addr", 0), ("remote_addr", 0)];
pub(super) const CLIENT_IP: usize = 0;
pub(super) const TIME: usize = 3;
const STATUS: usize = 9;
const BYTES: usize = 10;
/// What follows the agent, or the bytes where there is none: `extra_1` and so on.
const EXTRA: usize = FIELDS.len();
const MOST_EXTRA: usize = 9;

/// The names of the fields.
pub(super) struct CombinedNames;

impl Names for CombinedNames {
    fn find(&mut self, name: &str) -> Result<(usize, Kind), String> {
        let alias = || ALIASES.iter().find(|(alias, _)| *alias == name).map(|(_, place)| *place);
        match FIELDS.iter().position(|field| *field == name).or_else(alias) {
            Some(place @ (STATUS | BYTES)) => return Ok((place, Kind::Number)),
            Some(place) => return Ok((place, Kind::Text)),
            None => {}
        }
        let extra = name.strip_prefix("extra_").and_then(|number| number.parse::<usize>().ok());
        match extra {
            Some(number @ 1..=MOST_EXTRA) => Ok((EXTRA + number - 1, Kind::Any)),
            _ => {
                let hint = did_you_mean(name, FIELDS);
                let known = FIELDS.join(", ");
                Err(format!(
                    "there is no field `{name}` in this kind of log{hint} (it has {known}, and extra_1 to extra_{MOST_EXTRA} after them)"
                ))
            }
        }
    }
}

/// Where the closing quote is, in what follows the opening one.
fn quoted_end(inside: &str) -> Option<usize> {
    let mut from = 0;
    loop {
        let end = from + inside[from..].find('"')?;
        let slashes = inside.as_bytes()[..end].iter().rev().take_while(|byte| **byte == b'\\');
        if slashes.count().is_multiple_of(2) {
            return Some(end);
        }
        from = end + 1;
    }
}

/// Text without escapes: `\"` is a quote and `\x41` an A. What is no escape stays as it is.
fn unescaped(text: &str) -> Cow<'_, str> {
    if !text.contains('\\') {
        return Cow::Borrowed(text);
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, more)) = rest.split_first() {
        let (byte, length) = match (first, more) {
            (b'\\', [quoted @ (b'"' | b'\\'), ..]) => (*quoted, 2),
            (b'\\', [b'n', ..]) => (b'\n', 2),
            (b'\\', [b't', ..]) => (b'\t', 2),
            (b'\\', [b'r', ..]) => (b'\r', 2),
            (b'\\', [b'x', high, low, ..]) => match (hex(*high), hex(*low)) {
                (Some(high), Some(low)) => (high * 16 + low, 4),
                _ => (b'\\', 1),
            },
            _ => (*first, 1),
        };
        bytes.push(byte);
        rest = &rest[length..];
    }
    match String::from_utf8(bytes) {
        Ok(text) => Cow::Owned(text),
        Err(error) => Cow::Owned(String::from_utf8_lossy(error.as_bytes()).into_owned()),
    }
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

/// Words and quoted texts; whether each was quoted.
struct Tail<'l> {
    rest: &'l str,
}

impl<'l> Iterator for Tail<'l> {
    type Item = (&'l str, bool);

    fn next(&mut self) -> Option<(&'l str, bool)> {
        let rest = self.rest.trim_ascii_start();
        let (text, is_quoted, after) = match rest.strip_prefix('"') {
            Some(inside) => {
                let end = quoted_end(inside).unwrap_or(inside.len());
                (&inside[..end], true, inside.get(end + 1..).unwrap_or(""))
            }
            None if rest.is_empty() => return None,
            None => {
                let (word, after) = rest.split_once(' ').unwrap_or((rest, ""));
                (word, false, after)
            }
        };
        self.rest = after;
        Some((text, is_quoted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(line: &str) -> Vec<(String, String)> {
        let row = Combined::parse(line).unwrap();
        let found = |place| Some((row.name(place), row.value(place).into_text()?.into_owned()));
        (0..EXTRA + MOST_EXTRA).filter_map(found).collect()
    }

    fn assert_fields(line: &str, expected: &str) {
        let found: Vec<String> =
            fields(line).into_iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(found.join("|"), expected, "{line}");
    }

    #[test]
    fn lines_of_servers() {
        assert_fields(
            r#"127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /a.gif?x=1&y HTTP/1.0" 200 2326"#,
            "client_ip=127.0.0.1|user=frank|time=10/Oct/2000:13:55:36 -0700|method=GET|path=/a.gif|query=x=1&y|uri=/a.gif?x=1&y|protocol=HTTP/1.0|status=200|bytes=2326",
        );
        assert_fields(
            r#"example.com:443 2001:db8::1 - - [t] "POST / HTTP/2.0" 304 - "-" "curl \"x\" \x41" 0.005 "10.0.0.1, 10.0.0.2" -"#,
            r#"client_ip=2001:db8::1|time=t|method=POST|path=/|uri=/|protocol=HTTP/2.0|status=304|bytes=0|agent=curl "x" A|host=example.com:443|extra_1=0.005|extra_2=10.0.0.1, 10.0.0.2"#,
        );
        assert_fields(
            r#"host.example - john smith [t] "GET http://proxied.example/p q HTTP/1.1" 200 5 0.1 0.2"#,
            "client_ip=host.example|user=john smith|time=t|method=GET|path=/p q|uri=http://proxied.example/p q|protocol=HTTP/1.1|status=200|bytes=5|extra_1=0.1|extra_2=0.2",
        );
        assert_fields(
            r#"1.2.3.4 - x [11/Oct/2000:00:00:00 +0000] y [t] "\x16\x03" 400 0 "" "-""#,
            "client_ip=1.2.3.4|user=x [11/Oct/2000:00:00:00 +0000] y|time=t|status=400|bytes=0|referer=",
        );
        assert_fields(
            r#"203.0.113.5 2001:db8::7 - john smith [t] "-" 408 0"#,
            "client_ip=2001:db8::7|user=john smith|time=t|status=408|bytes=0|host=203.0.113.5",
        );
        assert_fields(
            r#"203.0.113.5 ident user [t] "-" 408 0"#,
            "client_ip=203.0.113.5|ident=ident|user=user|time=t|status=408|bytes=0",
        );
        assert_fields(
            r#"1.2.3.4 - - [t] "-" 408 0"#,
            "client_ip=1.2.3.4|time=t|status=408|bytes=0",
        );
    }

    #[test]
    fn what_is_no_such_line() {
        for line in [
            "",
            "hello",
            r#"{"time": 1}"#,
            r#"1.2.3.4 - - "GET / HTTP/1.1" 200 1"#,
            r#"1.2.3.4 [t] "GET / HTTP/1.1" 200 1"#,
            r#"1.2.3.4 - - [t] "GET / HTTP/1.1"#,
            r#"1.2.3.4 - - [t] "GET / HTTP/1.1" 2x0 1"#,
            r#"1.2.3.4 - - [t] "GET / HTTP/1.1" 200 1x"#,
            r#"1.2.3.4 - - [t] "GET /\" 200 1"#,
        ] {
            assert!(Combined::parse(line).is_err(), "{line}");
        }
    }

    #[test]
    fn nothing_panics() {
        let mut rng = fastrand::Rng::with_seed(1);
        let pieces = [
            "\"", "[", "]", " ", "-", "\\", "é", "1.2.3.4", "200", "GET /", "?", "HTTP/1.1", "\\x4",
        ];
        for _ in 0..50_000 {
            let length = rng.usize(0..25);
            let line: String = (0..length).map(|_| pieces[rng.usize(0..pieces.len())]).collect();
            let line =
                if rng.bool() { format!("1.2.3.4 - - [t] \"GET /\" 200 1 {line}") } else { line };
            if let Ok(row) = Combined::parse(&line) {
                (0..EXTRA + MOST_EXTRA).for_each(|place| drop(row.value(place)));
            }
        }
    }

    #[test]
    fn ends_and_escapes() {
        assert_eq!(quoted_end(r#"a\"b" c"#), Some(4));
        assert_eq!(quoted_end(r#"a\\" c"#), Some(3));
        assert_eq!(quoted_end(r#"a\""#), None);
        assert_eq!(unescaped(r#"a\"b\\c\x41\x4\q\"#), "a\"b\\cA\\x4\\q\\");
        assert_eq!(unescaped(r"\xc3\xa9\xff"), "é\u{fffd}");
    }
}
