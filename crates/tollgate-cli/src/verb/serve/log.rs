//! The log, on standard error.

use tracing_subscriber::EnvFilter;

/// How lines of the log look.
#[derive(Clone, Copy, clap::ValueEnum)]
pub(crate) enum Format {
    /// For people
    Text,
    /// For machines: one JSON object per line
    Json,
}

/// `TOLLGATE_LOG` says how much: `error`, `warn`, `info` (the default), `debug`.
pub(crate) fn start(format: Format) {
    let filter = EnvFilter::try_from_env("TOLLGATE_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match format {
        Format::Text => log.with_target(false).with_ansi(false).init(),
        Format::Json => log.json().init(),
    }
}
