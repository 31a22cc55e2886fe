//! Tokens with roles, kept as hashes, and what happens to unknown ones.

use std::net::IpAddr;
use std::time::Duration;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use tokio::sync::Semaphore;
use tokio::time::sleep;
use tracing::warn;
use waterclock::{KeyedLimiter, Limit};
use waterclock_http::ClientIp;

use crate::observe::Face;

use waterclock_config::Token;

/// What a token allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Role {
    /// Ask for decisions.
    Check,
    /// Read policies, keys and metrics.
    Read,
    /// Everything, including overrides and resets of keys.
    Admin,
}

impl Role {
    /// As configurations spell it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Role::Check => "check",
            Role::Read => "read",
            Role::Admin => "admin",
        }
    }
}

/// The outcome of an attempt to use a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Attempt {
    /// The token has the role.
    Granted,
    /// No token, or an unknown one.
    Unknown,
    /// A known token without the role.
    Forbidden,
    /// An unknown token from an address that has sent many: the same as `Unknown`, answered late.
    Guessed,
}

/// The tokens in force.
#[derive(Debug)]
pub struct Access {
    tokens: Vec<([u8; 32], Vec<&'static str>)>,
    is_open: bool,
}

impl Access {
    /// Tokens of the configuration: `sha256:…`, or themselves. If it is open, checks and reads need none.
    #[must_use]
    pub fn new(tokens: &[Token], is_open: bool) -> Access {
        let hashed = |token: &Token| (hash_of(&token.text), token.roles.clone());
        Access { tokens: tokens.iter().map(hashed).collect(), is_open }
    }

    /// Whether checks and reads need no token.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// Whether there are tokens. An open server may have one, for its administrator.
    #[must_use]
    pub fn has_tokens(&self) -> bool {
        !self.tokens.is_empty()
    }

    /// Compares every token in constant time, so that the time it takes reveals nothing.
    pub(crate) fn attempt(&self, token: Option<&str>, role: Role) -> Attempt {
        if self.is_open() && role != Role::Admin {
            return Attempt::Granted;
        }
        let Some(token) = token else { return Attempt::Unknown };
        let hash: [u8; 32] = Sha256::digest(token).into();
        let mut found = Attempt::Unknown;
        for (known, roles) in &self.tokens {
            if bool::from(known.ct_eq(&hash)) {
                let granted = roles.iter().any(|name| *name == role.name() || *name == "admin");
                found = if granted { Attempt::Granted } else { Attempt::Forbidden };
            }
        }
        found
    }
}

/// Unknown tokens of one address that are answered at once, in a minute.
const PROMPT_GUESSES: u64 = 10;
/// How long the answer to more of them takes.
const GUESS_DELAY: Duration = Duration::from_millis(500);
/// How many answers are delayed at the same time; more are given at once.
const MAX_DELAYED: usize = 256;
/// Addresses whose unknown tokens are counted one by one; more share what is left.
const MAX_ADDRESSES: usize = 10_000;

/// Unknown tokens by address: the more of them, the later and the quieter each is answered.
///
/// Known tokens never get here, whatever others send from the same address.
pub(crate) struct Guesses {
    prompt: KeyedLimiter<str>,
    logged: KeyedLimiter<str>,
    delayed: Semaphore,
}

impl Default for Guesses {
    fn default() -> Guesses {
        let per_minute =
            |many| KeyedLimiter::builder(Limit::per_minute(many)).max_keys(MAX_ADDRESSES).build();
        Guesses {
            prompt: per_minute(PROMPT_GUESSES),
            logged: per_minute(1),
            delayed: Semaphore::new(MAX_DELAYED),
        }
    }
}

impl Guesses {
    /// Counts an unknown token. Whether the address has sent many of them.
    pub(crate) fn count(&self, face: Face, from: IpAddr) -> bool {
        // One client may have a whole group of IPv6 addresses.
        let from = ClientIp::default().group(from).to_string();
        if self.logged.check(&*from).is_allowed() {
            warn!(
                protocol = face.name(),
                address = from,
                "unknown token; more of them from this address are logged once a minute"
            );
        }
        !self.prompt.check(&*from).is_allowed()
    }

