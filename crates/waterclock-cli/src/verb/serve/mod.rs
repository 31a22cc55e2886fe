//! `waterclock serve`: the server.

mod banner;
mod log;

use std::path::PathBuf;
use std::process::ExitCode;

use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};
use waterclock_config::Config;
use waterclock_server::{Listeners, Running, Timing};

use self::banner::Banner;
use self::log::Format;
use crate::failure::Failure;

/// Serve decisions over HTTP, Envoy's rate limit protocol and the Redis protocol.
///
/// Without a configuration: a demonstration on loopback, with state in memory. The configuration
/// is read again when its file changes and on SIGHUP. SIGTERM and SIGINT end the server in good
/// order; a second one ends it now.
///
/// The environment overrides the file: WATERCLOCK_HTTP, WATERCLOCK_GRPC, WATERCLOCK_RESP (addresses; empty
/// for none) and WATERCLOCK_STORE_URL. WATERCLOCK_LOG is error, warn, info or debug.
#[derive(clap::Args)]
pub(crate) struct Serve {
    /// The configuration [default: a demonstration]
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// How lines of the log look
    #[arg(long, value_enum, default_value_t = Format::Text)]
    log: Format,
    /// The same as --log json, and no banner
    #[arg(long, conflicts_with = "log")]
    json: bool,
}

impl Serve {
    pub(crate) fn run(&self) -> Result<ExitCode, Failure> {
        let config = match &self.config {
            Some(path) => Config::load(Some(path))?,
            None => Config::demonstration()?,
        };
        log::start(self.format())?;
        let runtime = Builder::new_multi_thread()
            .enable_all()
            .build()
            .map_err(|error| format!("the network cannot be used: {error}"))?;
        let served = runtime.block_on(self.serve(config));
        // Whatever still waits is not waited for.
        runtime.shutdown_background();
        served.map(|()| ExitCode::SUCCESS)
    }

    fn format(&self) -> Format {
        if self.json { Format::Json } else { self.log }
    }

    async fn serve(&self, config: Config) -> Result<(), Failure> {
        let listeners = Listeners::bind(&config.server.listen()?).await?;
        if listeners.bound().is_empty() {
            let nothing = "every listener is turned off; give `http`, `grpc` or `resp` an address";
            return Err(nothing.to_owned().into());
        }
        let banner = Banner::new(&config, &listeners);
        let cannot = |error| format!("signals cannot be listened for: {error}");
        let mut end = signal(SignalKind::terminate()).map_err(cannot)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(cannot)?;
        let mut hang_up = signal(SignalKind::hangup()).map_err(cannot)?;
        let running = Running::start(config, listeners, Timing::default()).await?;
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
    "told twice to end: ended with requests under way".to_owned().into()
}
