//! The commands, the permission each needs, and where it is handled.

use std::borrow::Cow;
use std::pin::Pin;

use waterclock::{StoreError, Verb};

use super::parse::{Command, MANY};
use super::rl::InLine;
use super::session::{Permission, Session};
use super::write::Replies;
use super::{cell, checks, overrides, policy, rl, session};
use crate::Server;
use crate::engine::Plan;

/// A command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Name {
    ClThrottle,
    Del,
    RlCheck,
    RlChecks,
    RlPeek,
    RlRefund,
    RlReset,
    RlReserve,
    RlCommit,
    RlCancel,
    RlReport,
    RlPolicy,
    RlWait,
    RlOverride,
    Ping,
    Echo,
    Hello,
    Auth,
    Select,
    Client,
    Command,
    Info,
    Quit,
    Reset,
}

/// A command's name and arguments, as `COMMAND` reports them.
pub(super) struct Spec {
    pub(super) name: &'static str,
    pub(super) id: Name,
    /// Arguments, the name included.
    pub(super) least: usize,
    pub(super) most: usize,
    /// Which argument is the first key, and which the last, counted from the end if negative.
    pub(super) keys: (i64, i64),
}

impl Spec {
    const fn new(name: &'static str, id: Name, least: usize, most: usize) -> Spec {
        Spec { name, id, least, most, keys: (0, 0) }
    }

    const fn keys(mut self, first: i64, last: i64) -> Spec {
        self.keys = (first, last);
        self
    }
}

const ANY: usize = usize::MAX;

/// The most frequent first. `cl.throttle` checks its number of arguments itself, with redis-cell's error.
pub(super) const COMMANDS: &[Spec] = &[
    Spec::new("cl.throttle", Name::ClThrottle, 1, ANY).keys(1, 1),
    Spec::new("rl.check", Name::RlCheck, 3, 9).keys(2, 2),
    Spec::new("rl.peek", Name::RlPeek, 3, 9).keys(2, 2),
    Spec::new(MANY, Name::RlChecks, 5, ANY),
    Spec::new("rl.refund", Name::RlRefund, 4, 9).keys(2, 2),
    Spec::new("rl.reset", Name::RlReset, 3, 8).keys(2, 2),
    Spec::new("rl.reserve", Name::RlReserve, 5, 13).keys(2, 2),
    Spec::new("rl.commit", Name::RlCommit, 3, 3),
    Spec::new("rl.cancel", Name::RlCancel, 2, 2),
    Spec::new("rl.report", Name::RlReport, 4, 9).keys(2, 2),
    Spec::new("rl.policy", Name::RlPolicy, 3, 4),
    Spec::new("rl.wait", Name::RlWait, 5, 10).keys(2, 2),
    Spec::new("rl.override", Name::RlOverride, 4, 7).keys(2, 2),
    Spec::new("del", Name::Del, 2, ANY).keys(1, -1),
    Spec::new("ping", Name::Ping, 1, 2),
    Spec::new("echo", Name::Echo, 2, 2),
    Spec::new("hello", Name::Hello, 1, ANY),
    Spec::new("auth", Name::Auth, 2, ANY),
    Spec::new("select", Name::Select, 2, 2),
    Spec::new("client", Name::Client, 2, ANY),
    Spec::new("command", Name::Command, 1, ANY),
    Spec::new("info", Name::Info, 1, ANY),
    Spec::new("quit", Name::Quit, 1, ANY),
    Spec::new("reset", Name::Reset, 1, 1),
];

/// The command of this name, in any case.
#[inline]
pub(super) fn find(name: &[u8]) -> Option<&'static Spec> {
    COMMANDS.iter().find(|spec| spec.name.as_bytes().eq_ignore_ascii_case(name))
}

/// Whether an argument is this word, in any case.
pub(super) fn is(argument: Option<&[u8]>, word: &str) -> bool {
    argument.is_some_and(|argument| argument.eq_ignore_ascii_case(word.as_bytes()))
}

/// What follows a command.
pub(super) enum Next<'t> {
    /// The reply is written.
    Replied,
    /// The reply is written, and it is a decision.
    Decided,
    /// The reply needs the store.
    Wait(Pending<'t>),
    /// The reply may take long, and nothing else of the connection runs meanwhile.
    Line(InLine),
    /// The reply is written, and the connection closes.
    Close,
}

