//! Events in the order of time, from a trace or an access log.

mod event;
mod event_json;
mod lines;
pub(crate) mod log;
mod own;

pub use self::event::{Event, Op};
pub use self::lines::Input;
pub use self::log::{OldDecisions, TimeUnit};

use waterclock::{Cost, MAX_UNITS};
use waterclock_config::{DurationError, Micros, PolicyConfig};

use self::log::ReadAhead;
use self::own::OwnTrace;
use crate::{Error, Note};

/// How events are read: the flags that `replay`, `simulate` and `diff` share. The default tells the format from the
/// first lines.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Access logs")]
pub struct Reading {
    /// The format of the input: a trace or an access log; gzip is detected [default: told from the first lines]
    #[arg(id = "input", long, value_enum, value_name = "FORMAT")]
    pub format: Option<Format>,
    /// What the first lines told.
    #[arg(skip)]
    recognised: Option<Format>,
    /// The key of a line, such as `client_ip + " " + segments(path, 1)` [default: the fields of the policy's key, or
    /// the address]
    #[arg(long, value_name = "EXPR")]
    pub key: Option<String>,
    /// The cost of a line, rounded up, such as `if method == "POST" then 5 else 1`; for a policy that counts several
    /// units once for each, such as `tokens=bytes / 4` [default: 1]
    #[arg(long, value_name = "EXPR")]
    pub cost: Vec<String>,
    /// Which lines count, such as `status != 429 and not path ~ "/health"` [default: all]
    #[arg(long = "where", value_name = "EXPR")]
    pub condition: Option<String>,
    /// The tier of a line, such as `or_else(plan, "free")`
    #[arg(long, value_name = "EXPR")]
    pub tier: Option<String>,
    /// The field of the time; without one, the first of several usual names that a line has
    #[arg(
        long,
        value_name = "FIELD",
        help = "The field of the time [default: the first of t_us, time, timestamp, ts, @timestamp, date]"
    )]
    pub time: Option<String>,
    /// The unit of times that are numbers [default: auto]
    #[arg(long, value_enum, value_name = "UNIT")]
    pub time_unit: Option<TimeUnit>,
    /// How far lines may be out of order: each waits this long, in the log's own time, for earlier ones; 0 for not at
    /// all [default: 5m]
    #[arg(long, value_name = "TIME", value_parser = reorder)]
    pub reorder: Option<Micros>,
    /// Spread the lines of a second evenly over it, where times are whole seconds
    #[arg(long)]
    pub spread: bool,
    /// Stop at the first line that cannot be read, instead of skipping it
    #[arg(long)]
    pub strict: bool,
    /// What separates the columns of a CSV file: one character, or tab [default: ,]
    #[arg(long, value_name = "CHAR", value_parser = delimiter)]
    pub delimiter: Option<u8>,
    /// The first line of a CSV file is data, not a header; its columns are f1, f2 and so on
    #[arg(long)]
    pub no_header: bool,
    /// Whether paths and user agents are read.
    #[arg(skip)]
    reads_requests: bool,
    /// How a line tells what another limiter decided.
    #[arg(skip)]
    old: Option<OldDecisions>,
}

/// What an input is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
#[non_exhaustive]
pub enum Format {
    /// Waterclock's own JSON lines: {"t_us": 0, "key": "alice", "cost": 1}
    Trace,
    /// Apache's and nginx's combined or common format, optionally with more fields
    Combined,
    /// Any JSON object per line; fields by path, such as user.id
    Jsonl,
    /// Columns that the first line names
    Csv,
}

impl Format {
    /// As `--input` spells it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Format::Trace => "trace",
            Format::Combined => "combined",
            Format::Jsonl => "jsonl",
            Format::Csv => "csv",
        }
    }
}

/// A duration as elsewhere; 0 needs no unit.
fn reorder(text: &str) -> Result<Micros, DurationError> {
    if text == "0" { Ok(Micros(0)) } else { Micros::parse_or_zero(text) }
}

fn delimiter(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        b"tab" | b"\\t" => Ok(b'\t'),
        [sign] if *sign != b'"' && !sign.is_ascii_alphanumeric() => Ok(*sign),
        _ => Err("a delimiter is one character such as ; or |, or tab".to_owned()),
    }
}

