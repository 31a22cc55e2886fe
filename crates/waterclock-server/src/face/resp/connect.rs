//! What clients send to get started: none of it asks for a decision.

use super::obey::{Next, arity, shown};
use super::parse::Command;
use super::session::{Login, May, Session};
use super::word;
use super::write::Replies;
use crate::Server;

/// The version of Redis whose manners these are; clients choose their commands by it.
const MANNERS: &str = "7.0.0";

const NOT_A_NUMBER: &str = "ERR value is not an integer or out of range";
const BAD_NAME: &str = "ERR Client names cannot contain spaces, newlines or special characters.";
const NO_PASSWORD: &str = "ERR AUTH <password> called without any password configured for the \
                           default user. Are you sure your configuration is correct?";
const HELLO_FIRST: &str = "NOAUTH HELLO must be called with the client already authenticated, \
                           otherwise the HELLO <proto> AUTH <user> <pass> option can be used to \
                           authenticate the client and select the RESP protocol version at the \
                           same time";

pub(super) fn ping(command: Command<'_, '_>, replies: &mut Replies) {
    match command.get(1) {
        Some(message) => replies.bulk(message),
        None => replies.simple("PONG"),
    }
}

pub(super) fn select(command: Command<'_, '_>, replies: &mut Replies) {
    let number = command.get(1).and_then(|number| std::str::from_utf8(number).ok());
    match number.and_then(|number| number.parse::<i64>().ok()) {
        Some(0) => replies.simple("OK"),
        Some(_) => replies.error("ERR DB index is out of range"),
        None => replies.error(NOT_A_NUMBER),
    }
}

/// The password is a token; the name beside it does not matter.
pub(super) fn auth<'t>(
    server: &Server,
    session: &mut Session,
    command: Command<'_, '_>,
    replies: &mut Replies,
) -> Next<'t> {
    let password = match command.len() {
        2 if server.is_open() => return Next::refused(replies, NO_PASSWORD),
        2 => command.get(1),
        3 => command.get(2),
        _ => return Next::refused(replies, "ERR syntax error"),
    };
    match log_in(server, session, password.unwrap_or_default(), replies) {
        Ok(()) => {
            replies.simple("OK");
            Next::Replied
        }
        Err(next) => next,
    }
}

fn log_in<'t>(
    server: &Server,
    session: &mut Session,
    password: &[u8],
    replies: &mut Replies,
) -> Result<(), Next<'t>> {
    match session.log_in(server, password) {
        Login::Done => Ok(()),
        Login::Wrong => Err(Next::refused(
            replies,
            "WRONGPASS invalid username-password pair or user is disabled.",
        )),
        Login::Exhausted(wait) => {
            let wait = wait.as_secs() + 1;
            replies.error(&format!(
                "ERR too many wrong passwords came from your address; try again in {wait} s"
            ));
            Err(Next::Close)
        }
    }
}

/// `HELLO [version [AUTH user password] [SETNAME name]]`: all of it or nothing.
pub(super) fn hello<'t>(
    server: &Server,
    session: &mut Session,
    command: Command<'_, '_>,
    replies: &mut Replies,
) -> Next<'t> {
    let mut resp3 = replies.resp3;
    if let Some(version) = command.get(1) {
        resp3 = match version {
            b"2" => false,
            b"3" => true,
            _ if version.is_empty() || !version.iter().all(u8::is_ascii_digit) => {
                let text = "ERR Protocol version is not an integer or out of range";
                return Next::refused(replies, text);
            }
            _ => return Next::refused(replies, "NOPROTO unsupported protocol version"),
        };
    }
    let (mut password, mut name) = (None, None);
    let mut at = 2;
    while let Some(option) = command.get(at) {
        let (first, second) = (command.get(at + 1), command.get(at + 2));
        if word::is(Some(option), "AUTH") && second.is_some() {
            password = second;
            at += 3;
        } else if word::is(Some(option), "SETNAME") && first.is_some() {
            name = first;
            at += 2;
        } else {
            let text = format!("ERR Syntax error in HELLO option '{}'", shown(option, 128));
            return Next::refused(replies, &text);
        }
    }
    if name.is_some_and(|name| !is_name(name)) {
        return Next::refused(replies, BAD_NAME);
    }
    if let Some(password) = password
        && let Err(next) = log_in(server, session, password, replies)
    {
        return next;
    }
    if session.may == May::Nothing {
        return Next::refused(replies, HELLO_FIRST);
    }
    if let Some(name) = name {
        session.name = name.to_vec();
    }
    replies.resp3 = resp3;
    introduce(session, replies);
    Next::Replied
}

