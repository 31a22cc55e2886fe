//! From environment variables to our configuration.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;

use waterclock_config::{Address, Config, Micros, ReferenceConfig, XdsConfig, XdsTls, quoted};
use waterclock_server::SidePort;

use super::environment::Environment;
use crate::output::Failure;

/// What the variables say.
pub(super) struct Settings {
    pub(super) config: Config,
    /// Small ports and their addresses.
    pub(super) side: Vec<(SidePort, SocketAddr)>,
    /// The directory of files, unless limits come by xDS.
    pub(super) files: Option<Files>,
    /// What an operator should know.
    pub(super) notes: Vec<String>,
}

/// Where limits are, for `CONFIG_TYPE=FILE`.
pub(super) struct Files {
    pub(super) directory: PathBuf,
    pub(super) skips_dotfiles: bool,
    pub(super) merges: bool,
}

impl Settings {
    pub(super) fn of(set: &Environment) -> Result<Settings, Failure> {
        let mut notes: Vec<String> = set.unused().into_iter().collect();
        let grpc = address(set, "GRPC_HOST", "GRPC_PORT", 8081)?;
        let mut text = format!(
            "[server]\nhttp = \"\"\nresp = \"\"\ngrpc = \"{grpc}\"\nallow_unauthenticated = true\n"
        );
        if set.flag("GRPC_SERVER_USE_TLS")? {
            let file = |name: &str| needed(set, name).map(toml_text);
            let (cert, key) = (file("GRPC_SERVER_TLS_CERT")?, file("GRPC_SERVER_TLS_KEY")?);
            _ = write!(text, "tls = {{ cert = {cert}, key = {key}");
            if let Some(ca) = set.text("GRPC_CLIENT_TLS_CACERT") {
                _ = write!(text, ", client_ca = {}", toml_text(ca));
            }
            text.push_str(" }\n");
        }
        let store = redis(set)?;
        if store == Address::Memory {
            notes.push("REDIS_URL is not set: each process counts for itself".to_owned());
        }
        if let Some(ca) = set.text("REDIS_TLS_CACERT") {
            _ = write!(text, "[store]\nca = {}\n", toml_text(ca));
        }
        let mut config = Config::read("the environment", &text)?;
        config.store.address = Some(store);
        let merges = set.flag("MERGE_DOMAIN_CONFIG")?;
        let mut files = None;
        match set.text_or("CONFIG_TYPE", "FILE") {
            "GRPC_XDS_SOTW" => config.xds = Some(xds(set, merges)?),
            "FILE" => {
                let root = PathBuf::from(set.text_or("RUNTIME_ROOT", "/srv/runtime_data/current"));
                let directory = root
                    .join(set.text_or("RUNTIME_SUBDIRECTORY", ""))
                    .join(set.text_or("RUNTIME_APPDIRECTORY", "config"));
                let skips_dotfiles = set.flag("RUNTIME_IGNOREDOTFILES")?;
                files = Some(Files { directory, skips_dotfiles, merges });
            }
            other => {
                let found = quoted(other);
                return Err(
                    format!("CONFIG_TYPE must be FILE or GRPC_XDS_SOTW; found {found}").into()
                );
            }
        }
        config.reference = reference(set)?;
        Ok(Settings { config, side: side(set)?, files, notes })
    }
}

fn reference(set: &Environment) -> Result<ReferenceConfig, Failure> {
    let names = || {
        ["LIMIT", "REMAINING", "RESET"].map(|what| {
            let usual = format!("RateLimit-{}{}", &what[..1], what[1..].to_ascii_lowercase());
            set.text(&format!("LIMIT_{what}_HEADER")).map_or(usual, str::to_owned)
        })
    };
    let ratio: f64 = set.number("NEAR_LIMIT_RATIO")?.unwrap_or(0.8);
    let starts = set.flag("FORCE_START_WITHOUT_INITIAL_CONFIG")?;
    Ok(ReferenceConfig {
        is_pushed: true,
        shadow: set.flag("SHADOW_MODE")?,
        quota: set.flag("QUOTA_MODE")?,
        metadata: set.flag("RESPONSE_DYNAMIC_METADATA")?,
        headers: set.flag("LIMIT_RESPONSE_HEADERS_ENABLED")?.then(names),
        healthy_when_loaded: !starts || set.flag("HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED")?,
        healthy_with_store: set.flag("REDIS_HEALTH_CHECK_ACTIVE_CONNECTION")?,
        // Hundredths of a share between 0 and 1.
        near: (1..=100_u64).find(|near| *near as f64 >= ratio * 100.0 - 1e-9).unwrap_or(100),
    })
}

fn side(set: &Environment) -> Result<Vec<(SidePort, SocketAddr)>, Failure> {
    let mut side = vec![
        (SidePort::Main, address(set, "HOST", "PORT", 8080)?),
        (SidePort::Debug, address(set, "DEBUG_HOST", "DEBUG_PORT", 6070)?),
    ];
    if set.flag("USE_PROMETHEUS")? {
        let text = set.text_or("PROMETHEUS_ADDR", ":9090");
        let host = if text.starts_with(':') { "0.0.0.0" } else { "" };
        let address = format!("{host}{text}").parse();
        let address = address.map_err(|_| {
            format!("PROMETHEUS_ADDR must be such as :9090; found {}", quoted(text))
        })?;
        let path = set.text_or("PROMETHEUS_PATH", "/metrics");
        if !path.starts_with('/') || path.contains(['{', '}', '*']) {
            return Err(format!(
                "PROMETHEUS_PATH must be such as /metrics; found {}",
                quoted(path)
            )
            .into());
        }
        side.push((SidePort::Metrics(path.to_owned()), address));
    }
    Ok(side)
}

