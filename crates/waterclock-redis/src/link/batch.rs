//! One exchange: the commands of a batch out, their replies back to whoever asked.

use redis::{Cmd, Pipeline, ServerErrorKind, Value};
use tokio::time::timeout;
use waterclock::{Failure, StoreError};

use super::reply::{of_connection, of_server};
use super::{Ask, Job, Link, Trouble};
use crate::script::{GCRA, Script};

/// How often scripts are sent to a server that keeps forgetting them.
const TRIES: u32 = 3;

/// One command and the jobs it answers.
struct Command {
    script: &'static Script,
    jobs: Vec<Job>,
}

/// What came of the commands of a batch.
#[derive(Default)]
pub(super) struct Exchanged {
    answers: Vec<(Command, Result<Value, StoreError>)>,
    /// The connection they came over.
    id: u64,
}

impl Exchanged {
    fn fail(&mut self, commands: Vec<Command>, error: &StoreError) {
        self.answers.extend(commands.into_iter().map(|command| (command, Err(error.clone()))));
    }
}

impl Link {
    pub(super) async fn exchange(&self, batch: Vec<Job>) -> Exchanged {
        let mut exchanged = Exchanged::default();
        let mut commands = self.commands(batch);
        for attempt in 0..=TRIES {
            if commands.is_empty() {
                return exchanged;
            }
            // A script that is gone is sent whole, on the same connection.
            let whole = attempt > 0;
            commands = self.send(commands, whole, &mut exchanged).await;
        }
        exchanged.fail(commands, &Trouble::NoScript.into_store_error());
        exchanged
    }

    /// Tells everybody what came of it.
    pub(super) async fn hand_out(&self, exchanged: Exchanged) {
        let mut healthy = true;
        for (command, answer) in exchanged.answers {
            healthy &= command.answer(answer);
        }
        if !healthy {
            self.disconnect(exchanged.id).await;
        }
    }

    /// Sends commands and waits for what comes back. Those whose script was gone are left over.
    async fn send(
        &self,
        mut commands: Vec<Command>,
        whole: bool,
        exchanged: &mut Exchanged,
    ) -> Vec<Command> {
        let (id, mut line) = match self.connected().await {
            Ok(connected) => connected,
            Err(error) => {
                exchanged.fail(commands, &error);
                return Vec::new();
            }
        };
        exchanged.id = id;
        // Dialling may have taken longer than somebody would wait: nobody is charged who has left.
        commands.iter_mut().for_each(|command| command.jobs.retain(|job| !job.reply.is_closed()));
        commands.retain(|command| !command.jobs.is_empty());
        if commands.is_empty() {
            return commands;
        }
        let pipeline = encode(&commands, whole);
        let exchange = line.connection.send_packed_commands(&pipeline, 0, pipeline.len());
        let error = match timeout(self.deadline, exchange).await {
            Ok(Ok(replies)) if replies.len() == pipeline.len() => {
                return sort(commands, replies, exchanged);
            }
            Ok(Ok(_)) => StoreError::failed(Failure::BadReply, "not one reply per command"),
            Ok(Err(error)) => of_connection(&error),
            // It may have been charged or not: never sent again.
            Err(_) => StoreError::failed(Failure::Timeout, "no answer"),
        };
        self.disconnect(id).await;
        exchanged.fail(commands, &error);
        Vec::new()
    }

    /// Checks for the short script in as few calls as may be, everything else as it is.
    fn commands(&self, batch: Vec<Job>) -> Vec<Command> {
        let mut commands: Vec<Command> = Vec::new();
        let mut short: Vec<Job> = Vec::new();
        for job in batch {
            match &job.ask {
                Ask::Short { at: None, .. } if !job.asking && !job.apart => short.push(job),
                Ask::Short { .. } => commands.push(Command { script: &GCRA, jobs: vec![job] }),
                Ask::Call { script, .. } => {
                    let script = *script;
                    commands.push(Command { script, jobs: vec![job] });
                }
            }
        }
        // Equal numbers side by side are told once. Within them the order stays: first come, first served.
        short.sort_by_key(|job| {
            let slot = if self.slotted { job.slot() } else { 0 };
            (slot, job.numbers())
        });
        while !short.is_empty() {
            let slot = short[0].slot();
            let fits = |job: &Job| !self.slotted || job.slot() == slot;
            let n = short.iter().take_while(|job| fits(job)).count();
            commands.push(Command { script: &GCRA, jobs: short.drain(..n).collect() });
        }
        commands
    }
}

