//! Keys are bytes here and text on the server.

use std::borrow::Cow;
use std::fmt::Write as _;

/// What stands before the bytes of a key that is no text, in hexadecimal.
const MARK: &str = "bytes:";

/// The text of a key. Two keys never have the same: what is sent as it is does not begin with the mark,
/// and everything else does.
pub(super) fn key_text(key: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(key) {
        Ok(text) if !text.starts_with(MARK) => Cow::Borrowed(text),
        _ => {
            let mut text = String::with_capacity(MARK.len() + 2 * key.len());
            text.push_str(MARK);
            key.iter().for_each(|byte| _ = write!(text, "{byte:02x}"));
            Cow::Owned(text)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn text_is_sent_as_it_is() {
        for key in ["", "alice", "é\u{0}\"/..", "0xff", "byte:", "Bytes:00"] {
            assert_eq!(key_text(key.as_bytes()), key);
        }
    }

    #[test]
    fn no_two_keys_have_the_same_text() {
        let keys: [&[u8]; 8] = [
            b"\xff",
            b"bytes:ff",
            b"bytes:62797465733a6666",
            b"ff",
            b"bytes:",
            b"",
            b"\xff\x00",
            b"bytes:FF",
        ];
        let texts: HashSet<_> = keys.into_iter().map(key_text).collect();
        assert_eq!(texts.len(), keys.len());
        assert_eq!(key_text(b"\xff\x00"), "bytes:ff00");
    }
}