    /// Waits before an unknown token is answered.
    pub(crate) async fn delay(&self) {
        if let Ok(_place) = self.delayed.try_acquire() {
            sleep(GUESS_DELAY).await;
        }
    }
}

/// The token of `Authorization: Bearer …`, in any case.
pub(crate) fn bearer_of(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// An invalid hash becomes one that no token matches.
fn hash_of(text: &str) -> [u8; 32] {
    let Some(hex) = text.strip_prefix("sha256:") else { return Sha256::digest(text).into() };
    let mut hash = [0; 32];
    let mut digits = hex.as_bytes().chunks_exact(2);
    for (byte, pair) in hash.iter_mut().zip(&mut digits) {
        let pair = std::str::from_utf8(pair).unwrap_or_default();
        *byte = u8::from_str_radix(pair, 16).unwrap_or_default();
    }
    if hex.len() == 64 { hash } else { Sha256::digest(Sha256::digest(text)).into() }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    const FROM: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn token(text: &str, role: &'static str) -> Token {
        Token { text: text.to_owned(), roles: vec![role] }
    }

    #[test]
    fn roles() {
        // The SHA-256 of "reader".
        let hash = "sha256:3d0941964aa3ebdcb00ccef58b1bb399f9f898465e9886d5aec7f31090a0fb30";
        let tokens = [token("checker", "check"), token(hash, "read"), token("root", "admin")];
        let access = Access::new(&tokens, false);
        let attempt = |text, role| access.attempt(text, role);
        assert_eq!(attempt(Some("checker"), Role::Check), Attempt::Granted);
        assert_eq!(attempt(Some("checker"), Role::Read), Attempt::Forbidden);
        assert_eq!(attempt(Some("root"), Role::Check), Attempt::Granted);
        assert_eq!(attempt(Some("root"), Role::Admin), Attempt::Granted);
        assert_eq!(attempt(Some("unknown"), Role::Check), Attempt::Unknown);
        assert_eq!(attempt(None, Role::Check), Attempt::Unknown);
    }

    #[test]
    fn an_open_server_still_has_no_administrators() {
        let access = Access::new(&[], true);
        assert_eq!(access.attempt(None, Role::Check), Attempt::Granted);
        assert_eq!(access.attempt(None, Role::Read), Attempt::Granted);
        assert_eq!(access.attempt(Some("x"), Role::Admin), Attempt::Unknown);
    }

    #[test]
    fn an_open_server_with_an_administrator() {
        let access = Access::new(&[token("root", "admin")], true);
        assert_eq!(access.attempt(None, Role::Check), Attempt::Granted);
        assert_eq!(access.attempt(Some("x"), Role::Read), Attempt::Granted);
        assert_eq!(access.attempt(Some("root"), Role::Admin), Attempt::Granted);
        assert_eq!(access.attempt(Some("x"), Role::Admin), Attempt::Unknown);
        assert_eq!(access.attempt(None, Role::Admin), Attempt::Unknown);
    }

    #[tokio::test]
    async fn more_delays_than_there_are_places_for_are_none() {
        let guesses = Guesses::default();
        let mut delayed: Vec<_> = (0..MAX_DELAYED).map(|_| Box::pin(guesses.delay())).collect();
        assert!(delayed.iter_mut().all(|delay| delay.now_or_never().is_none()));
        assert!(guesses.delay().now_or_never().is_some(), "one more is answered at once");
        drop(delayed);
        assert!(guesses.delay().now_or_never().is_none());
    }

    #[test]
    fn guesses_are_counted_by_address() {
        let guesses = Guesses::default();
        let neighbour = IpAddr::from([127, 0, 0, 2]);
        assert!((0..PROMPT_GUESSES).all(|_| !guesses.count(Face::Http, FROM)));
        assert!(guesses.count(Face::Resp, FROM), "one more, through any face");
        assert!(!guesses.count(Face::Http, neighbour));
    }
}
