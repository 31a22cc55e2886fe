//! The log, on standard error.

use tracing_subscriber::EnvFilter;

use crate::failure::Failure;

/// How lines of the log look.
#[derive(Clone, Copy, clap::ValueEnum)]
pub(crate) enum Format {
    /// For people
    Text,
    /// For machines: one JSON object per line
    Json,
}

/// How much is said.
const VARIABLE: &str = "WATERCLOCK_LOG";
/// Whose lines are ours.
const OURS: [&str; 3] = ["waterclock", "waterclock_server", "waterclock_redis"];

/// `WATERCLOCK_LOG` says how much: `error`, `warn`, `info` (the default), `debug`.
///
/// That is about our own lines. The libraries below us log what comes over the wire, keys and tokens
/// included, and say no more than warnings, unless they are asked by name (`h2=debug`).
pub(crate) fn start(format: Format) -> Result<(), Failure> {
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
            waterclock_config::quoted(text)
        ))
    })
}
