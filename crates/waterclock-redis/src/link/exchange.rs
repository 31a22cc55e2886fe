//! One exchange: the commands of a batch out, their replies back to their callers; and what errors mean.

use std::sync::Arc;

use redis::{Cmd, Pipeline, RedisError, ServerError, ServerErrorKind, Value};
use tokio::time::{Instant, timeout_at};
use waterclock::{Failure, StoreError};

use super::{Delivery, Link, LinkSettings, Pending, Request, TraceTime};
use crate::address::address_of;
use crate::keyspace::{RecordKey, Tag};
use crate::script::{Algorithms, Kind, SHORT, Script};

/// How often scripts are sent again to a server that does not keep them.
const TRIES: u32 = 3;

/// One command and the requests it is for.
struct Command {
    script: &'static Script,
    pending: Vec<Pending>,
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
            let has_left = |pending: &Pending| pending.reply.is_closed();
            commands.iter_mut().for_each(|command| command.pending.retain(|one| !has_left(one)));
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
            self.disconnect(id).await;
            exchanged.fail(commands, &error);
            return exchanged;
        }
        exchanged.fail(commands, &CallError::NoScript.into_store_error());
        exchanged
    }

    /// Delivers the replies.
    pub(super) async fn deliver(&self, exchanged: Exchanged) {
        let mut is_healthy = true;
        for (command, reply) in exchanged.replies {
            is_healthy &= command.deliver(reply);
        }
        if !is_healthy {
            self.disconnect(exchanged.id).await;
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
        short.sort_by_key(|pending| (slot(pending), pending.numbers()));
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
            Value::ServerError(error) if error.kind() == Some(ServerErrorKind::NoScript) => {
                unanswered.push(command);
            }
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

    fn numbers(&self) -> (u64, u64, Tag) {
        match self.request {
            Request::Short { span_us, depth_us, tag, .. } => (span_us, depth_us, tag),
            _ => (0, 0, Tag::ANY),
        }
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
    fn keys(&self) -> &[RecordKey] {
        match self {
            Self::Short { key, .. } => std::slice::from_ref(key),
            Self::Check { keys, .. } | Self::Script { keys, .. } => keys,
        }
    }
}

impl Command {
    /// Requests that one script call can serve.
    fn new(pending: Vec<Pending>) -> Self {
        let script = match pending.first().map(|first| &first.request) {
            Some(Request::Script { script, .. }) => script,
            Some(Request::Check { kind, algorithms, .. }) => kind.script(*algorithms),
            _ => &*SHORT,
        };
        Self { script, pending }
    }

    fn encode(&self, whole: bool) -> Cmd {
        let mut cmd = redis::cmd(if whole { "EVAL" } else { "EVALSHA" });
        cmd.arg(if whole { &*self.script.source } else { &*self.script.digest });
        let keys = || self.pending.iter().flat_map(|pending| pending.request.keys());
        cmd.arg(keys().count());
        keys().for_each(|key| _ = cmd.arg(&*key.bytes));
        match self.pending.first().map(|first| &first.request) {
            Some(Request::Short { at, .. } | Request::Check { at, .. }) => {
                TraceTime::args(at.as_ref()).iter().for_each(|arg| _ = cmd.arg(arg));
            }
            Some(Request::Script { args, .. }) => args.iter().for_each(|arg| _ = cmd.arg(&**arg)),
            None => {}
        }
        for run in self.pending.chunk_by(|a, b| a.numbers() == b.numbers()) {
            match &run[0].request {
                Request::Short { span_us, depth_us, tag, .. } => {
                    cmd.arg(*span_us).arg(*depth_us).arg(tag.digits()).arg(run.len());
                }
                Request::Check { .. } => {
                    for pending in run {
                        if let Request::Check { args, .. } = &pending.request {
                            args.iter().for_each(|arg| _ = cmd.arg(&**arg));
                        }
                    }
                }
                Request::Script { .. } => {}
            }
        }
        cmd
    }

    fn asks(&self) -> bool {
        self.pending.iter().any(|pending| pending.delivery.asking)
    }

    /// Delivers the reply; false if the connection must be closed.
    fn deliver(mut self, reply: Result<Value, StoreError>) -> bool {
        let reply = match reply {
            Ok(Value::ServerError(error)) => {
                let error = server_error(&error);
                self.fail(&error);
                // It has become a replica: find the primary again.
                return !matches!(error, CallError::Again(Failure::ReadOnly, _));
            }
            Ok(reply) => reply,
            Err(error) => {
                self.fail(&CallError::Store(error));
                return true;
            }
        };
        let is_script = |pending: &mut Pending| matches!(pending.request, Request::Script { .. });
        if let Some(pending) = self.pending.pop_if(is_script) {
            let answer = match reply {
                Value::Array(values) => Ok(values),
                Value::Int(number) => Ok(vec![Value::Int(number)]),
                _ => Err(CallError::failed(Failure::BadReply, "not the reply of a script")),
            };
            let is_healthy = answer.is_ok();
            _ = pending.reply.send(answer);
            return is_healthy;
        }
        let values = match reply {
            Value::Array(values) if values.len() == self.pending.len() + 1 => values,
            _ => {
                self.fail(&CallError::failed(Failure::BadReply, "not one record per check"));
                return false;
            }
        };
        let mut values = values.into_iter();
        let now = values.next().unwrap_or(Value::Nil);
        for (pending, found) in self.pending.into_iter().zip(values) {
            _ = pending.reply.send(match found {
                Value::ServerError(error) => Err(server_error(&error)),
                found => Ok(vec![now.clone(), found]),
            });
        }
        true
    }

    fn fail(self, error: &CallError) {
        self.pending.into_iter().for_each(|one| _ = one.reply.send(Err(error.clone())));
    }
}

/// Why a request has no reply, or none that decides.
#[derive(Clone, Debug)]
pub(crate) enum CallError {
    /// The slot is on another node now.
    Moved(String),
    /// The slot is being moved to another node, and this key is there already.
    Ask(String),
    /// Nothing was done; a retry may succeed.
    Again(Failure, String),
    /// Some keys of the call are being moved to another node; a retry of each request alone may succeed.
    Split(String),
    /// No node serves the slot. Other slots of this server may be served.
    Down(String),
    /// The server does not have the script.
    NoScript,
    /// Anything else.
    Store(StoreError),
}

impl CallError {
    pub(crate) fn failed(kind: Failure, reason: impl std::fmt::Display) -> Self {
        Self::Store(StoreError::failed(kind, reason))
    }

    /// Whether the failure counts against the server.
    pub(super) fn trips_breaker(&self) -> bool {
        match self {
            Self::Again(kind, _) => kind.trips_breaker(),
            Self::Store(error) => error.failure().is_some_and(Failure::trips_breaker),
            Self::Moved(_) | Self::Ask(_) | Self::Split(_) | Self::Down(_) | Self::NoScript => {
                false
            }
        }
    }

    pub(crate) fn into_store_error(self) -> StoreError {
        match self {
            Self::Store(error) => error,
            // Nothing was done, whatever the kind.
            Self::Again(kind, reason) => StoreError::failed(kind, reason).before_charging(),
            Self::Moved(to) | Self::Ask(to) => StoreError::failed(
                Failure::Unreachable,
                format!("the slot keeps moving, last to {to}"),
            ),
            Self::Split(reason) | Self::Down(reason) => {
                StoreError::failed(Failure::Unreachable, reason)
            }
            Self::NoScript => {
                StoreError::failed(Failure::BadReply, "the server does not keep scripts")
            }
        }
    }
}

/// What an error among the replies means.
pub(super) fn server_error(error: &ServerError) -> CallError {
    let detail = error.details().unwrap_or_default().to_owned();
    let address = || {
        let address = detail.split(' ').nth(1).unwrap_or_default();
        address.rsplit_once(':').map_or(String::new(), |(host, port)| address_of(host, port))
    };
    match error.kind() {
        Some(ServerErrorKind::Moved) => return CallError::Moved(address()),
        Some(ServerErrorKind::Ask) => return CallError::Ask(address()),
        Some(ServerErrorKind::NoScript) => return CallError::NoScript,
        Some(ServerErrorKind::BusyLoading) => return CallError::Again(Failure::Loading, detail),
        Some(ServerErrorKind::ReadOnly | ServerErrorKind::MasterDown) => {
            return CallError::Again(Failure::ReadOnly, detail);
        }
        Some(ServerErrorKind::TryAgain) => return CallError::Split(detail),
        Some(ServerErrorKind::ClusterDown) => return CallError::Down(detail),
        Some(ServerErrorKind::NoPerm) => return CallError::Store(no_permission(&detail)),
        _ => {}
    }
    let kind = match error.code() {
        "BUSY" => return CallError::Again(Failure::Timeout, detail),
        "MISCONF" | "NOREPLICAS" => Failure::ReadOnly,
        "OOM" => Failure::OutOfMemory,
        "NOAUTH" | "WRONGPASS" => Failure::Auth,
        "WRONGTYPE" | "WATERCLOCK" => Failure::Foreign,
        // Errors raised by a script are wrapped.
        _ if detail.contains("WATERCLOCK") || detail.contains("WRONGTYPE") => Failure::Foreign,
        _ if detail.contains("data string too short") => Failure::Foreign,
        // What Valkey and Redis say when the user may run the script, but not what it calls.
        _ if detail.contains("ACL failure in script")
            || detail.contains("user executing the script can't run this command") =>
        {
            return CallError::Store(no_permission(&detail));
        }
        _ => Failure::BadReply,
    };
    CallError::failed(kind, format!("{} {detail}", error.code()).trim())
}

fn no_permission(detail: &str) -> StoreError {
    StoreError::failed(Failure::Auth, format!("the user lacks permission: {detail}"))
}

/// What an error of a connection means.
pub(crate) fn connection_error(error: &RedisError) -> StoreError {
    // The client does not pass on the code of a SELECT that failed.
    let detail = error.detail().unwrap_or_default();
    if error.code() == Some("NOPERM") || detail.contains("no permissions to run") {
        return no_permission(detail);
    }
    let kind = match error.kind() {
        redis::ErrorKind::AuthenticationFailed => Failure::Auth,
        redis::ErrorKind::Parse | redis::ErrorKind::UnexpectedReturnType => Failure::BadReply,
        redis::ErrorKind::Server(ServerErrorKind::BusyLoading) => Failure::Loading,
        redis::ErrorKind::Extension if matches!(error.code(), Some("NOAUTH" | "WRONGPASS")) => {
            Failure::Auth
        }
        _ if error.is_timeout() => Failure::Timeout,
        _ => Failure::Unreachable,
    };
    StoreError::failed(kind, error)
}

/// What an error means that ended an exchange: the server may have run the scripts.
fn sending_error(error: &RedisError) -> StoreError {
    let error = connection_error(error);
    if error.failure() == Some(Failure::Unreachable) { error.after_sending() } else { error }
}
