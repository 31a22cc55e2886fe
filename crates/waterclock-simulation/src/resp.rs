//! The protocol of Redis, as much as the store speaks: commands in, replies out.

/// A reply to a command.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// `OK` and the like.
    Status(String),
    /// A code and a sentence.
    Error(String),
    /// A whole number.
    Int(i64),
    /// Bytes.
    Bulk(Vec<u8>),
    /// Nothing.
    Nil,
    /// Several replies.
    Array(Vec<Reply>),
    /// Names and values, one after the other.
    Map(Vec<Reply>),
    /// What nobody asked for.
    Push(Vec<Reply>),
}

impl Reply {
    /// `OK`.
    #[must_use]
    pub fn ok() -> Self {
        Self::Status("OK".into())
    }

    /// Text.
    #[must_use]
    pub fn text(text: impl Into<Vec<u8>>) -> Self {
        Self::Bulk(text.into())
    }

    /// Writes it in the newer version of the protocol.
    pub fn write(&self, to: &mut Vec<u8>) {
        let many = |to: &mut Vec<u8>, mark: char, count: usize, all: &[Self]| {
            to.extend(format!("{mark}{count}\r\n").bytes());
            all.iter().for_each(|one| one.write(to));
        };
        match self {
            Self::Status(text) => to.extend(format!("+{text}\r\n").bytes()),
            Self::Error(text) => to.extend(format!("-{text}\r\n").bytes()),
            Self::Int(n) => to.extend(format!(":{n}\r\n").bytes()),
            Self::Nil => to.extend(b"_\r\n"),
            Self::Bulk(bytes) => {
                to.extend(format!("${}\r\n", bytes.len()).bytes());
                to.extend(bytes);
                to.extend(b"\r\n");
            }
            Self::Array(all) => many(to, '*', all.len(), all),
            Self::Map(all) => many(to, '%', all.len() / 2, all),
            Self::Push(all) => many(to, '>', all.len(), all),
        }
    }
}

/// Takes the first whole command off the front of what was received.
///
/// # Panics
///
/// If it is no array of byte strings: the client would be broken.
pub fn take_command(received: &mut Vec<u8>) -> Option<Vec<Vec<u8>>> {
    let mut at = 0;
    let line = |at: &mut usize, mark: u8| -> Option<usize> {
        let rest = received.get(*at..)?;
        let end = rest.windows(2).position(|two| two == b"\r\n")?;
        assert_eq!(rest[0], mark, "not a command: {:?}", String::from_utf8_lossy(rest));
        *at += end + 2;
        Some(std::str::from_utf8(&rest[1..end]).ok()?.parse().expect("a length"))
    };
    let count = line(&mut at, b'*')?;
    let mut words = Vec::with_capacity(count);
    for _ in 0..count {
        let length = line(&mut at, b'$')?;
        words.push(received.get(at..at + length)?.to_vec());
        at += length + 2;
    }
    if at > received.len() {
        return None;
    }
    received.drain(..at);
    Some(words)
}
