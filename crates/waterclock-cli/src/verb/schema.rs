//! `waterclock schema`: the JSON Schema of the configuration.

use std::io::Write;
use std::process::ExitCode;

use crate::output::Failure;

/// Print the JSON Schema of waterclock.toml, for editors and for checking files elsewhere.
#[derive(clap::Args)]
pub(crate) struct Schema {
    /// In one line; it is JSON either way
    #[arg(long)]
    json: bool,
}

impl Schema {
    pub(crate) fn run(&self) -> Result<ExitCode, Failure> {
        let schema = waterclock_config::schema();
        let mut out = std::io::stdout().lock();
        if self.json {
            writeln!(out, "{schema}")?;
        } else {
            writeln!(out, "{schema:#}")?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
