//! What a Redis answers.

use std::io::{self, BufRead, Error, ErrorKind, Read};

/// A reply in the second version of Redis' protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Nothing: a null string or a null array.
    Nil,
    /// A whole number.
    Int(i64),
    /// Bytes of any kind.
    Bulk(Vec<u8>),
    /// A short status such as `OK`.
    Simple(String),
    /// A refusal, beginning with its kind: `WRONGTYPE …`, `MOVED …`.
    Error(String),
    /// Replies in a row.
    Array(Vec<Reply>),
}

impl Reply {
    /// The number, also where it came as text. Panics if it is none.
    #[track_caller]
    pub fn as_int(&self) -> i64 {
        match self {
            Self::Int(number) => *number,
            Self::Bulk(_) | Self::Simple(_) => {
                self.as_text().parse().unwrap_or_else(|_| panic!("not a number: {self:?}"))
            }
            _ => panic!("not a number: {self:?}"),
        }
    }

    /// The text of a string, a status or a number. Panics if it is none of them.
    #[track_caller]
    pub fn as_text(&self) -> String {
        match self {
            Self::Bulk(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            Self::Simple(text) => text.clone(),
            Self::Int(number) => number.to_string(),
            _ => panic!("not a text: {self:?}"),
        }
    }

    /// The elements. Panics if it is no array.
    #[track_caller]
    pub fn as_array(&self) -> &[Reply] {
        match self {
            Self::Array(elements) => elements,
            _ => panic!("not an array: {self:?}"),
        }
    }

    /// What was refused, if this is an error.
    pub fn as_error(&self) -> Option<&str> {
        match self {
            Self::Error(message) => Some(message),
            _ => None,
        }
    }

    /// Whether there is nothing.
    pub fn is_nil(&self) -> bool {
        *self == Self::Nil
    }

    /// Whether this is the status `OK`.
    pub fn is_ok(&self) -> bool {
        matches!(self, Self::Simple(status) if status == "OK")
    }

    /// The reply itself, unless it is an error: then it panics.
    #[track_caller]
    pub fn unwrap(self) -> Self {
        match self {
            Self::Error(message) => panic!("Redis refused: {message}"),
            reply => reply,
        }
    }

    /// Reads one reply.
    pub(super) fn read(from: &mut impl BufRead) -> io::Result<Self> {
        let mut line = String::new();
        from.read_line(&mut line)?;
        let line = line.strip_suffix("\r\n").ok_or(ErrorKind::UnexpectedEof)?;
        let (kind, rest) = line.split_at_checked(1).ok_or_else(|| malformed(line))?;
        let number = || rest.parse::<i64>().map_err(|_| malformed(line));
        Ok(match kind {
            "+" => Self::Simple(rest.into()),
            "-" => Self::Error(rest.into()),
            ":" => Self::Int(number()?),
            "$" | "*" if number()? == -1 => Self::Nil,
            "$" => Self::Bulk(read_bulk(from, length(number()?)?)?),
            "*" => {
                let elements = (0..length(number()?)?).map(|_| Self::read(from));
                Self::Array(elements.collect::<io::Result<_>>()?)
            }
            _ => return Err(malformed(line)),
        })
    }
}

fn read_bulk(from: &mut impl BufRead, length: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(length + 2).read_to_end(&mut bytes)?;
    if !bytes.ends_with(b"\r\n") || bytes.len() as u64 != length + 2 {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    bytes.truncate(bytes.len() - 2);
    Ok(bytes)
}

fn length(number: i64) -> io::Result<u64> {
    u64::try_from(number).map_err(|_| malformed("a negative length"))
}

fn malformed(line: &str) -> Error {
    Error::new(ErrorKind::InvalidData, format!("not Redis' protocol: {line:?}"))
}
