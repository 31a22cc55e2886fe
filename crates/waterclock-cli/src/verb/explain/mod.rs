//! `waterclock explain`: the story of a limit, told by the engine itself.

mod account;
mod prose;
mod story;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use self::account::Account;
use self::story::Story;
use crate::failure::Failure;
use crate::file::print_json;
use crate::style::described;
use crate::words::limit_in_words;
use waterclock_config::Config;
use waterclock_config::english::describe;

/// Tell what a limit does: its numbers, what becomes of a burst, when to retry.
///
/// waterclock explain "100 per minute", or waterclock explain -c FILE --policy NAME
#[derive(clap::Args)]
pub(crate) struct Explain {
    /// A limit in a few words, such as "10/s" or "1000/1h sliding-window"
    #[arg(conflicts_with_all = ["config", "policy"])]
    limit: Vec<String>,
    /// The configuration [default: ./waterclock.toml]
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The policy; may be left out when there is only one
    #[arg(short, long)]
    policy: Option<String>,
    /// Print the numbers and the story as JSON
    #[arg(long)]
    json: bool,
}

impl Explain {
    pub(crate) fn run(&self) -> Result<ExitCode, Failure> {
        let policy = if self.limit.is_empty() {
            Config::load(self.config.as_deref())?.choose(self.policy.as_deref())?
        } else {
            limit_in_words(&self.limit.join(" "))?
        };
        let story = Story::of(policy.built.clone());
        if self.json {
            print_json(&Account::new(policy, story)?)?;
        } else {
            let mut out = anstream::stdout().lock();
            writeln!(out, "{}", described(&describe(&policy)))?;
            prose::lines(&story).iter().try_for_each(|line| writeln!(out, "{line}"))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
