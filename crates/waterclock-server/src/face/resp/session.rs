//! What a connection remembers of its client, and the commands that change it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use waterclock::Timestamp;

use super::commands::{ErrorReply, arity, is, shown};
use super::parse::{Bounds, Command};
use super::write::Replies;
use crate::Server;
use crate::access::{Attempt, Role};
use crate::buffers::Hold;
use crate::connections::Guest;
use crate::engine::ThrottlePolicy;
use crate::observe::Face;

/// How long a revoked token still works on an open connection.
const REVALIDATE_EVERY: Duration = Duration::from_secs(1);

/// Connections are numbered, because clients ask for the number.
static NEXT_ID: AtomicI64 = AtomicI64::new(1);

/// What a client may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Permission {
    /// Authenticate.
    None,
    /// Read.
    Read,
    /// Ask for decisions.
    Check,
    /// Change overrides.
    Admin,
}

impl Permission {
    /// What a token that may check may do.
    fn of_checker(server: &Server, token: &str) -> Permission {
        match server.revalidate(Some(token), Role::Admin) {
            Attempt::Granted => Permission::Admin,
            _ => Permission::Check,
        }
    }
}

/// What a connection remembers of its client.
pub(super) struct Session {
    pub(super) id: i64,
    pub(super) peer: SocketAddr,
    pub(super) name: Vec<u8>,
    pub(super) permission: Permission,
    token: Option<String>,
    validated: Timestamp,
    /// Whether the reply is delayed, because its address has sent many unknown tokens.
    pub(super) has_guessed: bool,
    /// The numbers of the last `CL.THROTTLE`: mostly the next call has the same.
    pub(super) throttle: Option<Arc<ThrottlePolicy>>,
    /// What a command of many checks takes of the receive budget, until its reply is sent.
    pub(super) many: Hold,
}

impl Session {
    pub(super) fn new(server: &Server, guest: &Guest, now: Timestamp) -> Session {
        let peer = guest.peer;
        Session {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            peer,
            name: Vec::new(),
            permission: if server.is_open() { Permission::Check } else { Permission::None },
            token: None,
            validated: now,
            has_guessed: false,
            throttle: None,
            many: server.buffers().hold(Face::Resp, guest.origin()),
        }
    }

    /// As after connecting.
    pub(super) fn reset(&mut self, server: &Server) {
        (self.token, self.name) = (None, Vec::new());
        self.permission = if server.is_open() { Permission::Check } else { Permission::None };
    }

    pub(super) fn bounds(&self) -> Bounds {
        if self.permission == Permission::None { Bounds::STRANGER } else { Bounds::KNOWN }
    }

    /// The password is a token. One without the role `check` may still read.
    fn log_in(&mut self, server: &Server, password: &[u8]) -> Result<(), ErrorReply> {
        // A token is text; the empty string is no token.
        let token = std::str::from_utf8(password).unwrap_or_default();
        // The only token of an open server is its administrator's.
        let is_admin = server.is_open() && server.has_tokens();
        let role = if is_admin { Role::Admin } else { Role::Check };
        let attempt = server.attempt(Face::Resp, Some(token), role, || self.peer.ip());
        self.permission = match attempt {
            Attempt::Granted => Permission::of_checker(server, token),
            Attempt::Forbidden => Permission::Read,
            Attempt::Unknown => return Err(WRONG_PASSWORD.into()),
            Attempt::Guessed => {
                self.has_guessed = true;
                return Err(ErrorReply { closes: true, ..WRONG_PASSWORD.into() });
            }
        };
        self.token = Some(token.to_owned());
        Ok(())
    }

    /// Whether the client's token has a role beyond those that [`Permission`] tells apart.
    pub(super) fn has(&self, server: &Server, role: Role) -> bool {
        server.revalidate(self.token.as_deref(), role) == Attempt::Granted
    }

    /// Checks the token again, because a reload may have revoked it.
    pub(super) fn revalidate(&mut self, server: &Server, now: Timestamp) {
        if now.since(self.validated) < REVALIDATE_EVERY {
            return;
        }
        self.validated = now;
        let token = self.token.take();
        self.permission = match &token {
            None if server.is_open() => Permission::Check,
            None => Permission::None,
            // This is no guess, so it is not limited as guesses are.
            Some(token) => match server.revalidate(Some(token), Role::Check) {
                Attempt::Granted => Permission::of_checker(server, token),
                Attempt::Forbidden => Permission::Read,
                _ => return self.permission = Permission::None,
            },
        };
        self.token = token;
    }
}

/// The version of Redis that is reported; clients choose their commands by it.
const REDIS_VERSION: &str = "7.0.0";

const WRONG_PASSWORD: &str = "WRONGPASS invalid username-password pair or user is disabled.";
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

pub(super) fn select(command: Command<'_, '_>, replies: &mut Replies) -> Result<(), &'static str> {
    let number = command.get(1).and_then(|number| std::str::from_utf8(number).ok());
    match number.and_then(|number| number.parse::<i64>().ok()) {
        Some(0) => replies.simple("OK"),
        Some(_) => return Err("ERR DB index is out of range"),
        None => return Err("ERR value is not an integer or out of range"),
    }
    Ok(())
}

