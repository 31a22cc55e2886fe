//! The `[server]` section: checked now, served later.

use std::net::{IpAddr, SocketAddr};

use super::field::Field;
use super::key::{Key, Shape};
use super::table::Table;
use super::wording::quoted;

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
        "Redis protocol: CL.THROTTLE and TG.*; empty turns it off.",
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
        "Networks whose forwarded headers are believed.",
    )
    .default("[]"),
    Key::new("tls", Shape::Table(TLS), "Serve TLS."),
    Key::new("auth", Shape::List(&Shape::Table(AUTH)), "Who may ask, and what."),
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

/// Complains about everything in the section that is wrong, and returns what is merely odd.
pub(crate) fn verify(table: &Table<'_>) -> Vec<String> {
    table.verify();
    if let Some(tls) = table.verified("tls", |field| field.table("`tls`", TLS)) {
        tls.needs("cert");
        tls.needs("key");
    }
    let auth = table.verified("auth", Field::list).unwrap_or_default();
    for entry in auth.iter().filter_map(|field| field.table("`auth`", AUTH).ok()) {
        entry.needs("token");
        entry.needs("roles");
    }
    let open = table.verified("allow_unauthenticated", Field::flag).unwrap_or(false);
    if auth.is_empty() && !open {
        refuse_open_listeners(table);
    }
    let hashes = auth
        .iter()
        .filter_map(|field| field.table("`auth`", AUTH).ok()?.verified("token", Field::text));
    hashes.filter_map(odd_hash).collect()
}

/// A hash of another length is what is left of an example: nobody can know its token.
fn odd_hash(token: &str) -> Option<String> {
    let hash = token.strip_prefix("sha256:")?;
    let is_whole = hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    (!is_whole).then(|| {
        "an `auth` token is no SHA-256 hash of 64 hexadecimal digits: nobody can use it".to_owned()
    })
}

/// A limiter that anyone can ask is a limiter that anyone can drain.
fn refuse_open_listeners(table: &Table<'_>) {
    for face in ["http", "grpc", "resp"] {
        let Some(field) = table.field(face) else { continue };
        let address = field.text().ok().and_then(|text| text.parse::<SocketAddr>().ok());
        if address.is_some_and(|address| !address.ip().is_loopback()) {
            let rest = "listens beyond this machine without `auth`; add `auth`, or set `allow_unauthenticated = true`";
            table.complain_at(field.at(), format!("`{face}` {rest}"));
        }
    }
}

fn accept_listener(text: &str) -> Result<(), String> {
    let on_localhost =
        text.strip_prefix("localhost:").is_some_and(|port| port.parse::<u16>().is_ok());
    if text.is_empty() || on_localhost || text.parse::<SocketAddr>().is_ok() {
        Ok(())
    } else {
        Err(format!(
            "must be an address and a port such as \"127.0.0.1:8080\", or \"\" for none; found {}",
            quoted(text)
        ))
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
        // The value is a secret by mistake: it is not repeated.
        Err("must be \"sha256:…\", \"${ENV}\" or \"file:…\", so that the file holds no secret"
            .to_owned())
    }
}
