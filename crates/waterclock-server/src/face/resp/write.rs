//! Replies as bytes, in RESP2 or RESP3.

use waterclock::{Failure, StoreError};

/// Replies that wait to be sent.
#[derive(Debug, Default)]
pub(super) struct Replies {
    bytes: Vec<u8>,
    /// Whether the client has chosen RESP3.
    pub(super) resp3: bool,
}

impl Replies {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Replies to the same client that are written apart.
    pub(super) fn another(&self) -> Replies {
        Replies { bytes: Vec::new(), resp3: self.resp3 }
    }

    /// What was written so far, taken out.
    pub(super) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }

    /// What was taken out, or a part of it, put back.
    pub(super) fn put_back(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// A reply that was written apart, or the store's error.
    pub(super) fn append(&mut self, reply: Result<Replies, StoreError>) {
        match reply {
            Ok(reply) => self.bytes.extend(reply.bytes),
            Err(error) => match error.failure() {
                // This reason names the bound.
                Some(Failure::Overloaded) => self.error(&format!("UNAVAILABLE {error}")),
                // Others may name hosts.
                Some(kind) => {
                    self.error(&format!("UNAVAILABLE the store failed ({})", kind.name()));
                }
                None => self.error(&format!("ERR {error}")),
            },
        }
    }

    /// Clears what was sent. A quiet connection keeps no large buffer.
    pub(super) fn clear(&mut self, keep: usize) {
        self.bytes.clear();
        if self.bytes.capacity() > keep {
            self.bytes.shrink_to(keep);
        }
    }

    pub(super) fn simple(&mut self, text: &str) {
        self.line(b'+', text.as_bytes());
    }

    /// An error; its text begins with a kind in capitals and may quote the client.
    pub(super) fn error(&mut self, text: &str) {
        self.bytes.push(b'-');
        let printable = |byte: u8| if byte.is_ascii_control() { b' ' } else { byte };
        self.bytes.extend(text.bytes().map(printable));
        self.bytes.extend_from_slice(b"\r\n");
    }

    #[inline]
    pub(super) fn integer(&mut self, number: i64) {
        match number {
            0.. => self.head(b':', number.unsigned_abs()),
            // As redis-cell has it where there is nothing to wait for.
            -1 => self.bytes.extend_from_slice(b":-1\r\n"),
            _ => self.line(b':', itoa::Buffer::new().format(number).as_bytes()),
        }
    }

    pub(super) fn bulk(&mut self, bytes: &[u8]) {
        self.head(b'$', bytes.len() as u64);
        self.bytes.extend_from_slice(bytes);
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// Text for people, which RESP3 has a type for.
    pub(super) fn text(&mut self, text: &str) {
        if !self.resp3 {
            return self.bulk(text.as_bytes());
        }
        self.head(b'=', text.len() as u64 + 4);
        self.bytes.extend_from_slice(b"txt:");
        self.bytes.extend_from_slice(text.as_bytes());
        self.bytes.extend_from_slice(b"\r\n");
    }

    pub(super) fn null(&mut self) {
        self.bytes.extend_from_slice(if self.resp3 { b"_\r\n" } else { b"$-1\r\n" });
    }

    /// The head of an array of so many values.
    #[inline]
    pub(super) fn array(&mut self, len: usize) {
        self.head(b'*', len as u64);
    }

    /// The head of a map of so many pairs.
    pub(super) fn map(&mut self, len: usize) {
        if self.resp3 { self.head(b'%', len as u64) } else { self.array(len * 2) }
    }

    /// A name and its value in a map.
    pub(super) fn pair(&mut self, name: &str, value: &str) {
        self.bulk(name.as_bytes());
        self.bulk(value.as_bytes());
    }

    #[inline]
    fn head(&mut self, kind: u8, number: u64) {
        match u8::try_from(number) {
            // Of a known length, which is copied without a call.
            Ok(digit @ 0..=9) => self.bytes.extend_from_slice(&[kind, b'0' + digit, b'\r', b'\n']),
            _ => self.line(kind, itoa::Buffer::new().format(number).as_bytes()),
        }
    }

    #[inline]
    fn line(&mut self, kind: u8, text: &[u8]) {
        self.bytes.push(kind);
        self.bytes.extend_from_slice(text);
        self.bytes.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::Replies;

    #[test]
    fn short_numbers_are_written_like_long_ones() {
        for number in [i64::MIN, -11, -10, -2, -1, 0, 1, 9, 10, 11, i64::MAX] {
            let mut replies = Replies::default();
            replies.integer(number);
            assert_eq!(replies.bytes(), format!(":{number}\r\n").as_bytes());
        }
        for length in [0, 9, 10] {
            let mut replies = Replies::default();
            replies.array(length);
            replies.bulk(&vec![b'x'; length]);
            let text = "x".repeat(length);
            assert_eq!(replies.bytes(), format!("*{length}\r\n${length}\r\n{text}\r\n").as_bytes());
        }
    }
}
