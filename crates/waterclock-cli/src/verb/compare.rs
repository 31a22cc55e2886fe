//! `waterclock compare`: an old limiter's decisions beside a policy in shadow.

use std::path::PathBuf;
use std::process::ExitCode;

use waterclock_rehearse::compare::SideBySide;
use waterclock_rehearse::simulate::limits_of_words;
use waterclock_rehearse::trace::{OldDecisions, Reading};
use waterclock_rehearse::warning_about;

use crate::configuration::load_policy;
use crate::output::{Failure, TextOutput, print_json, say, warn};
use crate::progress::{open_with_progress, recognise};

/// Compare the decisions of another limiter, as its log has them, with a policy in shadow.
///
/// Example: waterclock compare access.log --old 'status == 429' --limit 60/m
///
/// Each line counts twice: as the old limiter decided, and as the policy would have. The report counts where they agree,
/// says why they differ, and names the clients that differ most.
///
/// Without --old, lines are JSON or CSV with a field `allowed`, such as a feed of decisions on standard input:
/// {"time": "2026-10-10T13:55:36Z", "key": "alice", "allowed": false}
///
/// Exit code 0 whether they agree or not, 2 on errors.
#[derive(clap::Args)]
pub(crate) struct Compare {
    /// The log; - or nothing for standard input
    log: Option<PathBuf>,
    /// Which lines the old limiter refused, such as `status == 429` [default: those whose field `allowed` is false]
    #[arg(long, value_name = "EXPR")]
    old: Option<String>,
    /// The configuration [default: ./waterclock.toml]
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The policy; may be left out when there is only one
    #[arg(short, long)]
    policy: Option<String>,
    /// A limit in a few words, such as "10/s", instead of a configuration; can be repeated, and then all must agree
    #[arg(long, value_name = "LIMIT", conflicts_with_all = ["config", "policy"])]
    limit: Vec<String>,
    /// Print everything as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    reading: Reading,
}

impl Compare {
    pub(crate) fn run(&self) -> Result<ExitCode, Failure> {
        let policy = match &*self.limit {
            [] => load_policy(self.config.as_deref(), self.policy.as_deref())?,
            limits => {
                limits_of_words("limit", limits).map_err(|error| format!("--limit: {error}"))?
            }
        };
        warning_about(&policy).iter().for_each(|warning| warn(warning));
        let old = self.old.clone().map_or(OldDecisions::Allowed, OldDecisions::Refused);
        let source = match &self.log {
            Some(path) if path.as_os_str() != "-" => path.display().to_string(),
            _ => STANDARD_INPUT.to_owned(),
        };
        if source == STANDARD_INPUT {
            outlive_the_feed()?;
        }
        let input = open_with_progress(self.log.as_deref())?;
        let reading = self.reading.clone().with_old_decisions(old.clone());
        let (reading, input) = recognise(&reading, input)?;
        let mut compared = SideBySide::play(policy, old, &source, &reading, input)?;
        if compared.is_empty() {
            warn("the log is empty");
        }
        if self.json {
            print_json(&compared.json())?;
        } else {
            compared.write_text(&mut TextOutput::Stdout.stream())?;
        }
        compared.take_error().map_or(Ok(ExitCode::SUCCESS), |error| Err(error.into()))
    }
}

const STANDARD_INPUT: &str = "standard input";
/// As shells call the end by SIGINT.
const INTERRUPTED: i32 = 130;

/// Ctrl-C ends what writes a live feed, and with that the feed: the first one leaves this process to report what it read.
fn outlive_the_feed() -> Result<(), Failure> {
    let cannot = |error| format!("cannot listen for signals: {error}");
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(cannot)?;
    std::thread::spawn(move || {
        let heard = runtime.block_on(async {
            tokio::signal::ctrl_c().await?;
            say("the report follows when the feed ends; Ctrl-C again ends without it");
            tokio::signal::ctrl_c().await
        });
        if heard.is_ok() {
            std::process::exit(INTERRUPTED);
        }
    });
    Ok(())
}
