//! Who is at the other end of a connection.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use waterclock::Timestamp;

use super::parse::Bounds;
use crate::Server;
use crate::access::{Attempt, Role};
use crate::engine::ThrottlePolicy;
use crate::observe::Face;

/// How long a token that was taken back still goes for a connection that is open.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Connections are numbered, because clients ask for the number.
static NEXT_ID: AtomicI64 = AtomicI64::new(1);

/// What somebody may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum May {
    /// Say who they are.
    Nothing,
    /// Look.
    Read,
    /// Ask for decisions.
    Check,
}

/// What became of a token.
pub(super) enum Login {
    Done,
    /// No such token.
    Wrong,
    /// Nobody from there is believed for this long.
    Exhausted(Duration),
}

/// What a connection remembers of its client.
pub(super) struct Session {
    pub(super) id: i64,
    pub(super) peer: SocketAddr,
    pub(super) name: Vec<u8>,
    pub(super) may: May,
    token: Option<String>,
    looked: Timestamp,
    /// The numbers of the last `CL.THROTTLE`: mostly the next has the same.
    pub(super) variant: Option<Arc<ThrottlePolicy>>,
}

impl Session {
    pub(super) fn new(server: &Server, peer: SocketAddr, now: Timestamp) -> Session {
        Session {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            peer,
            name: Vec::new(),
            may: if server.is_open() { May::Check } else { May::Nothing },
            token: None,
            looked: now,
            variant: None,
        }
    }

    /// As after connecting.
    pub(super) fn forget(&mut self, server: &Server) {
        (self.token, self.name) = (None, Vec::new());
        self.may = if server.is_open() { May::Check } else { May::Nothing };
    }

    pub(super) fn bounds(&self) -> Bounds {
        if self.may == May::Nothing { Bounds::STRANGER } else { Bounds::KNOWN }
    }

    pub(super) fn log_in(&mut self, server: &Server, token: &[u8]) -> Login {
        // What is no text is no token; what stands for it below is none either.
        let token = std::str::from_utf8(token).unwrap_or_default();
        match self.attempt(server, token) {
            Ok(may) => {
                (self.may, self.token) = (may, Some(token.to_owned()));
                Login::Done
            }
            Err(login) => login,
        }
    }

    /// A known token without the role of checks may still be one that reads.
    fn attempt(&self, server: &Server, token: &str) -> Result<May, Login> {
        match server.attempt(Face::Resp, self.peer.ip(), Some(token), Role::Check) {
            Attempt::Granted => Ok(May::Check),
            Attempt::Forbidden => Ok(May::Read),
            Attempt::Unknown => Err(Login::Wrong),
            Attempt::Exhausted(wait) => Err(Login::Exhausted(wait)),
        }
    }

    /// Tokens come and go while connections stay.
    pub(super) fn look_again(&mut self, server: &Server, now: Timestamp) {
        if now.since(self.looked) < LOOK_AGAIN {
            return;
        }
        self.looked = now;
        let token = self.token.take();
        self.may = match &token {
            _ if server.is_open() => May::Check,
            None => May::Nothing,
            // Looking at a token again is no guess, however many of those there were.
            Some(token) => match server.revalidate(Some(token), Role::Check) {
                Attempt::Granted => May::Check,
                Attempt::Forbidden => May::Read,
                _ => return self.may = May::Nothing,
            },
        };
        self.token = token;
    }
}
