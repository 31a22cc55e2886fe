//! `waterclock serve`: the server.

use std::fmt;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;
use waterclock_config::{Config, quoted};
use waterclock_server::observe::Face;
use waterclock_server::{Listeners, Outside, Running, Timing, examine, raise_descriptor_limit};

use crate::output::Failure;

/// Serve decisions over HTTP, Envoy's rate limit protocol and the Redis protocol.
///
/// Without a configuration: a demonstration on loopback, with state in memory. The configuration is reloaded when its
/// file changes and on SIGHUP. SIGTERM and SIGINT shut the server down gracefully; a second one ends it at once.
///
/// The environment overrides the file: WATERCLOCK_HTTP, WATERCLOCK_GRPC, WATERCLOCK_RESP (addresses; empty
/// for none) and WATERCLOCK_STORE_URL. WATERCLOCK_LOG is error, warn, info or debug.
#[derive(clap::Args)]
pub(crate) struct Serve {
    /// The configuration [default: a demonstration]
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The format of the log
    #[arg(long, value_enum, default_value_t = Format::Text)]
    log: Format,
    /// The same as --log json, and no banner
    #[arg(long, conflicts_with = "log")]
    json: bool,
}

impl Serve {
    pub(crate) fn run(&self) -> Result<ExitCode, Failure> {
        let config = match &self.config {
            Some(path) => Config::load(path)?,
            None => Config::demonstration()?,
        };
        start_log(self.format())?;
        raise_descriptor_limit();
        let runtime = Builder::new_multi_thread()
            .enable_all()
            .build()
            .map_err(|error| format!("the network cannot be used: {error}"))?;
        let served = runtime.block_on(self.serve(config));
        // Pending work is not waited for.
        runtime.shutdown_background();
        served.map(|()| ExitCode::SUCCESS)
    }

    fn format(&self) -> Format {
        if self.json { Format::Json } else { self.log }
    }

    async fn serve(&self, config: Config) -> Result<(), Failure> {
        examine(&config, Outside::Needed)?;
        let listeners = Listeners::bind(&config.server.listen()?).await?;
        let banner = Banner::new(&config, &listeners);
        let cannot = |error| format!("cannot listen for signals: {error}");
        let mut end = signal(SignalKind::terminate()).map_err(cannot)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(cannot)?;
        let mut hang_up = signal(SignalKind::hangup()).map_err(cannot)?;
        let running = tokio::select! {
            running = Running::start(config, listeners, Timing::default()) => running?,
            _ = end.recv() => return Ok(()),
            _ = interrupt.recv() => return Ok(()),
        };
        if let Format::Text = self.format() {
            banner.show();
        }
        loop {
            tokio::select! {
                _ = hang_up.recv() => running.reload(),
                _ = end.recv() => break,
                _ = interrupt.recv() => break,
            }
        }
        tokio::select! {
            () = running.stop() => Ok(()),
            _ = end.recv() => Err(now()),
            _ = interrupt.recv() => Err(now()),
        }
    }
}

fn now() -> Failure {
    "ended by a second signal, with requests in progress".into()
}

/// What to try next: addresses that listen, and a policy of the file.
struct Banner {
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
    fn new(config: &Config, listeners: &Listeners) -> Banner {
        let by_key = config.policies.iter().find(|policy| policy.key.len() < 2);
        Banner {
            file: config.path.is_some().then(|| config.file.clone()),
            policy: by_key.map(|policy| policy.name().to_owned()),
            policies: config.policies.len(),
            http: listeners.address(Face::Http),
            grpc: listeners.address(Face::Grpc),
            resp: listeners.address(Face::Resp),
            scheme: if config.server.tls.is_some() { "https" } else { "http" },
            needs_token: config.server.tokens().is_ok_and(|tokens| !tokens.is_empty()),
        }
    }

    /// Prints it on standard output, whether or not that is read: the log goes to standard error.
    fn show(&self) {
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

/// How lines of the log look.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Format {
    /// For people
    Text,
    /// For machines: one JSON object per line
    Json,
}

/// The level of the log.
const VARIABLE: &str = "WATERCLOCK_LOG";
/// Our own crates.
const OURS: [&str; 3] = ["waterclock", "waterclock_server", "waterclock_redis"];

/// Starts the log on standard error. `WATERCLOCK_LOG` is its level: `error`, `warn`, `info` (the default), `debug`.
///
/// That is the level of our own crates. Libraries log what comes over the wire, keys and tokens included, so they log
/// only warnings, unless they are named (`h2=debug`).
fn start_log(format: Format) -> Result<(), Failure> {
    let filter = filter(&std::env::var(VARIABLE).unwrap_or_default())?;
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match format {
        Format::Text => log.with_target(false).with_ansi(false).init(),
        Format::Json => log.json().init(),
    }
    Ok(())
}

fn filter(text: &str) -> Result<EnvFilter, Failure> {
    let text = if text.is_empty() { "info" } else { text };
    let is_level = ["off", "error", "warn", "info", "debug", "trace"].contains(&text);
    let directives = if is_level {
        let ours = OURS.map(|name| format!("{name}={text}")).join(",");
        let others = if ["off", "error"].contains(&text) { text } else { "warn" };
        format!("{others},{ours}")
    } else {
        text.to_owned()
    };
    let is_filter = is_level || text.contains('=');
    EnvFilter::try_new(directives).ok().filter(|_| is_filter).ok_or_else(|| {
        Failure::from(format!(
            "{VARIABLE} must be error, warn, info or debug; found {}",
            quoted(text)
        ))
    })
}
