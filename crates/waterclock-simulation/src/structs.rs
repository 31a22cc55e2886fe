//! Numbers and texts packed into bytes, as the `struct` library of Redis does: largest byte first, without padding.

use mlua::{Lua, LuaString as Text, MultiValue, Value, Variadic};

enum Item {
    Number(usize),
    Text(usize),
}

/// What a format asks for. Only what the scripts use.
fn items(format: &str) -> mlua::Result<Vec<Item>> {
    let wrong = || mlua::Error::runtime(format!("invalid format `{format}`"));
    let mut rest = format.strip_prefix('>').ok_or_else(wrong)?;
    let mut items = Vec::new();
    while let Some(letter) = rest.chars().next() {
        rest = &rest[1..];
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let count = rest[..end].parse::<usize>().ok();
        rest = &rest[end..];
        items.push(match (letter, count) {
            ('B', None) => Item::Number(1),
            ('I', Some(bytes @ 1..=8)) => Item::Number(bytes),
            ('c', Some(bytes)) => Item::Text(bytes),
            _ => return Err(wrong()),
        });
    }
    Ok(items)
}

pub(crate) fn pack(lua: &Lua, (format, args): (String, Variadic<Value>)) -> mlua::Result<Text> {
    let mut packed = Vec::new();
    let mut args = args.into_iter();
    for item in items(&format)? {
        let value = args.next().ok_or_else(|| mlua::Error::runtime("bad argument: no value"))?;
        match item {
            Item::Number(bytes) => {
                let n = match value {
                    Value::Integer(n) => n,
                    #[expect(clippy::cast_possible_truncation, reason = "as the library does")]
                    Value::Number(n) => n as i64,
                    Value::String(text) => text.to_str()?.parse().map_err(mlua::Error::external)?,
                    _ => return Err(mlua::Error::runtime("bad argument: number expected")),
                };
                packed.extend_from_slice(&n.to_be_bytes()[8 - bytes..]);
            }
            Item::Text(bytes) => {
                let Value::String(text) = value else {
                    return Err(mlua::Error::runtime("bad argument: string expected"));
                };
                let part = text.as_bytes().get(..bytes).map(<[u8]>::to_vec);
                packed.extend(part.ok_or_else(|| mlua::Error::runtime("string too short"))?);
            }
        }
    }
    lua.create_string(packed)
}

pub(crate) fn unpack(
    lua: &Lua,
    (format, data, from): (String, Text, Option<usize>),
) -> mlua::Result<MultiValue> {
    let data = data.as_bytes();
    let mut at = from.unwrap_or(1) - 1;
    let mut values = Vec::new();
    for item in items(&format)? {
        let (Item::Number(bytes) | Item::Text(bytes)) = item;
        let part = data.get(at..at + bytes);
        let part = part.ok_or_else(|| mlua::Error::runtime("data string too short"))?;
        values.push(match item {
            Item::Number(_) => {
                let number = part.iter().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte));
                #[expect(clippy::cast_precision_loss, reason = "a number of Lua")]
                Value::Number(number as f64)
            }
            Item::Text(_) => Value::String(lua.create_string(part)?),
        });
        at += bytes;
    }
    values.push(Value::Integer(i64::try_from(at + 1).unwrap_or(0)));
    Ok(values.into_iter().collect())
}
