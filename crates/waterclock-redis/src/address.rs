//! Addresses: `redis://`, `rediss://`, `redis-cluster://`, `redis-sentinel://` and the latter two with
//! `rediss-` for TLS.

use redis::io::tcp::TcpSettings;
use redis::{Client, ConnectionInfo, IntoConnectionInfo, ProtocolVersion, RedisResult};
use waterclock::{Detail, StoreError};

const SCHEMES: &str = "redis://, rediss://, redis-cluster:// or redis-sentinel://";

/// Where the servers are.
#[derive(Clone, Debug)]
pub(crate) struct Address {
    pub(crate) kind: Kind,
    /// `host:port` of each server named.
    pub(crate) hosts: Vec<String>,
    pub(crate) access: Access,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    One,
    Cluster,
    Sentinel { service: String },
}

/// How to log in, at any host.
#[derive(Clone)]
pub(crate) struct Access {
    tls: bool,
    /// `user:password@`, or nothing.
    login: String,
    /// `/db?options`, or nothing.
    tail: String,
    root_certificate: Option<Vec<u8>>,
}

impl std::fmt::Debug for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Access").field("tls", &self.tls).finish_non_exhaustive()
    }
}

impl Address {
    pub(crate) fn parse(url: &str, root_certificate: Option<Vec<u8>>) -> Result<Self, StoreError> {
        let wrong = |reason: &str| {
            StoreError::settings(format!("the store's address `{}`: {reason}", masked(url)))
        };
        let (scheme, rest) =
            url.split_once("://").ok_or_else(|| wrong(&format!("write {SCHEMES}")))?;
        let tls = scheme.starts_with("rediss");
        if tls && !cfg!(feature = "tls") {
            return Err(wrong("TLS needs the feature `tls` of waterclock-redis"));
        }
        let (login, rest) = match rest.rsplit_once('@') {
            Some((login, rest)) => (format!("{login}@"), rest),
            None => (String::new(), rest),
        };
        let split = rest.find(['/', '?']).unwrap_or(rest.len());
        let (hosts, tail) = rest.split_at(split);
        let hosts: Vec<String> = hosts.split(',').map(str::to_owned).collect();
        if hosts.iter().any(String::is_empty) {
            return Err(wrong("a host is missing"));
        }
        let mut tail = tail.to_owned();
        let kind = match scheme {
            "redis" | "rediss" if hosts.len() > 1 => {
                return Err(wrong("several hosts are a redis-cluster:// or redis-sentinel://"));
            }
            "redis" | "rediss" => Kind::One,
            "redis-cluster" | "rediss-cluster" => Kind::Cluster,
            "redis-sentinel" | "rediss-sentinel" => {
                let path = tail.trim_start_matches('/').to_owned();
                let end = path.find(['/', '?']).unwrap_or(path.len());
                let (service, after) = path.split_at(end);
                if service.is_empty() {
                    return Err(wrong("name the service after the hosts, as in …:26379/mymaster"));
                }
                tail = after.to_owned();
                Kind::Sentinel { service: service.to_owned() }
            }
            _ => return Err(wrong(&format!("write {SCHEMES}"))),
        };
        let access = Access { tls, login, tail, root_certificate };
        let address = Self { kind, hosts, access };
        for host in &address.hosts {
            address.access.client(host).map_err(|_| wrong("it is not a valid Redis address"))?;
        }
        Ok(address)
    }
}

impl Access {
    /// A client of the server at `host:port`.
    pub(crate) fn client(&self, host: &str) -> Result<Client, StoreError> {
        self.open(&format!("{}{host}{}", self.login, self.tail))
    }

    /// A client of a sentinel, which has no databases and often no logins.
    pub(crate) fn sentinel(&self, host: &str) -> Result<Client, StoreError> {
        self.open(host)
    }

    /// A client of a sentinel that requires a login: the same as the servers'.
    pub(crate) fn sentinel_with_login(&self, host: &str) -> Result<Client, StoreError> {
        self.open(&format!("{}{host}", self.login))
    }