impl Reading {
    /// Opens an input for policies. Each policy forms its own key of a line, unless [`key`](Self::key) is set.
    /// Costs and tiers must make sense to the policies in `counted_by`.
    pub fn open(
        &self,
        input: Input,
        policies: &[&PolicyConfig],
        counted_by: &[&PolicyConfig],
    ) -> Result<Trace, Error> {
        let (reading, input) = self.recognise(input)?;
        let format = reading.known().unwrap_or(Format::Trace);
        reading.refuse_flags_without_effect(format, !self.cost.is_empty())?;
        let source = if format == Format::Trace {
            let scopes = counted_by.iter().map(|policy| policy.scope.clone()).collect();
            Source::Own(OwnTrace::new(input, scopes))
        } else {
            let log = reading.open_log(format, input, policies, counted_by)?;
            log.map_or(Source::Empty, Source::Log)
        };
        Ok(Trace { source })
    }

    /// Reads paths and user agents too, which reports about clients show.
    #[must_use]
    pub fn with_requests(mut self) -> Reading {
        self.reads_requests = true;
        self
    }

    /// Reads what another limiter decided too. Only logs have it.
    #[must_use]
    pub fn with_old_decisions(mut self, old: OldDecisions) -> Reading {
        self.old = Some(old);
        self
    }

    /// The format that the first lines told, once they were looked at.
    #[must_use]
    pub fn recognised(&self) -> Option<Format> {
        self.recognised
    }

    /// The format, if it is known already. Some flags are for one format only.
    fn known(&self) -> Option<Format> {
        let is_csv = self.delimiter.is_some() || self.no_header;
        self.format.or(self.recognised).or(is_csv.then_some(Format::Csv))
    }

    /// Whether there are flags that apply to logs and not to traces.
    fn has_flags_of_logs(&self) -> bool {
        !self.cost.is_empty()
            || self.old.is_some()
            || self.flags_of_logs().iter().any(|(_, is_given)| *is_given)
    }

    fn flags_of_logs(&self) -> [(&'static str, bool); 10] {
        [
            ("--key", self.key.is_some()),
            ("--where", self.condition.is_some()),
            ("--tier", self.tier.is_some()),
            ("--time", self.time.is_some()),
            ("--time-unit", self.time_unit.is_some()),
            ("--reorder", self.reorder.is_some()),
            ("--spread", self.spread),
            ("--strict", self.strict),
            ("--delimiter", self.delimiter.is_some()),
            ("--no-header", self.no_header),
        ]
    }

    /// The cost of generated requests, to which the other flags do not apply.
    pub fn cost_of_generated(&self) -> Result<Option<Cost>, Error> {
        if self.format.is_some_and(|format| format != Format::Trace) {
            return Err("--input is for a file; name one with --arrivals".into());
        }
        self.refuse_flags_without_effect(Format::Trace, false)?;
        if self.cost.is_empty() {
            return Ok(None);
        }
        let text = self.cost.join(",");
        let is_valid = |cost: &Cost| (1..=MAX_UNITS).contains(&cost.most());
        text.parse().ok().filter(is_valid).map(Some).ok_or_else(|| {
            format!("--cost of generated requests must be a whole number from 1; found {text}")
                .into()
        })
    }

    fn refuse_flags_without_effect(&self, format: Format, has_cost: bool) -> Result<(), Error> {
        let [of_logs @ .., delimiter, no_header] = self.flags_of_logs();
        let of_csv = [delimiter, no_header];
        let given = |of: &[(&'static str, bool)]| {
            of.iter().find(|(_, is_given)| *is_given).map(|(flag, _)| *flag)
        };
        let sentence = match format {
            Format::Trace if self.old.is_some() => Some(
                "a trace does not say what another limiter decided; name the format of a log with --input jsonl, csv or combined".to_owned(),
            ),
            Format::Trace => has_cost.then_some("--cost").or(given(&of_logs)).or(given(&of_csv)).map(|flag| {
                format!("{flag} is for access logs; name their format with --input combined, jsonl or csv")
            }),
            Format::Combined if self.time_unit.is_some() && self.time.is_none() => Some(
                "--time-unit is for times that are numbers, but the time in brackets is not; name another field with --time".to_owned(),
            ),
            Format::Combined | Format::Jsonl => {
                given(&of_csv).map(|flag| format!("{flag} is for --input csv"))
            }
            Format::Csv => None,
        };
        sentence.map_or(Ok(()), |sentence| Err(sentence.into()))
    }

    /// Whether policies may form different keys of one line. A trace names its keys itself. Ask when the format is known:
    /// [`recognise`](Self::recognise) it first.
    #[must_use]
    pub fn has_keys_by_policy(&self) -> bool {
        self.known().is_some_and(|format| format != Format::Trace) && self.key.is_none()
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
    pub fn notes(&self) -> Vec<Note> {
        match &self.source {
            Source::Own(_) | Source::Empty => Vec::new(),
            Source::Log(log) => log.notes().to_vec(),
        }
    }
}
