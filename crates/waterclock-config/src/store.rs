//! The `[store]` section.

use std::env::{self, VarError};
use std::path::PathBuf;

use waterclock::store::MAX_SHARING;

use super::duration::Micros;
use super::error::{Invalid, Source};
use super::schema::{Key, MAX_UNITS, Shape};
use super::secret::{self, Setting};
use super::size::{read_size, size_of};
use super::suggest::quoted;
use super::table::{Field, Table};

/// The environment variable that overrides `url`.
const OVERRIDE: &str = "WATERCLOCK_STORE_URL";

pub(crate) const KEYS: &[Key] = &[
    Key::new(
        "url",
        Shape::Syntax(accept_url),
        "memory: | redis://… | rediss://… | redis-cluster://h1,h2,h3 | redis-sentinel://…/service; ${ENV} or file:…",
    )
    .default("\"memory:\""),
    Key::new(
        "ca",
        Shape::Text,
        "rediss://…: the authority of the servers' certificates, a PEM file, instead of the public ones.",
    ),
    Key::new("max_keys", Shape::Whole { least: 1, most: MAX_UNITS }, "memory: keys held at most.")
        .default("1000000"),
    Key::new(
        "max_bytes",
        Shape::Syntax(accept_max_bytes),
        "memory: bytes for the logs of rolling windows, breakers and concurrency limits.",
    )
    .default("\"256MiB\""),
    Key::new(
        "max_overrides",
        Shape::Whole { least: 0, most: MAX_UNITS },
        "memory: limits of single keys held at most.",
    )
    .default("1000000"),
    Key::new("snapshot", Shape::Text, "memory: the file that state is written to on shutdown."),
    Key::new("snapshot_every", Shape::Duration, "memory: how often it is written besides.")
        .default("\"10s\""),
    Key::new("deadline", Shape::Duration, "redis: how long an answer may take.")
        .default("\"50ms\""),
    Key::new(
        "nodes",
        Shape::Whole { least: 1, most: 1_000_000 },
        "How many servers share the store, at least: they count each other while it is reachable.",
    )
    .default("1"),
    Key::new(
        "replicas",
        Shape::Whole { least: 0, most: 1_000 },
        "redis: how many replicas must acknowledge a call before it is answered.",
    )
    .default("0"),
    Key::new(
        "key_secret",
        Shape::Syntax(secret::accept),
        "redis: the secret of the keyed hash of keys, ${ENV} or file:…; the same on every node.",
    ),
];

/// The settings of the section.
#[non_exhaustive]
pub struct StoreConfig {
    /// An address in place of that of the file.
    pub address: Option<Address>,
    url: Option<Setting>,
    ca: Option<Setting>,
    key_secret: Option<Setting>,
    /// redis: how long an answer may take.
    pub deadline: Micros,
    /// How many servers share the store.
    pub nodes: u64,
    /// redis: how many replicas must acknowledge a call.
    pub replicas: u64,
    /// memory: the most keys to keep.
    pub max_keys: u64,
    /// memory: the most bytes that logs may take.
    pub max_bytes: usize,
    /// memory: the most overrides of single keys to keep.
    pub max_overrides: u64,
    /// memory: the file that preserves state over a restart.
    pub snapshot: Option<PathBuf>,
    /// memory: how often it is written; it is also written at shutdown.
    pub snapshot_every: Micros,
    snapshot_setting: Option<Setting>,
}

impl StoreConfig {
    /// The defaults, for a file without the section.
    pub fn unsaid() -> StoreConfig {
        StoreConfig {
            address: None,
            url: None,
            ca: None,
            key_secret: None,
            deadline: Micros(50_000),
            nodes: 1,
            replicas: 0,
            max_keys: 1_000_000,
            max_bytes: 256 << 20,
            max_overrides: 1_000_000,
            snapshot: None,
            snapshot_every: Micros(10_000_000),
            snapshot_setting: None,
        }
    }

    /// Where state lives. The environment variable overrides the file.
    pub fn address(&self) -> Result<Address, Invalid> {
        match env::var(OVERRIDE) {
            Ok(url) if !url.is_empty() => Address::parse(&url)
                .ok_or_else(|| format!("{OVERRIDE} {}", not_an_address(&url, false)).into()),
            Err(VarError::NotUnicode(_)) => Err(format!("{OVERRIDE} must be UTF-8").into()),
            _ => self.own_address(),
        }
    }

    fn own_address(&self) -> Result<Address, Invalid> {
        if let Some(address) = &self.address {
            return Ok(address.clone());
        }
        let Some(setting) = &self.url else { return Ok(Address::Memory) };
        let url = setting.look_up()?;
        Address::parse(&url)
            .ok_or_else(|| setting.error(not_an_address(&url, setting.is_elsewhere())))
    }

    /// How many policies can share their keys, where there is a bound to it.
    pub(crate) fn max_sharing(&self) -> Option<usize> {
        matches!(self.address(), Ok(Address::Redis(_))).then_some(MAX_SHARING)
    }

    /// The PEM file that signs the certificates of a store with TLS, where it is not a public authority.
    #[must_use]
    pub fn ca(&self) -> Option<PathBuf> {
        self.ca.as_ref().map(Setting::path)
    }

    /// An error about the file of `ca`, with its place; `rest` completes "`ca` …".
    #[must_use]
    pub fn ca_error(&self, rest: &str) -> Invalid {
        match &self.ca {
            Some(setting) => setting.error(rest),
            None => rest.to_owned().into(),
        }
    }

    /// An error about the file of `snapshot`, with its place; `rest` completes "`snapshot` …".
    #[must_use]
    pub fn snapshot_error(&self, rest: &str) -> Invalid {
        match &self.snapshot_setting {
            Some(setting) => setting.error(rest),
            None => rest.to_owned().into(),
        }
    }

