//! The log of a server, on standard error.

use tracing_subscriber::EnvFilter;
use waterclock_config::quoted;

use crate::output::Failure;

/// How lines of the log look.
#[derive(Clone, Copy, clap::ValueEnum)]
pub(crate) enum Format {
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
pub(super) fn start_log(format: Format) -> Result<(), Failure> {
    start_log_at(format, "info")
}

/// The same with another level where the variable is not set.
pub(crate) fn start_log_at(format: Format, usual: &str) -> Result<(), Failure> {
    let level = std::env::var(VARIABLE).unwrap_or_default();
    let filter = filter(if level.is_empty() { usual } else { &level })?;
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
