//! The `[server]` section.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use super::duration::Micros;
use super::english::Warning;
use super::error::Invalid;
use super::error::Source;
use super::listen::{
    Listen, ListenFlags, OPEN, accept_listener, read_listener, refuse_open_listeners, told,
};
use super::schema::{Key, Shape};
use super::secret::Setting;
use super::size::{read_size, size_of};
use super::suggest::quoted;
use super::table::Field;
use super::table::Table;

pub(crate) const KEYS: &[Key] = &[
    Key::new(
        "http",
        Shape::Syntax(accept_listener),
        "JSON API, forward-auth, dashboard and metrics; empty turns it off.",
    )
    .default("\"127.0.0.1:8080\""),
    Key::new(
        "grpc",
        Shape::Syntax(accept_listener),
        "Envoy rate limit service v3; empty turns it off.",
    )
    .default("\"127.0.0.1:8081\""),
    Key::new(
        "resp",
        Shape::Syntax(accept_listener),
        "Redis protocol: CL.THROTTLE and RL.*; empty turns it off.",
    )
    .default("\"127.0.0.1:6380\""),
    Key::new(
        "allow_unauthenticated",
        Shape::Flag,
        "Needed for a non-loopback listener without auth.",
    )
    .default("false"),
    Key::new(
        "trusted_proxies",
        Shape::List(&Shape::Syntax(accept_network)),
        "Networks of proxies whose forwarded headers are trusted.",
    )
    .default("[]"),
    Key::new(
        "show_keys",
        Shape::Flag,
        "Show refused keys in clear on the dashboard, not as hashes.",
    )
    .default("false"),
    Key::new(
        "max_connections",
        Shape::Whole { least: 12, most: 1_000_000 },
        "Connections of all protocols together; a quarter is for clients not authenticated yet.",
    )
    .default("10000"),
    Key::new(
        "max_unauthenticated_per_address",
        Shape::Whole { least: 1, most: 1_000_000 },
        "Connections of one address (IPv6: one /64) without a request that was let in.",
    )
    .default("512"),
    Key::new(
        "authenticate_within",
        Shape::Duration,
        "How long a connection may take to send a request that is let in.",
    )
    .default("\"5s\""),
    Key::new(
        "max_receive_bytes",
        Shape::Syntax(accept_receive_bytes),
        "Memory for long commands and bodies that are being received; 1/16 is for clients not authenticated yet.",
    )
    .default("\"64MiB\""),
    Key::new(
        "max_throttle_period",
        Shape::Duration,
        "CL.THROTTLE: the longest period that a call may have.",
    )
    .default("\"366d\""),
    Key::new("tls", Shape::Table(TLS), "Serve TLS."),
    Key::new("auth", Shape::List(&Shape::Table(AUTH)), "Tokens and their roles."),
];

const TLS: &[Key] = &[
    Key::new("cert", Shape::Text, "The certificate chain, a PEM file.").such_as("\"cert.pem\""),
    Key::new("key", Shape::Text, "The private key, a PEM file.").such_as("\"key.pem\""),
    Key::new(
        "client_ca",
        Shape::Text,
        "Ask clients for a certificate of this authority, a PEM file.",
    ),
];

const AUTH: &[Key] = &[
    Key::new(
        "token",
        Shape::Syntax(accept_token),
        "sha256:… of the token, or where the token is: ${ENV} or file:…",
    )
    .such_as("\"${TOKEN}\""),
    Key::new(
        "roles",
        Shape::List(&Shape::Word(&["check", "read", "admin"])),
        "What the token is good for.",
    )
    .such_as("[\"check\"]"),
];

/// The settings of the section.
#[non_exhaustive]
pub struct ServerConfig {
    /// Where each face listens, as the file has it.
    pub listen: Listen,
    /// Networks of proxies whose forwarded headers are trusted.
    pub trusted_proxies: Vec<String>,
    /// Whether refused keys are kept and shown in clear.
    pub show_keys: bool,
    /// Connections of all faces together.
    pub max_connections: usize,
    /// Connections of one address without a request that was let in.
    pub max_unauthenticated_per_address: usize,
    /// How long a connection may take to send a request that is let in.
    pub authenticate_within: Micros,
    /// Bytes of long commands and bodies that are being received.
    pub max_receive_bytes: usize,
    /// `CL.THROTTLE`: the longest period that a call may have.
    pub max_throttle_period: Micros,
    /// Certificates to serve.
    pub tls: Option<TlsConfig>,
    /// Where the section is in the file.
    pub(super) at: Option<usize>,
    /// Where `tls` is in the file.
    pub(super) tls_at: Option<usize>,
    /// Addresses of the command line, which win over the environment and the file.
    pub listen_flags: ListenFlags,
    allow_unauthenticated: bool,
    auth: Vec<AuthConfig>,
    /// An administrator beside `auth`: checks and reads stay as open as they are without it.
    administrator: Option<Token>,
}

