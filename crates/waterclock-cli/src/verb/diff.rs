//! `waterclock diff`: what a change of the configuration changes, and for which keys.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use waterclock_config::{Config, PolicyConfig};
use waterclock_rehearse::diff::{Comparison, choose, json, policy_changes, write_changes};
use waterclock_rehearse::trace::Reading;
use waterclock_rehearse::warning_about;

use crate::output::{Failure, TextOutput, print_json, warn, write_whole};
use crate::progress::{open_with_progress, recognise};

/// Show what changes between the policies of two configurations and, with a trace or an access log, for which keys.
///
/// Example: waterclock diff old.toml new.toml --trace access.log --input combined
///
/// Both policies meet the same traffic. A policy that only one file has allows everything in the other.
///
/// Exit code 0 if no policy changes, 1 if one does, 2 on errors.
#[derive(clap::Args)]
pub(crate) struct Diff {
    /// The configuration in force
    old: PathBuf,
    /// The new configuration
    new: PathBuf,
    /// Traffic to try both on; - for standard input
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// The policy to try; may be left out when only one policy changes
    #[arg(short, long, value_name = "NAME", requires = "trace")]
    policy: Option<String>,
    /// Print everything as JSON
    #[arg(long)]
    json: bool,
    /// Write a page with pictures into this file; - for standard output
    #[arg(long, value_name = "FILE", requires = "trace")]
    html: Option<PathBuf>,
    #[command(flatten)]
    reading: Reading,
}

impl Diff {
    pub(crate) fn run(&self) -> Result<ExitCode, Failure> {
        let text = TextOutput::beside(&[("--html", self.html.as_ref())], self.json)?;
        let (old, new) = (Config::load(&self.old)?, Config::load(&self.new)?);
        let changes = policy_changes(&old, &new);
        let mut comparison = match &self.trace {
            Some(path) => choose(old, new, self.policy.as_deref(), &changes)?
                .map(|(old, new)| self.compare(path, old, new))
                .transpose()?,
            None => None,
        };
        let told = match self.json {
            true => print_json(&json(&changes, comparison.as_ref())),
            false => write_changes(&mut text.stream(), &changes, comparison.as_ref()),
        };
        match (&self.html, &comparison) {
            (Some(path), Some(comparison)) => write_whole(path, &comparison.page(&changes))?,
            (Some(_), None) => {
                warn(
                    "no policy changes, so there is no page to write; --policy compares one all the same",
                );
            }
            _ => {}
        }
        told?;
        match comparison.as_mut().and_then(Comparison::take_error) {
            Some(error) => Err(error.into()),
            None if changes.is_empty() => Ok(ExitCode::SUCCESS),
            None => Ok(ExitCode::from(1)),
        }
    }

    fn compare(
        &self,
        path: &Path,
        old: PolicyConfig,
        new: PolicyConfig,
    ) -> Result<Comparison, Failure> {
        [&old, &new].into_iter().filter_map(warning_about).for_each(|warning| warn(&warning));
        let (reading, input) = recognise(&self.reading, open_with_progress(Some(path))?)?;
        let comparison = Comparison::play(old, new, &path.display().to_string(), &reading, input)?;
        if comparison.is_empty() {
            warn("the trace is empty");
        }
        Ok(comparison)
    }
}
