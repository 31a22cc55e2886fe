//! `waterclock replay`: a trace through a policy, in the trace's own time.

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use waterclock::Answer;
use waterclock_config::{Address, PolicyConfig, not_an_address};
use waterclock_rehearse::replay::{Replayed, through_memory, through_redis, write_line};
use waterclock_rehearse::report::{Ledger, Report};
use waterclock_rehearse::simulate::limits_of_words;
use waterclock_rehearse::trace::{Event, Input, Reading, Trace};
use waterclock_rehearse::{Resolved, warning_about, without_limits};

use super::block_on;
use crate::configuration::{default_file, load_policy};
use crate::output::{Failure, TextOutput, print_json, warn, write_whole};
use crate::progress::{open_with_progress, recognise};

/// Show what a policy would have done to a trace or an access log, and what its limits could be.
///
/// Example: waterclock replay --limit 10/s access.log.gz
///
/// Without a configuration and without --limit, it says what a limit could be: what 99 % and 99.9 % of clients never
/// exceed, and whom other numbers would refuse.
///
/// A trace has one JSON object per line, times not decreasing:
/// {"t_us": 1500000, "key": "alice", "cost": 1, "op": "check"}
///
/// By default key is "" and cost 1; op is check, peek, refund, reset or report; "tier" names a tier of the policy.
///
/// With --store redis://HOST the same trace runs through the scripts that decide in Redis, with the same answers. It
/// runs under a private prefix, which is cleared at the end; other records are not touched.
#[derive(clap::Args)]
pub(crate) struct Replay {
    /// The trace; - or nothing for standard input
    trace: Option<PathBuf>,
    /// The configuration [default: ./waterclock.toml]
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The policy; may be left out when there is only one
    #[arg(short, long)]
    policy: Option<String>,
    /// A limit in a few words, such as "10/s", instead of a configuration; can be repeated, and then all must agree
    #[arg(long, value_name = "LIMIT", conflicts_with_all = ["config", "policy"])]
    limit: Vec<String>,
    /// Where state lives while the trace runs: memory:, redis://…, rediss://…, redis-cluster://… or
    /// redis-sentinel://…/service
    #[arg(long, value_name = "URL", default_value = "memory:")]
    store: String,
    /// What to write: a report for people, one line per event, or the report as JSON
    #[arg(long, value_enum, default_value_t = Format::Summary)]
    format: Format,
    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// Draw checks and refusals over time into this SVG file; - for standard output
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Write the report as a page into this file; - for standard output
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    #[command(flatten)]
    reading: Reading,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Summary,
    Jsonl,
    Json,
}

impl Replay {
    pub(crate) fn run(&self) -> Result<ExitCode, Failure> {
        let store = Address::parse(&self.store)
            .ok_or_else(|| format!("--store {}", not_an_address(&self.store, false)))?;
        let has_file = self.config.is_some() || self.policy.is_some() || default_file().is_some();
        let policy = match &*self.limit {
            [] if !has_file && self.format != Format::Jsonl => without_limits("api")?,
            [] => load_policy(self.config.as_deref(), self.policy.as_deref())?,
            limits => {
                limits_of_words("limit", limits).map_err(|error| format!("--limit: {error}"))?
            }
        };
        warning_about(&policy).iter().for_each(|warning| warn(warning));
        let policy = Arc::new(policy);
        match self.format {
            Format::Jsonl => self.line_by_line(&store, &policy)?,
            Format::Summary | Format::Json => self.report(&store, &policy)?,
        }
        Ok(ExitCode::SUCCESS)
    }

    fn line_by_line(&self, store: &Address, policy: &Arc<PolicyConfig>) -> Result<(), Failure> {
        if self.plot.is_some() || self.html.is_some() {
            return Err("--plot and --html show a report; leave out --format jsonl for them".into());
        }
        // Without a progress bar: the lines may go to the same terminal.
        let (reading, input) = recognise(&self.reading, Input::open(self.trace.as_deref())?)?;
        let trace = reading.open(input, &[policy], &[policy])?;
        let mut out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
        let replayed = replay(store, policy, trace, |event, resolved, answer| {
            write_line(&mut out, event, resolved, answer)
        })?;
        out.flush()?;
        replayed.notes.iter().for_each(|note| warn(&note.message));
        replayed.error.map_or(Ok(()), |error| Err(error.into()))
    }

    fn report(&self, store: &Address, policy: &Arc<PolicyConfig>) -> Result<(), Failure> {
        let is_json = self.json || self.format == Format::Json;
        let files = [("--plot", self.plot.as_ref()), ("--html", self.html.as_ref())];
        let text = TextOutput::beside(&files, is_json)?;
        let input = open_with_progress(self.trace.as_deref())?;
        let (reading, input) = recognise(&self.reading, input)?;
        let trace = reading.with_requests().open(input, &[policy], &[policy])?;
        let mut ledger = Ledger::new(policy.policy());
        let replayed = replay(store, policy, trace, |event, resolved, answer| {
            ledger.count(event, resolved, &answer.decision);
            Ok(())
        })?;
        let source = match &self.trace {
            Some(path) if path.as_os_str() != "-" => path.display().to_string(),
            _ => "standard input".to_owned(),
        };
        let report = Report::new(policy, &source, ledger, replayed.notes);
        // The files come after the report: if they cannot be written, it is not lost. Nor are they when a reader such
        // as `head` has seen enough of it.
        let told = match is_json {
            true => print_json(&report.json()),
            false => report.write_text(&mut text.stream()),
        };
        if let Some(path) = &self.plot {
            write_whole(path, &report.picture().svg())?;
        }
        if let Some(path) = &self.html {
            write_whole(path, &report.page())?;
        }
        told?;
        replayed.error.map_or(Ok(()), |error| Err(error.into()))
    }
}

/// Replays a trace. An error before the first decision is all there is to report.
fn replay(
    store: &Address,
    policy: &Arc<PolicyConfig>,
    trace: Trace,
    observe: impl FnMut(&Event<'_>, &Resolved<'_>, &Answer) -> io::Result<()>,
) -> Result<Replayed, Failure> {
    let mut replayed = match store {
        Address::Memory => through_memory(policy, trace, observe)?,
        Address::Redis(url) => block_on(through_redis(url, policy, trace, observe, interrupted))??,
    };
    replayed.warnings.iter().for_each(|warning| warn(warning));
    match replayed.error.take_if(|_| replayed.is_empty) {
        Some(error) => return Err(error.into()),
        // Notes explain an empty trace better.
        None if replayed.is_empty && replayed.notes.is_empty() => warn("the trace is empty"),
        None => {}
    }
    Ok(replayed)
}

/// Waits for Ctrl-C.
async fn interrupted() {
    if tokio::signal::ctrl_c().await.is_err() {
        // Then Ctrl-C ends the process as usual, and the records expire.
        std::future::pending::<()>().await;
    }
}