/// PEM files.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TlsConfig {
    /// The certificate chain.
    pub cert: PathBuf,
    /// The private key.
    pub key: PathBuf,
    /// The authority of client certificates; if set, clients need one.
    pub client_ca: Option<PathBuf>,
}

struct AuthConfig {
    token: Setting,
    roles: Vec<&'static str>,
}

/// A token and its roles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// `sha256:…` of the token, or the token itself where it was kept elsewhere.
    pub text: String,
    /// `check`, `read`, `admin`.
    pub roles: Vec<&'static str>,
}

impl ServerConfig {
    /// The defaults, for a file without the section.
    pub(super) fn unsaid() -> ServerConfig {
        let on = |port| Some(SocketAddr::from(([127, 0, 0, 1], port)));
        ServerConfig {
            listen: Listen { http: on(8080), grpc: on(8081), resp: on(6380) },
            trusted_proxies: Vec::new(),
            show_keys: false,
            max_connections: 10_000,
            max_unauthenticated_per_address: 512,
            authenticate_within: Micros(5_000_000),
            max_receive_bytes: 64 << 20,
            max_throttle_period: Micros(366 * 86_400 * 1_000_000),
            tls: None,
            at: None,
            tls_at: None,
            listen_flags: ListenFlags::default(),
            allow_unauthenticated: false,
            auth: Vec::new(),
            administrator: None,
        }
    }

    /// Where to listen. Flags win over environment variables, and these over the file; a public address from either
    /// needs `auth` as well.
    pub fn listen(&self) -> Result<Listen, Invalid> {
        let (flags, file) = (&self.listen_flags, self.listen);
        let listener = |face: &str, given: &Option<String>, in_file| {
            let Some((subject, text)) = told(face, given.as_deref())? else { return Ok(in_file) };
            let address = read_listener(&text).map_err(|rest| format!("{subject} {rest}"))?;
            address.map_or(Ok(()), |address| self.may_listen(&subject, address))?;
            Ok::<_, Invalid>(address)
        };
        Ok(Listen {
            http: listener("http", &flags.http, file.http)?,
            grpc: listener("grpc", &flags.grpc, file.grpc)?,
            resp: listener("resp", &flags.resp, file.resp)?,
        })
    }

    /// Whether a listener on this address needs no authentication; `subject` names it in errors.
    pub fn may_listen(&self, subject: &str, address: SocketAddr) -> Result<(), Invalid> {
        if address.ip().is_loopback() || self.knows_its_clients() || self.allow_unauthenticated {
            Ok(())
        } else {
            Err(format!("{subject} {OPEN}").into())
        }
    }

    /// Whether clients must authenticate, by tokens or by certificates.
    fn knows_its_clients(&self) -> bool {
        !self.auth.is_empty() || self.tls.as_ref().is_some_and(|tls| tls.client_ca.is_some())
    }

    /// Whether the files of `tls` are there.
    #[must_use]
    pub fn has_certificates(&self) -> bool {
        self.certificates().all(|path| path.exists())
    }

    fn certificates(&self) -> impl Iterator<Item = PathBuf> {
        self.tls.iter().flat_map(|tls| {
            [Some(&tls.cert), Some(&tls.key), tls.client_ca.as_ref()].into_iter().flatten().cloned()
        })
    }

    /// The files it takes its secrets and certificates from.
    pub(super) fn files(&self) -> impl Iterator<Item = PathBuf> {
        self.certificates().chain(self.auth.iter().filter_map(|auth| auth.token.file()))
    }

    /// Whether checks and reads need no token, because `auth` has none. Administration always needs one.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.auth.is_empty()
    }

    /// Lets this token administer the server. Checks and reads need it as little as before, and listeners beyond this
    /// machine still need `auth`.
    pub fn add_administrator(&mut self, token: impl Into<String>) {
        self.administrator = Some(Token { text: token.into(), roles: vec!["admin"] });
    }

    /// The tokens, looked up wherever they are kept.
    pub fn tokens(&self) -> Result<Vec<Token>, Invalid> {
        let token = |auth: &AuthConfig| {
            Ok(Token { text: auth.token.look_up()?, roles: auth.roles.clone() })
        };
        self.auth.iter().map(token).chain(self.administrator.clone().map(Ok)).collect()
    }

    /// Warnings about settings that are valid but probably not meant.
    pub(super) fn warnings(&self) -> Vec<Warning> {
        self.auth.iter().filter_map(|auth| odd_hash(auth.token.text())).collect()
    }
}