fn introduce(session: &Session, replies: &mut Replies) {
    let version = if replies.resp3 { 3 } else { 2 };
    replies.map(7);
    replies.pair("server", "redis");
    replies.pair("version", MANNERS);
    replies.bulk(b"proto");
    replies.integer(version);
    replies.bulk(b"id");
    replies.integer(session.id);
    replies.pair("mode", "standalone");
    replies.pair("role", "master");
    replies.bulk(b"modules");
    replies.array(0);
}

pub(super) fn client<'t>(
    session: &mut Session,
    command: Command<'_, '_>,
    replies: &mut Replies,
) -> Next<'t> {
    let subcommand = command.get(1).unwrap_or_default();
    let (first, len) = (command.get(2).unwrap_or_default(), command.len());
    match (&*subcommand.to_ascii_uppercase(), len) {
        (b"SETNAME", 3) if !is_name(first) => return Next::refused(replies, BAD_NAME),
        (b"SETNAME", 3) => {
            session.name = first.to_vec();
            replies.simple("OK");
        }
        (b"GETNAME", 2) if session.name.is_empty() => replies.null(),
        (b"GETNAME", 2) => replies.bulk(&session.name),
        (b"ID", 2) => replies.integer(session.id),
        (b"INFO", 2) => {
            let name = String::from_utf8_lossy(&session.name);
            let version = if replies.resp3 { 3 } else { 2 };
            let (id, peer) = (session.id, session.peer);
            replies.text(&format!("id={id} addr={peer} name={name} db=0 resp={version}\n"));
        }
        // Libraries say who they are; nobody here wants to know.
        (b"SETINFO", 4) => {
            if word::is(Some(first), "LIB-NAME") || word::is(Some(first), "LIB-VER") {
                replies.simple("OK");
            } else {
                let option = shown(first, 128);
                replies.error(&format!("ERR Unrecognized option '{option}'"));
            }
        }
        (b"NO-EVICT" | b"NO-TOUCH", 3) => replies.simple("OK"),
        (b"SETNAME" | b"GETNAME" | b"ID" | b"INFO" | b"SETINFO" | b"NO-EVICT" | b"NO-TOUCH", _) => {
            let name = format!("client|{}", shown(subcommand, 16).to_ascii_lowercase());
            return arity(replies, &name);
        }
        _ => {
            let subcommand = shown(subcommand, 128);
            replies.error(&format!("ERR unknown subcommand '{subcommand}'. Try CLIENT HELP."));
        }
    }
    Next::Replied
}

/// What can be shown in one word.
fn is_name(name: &[u8]) -> bool {
    name.len() <= 128 && name.iter().all(u8::is_ascii_graphic)
}

pub(super) fn info(server: &Server, replies: &mut Replies) {
    let uptime = server.uptime().as_secs();
    let store = server.engine.store().name();
    let version = env!("CARGO_PKG_VERSION");
    replies.text(&format!(
        "# Server\r\nredis_version:{MANNERS}\r\nredis_mode:standalone\r\n\
         waterclock_version:{version}\r\nwaterclock_store:{store}\r\nuptime_in_seconds:{uptime}\r\n\
         # Persistence\r\nloading:0\r\n# Replication\r\nrole:master\r\n"
    ));
}
