//! `waterclock import`: limits and counts of other rate limiters.

mod cell;
mod envoy;
mod express;
mod flexible;
mod format;
mod limitador;
mod misskey;
mod names;
mod notes;
mod options;
mod sharkey;
mod source;
mod toml;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::json;
use waterclock_config::Config;

pub(super) use self::envoy::reference_domains;

use self::cell::RedisCell;
use self::format::Format;
use self::source::Source;
use self::toml::Translation;
use crate::output::{Failure, warn};

/// Turn the configuration of another rate limiter into a waterclock.toml on standard output.
///
/// The format is recognised from the content, or named with --from. What has no counterpart is a warning on standard error
/// and a comment in the result, one sentence each.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Import {
    /// The files, all in one format
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Whose configuration it is [default: recognised from the content]
    #[arg(long, value_name = "FORMAT")]
    from: Option<Format>,
    /// Print JSON: the file as `toml`, and what has no counterpart as `warnings`
    #[arg(long)]
    json: bool,
    #[command(subcommand)]
    counts: Option<Counts>,
}

/// Counts, which are moved from one running server to another.
#[derive(clap::Subcommand)]
enum Counts {
    RedisCell(RedisCell),
}

impl Import {
    pub(crate) fn run(&self) -> Result<ExitCode, Failure> {
        if let Some(Counts::RedisCell(cell)) = &self.counts {
            return cell.run();
        }
        let sources = self.files.iter().map(|file| Source::read(file));
        let sources = sources.collect::<Result<Vec<Source>, Failure>>()?;
        let format = self.from.map_or_else(|| Format::recognise(&sources), Ok)?;
        let translation = translate(format, &sources)?;
        let names: Vec<&str> = sources.iter().map(|source| &*source.name).collect();
        let text = translation.to_toml(&names);
        if translation.tables.is_empty() {
            translation.notes.iter().for_each(|note| warn(&note.to_string()));
            return Err("no limit is left: nothing to import".into());
        }
        // Numbers that are out of range, for example.
        Config::read("the imported configuration", &text)?;
        let mut out = std::io::stdout().lock();
        if self.json {
            writeln!(out, "{}", json!({ "toml": text, "warnings": translation.notes }))?;
        } else {
            out.write_all(text.as_bytes())?;
            translation.notes.iter().for_each(|note| warn(&note.to_string()));
        }
        out.flush()?;
        Ok(ExitCode::SUCCESS)
    }
}

fn translate(format: Format, sources: &[Source]) -> Result<Translation, Failure> {
    match format {
        Format::Envoy => envoy::translate(sources),
        Format::Limitador => limitador::translate(sources),
        Format::Sharkey => sharkey::translate(sources),
        Format::Misskey => misskey::translate(sources),
        Format::RateLimiterFlexible => flexible::translate(sources),
        Format::ExpressRateLimit => express::translate(sources),
    }
}