/// A reply that needs the store.
pub(super) struct Pending<'t> {
    /// Whether the command must not run at the same time as those around it.
    pub(super) runs_alone: bool,
    /// Whether the commands that follow need another plan.
    pub(super) changes_plan: bool,
    pub(super) reply: PendingReply<'t>,
}

pub(super) type PendingReply<'t> =
    Pin<Box<dyn Future<Output = Result<Replies, StoreError>> + Send + 't>>;

impl<'t> Next<'t> {
    /// Asks the store with a verb. Verbs that neither check nor peek run alone.
    pub(super) fn wait(
        verb: Verb,
        reply: impl Future<Output = Result<Replies, StoreError>> + Send + 't,
    ) -> Next<'t> {
        let runs_alone = !matches!(verb, Verb::Check | Verb::Peek);
        Next::Wait(Pending { runs_alone, changes_plan: false, reply: Box::pin(reply) })
    }

    pub(super) fn wait_alone(
        reply: impl Future<Output = Result<Replies, StoreError>> + Send + 't,
    ) -> Next<'t> {
        Next::Wait(Pending { runs_alone: true, changes_plan: false, reply: Box::pin(reply) })
    }

    /// Changes policies.
    pub(super) fn change_plan(
        reply: impl Future<Output = Result<Replies, StoreError>> + Send + 't,
    ) -> Next<'t> {
        Next::Wait(Pending { runs_alone: true, changes_plan: true, reply: Box::pin(reply) })
    }
}

/// A reply that is an error.
#[derive(Debug)]
pub(super) struct ErrorReply {
    pub(super) text: Cow<'static, str>,
    /// Whether the connection closes.
    pub(super) closes: bool,
    /// A policy that is not known: another server may have it.
    pub(super) unknown_policy: Option<String>,
}

impl<T: Into<Cow<'static, str>>> From<T> for ErrorReply {
    fn from(text: T) -> ErrorReply {
        ErrorReply { text: text.into(), closes: false, unknown_policy: None }
    }
}

/// Runs one command, as far as that does not need a future.
#[inline]
pub(super) fn dispatch<'t>(
    server: &'t Server,
    plan: &'t Plan,
    session: &mut Session,
    overloaded: bool,
    command: Command<'t, '_>,
    replies: &mut Replies,
) -> Result<Next<'t>, ErrorReply> {
    let Some(name) = command.get(0) else { return Ok(Next::Replied) };
    let Some(spec) = find(name) else {
        return Err(match session.permission {
            Permission::None => "NOAUTH Authentication required.".into(),
            _ => unknown(command).into(),
        });
    };
    permit(spec, session.permission, overloaded)?;
    if command.len() < spec.least || command.len() > spec.most {
        return Err(arity(spec.name).into());
    }
    let engine = &server.engine;
    match spec.id {
        Name::ClThrottle => return cell::throttle(engine, session, command, replies),
        Name::RlCheck => return rl::decide(engine, plan, Verb::Check, command, replies),
        Name::RlPeek => return rl::decide(engine, plan, Verb::Peek, command, replies),
        Name::RlChecks => return checks::decide(engine, plan, session, command, replies),
        Name::RlRefund => return rl::decide(engine, plan, Verb::Refund, command, replies),
        Name::RlReset => return rl::decide(engine, plan, Verb::Reset, command, replies),
        Name::Del => return cell::del(engine, command, replies),
        Name::RlReserve => return rl::reserve(engine, plan, command, replies),
        Name::RlCommit => return rl::commit(engine, command, replies),
        Name::RlCancel => return rl::cancel(engine, command, replies),
        Name::RlReport => return rl::report(engine, plan, command, replies),
        Name::RlPolicy => return policy::policy(server, session, plan, command, replies),
        Name::RlWait => return rl::wait(plan, command),
        Name::RlOverride => return overrides::run(engine, plan, command, replies),
        Name::Ping => session::ping(command, replies),
        Name::Echo => replies.bulk(command.get(1).unwrap_or_default()),
        Name::Hello => session::hello(server, session, command, replies)?,
        Name::Auth => session::auth(server, session, command, replies)?,
        Name::Select => session::select(command, replies)?,
        Name::Client => session::client(session, command, replies)?,
        Name::Command => describe_commands(command, replies)?,
        Name::Info => session::info(server, replies),
        Name::Quit => {
            replies.simple("OK");
            return Ok(Next::Close);
        }
        Name::Reset => {
            session.reset(server);
            replies.resp3 = false;
            replies.simple("RESET");
        }
    }
    Ok(Next::Replied)
}

