//! `waterclock serve`: the server.

mod banner;
pub(super) mod log;

use std::path::PathBuf;
use std::process::ExitCode;

use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};
use tokio_rustls::rustls::crypto::ring::default_provider;
use waterclock_config::{Address, Config, ListenFlags};
use waterclock_server::{Listeners, Outside, Running, Timing, examine, raise_descriptor_limit};

use self::banner::Banner;
use self::log::{Format, start_log};
use crate::configuration::default_file;
use crate::output::Failure;

/// Serve decisions over HTTP, Envoy's rate limit protocol and the Redis protocol.
///
/// Serves the policies of -c FILE or of ./waterclock.toml. If there is no such file: a demonstration on loopback, with
/// state in memory and an admin token that is printed. The configuration is reloaded when its file changes and on
/// SIGHUP. SIGTERM and SIGINT shut the server down gracefully; a second one ends it at once.
///
/// An address is HOST:PORT, or a port alone for this machine only; an empty one turns the listener off. Flags win over the
/// environment (WATERCLOCK_HTTP, WATERCLOCK_GRPC, WATERCLOCK_RESP, WATERCLOCK_STORE_URL), and the environment over the
/// file. WATERCLOCK_LOG is error, warn, info or debug.
#[derive(clap::Args)]
pub(crate) struct Serve {
    /// The configuration [default: ./waterclock.toml, or the demonstration if there is none]
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Serve the demonstration, whatever files there are
    #[arg(long, conflicts_with = "config")]
    demo: bool,
    /// Where to listen for HTTP: the JSON API, the dashboard and metrics, such as 9090 or 0.0.0.0:8080
    #[arg(long, value_name = "ADDRESS")]
    http: Option<String>,
    /// Where to listen for Envoy's rate limit protocol
    #[arg(long, value_name = "ADDRESS")]
    grpc: Option<String>,
    /// Where to listen for the Redis protocol
    #[arg(long, value_name = "ADDRESS")]
    resp: Option<String>,
    /// The format of the log
    #[arg(long, value_enum, default_value_t = Format::Text)]
    log: Format,
    /// The same as --log json, and no banner
    #[arg(long, conflicts_with = "log")]
    json: bool,
}

/// Where the configuration comes from.
enum Origin {
    /// A file that the command line names.
    Named,
    /// The usual file, in the current directory.
    Found,
    /// No file. With the token of its administrator, if it has one.
    Demonstration(Option<String>),
}

impl Serve {
    pub(crate) fn run(&self) -> Result<ExitCode, Failure> {
        let (mut config, origin) = self.load()?;
        config.server.listen_flags = ListenFlags {
            http: self.http.clone(),
            grpc: self.grpc.clone(),
            resp: self.resp.clone(),
        };
        start_log(self.format())?;
        raise_descriptor_limit();
        let runtime = Builder::new_multi_thread()
            .enable_all()
            .build()
            .map_err(|error| format!("the network cannot be used: {error}"))?;
        let served = runtime.block_on(self.serve(config, origin));
        // Pending work is not waited for.
        runtime.shutdown_background();
        served.map(|()| ExitCode::SUCCESS)
    }

    fn load(&self) -> Result<(Config, Origin), Failure> {
        match (&self.config, default_file()) {
            (Some(path), _) => Ok((Config::load(path)?, Origin::Named)),
            (None, Some(path)) if !self.demo => Ok((Config::load(path)?, Origin::Found)),
            _ => {
                let mut config = Config::demonstration()?;
                // Without a banner, no one would know the token; and a store that the environment names may be that of
                // other servers, whose policies and overrides are no demonstration.
                let is_alone = config.store.address()? == Address::Memory;
                let token = match self.format() {
                    Format::Text if is_alone => Some(random_token()?),
                    _ => None,
                };
                if let Some(token) = &token {
                    config.server.add_administrator(&**token);
                }
                Ok((config, Origin::Demonstration(token)))
            }
        }
    }

    fn format(&self) -> Format {
        if self.json { Format::Json } else { self.log }
    }

    async fn serve(&self, config: Config, origin: Origin) -> Result<(), Failure> {
        examine(&config, Outside::Needed)?;
        let listeners = Listeners::bind(&config.server.listen()?).await?;
        let banner = Banner::new(&config, origin, &listeners);
        let cannot = |error| format!("cannot listen for signals: {error}");
        let mut end = signal(SignalKind::terminate()).map_err(cannot)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(cannot)?;
        let mut hang_up = signal(SignalKind::hangup()).map_err(cannot)?;
        let mut running = tokio::select! {
            running = Running::start(config, listeners, Timing::default()) => running?,
            _ = end.recv() => return Ok(()),
            _ = interrupt.recv() => return Ok(()),
        };
        running.export_by_environment();
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

/// A token that cannot be guessed.
fn random_token() -> Result<String, Failure> {
    let mut bytes = [0; 16];
    let random = default_provider().secure_random.fill(&mut bytes);
    random.map_err(|_| "the system gives no random numbers for a token")?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
