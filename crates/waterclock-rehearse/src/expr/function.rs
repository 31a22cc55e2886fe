//! What can be called by name.

use std::borrow::Cow;
use std::net::IpAddr;

use waterclock_core::Decimal;
use waterclock_http::{ClientIp, compose_key};

use super::tree::Part;
use super::value::{Kind, Value, quoted};

/// A function of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Function {
    Segments,
    Lower,
    Net,
    OrElse,
    Number,
    Text,
    /// How a policy forms its key from several fields; it has no name in expressions.
    Compose,
}

/// Its name, how it is called, and with how many values.
const KNOWN: [(Function, &str, &str, usize, usize); 6] = [
    (Function::Segments, "segments", "segments(path, 2)", 2, 2),
    (Function::Lower, "lower", "lower(agent)", 1, 1),
    (Function::Net, "net", "net(client_ip, 24) or net(client_ip, 24, 48)", 1, 3),
    (Function::OrElse, "or_else", "or_else(user, client_ip)", 2, 2),
    (Function::Number, "number", "number(extra_1)", 1, 1),
    (Function::Text, "text", "text(status)", 1, 1),
];

impl Function {
    pub(super) fn named(name: &str) -> Option<Function> {
        KNOWN.iter().find(|known| known.1 == name).map(|known| known.0)
    }

    pub(super) fn names() -> impl Iterator<Item = &'static str> {
        KNOWN.iter().map(|known| known.1)
    }

    /// How to call it, if not with so many values.
    pub(super) fn refuses(self, values: usize) -> Option<&'static str> {
        let (_, _, example, fewest, most) = KNOWN.iter().find(|known| known.0 == self)?;
        (!(*fewest..=*most).contains(&values)).then_some(*example)
    }

    pub(super) fn kind(self, parts: &[Part]) -> Kind {
        match (self, parts) {
            (Function::OrElse, [one, other]) => one.kind().or(other.kind()),
            (Function::Number, _) => Kind::Number,
            _ => Kind::Text,
        }
    }

    /// The kind of value it wants at a place.
    pub(super) fn wants(self, place: usize, wanted: Kind) -> Kind {
        match (self, place) {
            (Function::OrElse, _) => wanted,
            (Function::Number, _) => Kind::Any,
            (Function::Segments | Function::Net, 1..) => Kind::Number,
            _ => Kind::Text,
        }
    }

    /// Evaluates it; a missing value makes the result missing. `OrElse` is evaluated elsewhere.
    pub(super) fn call<'v>(self, mut values: Vec<Value<'v>>) -> Result<Value<'v>, String> {
        if values.contains(&Value::Missing) {
            return Ok(Value::Missing);
        }
        let mut numbers = Vec::new();
        if matches!(self, Function::Segments | Function::Net) {
            for value in values.drain(1..) {
                numbers.push(small(&value)?);
            }
        }
        if self == Function::Compose {
            let texts = values.into_iter().filter_map(Value::into_text);
            return composed(texts).map(Value::Text);
        }
        let Some(value) = values.pop() else { return Ok(Value::Missing) };
        if self == Function::Number {
            return Ok(value.to_number()?.map_or(Value::Missing, Value::Number));
        }
        let Some(text) = value.into_text() else { return Ok(Value::Missing) };
        let text = match self {
            Function::Segments => segments(text, numbers.first().copied().unwrap_or(1)),
            Function::Lower => lower(text),
            Function::Net => net(text, &numbers)?,
            _ => text,
        };
        Ok(Value::Text(text))
    }
}

fn small(value: &Value<'_>) -> Result<u8, String> {
    let number = value.to_number()?.map_or(0, Decimal::floor);
    u8::try_from(number).map_err(|_| format!("{number} is not from 0 to 255"))
}

/// Several values as the server joins the fields of a key.
fn composed<'v>(texts: impl Iterator<Item = Cow<'v, str>>) -> Result<Cow<'v, str>, String> {
    let key = compose_key(texts.map(|text| text.into_owned().into_bytes()));
    String::from_utf8(key).map(Cow::Owned).map_err(|error| error.to_string())
}

/// The first so many segments of a path: two of `/api/users/7` are `/api/users`.
fn segments(path: Cow<'_, str>, count: u8) -> Cow<'_, str> {
    let before_first = usize::from(path.starts_with('/'));
    let slashes = path.match_indices('/').map(|(at, _)| at);
    let end = slashes.skip(before_first).nth(usize::from(count.saturating_sub(1)));
    match (count, end) {
        (0, _) => Cow::Borrowed(""),
        (_, None) => path,
        (_, Some(end)) => cut(path, end),
    }
}

fn cut(text: Cow<'_, str>, end: usize) -> Cow<'_, str> {
    match text {
        Cow::Borrowed(text) => Cow::Borrowed(&text[..end]),
        Cow::Owned(mut text) => {
            text.truncate(end);
            Cow::Owned(text)
        }
    }
}

fn lower(text: Cow<'_, str>) -> Cow<'_, str> {
    let is_lower = text.bytes().all(|byte| byte.is_ascii() && !byte.is_ascii_uppercase());
    if is_lower { text } else { text.to_lowercase().into() }
}

/// The network of an address; what is no address stays as it is. Without numbers, as the server groups
/// clients.
fn net<'v>(text: Cow<'v, str>, bits: &[u8]) -> Result<Cow<'v, str>, String> {
    let (four, six) = (bits.first().copied().unwrap_or(32), bits.get(1).copied().unwrap_or(64));
    if four > 32 || !(1..=128).contains(&six) {
        return Err(format!(
            "a network has 0 to 32 bits, or 1 to 128 of IPv6; found {four} and {six}"
        ));
    }
    // There is only one way to write an IPv4 address.
    if four == 32 && !text.contains(':') {
        return Ok(text);
    }
    let Ok(address) = text.parse::<IpAddr>() else { return Ok(text) };
    Ok(match address.to_canonical() {
        IpAddr::V4(address) if four < 32 => {
            let mask = u32::MAX.checked_shl(32 - u32::from(four)).unwrap_or(0);
            format!("{}/{four}", std::net::Ipv4Addr::from_bits(address.to_bits() & mask)).into()
        }
        address => {
            let grouping = ClientIp::default().ipv6_prefix(six);
            let grouping =
                grouping.map_err(|_| format!("{} has no such network", quoted(&text)))?;
            grouping.group(address).to_string().into()
        }
    })
}
