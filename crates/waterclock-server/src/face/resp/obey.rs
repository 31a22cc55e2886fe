//! One command: who may give it, and who carries it out.

use waterclock::Verb;

use super::parse::Command;
use super::question::Question;
use super::session::{May, Session};
use super::word::{Entry, Word, find};
use super::write::Replies;
use super::{about, cell, connect, hold, rl};
use crate::Server;
use crate::engine::Plan;

/// How it goes on after a command.
pub(super) enum Next<'t> {
    /// The reply is written.
    Replied,
    /// The reply is written, and it is a decision.
    Decided,
    /// The reply needs the store.
    Ask(Question<'t>),
    /// The reply is written, and it was the last.
    Close,
}

impl Next<'_> {
    /// An error is the reply.
    #[cold]
    pub(super) fn refused(replies: &mut Replies, text: &str) -> Self {
        replies.error(text);
        Next::Replied
    }
}

/// Carries out one command, or says what to ask the store.
#[inline]
pub(super) fn obey<'t>(
    server: &Server,
    plan: &'t Plan,
    session: &mut Session,
    overloaded: bool,
    command: Command<'t, '_>,
    replies: &mut Replies,
) -> Next<'t> {
    let Some(name) = command.get(0) else { return Next::Replied };
    let Some(entry) = find(name) else {
        if session.may == May::Nothing {
            return Next::refused(replies, "NOAUTH Authentication required.");
        }
        return unknown(command, replies);
    };
    if let Some(text) = objection(entry, session.may, overloaded) {
        return Next::refused(replies, text);
    }
    if command.len() < entry.least || command.len() > entry.most {
        return arity(replies, entry.name);
    }
    let engine = &server.engine;
    match entry.word {
        Word::ClThrottle => return cell::throttle(engine, session, command, replies),
        Word::RlCheck => return rl::ask(engine, plan, Verb::Check, command, replies),
        Word::RlPeek => return rl::ask(engine, plan, Verb::Peek, command, replies),
        Word::RlRefund => return rl::ask(engine, plan, Verb::Refund, command, replies),
        Word::RlReset => return rl::ask(engine, plan, Verb::Reset, command, replies),
        Word::Del => return cell::del(command, replies),
        Word::RlReserve => return hold::reserve(plan, command, replies),
        Word::RlCommit => return hold::commit(command, replies),
        Word::RlCancel => return hold::cancel(command, replies),
        Word::RlReport => return rl::report(plan, command, replies),
        Word::Ping => connect::ping(command, replies),
        Word::Echo => replies.bulk(command.get(1).unwrap_or_default()),
        Word::Hello => return connect::hello(server, session, command, replies),
        Word::Auth => return connect::auth(server, session, command, replies),
        Word::Select => connect::select(command, replies),
        Word::Client => return connect::client(session, command, replies),
        Word::Command => return about::command(command, replies),
        Word::Info => connect::info(server, replies),
        Word::Quit => {
            replies.simple("OK");
            return Next::Close;
        }
        Word::Reset => {
            session.forget(server);
            replies.resp3 = false;
            replies.simple("RESET");
        }
    }
    Next::Replied
}

/// Why somebody may not give a command now.
#[inline]
fn objection(entry: &Entry, may: May, overloaded: bool) -> Option<&'static str> {
    let needs = match entry.word {
        Word::Auth | Word::Hello | Word::Quit | Word::Reset => return None,
        Word::ClThrottle
        | Word::Del
        | Word::RlCheck
        | Word::RlRefund
        | Word::RlReset
        | Word::RlReserve
        | Word::RlCommit
        | Word::RlCancel
        | Word::RlReport => May::Check,
        _ => May::Read,
    };
    let asks = needs == May::Check || entry.word == Word::RlPeek;
    match may {
        May::Nothing => Some("NOAUTH Authentication required."),
        May::Read if needs == May::Check => {
            Some("NOPERM this token has no permission to run this command; it needs the role check")
        }
        _ if asks && overloaded => Some("BUSY the server has too much to do; try again"),
        _ => None,
    }
}

#[cold]
pub(super) fn arity<'t>(replies: &mut Replies, name: &str) -> Next<'t> {
    Next::refused(replies, &format!("ERR wrong number of arguments for '{name}' command"))
}

/// In the words of Redis, because clients look for them.
#[cold]
fn unknown<'t>(command: Command<'_, '_>, replies: &mut Replies) -> Next<'t> {
    let name = shown(command.get(0).unwrap_or_default(), 128);
    let mut text = format!("ERR unknown command '{name}', with args beginning with: ");
    let longest = text.len() + 128;
    for argument in command.from(1) {
        if text.len() >= longest {
            break;
        }
        text.push_str(&format!("'{}' ", shown(argument, longest - text.len())));
    }
    Next::refused(replies, &text)
}

/// The beginning of what a client sent, without anything that could be taken for more than text.
pub(super) fn shown(bytes: &[u8], most: usize) -> String {
    let printable = |byte: &u8| if byte.is_ascii_graphic() || *byte == b' ' { *byte } else { b'?' };
    bytes.iter().take(most).map(|byte| char::from(printable(byte))).collect()
}
