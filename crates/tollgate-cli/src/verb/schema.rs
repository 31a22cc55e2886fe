//! `tollgate schema`: the JSON Schema of the configuration.

use std::io::Write;
use std::process::ExitCode;

use crate::failure::Failure;
use tollgate_server::config;

/// Print the JSON Schema of tollgate.toml, for editors and for checking files elsewhere.
#[derive(clap::Args)]
pub(crate) struct Schema {}

impl Schema {
    pub(crate) fn run(&self) -> Result<ExitCode, Failure> {
        writeln!(std::io::stdout(), "{:#}", config::schema())?;
        Ok(ExitCode::SUCCESS)
    }
}
