//! `waterclock validate`: what a file means, and what it does that surprises.

mod json;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use self::json::Account;
use crate::failure::{Failure, say};
use crate::file::print_json;

use crate::style::described;
use waterclock_config::Config;
use waterclock_config::english::{describe, describe_rule, surprises};

/// Say in plain English what each policy of a file means, and warn about surprises.
///
/// Exit code 0 if the file is valid, 2 if it is not.
#[derive(clap::Args)]
pub(crate) struct Validate {
    /// The configuration [default: ./waterclock.toml]
    file: Option<PathBuf>,
    /// The same, as the other commands take it
    #[arg(short, long, value_name = "FILE", conflicts_with = "file")]
    config: Option<PathBuf>,
    /// Print the normalised policies and the rules as JSON
    #[arg(long)]
    json: bool,
}

impl Validate {
    pub(crate) fn run(&self) -> Result<ExitCode, Failure> {
        let config = Config::load(self.file.as_deref().or(self.config.as_deref()))?;
        let warnings = surprises(&config);
        if self.json {
            print_json(&Account::new(&config, &warnings))?;
        } else {
            let mut out = anstream::stdout().lock();
            for policy in &config.policies {
                writeln!(out, "{}", described(&describe(policy)))?;
            }
            for rule in &config.rules {
                writeln!(out, "{}", described(&describe_rule(rule, &config.policies)))?;
            }
        }
        for warning in &warnings {
            say(&format!("warning: {warning}"));
        }
        Ok(ExitCode::SUCCESS)
    }
}