/// `AUTH [user] password`: the user name is ignored.
pub(super) fn auth(
    server: &Server,
    session: &mut Session,
    command: Command<'_, '_>,
    replies: &mut Replies,
) -> Result<(), ErrorReply> {
    let password = match command.len() {
        2 if !server.has_tokens() => return Err(NO_PASSWORD.into()),
        2 => command.get(1),
        3 => command.get(2),
        _ => return Err("ERR syntax error".into()),
    };
    session.log_in(server, password.unwrap_or_default())?;
    replies.simple("OK");
    Ok(())
}

/// `HELLO [version [AUTH user password] [SETNAME name]]`: all of it or nothing.
pub(super) fn hello(
    server: &Server,
    session: &mut Session,
    command: Command<'_, '_>,
    replies: &mut Replies,
) -> Result<(), ErrorReply> {
    let mut resp3 = replies.resp3;
    if let Some(version) = command.get(1) {
        resp3 = match version {
            b"2" => false,
            b"3" => true,
            _ if version.is_empty() || !version.iter().all(u8::is_ascii_digit) => {
                return Err("ERR Protocol version is not an integer or out of range".into());
            }
            _ => return Err("NOPROTO unsupported protocol version".into()),
        };
    }
    let (mut password, mut name) = (None, None);
    let mut at = 2;
    while let Some(option) = command.get(at) {
        let (first, second) = (command.get(at + 1), command.get(at + 2));
        if is(Some(option), "AUTH") && second.is_some() {
            password = second;
            at += 3;
        } else if is(Some(option), "SETNAME") && first.is_some() {
            name = first;
            at += 2;
        } else {
            let option = shown(option, 128);
            return Err(format!("ERR Syntax error in HELLO option '{option}'").into());
        }
    }
    if name.is_some_and(|name| !is_name(name)) {
        return Err(BAD_NAME.into());
    }
    if let Some(password) = password {
        session.log_in(server, password)?;
    }
    if session.permission == Permission::None {
        return Err(HELLO_FIRST.into());
    }
    if let Some(name) = name {
        session.name = name.to_vec();
    }
    replies.resp3 = resp3;
    describe_server(session, replies);
    Ok(())
}

fn describe_server(session: &Session, replies: &mut Replies) {
    let version = if replies.resp3 { 3 } else { 2 };
    replies.map(7);
    replies.pair("server", "redis");
    replies.pair("version", REDIS_VERSION);
    replies.bulk(b"proto");
    replies.integer(version);
    replies.bulk(b"id");
    replies.integer(session.id);
    replies.pair("mode", "standalone");
    replies.pair("role", "master");
    replies.bulk(b"modules");
    replies.array(0);
}

pub(super) fn client(
    session: &mut Session,
    command: Command<'_, '_>,
    replies: &mut Replies,
) -> Result<(), ErrorReply> {
    let subcommand = command.get(1).unwrap_or_default();
    let (first, len) = (command.get(2).unwrap_or_default(), command.len());
    match (&*subcommand.to_ascii_uppercase(), len) {
        (b"SETNAME", 3) if !is_name(first) => return Err(BAD_NAME.into()),
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
        // Libraries send their name; it is not kept.
        (b"SETINFO", 4) => {
            if is(Some(first), "LIB-NAME") || is(Some(first), "LIB-VER") {
                replies.simple("OK");
            } else {
                let option = shown(first, 128);
                return Err(format!("ERR Unrecognized option '{option}'").into());
            }
        }
        (b"NO-EVICT" | b"NO-TOUCH", 3) => replies.simple("OK"),
        (b"SETNAME" | b"GETNAME" | b"ID" | b"INFO" | b"SETINFO" | b"NO-EVICT" | b"NO-TOUCH", _) => {
            let name = format!("client|{}", shown(subcommand, 16).to_ascii_lowercase());
            return Err(arity(&name).into());
        }
        _ => {
            let subcommand = shown(subcommand, 128);
            return Err(format!("ERR unknown subcommand '{subcommand}'. Try CLIENT HELP.").into());
        }
    }
    Ok(())
}

/// Whether a client name is printable and short.
fn is_name(name: &[u8]) -> bool {
    name.len() <= 128 && name.iter().all(u8::is_ascii_graphic)
}

pub(super) fn info(server: &Server, replies: &mut Replies) {
    let uptime = server.uptime().as_secs();
    let store = server.engine.store_name();
    let version = env!("CARGO_PKG_VERSION");
    replies.text(&format!(
        "# Server\r\nredis_version:{REDIS_VERSION}\r\nredis_mode:standalone\r\n\
         waterclock_version:{version}\r\nwaterclock_store:{store}\r\nuptime_in_seconds:{uptime}\r\n\
         # Persistence\r\nloading:0\r\n# Replication\r\nrole:master\r\n"
    ));
}