/// Reads the section, and records every fault in it.
pub(super) fn read(source: &Source, table: &Table<'_>) -> ServerConfig {
    table.verify();
    let otherwise = ServerConfig::unsaid();
    let auth = table.verified("auth", Field::list).unwrap_or_default();
    let allow_unauthenticated =
        table.verified("allow_unauthenticated", Field::flag).unwrap_or(false);
    let tls = table
        .verified("tls", |field| field.table("`tls`", TLS))
        .and_then(|tls| read_tls(source, &tls));
    let asks_for_certificates = tls.as_ref().is_some_and(|tls| tls.client_ca.is_some());
    if auth.is_empty() && !asks_for_certificates && !allow_unauthenticated {
        refuse_open_listeners(table);
    }
    let listener = |face, otherwise| {
        let text = table.verified(face, Field::text)?;
        Some(read_listener(text).unwrap_or(otherwise))
    };
    let whole = |key, otherwise| {
        let number = table.verified(key, Field::whole);
        number.and_then(|number| usize::try_from(number).ok()).unwrap_or(otherwise)
    };
    let receive = table.verified("max_receive_bytes", Field::text);
    let receive = receive.and_then(size_of);
    let Listen { http, grpc, resp } = otherwise.listen;
    ServerConfig {
        listen: Listen {
            http: listener("http", http).unwrap_or(http),
            grpc: listener("grpc", grpc).unwrap_or(grpc),
            resp: listener("resp", resp).unwrap_or(resp),
        },
        trusted_proxies: table.texts("trusted_proxies"),
        show_keys: table.verified("show_keys", Field::flag).unwrap_or(false),
        max_connections: whole("max_connections", otherwise.max_connections),
        max_unauthenticated_per_address: whole(
            "max_unauthenticated_per_address",
            otherwise.max_unauthenticated_per_address,
        ),
        authenticate_within: table
            .verified("authenticate_within", Field::micros)
            .unwrap_or(otherwise.authenticate_within),
        max_receive_bytes: receive.unwrap_or(otherwise.max_receive_bytes),
        max_throttle_period: table
            .verified("max_throttle_period", Field::micros)
            .unwrap_or(otherwise.max_throttle_period),
        tls,
        at: Some(table.at),
        tls_at: table.field("tls").map(|field| field.at()),
        listen_flags: ListenFlags::default(),
        allow_unauthenticated,
        administrator: None,
        auth: auth.iter().filter_map(|entry| read_auth(source, entry)).collect(),
    }
}

/// Relative paths start from the directory of the configuration.
fn read_tls(source: &Source, tls: &Table<'_>) -> Option<TlsConfig> {
    tls.needs("cert");
    tls.needs("key");
    let path = |name| tls.verified(name, Field::text).map(|text| source.beside(text));
    Some(TlsConfig { cert: path("cert")?, key: path("key")?, client_ca: path("client_ca") })
}

fn read_auth(source: &Source, entry: &Field<'_>) -> Option<AuthConfig> {
    let entry = entry.table("`auth`", AUTH).ok()?;
    entry.needs("token");
    entry.needs("roles");
    let field = entry.field("token")?;
    let text = field.text().ok()?.to_owned();
    let roles = entry.verified("roles", Field::list).unwrap_or_default();
    Some(AuthConfig {
        token: Setting::new(source, &field, text),
        roles: roles.iter().filter_map(|role| role.word().ok()).collect(),
    })
}

/// A hash of another length is left over from an example: no token matches it.
fn odd_hash(token: &str) -> Option<Warning> {
    let hash = token.strip_prefix("sha256:")?;
    let is_whole = hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    (!is_whole).then(|| {
        let message =
            "an `auth` token is not a SHA-256 hash of 64 hexadecimal digits: no client can use it";
        Warning { setting: Some("auth"), ..Warning::new("unusable-token", message) }
    })
}

/// Less would not hold a few of the longest commands.
const LEAST_RECEIVE_BYTES: u64 = 4 << 20;

fn accept_receive_bytes(text: &str) -> Result<(), String> {
    match read_size(text)? {
        LEAST_RECEIVE_BYTES.. => Ok(()),
        _ => Err(format!("must be at least \"4MiB\"; found {}", quoted(text))),
    }
}

fn accept_network(text: &str) -> Result<(), String> {
    let (address, length) =
        text.split_once('/').map_or((text, None), |(address, length)| (address, Some(length)));
    let longest = match address.parse::<IpAddr>() {
        Ok(IpAddr::V4(_)) => 32,
        Ok(IpAddr::V6(_)) => 128,
        Err(_) => 0,
    };
    let fits =
        length.is_none_or(|length| length.parse::<u8>().is_ok_and(|length| length <= longest));
    if longest > 0 && fits {
        Ok(())
    } else {
        Err(format!(
            "must hold networks such as \"10.0.0.0/8\" or \"fd00::/8\"; found {}",
            quoted(text)
        ))
    }
}

fn accept_token(text: &str) -> Result<(), String> {
    if text.starts_with("sha256:")
        || text.starts_with("file:")
        || (text.starts_with("${") && text.ends_with('}'))
    {
        Ok(())
    } else {
        // The value is a secret in the wrong place, so the error does not repeat it.
        Err("must be \"sha256:…\", \"${ENV}\" or \"file:…\", so that the file holds no secret"
            .to_owned())
    }
}
