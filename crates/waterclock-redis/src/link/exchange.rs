//! One exchange: the commands of a batch out, their replies back to their callers.

use std::sync::Arc;

use redis::{Cmd, Pipeline, ServerErrorKind, Value};
use tokio::time::{Instant, timeout_at};
use waterclock::{Failure, StoreError};

use super::error::{CallError, sending_error, server_error};
use super::queue::Pending;
use super::{Delivery, Link, LinkSettings, Request, TraceTime};
use crate::keyspace::{RecordKey, Tag};
use crate::script::{Algorithms, KEPT, Kind, NODES, SHORT, Script};

/// How often scripts are sent again to a server that does not keep them.
const TRIES: u32 = 3;

/// One command and the requests it is for.
struct Command {
    script: &'static Script,
    pending: Vec<Pending>,
    /// How many of the first requests have keys that differ, of short checks.
    differ: usize,
}

/// The outcome of the commands of a batch.
#[derive(Default)]
pub(super) struct Exchanged {
    replies: Vec<(Command, Result<Value, StoreError>)>,
    /// The connection they came over.
    id: u64,
}

impl Exchanged {
    fn fail(&mut self, commands: Vec<Command>, error: &StoreError) {
        self.replies.extend(commands.into_iter().map(|command| (command, Err(error.clone()))));
    }
}

impl Link {
    /// Sends requests, and waits for what comes back. At `by` the caller leaves: a connection that was silent for most
    /// of the deadline is closed before that, so that the next call has another.
    pub(super) async fn exchange(self: &Arc<Self>, batch: Vec<Pending>, by: Instant) -> Exchanged {
        let mut exchanged = Exchanged::default();
        let mut commands = self.commands(batch);
        for attempt in 0..=TRIES {
            let (id, mut connection) = match self.connected().await {
                Ok(connected) => connected,
                Err(error) => {
                    // However it failed, nothing was sent.
                    exchanged.fail(commands, &error.before_charging());
                    return exchanged;
                }
            };
            exchanged.id = id;
            // Connecting may have taken longer than a caller waits: a caller that gave up is not charged.
            for command in &mut commands {
                for gone in command.pending.extract_if(.., |one| one.reply.is_closed()) {
                    // The server has answered, if only that it does not have the script.
                    if attempt > 0 {
                        gone.answer(self, Err(CallError::NoScript));
                    }
                }
            }
            commands.retain(|command| !command.pending.is_empty());
            if commands.is_empty() {
                return exchanged;
            }
            // A script that the server does not have is sent whole, on the same connection.
            let mut pipeline = encode(&commands, attempt > 0);
            let replicas = self.settings.replicas;
            if replicas > 0 {
                pipeline.add_command(self.settings.wait());
            }
            let sent = connection.redis.send_packed_commands(&pipeline, 0, pipeline.len());
            let (now, deadline) = (Instant::now(), self.settings.deadline);
            let is_patient = by > now + deadline / 2;
            let until = if is_patient { by.min(now + deadline) } else { now + deadline };
            let error = match timeout_at(until, sent).await {
                Ok(Ok(mut replies)) if replies.len() == pipeline.len() => {
                    let acknowledged = replies.pop_if(|_| replicas > 0);
                    let lost = acknowledged.and_then(|reply| self.settings.unacknowledged(&reply));
                    commands = sort(commands, replies, lost.as_ref(), &mut exchanged);
                    if commands.is_empty() {
                        return exchanged;
                    }
                    continue;
                }
                Ok(Ok(_)) => StoreError::failed(Failure::BadReply, "not one reply per command"),
                Ok(Err(error)) => sending_error(&error),
                // It may have been charged or not: never sent again.
                Err(_) => StoreError::failed(Failure::Timeout, "no answer"),
            };
            self.disconnect(id);
            exchanged.fail(commands, &error);
            return exchanged;
        }
        exchanged.fail(commands, &CallError::NoScript.into_store_error());
        exchanged
    }

    /// Delivers the replies.
    pub(super) fn deliver(self: &Arc<Self>, exchanged: Exchanged) {
        let mut is_healthy = true;
        for (command, reply) in exchanged.replies {
            is_healthy &= command.deliver(self, reply);
        }
        if !is_healthy {
            self.disconnect(exchanged.id);
        }
    }

    /// Checks in as few commands as possible, every other request in one of its own.
    fn commands(&self, batch: Vec<Pending>) -> Vec<Command> {
        let mut commands: Vec<Command> = Vec::new();
        let (mut short, mut long): (Vec<Pending>, Vec<Pending>) = (Vec::new(), Vec::new());
        for pending in batch {
            let Delivery { asking, alone } = pending.delivery;
            let is_shared = !asking && !alone;
            match &pending.request {
                Request::Short { at: None, .. } if is_shared => short.push(pending),
                Request::Check { at: None, .. } if is_shared => long.push(pending),
                _ => commands.push(Command::new(vec![pending])),
            }
        }
        let slot = |pending: &Pending| if self.settings.slotted { pending.slot() } else { 0 };
        // Equal numbers side by side are sent once. Within them the order stays: first come, first served.
        short.sort_by_key(|pending| (slot(pending), pending.request.numbers()));
        long.sort_by_key(|pending| (slot(pending), pending.script()));
        for mut rest in [short, long] {
            while let Some(first) = rest.first() {
                let same = (slot(first), first.script());
                let fits = |pending: &&Pending| (slot(pending), pending.script()) == same;
                let n = rest.iter().take_while(fits).count();
                commands.push(Command::new(rest.drain(..n).collect()));
            }
        }
        commands
    }
}

