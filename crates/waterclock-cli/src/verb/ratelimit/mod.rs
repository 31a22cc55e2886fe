//! `waterclock ratelimit`: the server in place of Envoy's reference rate limit service.

mod environment;
mod files;
mod settings;

use std::ffi::OsString;
use std::process::ExitCode;

use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};
use tracing::{info, warn};
use waterclock_server::{Listeners, Outside, Running, Timing, examine, raise_descriptor_limit};

use self::environment::Environment;
use self::settings::Settings;
use super::serve::log::{Format, start_log_at};
use crate::output::Failure;

/// Serve in place of Envoy's reference rate limit service, configured by its environment variables.
///
/// Limits come from files or, with CONFIG_TYPE=GRPC_XDS_SOTW, from a control plane such as Envoy Gateway. Ports, probes,
/// metrics and answers are those of the reference service. A program of the name `ratelimit` that is a link to
/// `waterclock` does the same, so that an image can replace that service's. Variables that mean nothing here are named in
/// the log, and arguments are ignored.
#[derive(clap::Args)]
pub(crate) struct Ratelimit {
    /// The same as LOG_FORMAT=json
    #[arg(long)]
    json: bool,
    /// Ignored
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

impl Ratelimit {
    pub(crate) fn run(&self) -> Result<ExitCode, Failure> {
        let set = Environment::of_process();
        let format = match set.text_or("LOG_FORMAT", "text") {
            "json" => Format::Json,
            _ if self.json => Format::Json,
            _ => Format::Text,
        };
        start_log_at(format, &set.text_or("LOG_LEVEL", "warn").to_ascii_lowercase())?;
        let settings = Settings::of(&set)?;
        if !self.arguments.is_empty() {
            warn!("arguments are ignored: {:?}", self.arguments);
        }
        settings.notes.iter().for_each(|note| warn!("{note}"));
        raise_descriptor_limit();
        let runtime = Builder::new_multi_thread()
            .enable_all()
            .build()
            .map_err(|error| format!("the network cannot be used: {error}"))?;
        let served = runtime.block_on(serve(settings));
        runtime.shutdown_background();
        served.map(|()| ExitCode::SUCCESS)
    }
}

async fn serve(settings: Settings) -> Result<(), Failure> {
    let Settings { config, side, files, .. } = settings;
    examine(&config, Outside::Needed)?;
    let mut listeners = Listeners::bind(&config.server.listen()?).await?;
    for (port, address) in side {
        listeners.add(port, address)?;
    }
    let cannot = |error| format!("cannot listen for signals: {error}");
    let mut end = signal(SignalKind::terminate()).map_err(cannot)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(cannot)?;
    let mut running = Running::start(config, listeners, Timing::default()).await?;
    running.export_by_environment();
    info!("serving in place of Envoy's reference rate limit service");
    let following = async {
        match &files {
            Some(files) => files::follow(running.server(), files).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = following => {}
        _ = end.recv() => {}
        _ = interrupt.recv() => {}
    }
    running.stop().await;
    Ok(())
}
