//! What to try next.

use std::fmt;
use std::io::{self, Write};
use std::net::SocketAddr;

use waterclock_config::Config;
use waterclock_server::Listeners;
use waterclock_server::observe::Face;

/// A few lines with addresses that really listen, and with a policy that is really there.
pub(crate) struct Banner {
    file: Option<String>,
    policy: Option<String>,
    policies: usize,
    http: Option<SocketAddr>,
    grpc: Option<SocketAddr>,
    resp: Option<SocketAddr>,
    scheme: &'static str,
    needs_token: bool,
}

impl Banner {
    pub(crate) fn new(config: &Config, listeners: &Listeners) -> Banner {
        let by_key = config.policies.iter().find(|policy| policy.key.len() < 2);
        Banner {
            file: config.path.is_some().then(|| config.file.clone()),
            policy: by_key.map(|policy| policy.name.clone()),
            policies: config.policies.len(),
            http: listeners.address(Face::Http),
            grpc: listeners.address(Face::Grpc),
            resp: listeners.address(Face::Resp),
            scheme: if config.server.tls.is_some() { "https" } else { "http" },
            needs_token: config.server.tokens().is_ok_and(|tokens| !tokens.is_empty()),
        }
    }

    /// To standard output: the log is elsewhere. If that is closed, nobody wants to know.
    pub(crate) fn show(&self) {
        _ = write!(io::stdout(), "{self}").and_then(|()| io::stdout().flush());
    }
}

impl fmt::Display for Banner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Banner { scheme, policies, .. } = self;
        let many = if *policies == 1 { "policy" } else { "policies" };
        match &self.file {
            Some(file) => writeln!(f, "waterclock serves {policies} {many} of {file}\n")?,
            None => {
                writeln!(f, "waterclock serves a demonstration: {policies} {many} in memory\n")?;
            }
        }
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
            writeln!(f, "  redis-cli -p {}{token} RL.CHECK {policy} alice", resp.port())?;
            writeln!(f, "  redis-cli -p {}{token} CL.THROTTLE bob 4 30 60", resp.port())?;
        }
        if self.file.is_none() {
            writeln!(f, "\nYour own limits: waterclock serve -c waterclock.toml")?;
        }
        Ok(())
    }
}