fn encode(commands: &[Command], whole: bool) -> Pipeline {
    let mut pipeline = Pipeline::new();
    let mut sent: Vec<&str> = Vec::new();
    for command in commands {
        // The first of them teaches the server the script for all.
        let teach = whole && !sent.contains(&&*command.script.digest);
        sent.push(&command.script.digest);
        if command.asks() {
            pipeline.add_command(redis::cmd("ASKING"));
        }
        pipeline.add_command(command.encode(teach));
    }
    pipeline
}

/// Puts replies to their commands; those that met no script are given back.
fn sort(commands: Vec<Command>, replies: Vec<Value>, exchanged: &mut Exchanged) -> Vec<Command> {
    let (mut replies, mut unanswered) = (replies.into_iter(), Vec::new());
    for command in commands {
        if command.asks() {
            replies.next();
        }
        match replies.next().unwrap_or(Value::Nil) {
            Value::ServerError(error) if error.kind() == Some(ServerErrorKind::NoScript) => {
                unanswered.push(command);
            }
            reply => exchanged.answers.push((command, Ok(reply))),
        }
    }
    unanswered
}

impl Job {
    fn slot(&self) -> u16 {
        match &self.ask {
            Ask::Short { key, .. } => key.slot,
            Ask::Call { keys, .. } => keys.first().map_or(0, |key| key.slot),
        }
    }

    fn numbers(&self) -> (u64, u64) {
        match self.ask {
            Ask::Short { span_us, depth_us, .. } => (span_us, depth_us),
            Ask::Call { .. } => (0, 0),
        }
    }
}

impl Command {
    fn encode(&self, whole: bool) -> Cmd {
        let mut cmd = redis::cmd(if whole { "EVAL" } else { "EVALSHA" });
        cmd.arg(if whole { self.script.source } else { &*self.script.digest });
        if let [Job { ask: Ask::Call { keys, args, .. }, .. }] = &*self.jobs {
            cmd.arg(keys.len());
            keys.iter().for_each(|key| _ = cmd.arg(&*key.bytes));
            args.iter().for_each(|arg| _ = cmd.arg(&**arg));
            return cmd;
        }
        cmd.arg(self.jobs.len());
        for job in &self.jobs {
            if let Ask::Short { key, .. } = &job.ask {
                cmd.arg(&*key.bytes);
            }
        }
        let at = self.jobs.first().and_then(|job| match &job.ask {
            Ask::Short { at, .. } => at.as_ref(),
            Ask::Call { .. } => None,
        });
        cmd.arg(at.map_or("", |at| &at.now_us)).arg(at.map_or("", |at| at.ttl_ms));
        for run in self.jobs.chunk_by(|a, b| a.numbers() == b.numbers()) {
            let (span_us, depth_us) = run[0].numbers();
            cmd.arg(span_us).arg(depth_us).arg(run.len());
        }
        cmd
    }

    fn asks(&self) -> bool {
        self.jobs.iter().any(|job| job.asking)
    }

    /// Hands the reply out; false if the connection is not to be used any more.
    fn answer(mut self, reply: Result<Value, StoreError>) -> bool {
        let reply = match reply {
            Ok(Value::ServerError(error)) => {
                let trouble = of_server(&error);
                self.refuse(&trouble);
                // A replica, or one that was: ask anew who is the primary.
                return !matches!(trouble, Trouble::Again(Failure::ReadOnly, _));
            }
            Ok(reply) => reply,
            Err(error) => {
                self.refuse(&Trouble::Store(error));
                return true;
            }
        };
        if let Some(job) = self.jobs.pop_if(|job| matches!(job.ask, Ask::Call { .. })) {
            let answer = match reply {
                Value::Array(values) if matches!(values.first(), Some(Value::Int(_))) => Ok(values),
                Value::Int(number) => Ok(vec![Value::Int(number)]),
                _ => Err(Trouble::failed(Failure::BadReply, "no answer of a script")),
            };
            let is_one = answer.is_ok();
            _ = job.reply.send(answer);
            return is_one;
        }
        let values = match reply {
            Value::Array(values) if values.len() == self.jobs.len() + 1 => values,
            _ => {
                self.refuse(&Trouble::failed(Failure::BadReply, "not one record per check"));
                return false;
            }
        };
        let mut values = values.into_iter();
        let now = values.next().unwrap_or(Value::Nil);
        for (job, found) in self.jobs.into_iter().zip(values) {
            _ = job.reply.send(match found {
                Value::ServerError(error) => Err(of_server(&error)),
                found => Ok(vec![now.clone(), found]),
            });
        }
        true
    }

    fn refuse(self, trouble: &Trouble) {
        self.jobs.into_iter().for_each(|job| _ = job.reply.send(Err(trouble.clone())));
    }
}
