//! The Redis in which redis-cell keeps its arrival times. It is only read.

use percent_encoding::percent_decode_str;
use waterclock_config::Micros;

use super::Due;
use super::resp::{Connection, Reply, refused};
use crate::output::Failure;
use crate::server::{NoAnswer, Server, ServerAddress};

/// Keys that one SCAN looks at, as a hint, and keys that are read at once.
const SCANNED: &str = "500";
const READ_AT_ONCE: usize = 500;

/// redis-cell lets a key expire at its arrival time. A value that is as far away from the expiry as this is no arrival time.
const TOLERANCE_US: u64 = 5_000_000;

/// Longer than any arrival time until the year 2286: 19 digits, and one to tell.
const VALUE_END: &str = "19";
/// Of nanoseconds since 1970: from 2001 on, and what 64 bits hold.
const DIGITS: usize = 19;

/// How to reach it.
#[derive(Clone, Debug)]
pub(super) struct RedisAddress {
    server: ServerAddress,
    user: Option<String>,
    password: Option<String>,
    database: Option<u32>,
}

impl RedisAddress {
    /// `redis://user:password@host:6379/0`. The error is a whole sentence without the password.
    pub(super) fn parse(text: &str) -> Result<RedisAddress, String> {
        const SHAPE: &str = "write redis://[user:password@]HOST[:PORT][/DB] or rediss://…";
        let text = fill_in(text)?;
        let (scheme, rest) = text.split_once("://").ok_or(SHAPE)?;
        let (login, rest) = match rest.rsplit_once('@') {
            Some((login, rest)) => (Some(login), rest),
            None => (None, rest),
        };
        let (host, database) = match rest.split_once('/') {
            Some((host, "")) => (host, None),
            Some((host, number)) => (host, Some(number.parse().map_err(|_| SHAPE)?)),
            None => (rest, None),
        };
        if !["redis", "rediss"].contains(&scheme) {
            return Err(SHAPE.to_owned());
        }
        // Without a port it is Redis's own, not the one that waterclock serve has.
        let has_port = host.rsplit_once(':').is_some_and(|(_, port)| !port.contains(']'));
        let port = if has_port { "" } else { ":6379" };
        let server =
            ServerAddress::parse(&format!("{scheme}://{host}{port}")).map_err(|_| SHAPE)?;
        let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
        let (user, password) = match login {
            None => (None, None),
            Some(login) => match login.split_once(':') {
                Some((user, password)) => {
                    (Some(user).filter(|user| !user.is_empty()), Some(password))
                }
                None => (None, Some(login)),
            },
        };
        Ok(RedisAddress {
            server,
            user: user.map(decoded),
            password: password.map(decoded),
            database,
        })
    }
}

/// Replaces `${NAME}` by an environment variable.
fn fill_in(text: &str) -> Result<String, String> {
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once("${") {
        let (name, after) = after.split_once('}').ok_or("a `${` has no `}` after it")?;
        let value = std::env::var(name);
        out.push_str(before);
        out.push_str(&value.map_err(|_| format!("the environment variable {name} is not set"))?);
        rest = after;
    }
    Ok(out + rest)
}

/// Some keys of the old Redis.
#[derive(Default)]
pub(super) struct Found {
    /// Those that are not full, and how long that takes.
    pub(super) due: Vec<Due>,
    pub(super) full: u64,
    pub(super) other: u64,
}

/// A connection, and how far it has been scanned.
pub(super) struct OldRedis {
    server: Server,
    connection: Connection,
    /// `None` at the end.
    cursor: Option<Vec<u8>>,
    /// Keys that were scanned and not yet read.
    waiting: Vec<Vec<u8>>,
}

impl OldRedis {
    pub(super) async fn connect(address: &RedisAddress) -> Result<OldRedis, Failure> {
        let server = Server::without_token(address.server.clone())?;
        let connected = async {
            let mut connection = Connection::open(&server).await?;
            let (user, database) =
                (address.user.as_deref(), address.database.unwrap_or(0).to_string());
            let mut commands: Vec<Vec<&[u8]>> = Vec::new();
            if let Some(password) = &address.password {
                let login = user.into_iter().chain([&**password]).map(str::as_bytes);
                commands.push(std::iter::once(&b"AUTH"[..]).chain(login).collect());
            }
            if address.database.is_some() {
                commands.push(vec![b"SELECT", database.as_bytes()]);
            }
            for reply in connection.ask(&commands).await? {
                if let Reply::Error(text) = reply {
                    return Err(refused(&text));
                }
            }
            Ok(connection)
        };
        match connected.await {
            Ok(connection) => {
                let (cursor, waiting) = (Some(b"0".to_vec()), Vec::new());
                Ok(OldRedis { server, connection, cursor, waiting })
            }
            Err(error) => Err(explained(&server, &error).await),
        }
    }

    /// The next keys; `None` after the last.
    pub(super) async fn next(&mut self, pattern: Option<&str>) -> Result<Option<Found>, Failure> {
        while self.waiting.is_empty() && self.cursor.is_some() {
            if let Err(error) = self.scan(pattern).await {
                return Err(explained(&self.server, &error).await);
            }
        }
        if self.waiting.is_empty() {
            return Ok(None);
        }
        match self.read().await {
            Ok(found) => Ok(Some(found)),
            Err(error) => Err(explained(&self.server, &error).await),
        }
    }

