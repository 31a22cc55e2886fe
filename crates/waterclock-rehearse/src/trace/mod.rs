//! Events in the order of time, from a trace or an access log.

mod event;
mod event_json;
mod lines;
mod log;
mod own;

pub use self::event::{Event, Op};
pub use self::lines::Input;
pub use self::log::TimeUnit;

use std::sync::Arc;

use waterclock_config::PolicyConfig;

use self::log::ReadAhead;
use self::own::OwnTrace;
use crate::Error;

/// How events are read. The default reads Waterclock's own traces; all fields but `format` are about access logs.
///
/// Error messages call the fields by the flags of the command line: `--where` is [`condition`](Self::condition), the
/// others have the names of their fields.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    /// What the input is.
    pub format: Format,
    /// The key of a line, as an expression; none for the fields of the policy's key, or the client's address.
    pub key: Option<String>,
    /// The cost of a line, as an expression, or as `unit=expression` for each unit; empty for a cost of 1.
    pub cost: Vec<String>,
    /// Which lines count, as an expression; none for all.
    pub condition: Option<String>,
    /// The tier of a line, as an expression.
    pub tier: Option<String>,
    /// The field of the time; none for the first of `t_us`, `time`, `timestamp`, `ts`, `@timestamp`, `date`.
    pub time: Option<String>,
    /// The unit of times that are numbers.
    pub time_unit: TimeUnit,
    /// Spread the lines of a second evenly over it, where times are whole seconds.
    pub spread: bool,
    /// Stop at the first line that cannot be read, instead of counting it.
    pub strict: bool,
    /// What separates the columns of a CSV file; none for a comma.
    pub delimiter: Option<u8>,
    /// The first line of a CSV file is data; its columns are `f1`, `f2` and so on.
    pub no_header: bool,
}

/// What an input is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// Waterclock's own traces: `{"t_us": 0, "key": "alice", "cost": 1}` per line.
    #[default]
    Trace,
    /// What Apache and nginx write: combined or common, with more fields or without.
    Combined,
    /// Any JSON object per line; fields by path, such as `user.id`.
    Jsonl,
    /// Columns that the first line names.
    Csv,
}

impl Reading {
    /// Opens an input for policies. Each policy forms its own key of a line, unless [`key`](Self::key) is set.
    /// Costs must make sense to all policies in `counted_by`.
    pub fn open(
        &self,
        input: Input,
        policies: &[&PolicyConfig],
        counted_by: &[&PolicyConfig],
    ) -> Result<Trace, Error> {
        let source = if self.format == Format::Trace {
            let policies = counted_by.iter().map(|policy| Arc::clone(policy.policy())).collect();
            Source::Own(OwnTrace::new(input, policies))
        } else {
            self.open_log(input, policies, counted_by)?.map_or(Source::Empty, Source::Log)
        };
        Ok(Trace { source })
    }

    /// Whether policies may form different keys of one line. A trace names its keys itself.
    #[must_use]
    pub fn has_keys_by_policy(&self) -> bool {
        self.format != Format::Trace && self.key.is_none()
    }
}

/// Events, one after the other.
pub struct Trace {
    source: Source,
}

enum Source {
    Own(OwnTrace),
    Log(ReadAhead),
    Empty,
}

impl Trace {
    /// The next event, or nothing at the end.
    pub fn next_event(&mut self) -> Result<Option<Event<'_>>, Error> {
        match &mut self.source {
            Source::Own(trace) => trace.next_event(),
            Source::Log(log) => log.next_event(),
            Source::Empty => Ok(None),
        }
    }

    /// Notes about the input once all of it is read, such as how many lines were skipped.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        match &self.source {
            Source::Own(_) | Source::Empty => Vec::new(),
            Source::Log(log) => log.notes().to_vec(),
        }
    }
}
