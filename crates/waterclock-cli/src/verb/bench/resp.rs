//! `RL.CHECK` in the Redis protocol, as many at once as are asked for.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;
use waterclock::Cost;
use waterclock_rehearse::terminal::visible;

use super::caller::Answers;
use super::load::{Keys, Load};
use crate::server::{NoAnswer, Wire};

/// Nothing that works takes this long.
const PATIENCE: Duration = Duration::from_secs(5);

pub(super) struct RespCaller {
    stream: Box<dyn Wire>,
    policy: String,
    cost: Option<String>,
    questions: Vec<u8>,
    /// What came, and how much of it is parsed.
    replies: Vec<u8>,
    at: usize,
}

impl RespCaller {
    pub(super) async fn connect(load: &Load) -> Result<RespCaller, NoAnswer> {
        let stream = load.server.dial().await?;
        let mut caller = RespCaller {
            stream,
            policy: load.policy.clone(),
            cost: load.cost.as_ref().map(Cost::to_string),
            questions: Vec::new(),
            replies: Vec::new(),
            at: 0,
        };
        if let Some(token) = &load.server.token {
            write_command(&mut caller.questions, &["AUTH", token]);
            caller.ask(1, &mut Answers::default()).await?;
        }
        Ok(caller)
    }

    pub(super) async fn call(&mut self, keys: &mut Keys, many: u64) -> Result<Answers, NoAnswer> {
        for _ in 0..many {
            let key = keys.next_name();
            let command =
                ["RL.CHECK", &self.policy, &key, self.cost.as_deref().unwrap_or_default()];
            let length = if self.cost.is_some() { 4 } else { 3 };
            write_command(&mut self.questions, &command[..length]);
        }
        let mut answers = Answers::default();
        self.ask(many, &mut answers).await?;
        Ok(answers)
    }

    /// Sends what was written and reads so many replies.
    async fn ask(&mut self, many: u64, answers: &mut Answers) -> Result<(), NoAnswer> {
        let asked = async {
            self.stream.write_all(&self.questions).await.map_err(broken)?;
            self.stream.flush().await.map_err(broken)?;
            self.questions.clear();
            for _ in 0..many {
                answers.count_reply(self.next().await?)?;
            }
            Ok(())
        };
        timeout(PATIENCE, asked).await.map_err(|_| NoAnswer::Late(PATIENCE))?
    }

    async fn next(&mut self) -> Result<Reply, NoAnswer> {
        loop {
            let reply = read(&self.replies[self.at..])
                .map_err(|_| NoAnswer::Stranger("does not speak the Redis protocol".to_owned()))?;
            if let Some((reply, length)) = reply {
                self.at += length;
                return Ok(reply);
            }
            // Parsed bytes are dropped before more is read, not reply by reply: a long pipeline would spend its time on
            // moving bytes.
            self.replies.drain(..self.at);
            self.at = 0;
            if self.stream.read_buf(&mut self.replies).await.map_err(broken)? == 0 {
                return Err(broken(io::ErrorKind::UnexpectedEof.into()));
            }
        }
    }
}

impl Answers {
    fn count_reply(&mut self, reply: Reply) -> Result<(), NoAnswer> {
        match reply {
            Reply::Decision { allowed: true } => self.allowed += 1,
            Reply::Decision { allowed: false } => self.refused += 1,
            Reply::Okay => {}
            // Those pass; all others are about the question, which stays the same.
            Reply::Error(text) if text.starts_with("BUSY") || text.starts_with("UNAVAILABLE") => {
                self.failed += 1;
            }
            Reply::Error(text) => return Err(refused(&text)),
        }
        Ok(())
    }
}

fn refused(text: &str) -> NoAnswer {
    let (code, rest) = text.split_once(' ').unwrap_or((text, ""));
    let status = match code {
        "NOAUTH" | "WRONGPASS" => ::http::StatusCode::UNAUTHORIZED,
        _ => ::http::StatusCode::BAD_REQUEST,
    };
    if rest.starts_with("unknown command") {
        let what = "is not a waterclock server: it does not know RL.CHECK".to_owned();
        return NoAnswer::Stranger(what);
    }
    let reason = visible(rest).trim_end_matches('.').to_owned();
    NoAnswer::Refused { status: Some(status), reason }
}

