//! `tollgate replay`: a trace through a policy, in the trace's own time.

mod complaint;
mod event;
mod memory;
mod remote;
mod report;
mod trace;
mod turn;
mod value;

use std::io::{self, BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::ExitCode;

use tollgate::Policy;

use self::report::{Jsonl, Report, Summary};
use self::trace::Trace;
use crate::failure::{Failure, say};
use tollgate_server::config::cannot_read;
use tollgate_server::config::{Address, not_an_address};
use tollgate_server::config::{Config, PolicySpec};

/// Run a trace through a policy in virtual time.
///
/// Reads one JSON object per line, times not decreasing:
/// {"t_us": 1500000, "key": "alice", "cost": 1, "op": "check"}
/// where key is "" by default, cost 1, and op one of check, peek, refund and reset; "tier" names a tier of
/// the policy.
///
/// With --store redis://HOST the same trace runs through the scripts that decide in Redis, and is
/// answered the same. It runs under a prefix of its own, which is removed at the end; other records
/// are not touched.
#[derive(clap::Args)]
pub(crate) struct Replay {
    /// The trace; - or nothing for standard input
    trace: Option<PathBuf>,
    /// The configuration [default: ./tollgate.toml]
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The policy; may be left out when there is only one
    #[arg(short, long)]
    policy: Option<String>,
    /// Where state lives while the trace runs: memory:, redis://…, rediss://…, redis-cluster://… or
    /// redis-sentinel://…/service
    #[arg(long, value_name = "URL", default_value = "memory:")]
    store: String,
    /// What to write: totals, or one line per event
    #[arg(long, value_enum, default_value_t = Format::Summary)]
    format: Format,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Format {
    Summary,
    Jsonl,
}

impl Replay {
    pub(crate) fn run(&self) -> Result<ExitCode, Failure> {
        let store = Address::parse(&self.store)
            .ok_or_else(|| format!("--store {}", not_an_address(&self.store, false)))?;
        let mut config = Config::load(self.config.as_deref())?;
        let policy = config.choose(self.policy.as_deref())?.runnable()?;
        let (name, input) = self.open()?;
        let trace = Trace::new(name, input, policy.built.takes_reports());
        let stdout = io::stdout().lock();
        match self.format {
            Format::Jsonl => play(&store, policy, trace, Jsonl::new(stdout))?,
            Format::Summary => play(&store, policy, trace, Summary::new(stdout))?,
        }
        Ok(ExitCode::SUCCESS)
    }

    /// The trace and what complaints call it.
    fn open(&self) -> Result<(String, Input), Failure> {
        match &self.trace {
            Some(path) if path.as_os_str() != "-" => {
                let name = path.display().to_string();
                let file = std::fs::File::open(path).map_err(|error| cannot_read(&name, &error))?;
                Ok((name, buffered(file)))
            }
            _ => Ok(("<stdin>".to_owned(), buffered(io::stdin()))),
        }
    }
}

/// What a trace is read from, on any thread.
type Input = Box<dyn BufRead + Send>;

fn buffered(input: impl Read + Send + 'static) -> Input {
    Box::new(BufReader::with_capacity(1 << 16, input))
}

fn play(
    store: &Address,
    policy: PolicySpec,
    trace: Trace<Input>,
    report: impl Report,
) -> Result<(), Failure> {
    match store {
        Address::Memory => memory::play(&policy, trace, report),
        Address::Redis(url) => remote::play(url, policy, trace, report),
    }
}

/// Ends a replay. What was decided before a complaint is still written.
fn conclude(
    policy: &Policy,
    mut report: impl Report,
    is_empty: bool,
    complaint: Option<Failure>,
) -> Result<(), Failure> {
    match complaint {
        Some(failure) if is_empty => return Err(failure),
        None if is_empty => say("warning: the trace is empty"),
        _ => {}
    }
    report.finish(policy)?;
    complaint.map_or(Ok(()), Err)
}