fn xds(set: &Environment, merges: bool) -> Result<XdsConfig, Failure> {
    let mut xds = XdsConfig::new(set.text_or("CONFIG_GRPC_XDS_SERVER_URL", "localhost:18000"));
    xds.node = set.text_or("CONFIG_GRPC_XDS_NODE_ID", "default").to_owned();
    xds.metadata = set.pairs("CONFIG_GRPC_XDS_NODE_METADATA", '=');
    xds.headers = set.pairs("CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS", ':');
    xds.merge_domains = merges;
    xds.keep = set.text("XDS_KEEP_FILE").map(PathBuf::from);
    if let Some(bytes) = set.number::<usize>("XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES")?.filter(|n| *n > 0)
    {
        xds.max_bytes = bytes;
    }
    let micros = |name| -> Result<Option<Micros>, Failure> {
        let time = set.duration(name)?;
        Ok(time.map(|time| Micros(u64::try_from(time.as_micros()).unwrap_or(u64::MAX))))
    };
    // The reference service has two names for it.
    for name in
        ["CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL", "XDS_CLIENT_BACKOFF_INITIAL_INTERVAL"]
    {
        xds.backoff.0 = micros(name)?.unwrap_or(xds.backoff.0);
    }
    xds.backoff.1 = micros("XDS_CLIENT_BACKOFF_MAX_INTERVAL")?.unwrap_or(xds.backoff.1);
    if set.flag("CONFIG_GRPC_XDS_SERVER_USE_TLS")? {
        let path = |name| set.text(name).map(PathBuf::from);
        let ca = PathBuf::from(needed(set, "CONFIG_GRPC_XDS_SERVER_TLS_CACERT")?);
        let (cert, key) =
            (path("CONFIG_GRPC_XDS_CLIENT_TLS_CERT"), path("CONFIG_GRPC_XDS_CLIENT_TLS_KEY"));
        let name = set.text("CONFIG_GRPC_XDS_SERVER_TLS_SAN").map(str::to_owned);
        xds.tls = Some(XdsTls::new(ca, cert.zip(key), name));
    }
    Ok(xds)
}

/// `host:port`, a URL, or a list of those, as one URL of ours.
fn redis(set: &Environment) -> Result<Address, Failure> {
    let Some(given) = set.text("REDIS_URL") else { return Ok(Address::Memory) };
    if given.starts_with('/') {
        return Err(
            "REDIS_URL is a socket of the file system, which is not supported; use host:port and \
                    REDIS_SOCKET_TYPE=tcp"
                .into(),
        );
    }
    let is_tls = set.flag("REDIS_TLS")? || given.starts_with("rediss://");
    let scheme = if is_tls { "rediss" } else { "redis" };
    let bare = given.trim_start_matches("rediss://").trim_start_matches("redis://");
    let login = set.text("REDIS_AUTH").map_or(String::new(), |auth| {
        let (user, password) = auth.split_once(':').unwrap_or(("", auth));
        format!("{}:{}@", encoded(user), encoded(password))
    });
    let url = match set.text_or("REDIS_TYPE", "SINGLE").to_ascii_uppercase().as_str() {
        "SINGLE" => format!("{scheme}://{login}{bare}"),
        "CLUSTER" => format!("{scheme}-cluster://{login}{bare}"),
        "SENTINEL" => {
            let (master, sentinels) = bare.split_once(',').ok_or(
                "REDIS_URL must be the name of the master and the sentinels for REDIS_TYPE=SENTINEL, such as \
                 mymaster,10.0.0.1:26379",
            )?;
            format!("{scheme}-sentinel://{login}{sentinels}/{master}")
        }
        other => {
            let found = quoted(other);
            return Err(
                format!("REDIS_TYPE must be SINGLE, CLUSTER or SENTINEL; found {found}").into()
            );
        }
    };
    Address::parse(&url).ok_or_else(|| "REDIS_URL must be such as redis:6379".into())
}

/// What a URL may have in a user name or a password.
fn encoded(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
            char::from(byte).to_string()
        }
        byte => format!("%{byte:02X}"),
    };
    text.bytes().map(byte).collect()
}

fn needed<'e>(set: &'e Environment, name: &str) -> Result<&'e str, Failure> {
    set.text(name).ok_or_else(|| format!("{name} must name a PEM file, because TLS is on").into())
}

fn address(set: &Environment, host: &str, port: &str, usual: u16) -> Result<SocketAddr, Failure> {
    let number = set.number::<u16>(port)?.unwrap_or(usual);
    let text = set.text_or(host, "0.0.0.0");
    let ip = if text == "localhost" { "127.0.0.1" } else { text.trim_matches(['[', ']']) };
    let ip =
        ip.parse().map_err(|_| format!("{host} must be an IP address; found {}", quoted(text)))?;
    Ok(SocketAddr::new(ip, number))
}

/// A literal string of TOML.
fn toml_text(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