    async fn scan(&mut self, pattern: Option<&str>) -> Result<(), NoAnswer> {
        let Some(cursor) = self.cursor.take() else { return Ok(()) };
        let mut command: Vec<&[u8]> = vec![b"SCAN", &cursor, b"COUNT", SCANNED.as_bytes()];
        if let Some(pattern) = pattern {
            command.extend([&b"MATCH"[..], pattern.as_bytes()]);
        }
        let strange = || NoAnswer::Stranger("answers SCAN as no Redis does".to_owned());
        match self.connection.ask(&[command]).await?.pop() {
            Some(Reply::Error(text)) => Err(refused(&text)),
            Some(Reply::Array(parts)) => {
                let mut parts = parts.into_iter();
                let (Some(Reply::Text(next)), Some(Reply::Array(keys))) =
                    (parts.next(), parts.next())
                else {
                    return Err(strange());
                };
                self.cursor = (next != b"0").then_some(next);
                self.waiting.extend(keys.into_iter().filter_map(|key| match key {
                    Reply::Text(key) => Some(key),
                    _ => None,
                }));
                Ok(())
            }
            _ => Err(strange()),
        }
    }

    /// Reads some of the keys that are waiting: their values, their expiry and the time.
    async fn read(&mut self) -> Result<Found, NoAnswer> {
        let keys = self.waiting.split_off(self.waiting.len().saturating_sub(READ_AT_ONCE));
        // The time comes first: keys are charged for a moment too long rather than too short.
        let mut commands: Vec<Vec<&[u8]>> = vec![vec![b"TIME"]];
        for key in &keys {
            // Not all of it: other values may be long.
            commands.push(vec![b"GETRANGE", key, b"0", VALUE_END.as_bytes()]);
            commands.push(vec![b"PTTL", key]);
        }
        let mut replies = self.connection.ask(&commands).await?.into_iter();
        let now_us = match replies.next() {
            Some(Reply::Error(text)) => return Err(refused(&text)),
            reply => reply.and_then(time_us),
        };
        let now_us =
            now_us.ok_or_else(|| NoAnswer::Stranger("answers TIME as no Redis does".to_owned()))?;
        let mut found = Found::default();
        for key in keys {
            let (value, expiry) = (replies.next(), replies.next());
            match full_in(value, expiry, now_us) {
                None => found.other += 1,
                Some(Micros(0)) => found.full += 1,
                Some(full_in) => found.due.push(Due { key, full_in }),
            }
        }
        Ok(found)
    }
}

async fn explained(server: &Server, error: &NoAnswer) -> Failure {
    let address = &server.address;
    match error {
        NoAnswer::Unreachable(error) => {
            format!("{address}: cannot be reached: {}; check the address", error.kind()).into()
        }
        error => server.explain(error).await.into(),
    }
}

fn time_us(reply: Reply) -> Option<u64> {
    let Reply::Array(parts) = reply else { return None };
    let mut numbers = parts.into_iter().map(|part| match part {
        Reply::Text(text) => std::str::from_utf8(&text).ok()?.parse::<u64>().ok(),
        _ => None,
    });
    let (seconds, micros) = (numbers.next()??, numbers.next()??);
    seconds.checked_mul(1_000_000)?.checked_add(micros)
}

/// How long a key takes until it is full again, rounded up. `None` if this is no arrival time of redis-cell: nanoseconds
/// since 1970, in decimal, for a key that expires then.
fn full_in(value: Option<Reply>, expiry: Option<Reply>, now_us: u64) -> Option<Micros> {
    let (Some(Reply::Text(value)), Some(Reply::Number(expiry_ms))) = (value, expiry) else {
        return None;
    };
    if value.len() != DIGITS || !value.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let arrival_ns: i64 = std::str::from_utf8(&value).ok()?.parse().ok()?;
    let arrival_us = u64::try_from(arrival_ns).ok()?.div_ceil(1_000);
    let expires_us = now_us.checked_add(u64::try_from(expiry_ms).ok()?.checked_mul(1_000)?)?;
    (arrival_us.abs_diff(expires_us) <= TOLERANCE_US)
        .then(|| Micros(arrival_us.saturating_sub(now_us)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let parsed = RedisAddress::parse("redis://me:p%40ss@h/3").unwrap();
        assert_eq!(parsed.server.to_string(), "redis://h:6379");
        assert_eq!(
            (parsed.user.as_deref(), parsed.password.as_deref()),
            (Some("me"), Some("p@ss"))
        );
        assert_eq!(parsed.database, Some(3));
        let parsed = RedisAddress::parse("rediss://:secret@[::1]:7").unwrap();
        assert_eq!(parsed.server.to_string(), "rediss://[::1]:7");
        assert_eq!((parsed.user, parsed.password.as_deref()), (None, Some("secret")));
        assert_eq!(RedisAddress::parse("redis://[::1]/").unwrap().server.port, 6379);
        for wrong in ["http://h", "redis://:secret@/0", "redis://:secret@h/x", "secret@h"] {
            let problem = RedisAddress::parse(wrong).unwrap_err();
            assert!(!problem.contains("secret"), "{problem}");
        }
    }

    #[test]
    fn arrival_times() {
        const NOW_US: u64 = 1_800_000_000_000_000;
        let full_in = |value: &str, expiry_ms: i64| {
            let (value, expiry) = (Reply::Text(value.into()), Reply::Number(expiry_ms));
            full_in(Some(value), Some(expiry), NOW_US).map(|time| time.0)
        };
        assert_eq!(full_in("1800000009000000001", 9_000), Some(9_000_001));
        assert_eq!(full_in("1799999999000000000", 0), Some(0));
        // Another number, one that does not expire, and one that expires at another time.
        for (value, expiry_ms) in [
            ("17", 9_000),
            ("1800000009000000001", -1),
            ("1800000009000000001", 99_000),
            ("18000000090000000011", 9_000),
            ("-180000000900000001", 9_000),
        ] {
            assert_eq!(full_in(value, expiry_ms), None, "{value} {expiry_ms}");
        }
    }
}
