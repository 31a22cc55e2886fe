//! `tollgate replay`: a trace through a policy, in the trace's own time.

mod complaint;
mod event;
mod report;
mod trace;
mod value;

use std::io::{self, BufRead, BufReader};
use std::path::PathBuf;
use std::process::ExitCode;

use tollgate::{Decision, KeyedLimiter, ManualClock, Policy, Timestamp};

use self::event::{Event, Op};
use self::report::{Jsonl, Report, Summary};
use self::trace::Trace;
use crate::config::Config;
use crate::failure::{Failure, cannot_read, say};

/// Run a trace through a policy in virtual time.
///
/// Reads one JSON object per line, times not decreasing:
/// {"t_us": 1500000, "key": "alice", "cost": 1, "op": "check"}
/// where key is "" by default, cost 1, and op one of check, peek, refund and reset.
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
    /// Where state lives while the trace runs; only memory: for now
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
        if self.store != "memory:" {
            return Err(format!("store {:?} is not available yet; use memory:", self.store).into());
        }
        let config = Config::load(self.config.as_deref())?;
        let policy = config.choose(self.policy.as_deref())?.runnable()?;
        let (name, input) = self.open()?;
        let stage = Stage::new(policy.built);
        let stdout = io::stdout().lock();
        match self.format {
            Format::Jsonl => stage.play(Trace::new(name, input), Jsonl::new(stdout))?,
            Format::Summary => stage.play(Trace::new(name, input), Summary::new(stdout))?,
        }
        Ok(ExitCode::SUCCESS)
    }

    /// The trace and what complaints call it.
    fn open(&self) -> Result<(String, Box<dyn BufRead>), Failure> {
        match &self.trace {
            Some(path) if path.as_os_str() != "-" => {
                let name = path.display().to_string();
                let file = std::fs::File::open(path).map_err(|error| cannot_read(&name, &error))?;
                Ok((name, Box::new(BufReader::with_capacity(1 << 16, file))))
            }
            _ => Ok(("<stdin>".to_owned(), Box::new(io::stdin().lock()))),
        }
    }
}

/// A limiter whose clock the trace turns.
struct Stage {
    policy: Policy,
    limiter: KeyedLimiter<str, ManualClock>,
    clock: ManualClock,
}

impl Stage {
    fn new(policy: Policy) -> Stage {
        let clock = ManualClock::default();
        // A bound on keys would make decisions depend on it.
        let limiter =
            KeyedLimiter::builder(policy.clone()).max_keys(usize::MAX).clock(clock.clone()).build();
        Stage { policy, limiter, clock }
    }

    /// What was decided before a complaint is still written.
    fn play(&self, mut trace: Trace<impl BufRead>, mut report: impl Report) -> Result<(), Failure> {
        let mut is_empty = true;
        let complaint = loop {
            match trace.next_event() {
                Ok(Some(event)) => {
                    is_empty = false;
                    report.add(&self.policy, &event, &self.decide(&event))?;
                }
                Ok(None) => break None,
                Err(failure) => break Some(failure),
            }
        };
        match complaint {
            Some(failure) if is_empty => return Err(failure),
            None if is_empty => say("warning: the trace is empty"),
            _ => {}
        }
        report.finish(&self.policy)?;
        complaint.map_or(Ok(()), Err)
    }

    fn decide(&self, event: &Event<'_>) -> Decision {
        let (key, cost) = (event.key.as_ref(), event.cost);
        self.clock.set(Timestamp::from_micros(event.t_us));
        match event.op {
            Op::Check => return self.limiter.check_n(key, cost),
            Op::Peek => {}
            Op::Refund => self.limiter.refund(key, cost),
            Op::Reset => self.limiter.reset(key),
        }
        self.limiter.peek_n(key, cost)
    }
}
