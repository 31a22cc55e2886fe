//! Texts in quotes, as servers escape them.

use std::borrow::Cow;

/// Where the closing quote is, in what follows the opening one.
pub(super) fn quoted_end(inside: &str) -> Option<usize> {
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

/// What was meant: `\"` is a quote and `\x41` an A. What is no escape stays as it is.
pub(super) fn unescaped(text: &str) -> Cow<'_, str> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_and_escapes() {
        assert_eq!(quoted_end(r#"a\"b" c"#), Some(4));
        assert_eq!(quoted_end(r#"a\\" c"#), Some(3));
        assert_eq!(quoted_end(r#"a\""#), None);
        assert_eq!(unescaped(r#"a\"b\\c\x41\x4\q\"#), "a\"b\\cA\\x4\\q\\");
        assert_eq!(unescaped(r"\xc3\xa9\xff"), "é\u{fffd}");
    }
}
