//! What a server prints when it starts: where it listens, and what to try.

use std::fmt;
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use waterclock_config::{Address, Config};
use waterclock_rehearse::terminal::visible;
use waterclock_server::Listeners;
use waterclock_server::observe::Face;

use super::Origin;

/// Where commands look for a server.
const USUAL_HTTP: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8080);

/// What to try next: addresses that listen, and a policy of the file.
pub(super) struct Banner {
    file: String,
    origin: Origin,
    policy: Option<String>,
    policies: usize,
    http: Option<SocketAddr>,
    grpc: Option<SocketAddr>,
    resp: Option<SocketAddr>,
    scheme: &'static str,
    needs_token: bool,
    is_in_memory: bool,
}

impl Banner {
    pub(super) fn new(config: &Config, origin: Origin, listeners: &Listeners) -> Banner {
        let by_key = config.policies.iter().find(|policy| policy.key.len() < 2);
        Banner {
            file: config.file.clone(),
            origin,
            policy: by_key.map(|policy| policy.name().to_owned()),
            policies: config.policies.len(),
            http: listeners.address(Face::Http),
            grpc: listeners.address(Face::Grpc),
            resp: listeners.address(Face::Resp),
            scheme: if config.server.tls.is_some() { "https" } else { "http" },
            needs_token: !config.server.is_open(),
            is_in_memory: config.store.address().is_ok_and(|address| address == Address::Memory),
        }
    }

    /// Prints it on standard output, whether or not that is read: the log goes to standard error.
    pub(super) fn show(&self) {
        _ = write!(io::stdout(), "{self}").and_then(|()| io::stdout().flush());
    }

    fn title(&self) -> String {
        let (policies, file) = (self.policies, visible(&self.file));
        let many = if policies == 1 { "policy" } else { "policies" };
        match self.origin {
            Origin::Named => format!("waterclock serves {policies} {many} of {file}"),
            Origin::Found => format!(
                "waterclock serves {policies} {many} of {file} in this directory (--demo: the demonstration)"
            ),
            Origin::Demonstration(_) => {
                let place = if self.is_in_memory {
                    "in memory"
                } else {
                    "on the store of WATERCLOCK_STORE_URL"
                };
                format!("waterclock serves a demonstration: {policies} {many} {place}")
            }
        }
    }
}

impl fmt::Display for Banner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = self.scheme;
        writeln!(f, "{}\n", self.title())?;
        if let Some(http) = self.http {
            writeln!(
                f,
                "  HTTP    {scheme}://{http}/   (dashboard, /v1/check, /metrics, /openapi.json)"
            )?;
        }
        if let Some(grpc) = self.grpc {
            writeln!(f, "  Envoy   {grpc}   (rate limit service v3, gRPC)")?;
        }
        if let Some(resp) = self.resp {
            writeln!(f, "  Redis   {resp}   (CL.THROTTLE, RL.CHECK)")?;
        }
        if let Origin::Demonstration(Some(token)) = &self.origin {
            writeln!(
                f,
                "  Admin   {token}   (token for the dashboard and for commands, until the server ends)"
            )?;
        }
        let Some(policy) = &self.policy else { return Ok(()) };
        writeln!(f, "\nTry it, a few times:\n")?;
        if let Some(http) = self.http {
            let token = if self.needs_token { " -H \"Authorization: Bearer $TOKEN\"" } else { "" };
            writeln!(
                f,
                "  curl -i {scheme}://{http}/v1/check{token} -d '{{\"policy\": \"{policy}\", \"key\": \"alice\"}}'"
            )?;
        }
        if let Some(resp) = self.resp {
            let token = if self.needs_token { " -a \"$TOKEN\"" } else { "" };
            let host = match resp.ip() {
                ip if ip == Ipv4Addr::LOCALHOST => String::new(),
                ip => format!("-h {ip} "),
            };
            let client = format!("redis-cli {host}-p {}{token}", resp.port());
            writeln!(f, "  {client} RL.CHECK {policy} alice")?;
            writeln!(f, "  {client} CL.THROTTLE bob 4 30 60")?;
        }
        let Origin::Demonstration(token) = &self.origin else { return Ok(()) };
        if let (Some(http), Some(token)) = (self.http, token) {
            let elsewhere = format!(" --server {scheme}://{http}");
            let server = if http == USUAL_HTTP { "" } else { &elsewhere };
            writeln!(f, "\nGive alice a limit of her own:\n")?;
            writeln!(
                f,
                "  WATERCLOCK_TOKEN={token} waterclock override set {policy} alice --limit 100/s{server}"
            )?;
        }
        writeln!(
            f,
            "\nYour own limits: put them into waterclock.toml and run waterclock serve again"
        )
    }
}
