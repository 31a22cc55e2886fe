//! `waterclock import`: the configuration of Envoy's reference rate limit service, as one of ours.

mod name;
mod rules;
mod toml;
mod tree;
mod yaml;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::json;

use crate::failure::Failure;

/// Turn YAML files of Envoy's reference rate limit service into a waterclock.toml on standard output.
///
/// Every limit becomes a policy with a window aligned to the clock, as that service counts, and a rule
/// that sends it the same descriptors. Comments say what has no counterpart.
#[derive(clap::Args)]
pub(crate) struct Import {
    /// The YAML files; those of one domain are put together
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Print JSON: the file as `toml`, and what has no counterpart as `warnings`
    #[arg(long)]
    json: bool,
}

impl Import {
    pub(crate) fn run(&self) -> Result<ExitCode, Failure> {
        let mut domains = Vec::new();
        for file in &self.files {
            domains.extend(yaml::read(file)?);
        }
        let domains = tree::grow(domains)?;
        let imported = rules::of(&domains)?;
        let names: Vec<String> = self.files.iter().map(|file| file.display().to_string()).collect();
        let mut out = std::io::stdout().lock();
        let text = toml::write(&names, &imported);
        if self.json {
            writeln!(out, "{}", json!({ "toml": text, "warnings": imported.notes }))?;
        } else {
            out.write_all(text.as_bytes())?;
        }
        out.flush()?;
        Ok(ExitCode::SUCCESS)
    }
}