fn encode(commands: &[Command], whole: bool) -> Pipeline {
    let mut pipeline = Pipeline::new();
    let mut sent: Vec<&str> = Vec::new();
    for command in commands {
        // The first of them loads the script for all.
        let load = whole && !sent.contains(&&*command.script.digest);
        sent.push(&command.script.digest);
        if command.asks() {
            pipeline.add_command(redis::cmd("ASKING"));
        }
        pipeline.add_command(command.encode(load));
    }
    pipeline
}

impl LinkSettings {
    /// Why calls are not safe, if too few replicas acknowledged them.
    fn unacknowledged(&self, reply: &Value) -> Option<StoreError> {
        if let Value::ServerError(error) = reply {
            return Some(server_error(error).into_store_error().after_sending());
        }
        let wanted = self.replicas;
        match redis::from_redis_value_ref::<u64>(reply) {
            Ok(acknowledged) if acknowledged >= wanted => None,
            Ok(acknowledged) => {
                let ms = self.replicas_ms();
                let reason =
                    format!("{acknowledged} of {wanted} replicas acknowledged within {ms} ms");
                Some(StoreError::failed(Failure::Timeout, reason))
            }
            Err(_) => Some(StoreError::failed(Failure::BadReply, "unexpected reply to WAIT")),
        }
    }
}

/// Sorts replies to their commands; those whose script the server does not have are returned.
/// `lost` is why what they say may be lost.
fn sort(
    commands: Vec<Command>,
    replies: Vec<Value>,
    lost: Option<&StoreError>,
    exchanged: &mut Exchanged,
) -> Vec<Command> {
    let (mut replies, mut unanswered) = (replies.into_iter(), Vec::new());
    for command in commands {
        if command.asks() {
            replies.next();
        }
        match replies.next().unwrap_or(Value::Nil) {
            reply if is_no_script(&reply) => unanswered.push(command),
            reply => {
                let is_done = !matches!(reply, Value::ServerError(_));
                let lost = lost.filter(|_| is_done).cloned();
                exchanged.replies.push((command, lost.map_or(Ok(reply), Err)));
            }
        }
    }
    unanswered
}

impl Pending {
    fn slot(&self) -> u16 {
        self.request.keys().first().map_or(0, |key| key.slot)
    }

    /// What script it needs: only requests with the same share a call, so that there are few scripts.
    fn script(&self) -> (Kind, Algorithms) {
        match self.request {
            Request::Check { kind, algorithms, .. } => (kind, algorithms),
            _ => (Kind::Check, Algorithms::default()),
        }
    }
}

impl Request {
    /// Whether it charges what others elsewhere may refuse. It can do without the keys under which that is noted.
    pub(crate) fn holds(&self) -> bool {
        matches!(self, Self::Check { kind: Kind::Marked, .. })
    }

    /// Whether a user need not be permitted to: to count nodes, or to keep policies.
    pub(super) fn is_optional(&self) -> bool {
        let is = |one: &Script| matches!(self, Self::Script { script, .. } if std::ptr::eq(*script, one));
        is(&NODES) || is(&KEPT)
    }

    pub(super) fn script(&self) -> &'static Script {
        match self {
            Self::Short { .. } => &SHORT,
            Self::Check { kind, algorithms, .. } => kind.script(*algorithms),
            Self::Script { script, .. } => script,
        }
    }

    fn keys(&self) -> &[RecordKey] {
        match self {
            Self::Short { key, .. } => std::slice::from_ref(key),
            Self::Check { keys, .. } | Self::Script { keys, .. } => keys,
        }
    }

    fn args(&self) -> &[Vec<u8>] {
        match self {
            Self::Short { .. } => &[],
            Self::Check { args, .. } | Self::Script { args, .. } => args,
        }
    }

    fn numbers(&self) -> (u64, u64, Tag) {
        match *self {
            Self::Short { span_us, depth_us, tag, .. } => (span_us, depth_us, tag),
            _ => (0, 0, Tag::ANY),
        }
    }
}