fn broken(_: io::Error) -> NoAnswer {
    let what =
        "closed the connection before it answered; check that it speaks the Redis protocol there";
    NoAnswer::Broken(what.to_owned())
}

fn write_command(bytes: &mut Vec<u8>, arguments: &[&str]) {
    bytes.extend_from_slice(format!("*{}\r\n", arguments.len()).as_bytes());
    for argument in arguments {
        bytes.extend_from_slice(format!("${}\r\n{argument}\r\n", argument.len()).as_bytes());
    }
}

/// A reply to `RL.CHECK` or `AUTH`.
#[derive(Debug, PartialEq, Eq)]
enum Reply {
    /// An array of numbers, of which the first is 1 for allowed.
    Decision {
        allowed: bool,
    },
    Okay,
    Error(String),
}

/// The bytes are not the Redis protocol.
#[derive(Debug, PartialEq, Eq)]
struct NotRedis;

/// The longest line and the largest array that are accepted.
const MOST_BYTES: usize = 4_096;
const MOST_NUMBERS: usize = 16;

/// The reply at the beginning of the bytes and its length; nothing if there is more to come.
fn read(bytes: &[u8]) -> Result<Option<(Reply, usize)>, NotRedis> {
    let Some((line, after)) = line(bytes, 0)? else { return Ok(None) };
    let text = String::from_utf8_lossy(line.get(1..).unwrap_or_default());
    match line.first() {
        Some(b'+') => Ok(Some((Reply::Okay, after))),
        Some(b'-') => Ok(Some((Reply::Error(text.into_owned()), after))),
        Some(b'*') => {
            let many: usize = text.parse().map_err(|_| NotRedis)?;
            if !(1..=MOST_NUMBERS).contains(&many) {
                return Err(NotRedis);
            }
            numbers(bytes, after, many)
        }
        _ => Err(NotRedis),
    }
}

fn numbers(bytes: &[u8], mut at: usize, many: usize) -> Result<Option<(Reply, usize)>, NotRedis> {
    let mut allowed = false;
    for place in 0..many {
        let Some((line, after)) = line(bytes, at)? else { return Ok(None) };
        let number = line.strip_prefix(b":").ok_or(NotRedis)?;
        if place == 0 {
            allowed = number == b"1";
        }
        at = after;
    }
    Ok(Some((Reply::Decision { allowed }, at)))
}

/// The line that begins here, and where the next one does.
fn line(bytes: &[u8], from: usize) -> Result<Option<(&[u8], usize)>, NotRedis> {
    let rest = bytes.get(from..).unwrap_or_default();
    match rest.iter().take(MOST_BYTES).position(|byte| *byte == b'\n') {
        Some(end) => {
            let line = rest[..end].strip_suffix(b"\r").ok_or(NotRedis)?;
            Ok(Some((line, from + end + 1)))
        }
        None if rest.len() >= MOST_BYTES => Err(NotRedis),
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_in_pieces() {
        let whole = b"*5\r\n:1\r\n:5\r\n:4\r\n:0\r\n:-1\r\n*5\r\n";
        for length in 0..whole.len() - 4 {
            assert_eq!(read(&whole[..length]), Ok(None), "{length}");
        }
        assert_eq!(read(whole), Ok(Some((Reply::Decision { allowed: true }, whole.len() - 4))));
        assert_eq!(read(b"*1\r\n:0\r\n"), Ok(Some((Reply::Decision { allowed: false }, 8))));
        assert_eq!(read(b"+OK\r\n"), Ok(Some((Reply::Okay, 5))));
        let error = Reply::Error("ERR there is no policy 'x'".to_owned());
        assert_eq!(read(b"-ERR there is no policy 'x'\r\n"), Ok(Some((error, 29))));
    }

    #[test]
    fn what_is_none() {
        let long = vec![b'+'; 5_000];
        for bytes in
            [&b"HTTP/1.1 400 Bad Request\r\n"[..], b"*99999\r\n", b"*1\r\n+OK\r\n", b"+OK\n", &long]
        {
            assert_eq!(read(bytes), Err(NotRedis));
        }
    }
}