/// Whether a client may run a command now.
#[inline]
fn permit(spec: &Spec, permission: Permission, overloaded: bool) -> Result<(), &'static str> {
    let needs = match spec.id {
        Name::Auth | Name::Hello | Name::Quit | Name::Reset => return Ok(()),
        Name::ClThrottle
        | Name::Del
        | Name::RlCheck
        | Name::RlChecks
        | Name::RlRefund
        | Name::RlReset
        | Name::RlReserve
        | Name::RlCommit
        | Name::RlCancel
        | Name::RlReport
        | Name::RlWait => Permission::Check,
        Name::RlOverride => Permission::Admin,
        _ => Permission::Read,
    };
    let decides = needs == Permission::Check || spec.id == Name::RlPeek;
    match permission {
        Permission::None => Err("NOAUTH Authentication required."),
        _ if permission < needs => Err(match needs {
            Permission::Admin => {
                "NOPERM no permission to run this command; it needs a token with the role admin"
            }
            _ => "NOPERM this token has no permission to run this command; it needs the role check",
        }),
        _ if decides && overloaded => Err("BUSY the server is overloaded; try again"),
        _ => Ok(()),
    }
}

#[cold]
pub(super) fn arity(name: &str) -> String {
    format!("ERR wrong number of arguments for '{name}' command")
}

/// In the words of Redis, because clients match them.
#[cold]
fn unknown(command: Command<'_, '_>) -> String {
    let name = shown(command.get(0).unwrap_or_default(), 128);
    let mut text = format!("ERR unknown command '{name}', with args beginning with: ");
    let longest = text.len() + 128;
    for argument in command.from(1) {
        if text.len() >= longest {
            break;
        }
        text.push_str(&format!("'{}' ", shown(argument, longest - text.len())));
    }
    text
}

/// The beginning of what a client sent, with unprintable bytes replaced.
pub(super) fn shown(bytes: &[u8], most: usize) -> String {
    let printable = |byte: &u8| if byte.is_ascii_graphic() || *byte == b' ' { *byte } else { b'?' };
    bytes.iter().take(most).map(|byte| char::from(printable(byte))).collect()
}

fn describe_commands(command: Command<'_, '_>, replies: &mut Replies) -> Result<(), String> {
    let subcommand = command.get(1);
    if subcommand.is_none() {
        replies.array(COMMANDS.len());
        COMMANDS.iter().for_each(|spec| describe(spec, replies));
    } else if is(subcommand, "COUNT") {
        replies.integer(i64::try_from(COMMANDS.len()).unwrap_or(i64::MAX));
    } else if is(subcommand, "DOCS") {
        // There are none; clients show their own.
        replies.map(0);
    } else if is(subcommand, "INFO") {
        replies.array(command.len() - 2);
        for name in command.from(2) {
            match find(name) {
                Some(spec) => describe(spec, replies),
                None => replies.null(),
            }
        }
    } else {
        let subcommand = shown(subcommand.unwrap_or_default(), 128);
        return Err(format!("ERR unknown subcommand '{subcommand}'. Try COMMAND HELP."));
    }
    Ok(())
}

/// Name, number of arguments (negative: or more), flags, and where the keys are.
fn describe(spec: &Spec, replies: &mut Replies) {
    let least = i64::try_from(spec.least).unwrap_or(i64::MAX);
    let (first, last) = spec.keys;
    replies.array(6);
    replies.bulk(spec.name.as_bytes());
    replies.integer(if spec.most > spec.least { -least } else { least });
    replies.array(1);
    replies.simple("fast");
    replies.integer(first);
    replies.integer(last);
    replies.integer(i64::from(first != 0));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_any_case() {
        assert_eq!(find(b"Cl.Throttle").map(|spec| spec.id), Some(Name::ClThrottle));
        assert!(find(b"cl.throttl").is_none());
        assert!(find(b"").is_none());
        for spec in COMMANDS {
            assert_eq!(find(spec.name.as_bytes()).map(|found| found.name), Some(spec.name));
        }
    }
}
