//! `RL.CHECK` in the Redis protocol, as many at once as are asked for.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;
use waterclock::Cost;

use super::Answers;
use super::reply::{Reply, read};
use crate::server::{NoAnswer, Wire};
use crate::verb::bench::keys::Keys;
use crate::verb::bench::load::Load;
use crate::visible::visible;

/// Nothing that works takes this long.
const PATIENCE: Duration = Duration::from_secs(5);

pub(in crate::verb::bench) struct RespCaller {
    stream: Box<dyn Wire>,
    policy: String,
    cost: Option<String>,
    questions: Vec<u8>,
    /// What came, and up to where it is understood.
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
            // What is understood goes before more is read, not reply by reply: a long pipeline would spend
            // its time on moving bytes.
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
