//! Where a server listens: addresses of flags, of the environment and of the file.

use std::env::{self, VarError};
use std::net::SocketAddr;

use super::error::Invalid;
use super::suggest::quoted;
use super::table::Table;

/// Half a sentence about a listener.
pub(super) const OPEN: &str = "listens beyond this machine without `auth`; add `auth`, ask clients for \
    certificates with `client_ca`, or set `allow_unauthenticated = true`";

/// An address for each face; `None` turns it off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listen {
    /// JSON API, forward-auth, dashboard and metrics.
    pub http: Option<SocketAddr>,
    /// Envoy's rate limit service.
    pub grpc: Option<SocketAddr>,
    /// The Redis protocol.
    pub resp: Option<SocketAddr>,
}

/// `--http`, `--grpc` and `--resp` as they were given; an empty string turns a listener off.
#[derive(Clone, Debug, Default)]
pub struct ListenFlags {
    /// `--http`.
    pub http: Option<String>,
    /// `--grpc`.
    pub grpc: Option<String>,
    /// `--resp`.
    pub resp: Option<String>,
}

/// The address of a face that a flag or, failing that, the environment gives, and which of them does.
pub(super) fn told(face: &str, flag: Option<&str>) -> Result<Option<(String, String)>, Invalid> {
    if let Some(text) = flag {
        return Ok(Some((format!("--{face}"), text.to_owned())));
    }
    let variable = format!("WATERCLOCK_{}", face.to_ascii_uppercase());
    match env::var(&variable) {
        Ok(text) => Ok(Some((variable, text))),
        Err(VarError::NotPresent) => Ok(None),
        Err(VarError::NotUnicode(_)) => Err(format!("{variable} must be UTF-8").into()),
    }
}

/// A public listener needs authentication: any client that can check a key can also use up its limits.
pub(super) fn refuse_open_listeners(table: &Table<'_>) {
    for face in ["http", "grpc", "resp"] {
        let Some(field) = table.field(face) else { continue };
        let address = field.text().ok().and_then(|text| text.parse::<SocketAddr>().ok());
        if address.is_some_and(|address| !address.ip().is_loopback()) {
            table.fault_at(field.at(), format!("`{face}` {OPEN}"));
        }
    }
}

pub(super) fn accept_listener(text: &str) -> Result<(), String> {
    read_listener(text).map(drop)
}

/// The error is half a sentence.
pub(super) fn read_listener(text: &str) -> Result<Option<SocketAddr>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    // A port alone is on this machine.
    let port = ["localhost:", ":"].iter().find_map(|host| text.strip_prefix(host)).unwrap_or(text);
    let is_number = port.bytes().all(|byte| byte.is_ascii_digit());
    let on_localhost = port.parse::<u16>().ok().filter(|_| is_number);
    let local = on_localhost.map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
    local.or_else(|| text.parse().ok()).map(Some).ok_or_else(|| {
        format!(
            "must be an address and a port such as \"127.0.0.1:8080\", a port such as \"8080\" for this machine only, \
             or \"\" for none; found {}",
            quoted(text)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_alone_are_on_this_machine() {
        let local = |port| Ok(Some(SocketAddr::from(([127, 0, 0, 1], port))));
        for text in ["9090", ":9090", "localhost:9090", "127.0.0.1:9090"] {
            assert_eq!(read_listener(text), local(9090), "{text}");
        }
        assert_eq!(read_listener("0"), local(0));
        assert_eq!(read_listener(""), Ok(None));
        assert_eq!(read_listener("0.0.0.0:1"), Ok(Some(SocketAddr::from(([0, 0, 0, 0], 1)))));
        for text in [":", "+1", ":+1", "65536", "host:80", "localhost:", "1.2.3.4", " 80"] {
            assert!(read_listener(text).is_err(), "{text}");
        }
    }
}
