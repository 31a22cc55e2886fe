//! Just enough of responses to count them and to see what they say.

use memchr::memmem;

use crate::Error;

/// A whole response at the start of some bytes.
pub struct Response<'a> {
    status: u16,
    body: &'a [u8],
    /// Bytes it takes.
    pub len: usize,
}

/// How one tells that something passed.
pub enum Admits {
    /// 2xx passed, 429 did not.
    ByStatus,
    /// The body has this text so many times.
    BySaying(&'static [u8], usize),
}

impl<'a> Response<'a> {
    /// `None` while something is missing.
    pub fn read(bytes: &'a [u8]) -> Result<Option<Self>, Error> {
        let Some(end) = memmem::find(bytes, b"\r\n\r\n") else { return Ok(None) };
        let head = bytes.get(..end).unwrap_or_default();
        let status = head.get(9..12).and_then(|code| std::str::from_utf8(code).ok());
        let status = status.and_then(|code| code.parse().ok()).ok_or("no status")?;
        let (start, length) = (end + 4, content_length(head));
        let Some(body) = bytes.get(start..start + length) else { return Ok(None) };
        Ok(Some(Self { status, body, len: start + length }))
    }

    /// Whether it lets something pass; an error if it is about something else.
    pub fn admits(&self, admits: &Admits) -> Result<bool, Error> {
        match (admits, self.status) {
            (Admits::ByStatus, 200..300) => Ok(true),
            (Admits::ByStatus, 429) => Ok(false),
            (Admits::BySaying(what, times), 200) => {
                Ok(memmem::find_iter(self.body, what).count() == *times)
            }
            (_, status) => Err(format!("{status}: {}", String::from_utf8_lossy(self.body)).into()),
        }
    }
}

/// 0 if absent: then there is no body, because no contestant sends chunks.
fn content_length(head: &[u8]) -> usize {
    const NAME: &[u8] = b"content-length:";
    let mut rest = head;
    while let Some(end) = memchr::memchr(b'\n', rest) {
        rest = &rest[end + 1..];
        if rest.get(..NAME.len()).is_some_and(|name| name.eq_ignore_ascii_case(NAME)) {
            let digits = rest[NAME.len()..].iter().skip_while(|byte| **byte == b' ');
            let digits = digits.take_while(|byte| byte.is_ascii_digit());
            return digits.fold(0, |length, digit| length * 10 + usize::from(digit - b'0'));
        }
    }
    0
}
