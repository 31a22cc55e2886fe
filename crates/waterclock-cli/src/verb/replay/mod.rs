//! `waterclock replay`: a trace through a policy, in the trace's own time.

mod jsonl;
mod memory;
mod remote;

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use waterclock::Decision;

use self::jsonl::Jsonl;
use crate::failure::{Failure, say};
use crate::file::{Words, print_json, write_whole};
use crate::report::{Checked, Ledger, Reader, Report};
use crate::stage::{Ruling, Turn};
use crate::trace::{Event, Op, Reading, Trace};
use waterclock_config::Config;
use waterclock_config::{Address, not_an_address};

/// Run a trace through a policy in virtual time.
///
/// Reads one JSON object per line, times not decreasing:
/// {"t_us": 1500000, "key": "alice", "cost": 1, "op": "check"}
/// where key is "" by default, cost 1, and op one of check, peek, refund, reset and report; "tier" names a tier of
/// the policy.
///
/// With --store redis://HOST the same trace runs through the scripts that decide in Redis, and is
/// answered the same. It runs under a prefix of its own, which is removed at the end; other records
/// are not touched.
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
    /// Draw what came and what was admitted over time into this SVG file; - for standard output
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

/// Who hears of every event and what was decided about it.
trait Audience {
    fn hear(&mut self, turn: &Turn<'_>, event: &Event<'_>, decision: &Decision) -> io::Result<()>;
}

/// How far a replay came.
struct Played {
    is_empty: bool,
    /// Why it ended before the trace did.
    complaint: Option<Failure>,
    /// What there is to know about the trace.
    remarks: Vec<String>,
}

impl Replay {
    pub(crate) fn run(&self) -> Result<ExitCode, Failure> {
        let store = Address::parse(&self.store)
            .ok_or_else(|| format!("--store {}", not_an_address(&self.store, false)))?;
        let mut config = Config::load(self.config.as_deref())?;
        let ruling = Arc::new(Ruling::new(config.choose(self.policy.as_deref())?)?);
        match self.format {
            Format::Jsonl => self.line_by_line(&store, &ruling)?,
            Format::Summary | Format::Json => self.in_all(&store, &ruling)?,
        }
        Ok(ExitCode::SUCCESS)
    }

    fn line_by_line(&self, store: &Address, ruling: &Arc<Ruling>) -> Result<(), Failure> {
        if self.plot.is_some() || self.html.is_some() {
            let sentence = "--plot and --html show a report; leave out --format jsonl for them";
            return Err(sentence.to_owned().into());
        }
        let trace = self.reading.open_quietly(self.trace.as_deref(), &[ruling.spec()])?;
        let mut lines = Jsonl::new(io::stdout().lock());
        let played = play(store, ruling, trace, &mut lines)?.or_nothing()?;
        lines.flush()?;
        played.remarks.iter().for_each(|remark| say(&format!("warning: {remark}")));
        played.complaint.map_or(Ok(()), Err)
    }

    fn in_all(&self, store: &Address, ruling: &Arc<Ruling>) -> Result<(), Failure> {
        let is_json = self.json || self.format == Format::Json;
        let files = [("--plot", self.plot.as_ref()), ("--html", self.html.as_ref())];
        let words = Words::beside(&files, is_json)?;
        let trace = self.reading.open(self.trace.as_deref(), &[ruling.spec()], &[ruling.spec()])?;
        let mut ledger = Ledger::new(&ruling.spec().built);
        let played = play(store, ruling, trace, &mut ledger)?.or_nothing()?;
        let source = match &self.trace {
            Some(path) if path.as_os_str() != "-" => path.display().to_string(),
            _ => "standard input".to_owned(),
        };
        let reader = if is_json { Reader::Program } else { Reader::Person };
        let report = Report::new(ruling.spec(), &source, ledger, played.remarks, reader);
        if is_json {
            print_json(&report.json())?;
        } else {
            report.write_text(&mut words.stream())?;
        }
        // After the report: if they cannot be written, it is not lost.
        if let Some(path) = &self.plot {
            write_whole(path, &report.picture().svg())?;
        }
        if let Some(path) = &self.html {
            write_whole(path, &report.page())?;
        }
        played.complaint.map_or(Ok(()), Err)
    }
}

fn play(
    store: &Address,
    ruling: &Arc<Ruling>,
    trace: Trace,
    audience: &mut impl Audience,
) -> Result<Played, Failure> {
    match store {
        Address::Memory => memory::play(ruling, trace, audience),
        Address::Redis(url) => remote::play(url, ruling, trace, audience),
    }
}

impl Played {
    /// And something else went wrong.
    fn and(self, also: Failure) -> Played {
        let complaint = match self.complaint {
            Some(failure) => failure.and(also),
            None => also,
        };
        Played { complaint: Some(complaint), ..self }
    }

    /// What was decided before a complaint is still told; but if nothing was, there is only the complaint.
    fn or_nothing(self) -> Result<Played, Failure> {
        match self.complaint {
            Some(failure) if self.is_empty => return Err(failure),
            // What the reader has to say explains it better.
            None if self.is_empty && self.remarks.is_empty() => say("warning: the trace is empty"),
            _ => {}
        }
        Ok(self)
    }
}

impl Audience for Ledger {
    fn hear(&mut self, turn: &Turn<'_>, event: &Event<'_>, decision: &Decision) -> io::Result<()> {
        if event.op == Op::Check {
            let (t_us, key) = (event.t_us, &*event.key);
            self.add(&Checked { turn, t_us, key, decision });
        } else {
            self.add_other();
        }
        Ok(())
    }
}