    /// An error about the address, with its place; `rest` completes "`url` …".
    #[must_use]
    pub fn url_error(&self, rest: &str) -> Invalid {
        match &self.url {
            Some(setting) if env::var_os(OVERRIDE).is_none_or(|url| url.is_empty()) => {
                setting.error(rest)
            }
            _ => format!("{OVERRIDE} {rest}").into(),
        }
    }

    /// Whether the variables and files are there that the section takes values from.
    #[must_use]
    pub fn has_values(&self) -> bool {
        let settings = self.url.iter().chain(&self.key_secret);
        settings.into_iter().all(|setting| setting.look_up().is_ok())
            && self.ca().is_none_or(|path| path.exists())
    }

    /// The secret by which keys are hashed; empty if there is none.
    pub fn key_secret(&self) -> Result<String, Invalid> {
        self.key_secret.as_ref().map_or(Ok(String::new()), Setting::look_up)
    }
}

/// Reads the section, and records every fault in it.
pub(crate) fn read(source: &Source, table: &Table<'_>) -> StoreConfig {
    table.verify();
    let setting = |name| {
        let field = table.field(name)?;
        let text = field.text().ok()?.to_owned();
        Some(Setting::new(source, &field, text))
    };
    let otherwise = StoreConfig::unsaid();
    let spec = StoreConfig {
        address: None,
        url: setting("url"),
        ca: setting("ca"),
        key_secret: setting("key_secret"),
        deadline: table.verified("deadline", Field::micros).unwrap_or(otherwise.deadline),
        nodes: table.verified("nodes", Field::whole).unwrap_or(otherwise.nodes),
        replicas: table.verified("replicas", Field::whole).unwrap_or(otherwise.replicas),
        max_keys: table.verified("max_keys", Field::whole).unwrap_or(otherwise.max_keys),
        max_bytes: table
            .verified("max_bytes", Field::text)
            .and_then(size_of)
            .unwrap_or(otherwise.max_bytes),
        max_overrides: table
            .verified("max_overrides", Field::whole)
            .unwrap_or(otherwise.max_overrides),
        snapshot: table.verified("snapshot", Field::text).map(|path| source.beside(path)),
        snapshot_every: table
            .verified("snapshot_every", Field::micros)
            .unwrap_or(otherwise.snapshot_every),
        snapshot_setting: setting("snapshot"),
    };
    // An authority without TLS is a mistake.
    if let (Some(field), Ok(Address::Redis(url))) = (table.field("ca"), spec.address())
        && !url.starts_with("rediss")
    {
        let scheme = url.split(':').next().unwrap_or_default();
        let tls = scheme.replacen("redis", "rediss", 1);
        table.fault_at(
            field.at(),
            format!("`ca` is for a store with TLS; write {tls}:// instead of {scheme}://"),
        );
    }
    spec
}

/// The least that `max_bytes` may be.
const LEAST_BYTES: u64 = 1 << 20;

fn accept_max_bytes(text: &str) -> Result<(), String> {
    if read_size(text)? < LEAST_BYTES {
        return Err(format!("must be at least \"1MiB\"; found {}", quoted(text)));
    }
    Ok(())
}

/// Whether a URL names something that could be a store.
fn accept_url(url: &str) -> Result<(), String> {
    secret::accept(url)?;
    let is_looked_up = url.starts_with("file:") || url.starts_with("${");
    if is_looked_up || Address::parse(url).is_some() {
        Ok(())
    } else {
        Err(not_an_address(url, false))
    }
}

/// Half a sentence.
const MUST_BE: &str =
    "must be \"memory:\", or begin with redis://, rediss://, redis-cluster:// or redis-sentinel://";

/// The last two are TLS to each server of the kind.
const SCHEMES: &[&str] = &[
    "redis://",
    "rediss://",
    "redis-cluster://",
    "redis-sentinel://",
    "rediss-cluster://",
    "rediss-sentinel://",
];

/// Where state lives. Exhaustive: what opens a store must know every kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// In this process.
    Memory,
    /// On the Redis servers of this URL.
    Redis(String),
}

impl Address {
    /// `None` if it is not the address of a store.
    pub fn parse(url: &str) -> Option<Address> {
        let has_host =
            |scheme: &&str| url.strip_prefix(*scheme).is_some_and(|rest| !rest.is_empty());
        match url {
            "memory:" => Some(Address::Memory),
            _ if SCHEMES.iter().any(has_host) => Some(Address::Redis(url.to_owned())),
            _ => None,
        }
    }
}

/// Half a sentence about an invalid address. A value from a variable or a file may be a secret in the wrong place,
/// so it is not repeated.
pub fn not_an_address(url: &str, looked_up: bool) -> String {
    if looked_up {
        return format!("{MUST_BE}; the value of the variable or file does neither");
    }
    format!("{MUST_BE}; found {}", quoted(&without_login(url)))
}

/// The URL without its user name and password.
fn without_login(url: &str) -> String {
    let Some((login, host)) = url.rsplit_once('@') else { return url.to_owned() };
    match login.split_once("://") {
        Some((scheme, _)) => format!("{scheme}://…@{host}"),
        None => format!("…@{host}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        assert_eq!(Address::parse("memory:"), Some(Address::Memory));
        for url in ["redis://h", "rediss://h:1/2", "redis-cluster://a,b", "rediss-sentinel://a/s"] {
            assert_eq!(Address::parse(url), Some(Address::Redis(url.to_owned())));
        }
        for url in ["", "memory", "redis://", "redis:/h", "mysql://h", "Redis://h"] {
            assert_eq!(Address::parse(url), None, "{url}");
        }
    }
}