/// A script call that serves these requests.
///
/// The short script is told how many of the first keys differ from each other: it reads those at once.
pub(super) fn encode_call(
    script: &Script,
    requests: &[&Request],
    differ: usize,
    whole: bool,
) -> Cmd {
    let keys = || requests.iter().flat_map(|request| request.keys());
    let args = || requests.iter().flat_map(|request| request.args());
    let name = if whole { &*script.source } else { &*script.digest };
    let count = keys().count();
    let size = keys().map(|key| key.bytes.len()).chain(args().map(Vec::len)).sum::<usize>();
    // Besides these, a few words and the numbers of each request.
    let mut cmd = Cmd::with_capacity(
        8 + count + args().count() + 4 * requests.len(),
        64 + name.len() + size + 48 * requests.len(),
    );
    cmd.arg(if whole { "EVAL" } else { "EVALSHA" }).arg(name).arg(count);
    keys().for_each(|key| _ = cmd.arg(&*key.bytes));
    if let Some(Request::Short { at, .. } | Request::Check { at, .. }) = requests.first() {
        TraceTime::args(at.as_ref()).iter().for_each(|arg| _ = cmd.arg(arg));
    }
    if let Some(Request::Short { .. }) = requests.first() {
        cmd.arg(differ);
    }
    for run in requests.chunk_by(|a, b| a.numbers() == b.numbers()) {
        if let Request::Short { span_us, depth_us, tag, .. } = run[0] {
            cmd.arg(*span_us).arg(*depth_us).arg(tag.digits()).arg(run.len());
        }
    }
    args().for_each(|arg| _ = cmd.arg(&**arg));
    cmd
}

/// Moves requests behind the others whose key may be that of an earlier one; returns how many come before them.
fn move_repeats_back(pending: &mut Vec<Pending>) -> usize {
    let mut slots = Vec::with_capacity(pending.len());
    // By slot, which is a hash of the key. Few keys share one by chance, and nothing is lost where they do.
    let is_repeat = |one: &mut Pending| {
        let is_known = slots.contains(&one.slot());
        slots.push(one.slot());
        is_known
    };
    let mut repeats: Vec<Pending> = pending.extract_if(.., is_repeat).collect();
    let differ = pending.len();
    pending.append(&mut repeats);
    differ
}

/// Whether the server does not have the script.
pub(super) fn is_no_script(reply: &Value) -> bool {
    matches!(reply, Value::ServerError(error) if error.kind() == Some(ServerErrorKind::NoScript))
}

/// What a script replied to so many requests like this one.
pub(super) fn values(
    request: &Request,
    requests: usize,
    reply: Value,
) -> Result<Vec<Value>, CallError> {
    let bad = |reason| Err(CallError::failed(Failure::BadReply, reason));
    match (request, reply) {
        (_, Value::ServerError(error)) => Err(server_error(&error)),
        (Request::Script { .. }, Value::Array(values)) => Ok(values),
        (Request::Script { .. }, Value::Int(number)) => Ok(vec![Value::Int(number)]),
        (Request::Script { .. }, _) => bad("not the reply of a script"),
        (_, Value::Array(values)) if values.len() == requests + 1 => Ok(values),
        _ => bad("not one record per check"),
    }
}

/// The reply to one check of a call: the instant, and what was found under its keys.
pub(super) fn found(now: Value, found: Value) -> Result<Vec<Value>, CallError> {
    match found {
        Value::ServerError(error) => Err(server_error(&error)),
        found => Ok(vec![now, found]),
    }
}

impl Command {
    /// Requests that one script call can serve.
    fn new(mut pending: Vec<Pending>) -> Self {
        let script = pending.first().map_or(&*SHORT, |first| first.request.script());
        let is_short =
            matches!(pending.first(), Some(Pending { request: Request::Short { .. }, .. }));
        let differ = if is_short { move_repeats_back(&mut pending) } else { 0 };
        Self { script, pending, differ }
    }

    fn encode(&self, whole: bool) -> Cmd {
        let requests: Vec<&Request> = self.pending.iter().map(|one| &one.request).collect();
        encode_call(self.script, &requests, self.differ, whole)
    }

    fn asks(&self) -> bool {
        self.pending.iter().any(|pending| pending.delivery.asking)
    }

    /// Delivers the reply; false if the connection must be closed.
    fn deliver(mut self, link: &Arc<Link>, reply: Result<Value, StoreError>) -> bool {
        let Some(first) = self.pending.first() else { return true };
        let reply = reply.map_err(CallError::Store);
        let values = match reply.and_then(|reply| values(&first.request, self.pending.len(), reply))
        {
            Ok(values) => values,
            Err(error) => {
                let is_healthy = !error.ends_connection();
                self.fail(link, &error);
                return is_healthy;
            }
        };
        let is_script = |pending: &mut Pending| matches!(pending.request, Request::Script { .. });
        if let Some(pending) = self.pending.pop_if(is_script) {
            pending.answer(link, Ok(values));
            return true;
        }
        let mut values = values.into_iter();
        let now = values.next().unwrap_or(Value::Nil);
        for (pending, value) in self.pending.into_iter().zip(values) {
            pending.answer(link, found(now.clone(), value));
        }
        true
    }

    fn fail(self, link: &Arc<Link>, error: &CallError) {
        self.pending.into_iter().for_each(|one| one.answer(link, Err(error.clone())));
    }
}
