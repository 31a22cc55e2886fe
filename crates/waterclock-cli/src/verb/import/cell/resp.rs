//! A connection in the Redis protocol: commands in batches, and their replies.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;
use waterclock_rehearse::terminal::visible;

use crate::server::{NoAnswer, Server, Wire};

/// Nothing that works takes this long.
const PATIENCE: Duration = Duration::from_secs(30);
/// The longest text and the longest array that are read.
const MOST_BYTES: usize = 1_024 * 1_024;
const MOST_ITEMS: usize = 1_024 * 1_024;
/// How deep arrays are nested: the keys of SCAN are an array within one.
const DEEPEST: usize = 4;

/// A reply.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reply {
    Nil,
    Number(i64),
    Text(Vec<u8>),
    Error(String),
    Array(Vec<Reply>),
}

/// An open connection.
pub(super) struct Connection {
    stream: Box<dyn Wire>,
    received: Vec<u8>,
    at: usize,
}

impl Connection {
    pub(super) async fn open(server: &Server) -> Result<Connection, NoAnswer> {
        Ok(Connection { stream: server.dial().await?, received: Vec::new(), at: 0 })
    }

    /// Sends all these commands at once and reads a reply to each.
    pub(super) async fn ask(&mut self, commands: &[Vec<&[u8]>]) -> Result<Vec<Reply>, NoAnswer> {
        let mut bytes = Vec::new();
        for command in commands {
            bytes.extend(format!("*{}\r\n", command.len()).as_bytes());
            for argument in command {
                bytes.extend(format!("${}\r\n", argument.len()).as_bytes());
                bytes.extend_from_slice(argument);
                bytes.extend(b"\r\n");
            }
        }
        let asked = async {
            self.stream.write_all(&bytes).await.map_err(broken)?;
            self.stream.flush().await.map_err(broken)?;
            let mut replies = Vec::with_capacity(commands.len());
            while replies.len() < commands.len() {
                replies.push(self.next().await?);
            }
            Ok(replies)
        };
        timeout(PATIENCE, asked).await.map_err(|_| NoAnswer::Late(PATIENCE))?
    }

    async fn next(&mut self) -> Result<Reply, NoAnswer> {
        loop {
            let mut at = self.at;
            let reply = read(&self.received, &mut at, DEEPEST)
                .map_err(|_| NoAnswer::Stranger("does not speak the Redis protocol".to_owned()))?;
            if let Some(reply) = reply {
                self.at = at;
                return Ok(reply);
            }
            // Parsed bytes are dropped before more is read, not reply by reply.
            self.received.drain(..self.at);
            self.at = 0;
            if self.stream.read_buf(&mut self.received).await.map_err(broken)? == 0 {
                return Err(broken(io::ErrorKind::UnexpectedEof.into()));
            }
        }
    }
}

fn broken(_: io::Error) -> NoAnswer {
    let what =
        "closed the connection before it answered; check that it speaks the Redis protocol there";
    NoAnswer::Broken(what.to_owned())
}

/// The bytes are not the Redis protocol.
#[derive(Debug, PartialEq, Eq)]
struct NotRedis;

/// The reply that begins here; nothing if there is more to come.
fn read(bytes: &[u8], at: &mut usize, deepest: usize) -> Result<Option<Reply>, NotRedis> {
    let Some(line) = line(bytes, at)? else { return Ok(None) };
    let (kind, rest) = line.split_first().ok_or(NotRedis)?;
    let text = || String::from_utf8_lossy(rest).into_owned();
    let number = || std::str::from_utf8(rest).ok()?.parse::<i64>().ok();
    Ok(match kind {
        b'+' => Some(Reply::Text(rest.to_vec())),
        b'-' => Some(Reply::Error(text())),
        b':' => Some(Reply::Number(number().ok_or(NotRedis)?)),
        b'$' | b'*' => match (kind, usize::try_from(number().ok_or(NotRedis)?)) {
            (_, Err(_)) => Some(Reply::Nil),
            (b'$', Ok(length)) if length <= MOST_BYTES => bulk(bytes, at, length)?,
            (b'*', Ok(many)) if many <= MOST_ITEMS && deepest > 0 => {
                let mut items = Vec::new();
                for _ in 0..many {
                    let Some(item) = read(bytes, at, deepest - 1)? else { return Ok(None) };
                    items.push(item);
                }
                Some(Reply::Array(items))
            }
            _ => return Err(NotRedis),
        },
        _ => return Err(NotRedis),
    })
}

fn bulk(bytes: &[u8], at: &mut usize, length: usize) -> Result<Option<Reply>, NotRedis> {
    let Some(text) = bytes.get(*at..*at + length + 2) else { return Ok(None) };
    let text = text.strip_suffix(b"\r\n").ok_or(NotRedis)?;
    *at += length + 2;
    Ok(Some(Reply::Text(text.to_vec())))
}

fn line<'b>(bytes: &'b [u8], at: &mut usize) -> Result<Option<&'b [u8]>, NotRedis> {
    let rest = &bytes[*at..];
    match rest.iter().take(MOST_BYTES).position(|byte| *byte == b'\n') {
        Some(end) => {
            *at += end + 1;
            rest[..end].strip_suffix(b"\r").ok_or(NotRedis).map(Some)
        }
        None if rest.len() >= MOST_BYTES => Err(NotRedis),
        None => Ok(None),
    }
}

/// An error reply.
pub(super) fn refused(text: &str) -> NoAnswer {
    let reason = visible(text).trim_end_matches('.').to_owned();
    NoAnswer::Refused { status: None, reason }
}

/// A key as redis-cli writes and reads it.
pub(super) fn shown(key: &[u8]) -> String {
    let mut out = String::from('"');
    for byte in key {
        match byte {
            b'"' | b'\\' => out.extend(['\\', char::from(*byte)]),
            b' '..=b'~' => out.push(char::from(*byte)),
            byte => out.push_str(&format!("\\x{byte:02x}")),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_in_pieces() {
        let whole = b"*2\r\n$1\r\n0\r\n*3\r\n$2\r\na\n\r\n:-7\r\n$-1\r\n";
        for length in 0..whole.len() {
            assert_eq!(read(&whole[..length], &mut 0, DEEPEST), Ok(None), "{length}");
        }
        let keys = Reply::Array(vec![Reply::Text(b"a\n".to_vec()), Reply::Number(-7), Reply::Nil]);
        let reply = Reply::Array(vec![Reply::Text(b"0".to_vec()), keys]);
        let mut at = 0;
        assert_eq!(read(whole, &mut at, DEEPEST), Ok(Some(reply)));
        assert_eq!(at, whole.len());
        let error = Reply::Error("WRONGTYPE no".to_owned());
        assert_eq!(read(b"-WRONGTYPE no\r\n", &mut 0, DEEPEST), Ok(Some(error)));
    }

    #[test]
    fn what_is_none() {
        for bytes in [
            &b"HTTP/1.1 400 Bad Request\r\n"[..],
            b"$99999999\r\n",
            b"$1\r\nabc\r\n",
            b":x\r\n",
            b"+OK\n",
            b"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n",
        ] {
            assert_eq!(read(bytes, &mut 0, DEEPEST), Err(NotRedis));
        }
    }

    #[test]
    fn keys_are_escaped() {
        assert_eq!(shown(b"a b\"\\\n\xff"), r#""a b\"\\\x0a\xff""#);
    }
}