    fn open(&self, rest: &str) -> Result<Client, StoreError> {
        let url = format!("redis{}://{rest}", if self.tls { "s" } else { "" });
        let client = url.into_connection_info().and_then(|info| {
            // A small request must not wait for the answer to the one before it.
            let info = info.set_tcp_settings(TcpSettings::default().set_nodelay(true));
            // In this version of the protocol the client learns that a connection was closed.
            let settings = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
            // The user needs no right for it: the name of a library is not sent.
            let settings = settings.set_skip_set_lib_name();
            let info = info.set_redis_settings(settings);
            if self.tls { self.open_tls(info) } else { Client::open(info) }
        });
        client.map_err(|error| {
            let sentence = format!("the store's address: {error}");
            StoreError::settings(Detail::from(sentence).caused_by(error))
        })
    }

    #[cfg(feature = "tls")]
    fn open_tls(&self, info: ConnectionInfo) -> RedisResult<Client> {
        // A provider that the process has chosen stays; without one rustls would panic.
        _ = rustls::crypto::ring::default_provider().install_default();
        match &self.root_certificate {
            Some(certificate) => {
                let root_cert = Some(certificate.clone());
                let certificates = redis::TlsCertificates { client_tls: None, root_cert };
                Client::build_with_tls(info, certificates)
            }
            None => Client::open(info),
        }
    }

    /// No address with TLS is parsed without the feature.
    #[cfg(not(feature = "tls"))]
    fn open_tls(&self, info: ConnectionInfo) -> RedisResult<Client> {
        _ = &self.root_certificate;
        Client::open(info)
    }
}

/// `host:port`, with brackets around a host that has colons of its own.
pub(crate) fn address_of(host: &str, port: impl std::fmt::Display) -> String {
    let bare = host.contains(':') && !host.starts_with('[');
    if bare { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// A store's address as it can be shown: without user and password.
#[must_use]
pub fn masked(url: &str) -> String {
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
    fn reads_every_kind() {
        let parse = |url| Address::parse(url, None).unwrap();
        assert_eq!(parse("redis://localhost").kind, Kind::One);
        assert_eq!(parse("redis://localhost:7000/3").hosts, ["localhost:7000"]);
        assert_eq!(parse("redis-cluster://a:1,b:2").hosts, ["a:1", "b:2"]);
        let sentinel = parse("redis-sentinel://:pw@a:1,b:2/main/1");
        assert_eq!(sentinel.kind, Kind::Sentinel { service: "main".into() });
        assert_eq!((&*sentinel.access.login, &*sentinel.access.tail), (":pw@", "/1"));
        assert!(parse("rediss://a:1").access.tls);
    }

    #[test]
    fn no_password_is_shown() {
        assert_eq!(masked("redis://h:1/2"), "redis://h:1/2");
        for url in ["redis://:secret@h:1", "redis://me:s@cr/et@h:1", "redis://s://t@h:1"] {
            assert_eq!(masked(url), "redis://…@h:1", "{url}");
        }
        assert_eq!(masked("redis:/:secret@h"), "…@h");
        assert_eq!(masked(":secret@redis://h"), "…@redis://h");
    }

    #[test]
    fn says_what_is_wrong_without_the_password() {
        let error = |url| Address::parse(url, None).unwrap_err().to_string();
        assert!(error("localhost").contains("write redis://"));
        assert!(error("http://:secret@x").contains("`http://…@x`"));
        assert!(error(":secret@x").contains("`…@x`"));
        assert!(error("redis://a,b").contains("several hosts"));
        assert!(error("redis-sentinel://a:1").contains("name the service"));
        assert!(error("redis://:secret@").contains("a host is missing"));
        for url in ["redis://:secret@a:port", "redis://:secret@a/b/c/d"] {
            assert!(!error(url).contains("secret"), "{}", error(url));
        }
    }
}
