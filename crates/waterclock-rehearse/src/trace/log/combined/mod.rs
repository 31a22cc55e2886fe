//! A line as Apache and nginx write them by default:
//! `[host] address ident user [time] "request" status bytes ["referer" "agent" …]`.

mod names;
mod quoted;
mod tail;
#[cfg(test)]
mod tests;

use std::net::IpAddr;

pub(super) use self::names::{CLIENT_IP, CombinedNames, TIME};

use self::names::{BYTES, EXTRA, FIELDS, STATUS};
use self::quoted::{quoted_end, unescaped};
use self::tail::Tail;
use crate::expr::{Ratio, Row, Value};

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
    /// What follows; it is looked at when somebody asks.
    rest: &'l str,
}

impl<'l> Combined<'l> {
    /// Takes a line apart. Servers escape quotes, so the first quote begins the request, whatever clients
    /// call themselves before it.
    pub(super) fn parse(line: &'l str) -> Result<Combined<'l>, String> {
        let (head, rest) =
            line.split_once('"').ok_or("there is no request in quotes in this line")?;
        let (who, time) = head
            .trim_ascii_end()
            .strip_suffix(']')
            .and_then(|head| head.rsplit_once('['))
            .ok_or("there is no [time] before the request")?;
        let (host, address, ident, user) =
            names(who.trim_ascii()).ok_or("before the [time] there must be: address ident user")?;
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

    /// Method, target and protocol. What somebody sends who does not speak HTTP has none of them.
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
    Ratio::parse(digits).map_or(Value::Missing, Value::Number)
}

/// Host, address, ident and user. A user may have spaces; a host is there only where it must be one. It may
/// look like an address, as it is what clients ask for: then the address that follows it is the client's.
fn names(who: &str) -> Option<(Option<&str>, &str, &str, &str)> {
    let (first, rest) = who.split_once(' ')?;
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
