//! The `[xds]` section: limits that a control plane such as Envoy Gateway pushes.

use std::path::PathBuf;

use super::duration::Micros;
use super::error::Source;
use super::schema::{Key, Shape};
use super::size::{read_size, size_of};
use super::suggest::quoted;
use super::table::{Field, Table};

pub(crate) const KEYS: &[Key] = &[
    Key::new(
        "server",
        Shape::Syntax(accept_server),
        "The xDS server that pushes limits in the format of Envoy's reference rate limit service.",
    )
    .such_as("\"envoy-gateway:18001\""),
    Key::new("node", Shape::Text, "The name by which the server knows this client.")
        .default("\"default\""),
    Key::new("tls", Shape::Table(TLS), "Connect with TLS."),
    Key::new(
        "keep",
        Shape::Text,
        "The file that the last good configuration is written to, and read from at the start.",
    ),
    Key::new(
        "max_bytes",
        Shape::Syntax(accept_max_bytes),
        "The longest configuration that is received.",
    )
    .default("\"4MiB\""),
    Key::new(
        "merge_domains",
        Shape::Flag,
        "Put resources of the same domain together, which is an error otherwise.",
    )
    .default("false"),
];

const TLS: &[Key] = &[
    Key::new("ca", Shape::Text, "The authority of the server's certificate, a PEM file.")
        .such_as("\"ca.pem\""),
    Key::new("cert", Shape::Text, "This client's certificate chain, a PEM file."),
    Key::new("key", Shape::Text, "The private key of that certificate, a PEM file."),
    Key::new("name", Shape::Text, "The name in the server's certificate, if not its host."),
];

/// The settings of the section.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct XdsConfig {
    /// `host:port`.
    pub server: String,
    /// The name by which the server knows this client.
    pub node: String,
    /// What the client says about itself beside its name.
    pub metadata: Vec<(String, String)>,
    /// Header fields of the call.
    pub headers: Vec<(String, String)>,
    /// Certificates; `None` is plain text.
    pub tls: Option<XdsTls>,
    /// Where the last good configuration is kept.
    pub keep: Option<PathBuf>,
    /// The longest configuration that is received, in bytes.
    pub max_bytes: usize,
    /// Whether resources of the same domain are put together.
    pub merge_domains: bool,
    /// How long to wait after the first failure, and after many, at most.
    pub backoff: (Micros, Micros),
}

/// PEM files for a connection to an xDS server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct XdsTls {
    /// The authority of the server's certificate.
    pub ca: PathBuf,
    /// This client's certificate chain, and its key.
    pub own: Option<(PathBuf, PathBuf)>,
    /// The name in the server's certificate, if not its host.
    pub name: Option<String>,
}

impl XdsConfig {
    /// With the defaults.
    #[must_use]
    pub fn new(server: impl Into<String>) -> XdsConfig {
        XdsConfig {
            server: server.into(),
            node: "default".to_owned(),
            metadata: Vec::new(),
            headers: Vec::new(),
            tls: None,
            keep: None,
            max_bytes: 4 << 20,
            merge_domains: false,
            backoff: (Micros(1_000_000), Micros(30_000_000)),
        }
    }
}

impl XdsTls {
    /// Files for a connection.
    #[must_use]
    pub fn new(ca: PathBuf, own: Option<(PathBuf, PathBuf)>, name: Option<String>) -> XdsTls {
        XdsTls { ca, own, name }
    }
}

/// Answers as Envoy's reference rate limit service gives them, where they differ from ours.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReferenceConfig {
    /// Its configuration comes from elsewhere; until it does, calls fail.
    pub is_pushed: bool,
    /// Nothing is refused, whatever the limits decide.
    pub shadow: bool,
    /// All limits are of the kind of which all must refuse.
    pub quota: bool,
    /// Metadata of limits is in the answers.
    pub metadata: bool,
    /// Names of response header fields for the limit, what remains and the reset.
    pub headers: Option<[String; 3]>,
    /// Healthy only after a configuration has come.
    pub healthy_when_loaded: bool,
    /// Healthy only while the store is reachable.
    pub healthy_with_store: bool,
    /// From which share of a limit on hits are near it, in hundredths; 0 is 80.
    pub near: u64,
}

/// Reads the section, and records every fault in it.
pub(crate) fn read(source: &Source, table: &Table<'_>) -> Option<XdsConfig> {
    table.verify();
    table.needs("server");
    let text = |name| table.verified(name, Field::text).map(str::to_owned);
    let tls = table.verified("tls", |field| field.table("`tls`", TLS));
    let otherwise = XdsConfig::new(text("server")?);
    Some(XdsConfig {
        node: text("node").unwrap_or_else(|| otherwise.node.clone()),
        tls: tls.and_then(|tls| read_tls(source, &tls)),
        keep: table.verified("keep", Field::text).map(|path| source.beside(path)),
        max_bytes: text("max_bytes").and_then(|text| size_of(&text)).unwrap_or(otherwise.max_bytes),
        merge_domains: table.verified("merge_domains", Field::flag).unwrap_or(false),
        ..otherwise
    })
}

/// Relative paths start from the directory of the configuration.
fn read_tls(source: &Source, tls: &Table<'_>) -> Option<XdsTls> {
    tls.needs("ca");
    let path = |name| tls.verified(name, Field::text).map(|text| source.beside(text));
    let own = match (path("cert"), path("key")) {
        (Some(cert), Some(key)) => Some((cert, key)),
        (None, None) => None,
        _ => {
            tls.fault("`cert` and `key` go together; add the other one");
            None
        }
    };
    let name = tls.verified("name", Field::text).map(str::to_owned);
    Some(XdsTls { ca: path("ca")?, own, name })
}

fn accept_server(text: &str) -> Result<(), String> {
    let port = text.rsplit_once(':').filter(|(host, _)| !host.is_empty());
    match port.and_then(|(_, port)| port.parse::<u16>().ok()) {
        Some(1..) => Ok(()),
        _ => Err(format!(
            "must be a host and a port such as \"envoy-gateway:18001\"; found {}",
            quoted(text)
        )),
    }
}

/// Less than that holds no configuration, and more is no configuration.
const BYTES: std::ops::RangeInclusive<u64> = 1_024..=256 << 20;

fn accept_max_bytes(text: &str) -> Result<(), String> {
    if BYTES.contains(&read_size(text)?) {
        Ok(())
    } else {
        Err(format!("must be from \"1KiB\" to \"256MiB\"; found {}", quoted(text)))
    }
}
