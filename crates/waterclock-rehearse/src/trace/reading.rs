//! What to read, and as what: flags that several verbs share.

use std::path::Path;

use waterclock::{Cost, MAX_UNITS};
use waterclock_config::PolicyConfig;

use super::input::Input;
use super::log::{self, Kind, Settings, Unit};
use super::own::OwnTrace;
use super::{Source, Trace};
use crate::failure::Failure;

/// How events are read.
#[derive(clap::Args)]
#[command(next_help_heading = "Access logs")]
pub struct Reading {
    /// What the input is: a trace, or an access log of this format; gzip is noticed
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = Format::Trace)]
    input: Format,
    /// Who a line is, such as `client_ip + " " + segments(path, 1)` [default: what the policy's key is made
    /// of, or the address]
    #[arg(long, value_name = "EXPR")]
    key: Option<String>,
    /// What a line costs, rounded up, such as `if method == "POST" then 5 else 1`; for a policy that counts
    /// several units once for each, such as `tokens=bytes / 4` [default: 1]
    #[arg(long, value_name = "EXPR")]
    cost: Vec<String>,
    /// Which lines count, such as `status != 429 and not path ~ "/health"` [default: all]
    #[arg(long = "where", value_name = "EXPR")]
    condition: Option<String>,
    /// Which tier of the policy a line is in, such as `or_else(plan, "free")`
    #[arg(long, value_name = "EXPR")]
    tier: Option<String>,
    /// The field of the time [default: the first of t_us, time, timestamp, ts, @timestamp, date]
    #[arg(long, value_name = "FIELD")]
    time: Option<String>,
    /// What times that are numbers count [default: auto]
    #[arg(long, value_enum, value_name = "UNIT")]
    time_unit: Option<Unit>,
    /// Spread the lines of a second evenly over it, where times are whole seconds
    #[arg(long)]
    spread: bool,
    /// Stop at the first line that cannot be read, instead of counting it
    #[arg(long)]
    strict: bool,
    /// What separates the columns of a CSV file: one character, or tab [default: ,]
    #[arg(long, value_name = "CHAR", value_parser = delimiter)]
    delimiter: Option<u8>,
    /// The first line of a CSV file is no header; its columns are f1, f2 and so on
    #[arg(long)]
    no_header: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// JSON lines of our own: {"t_us": 0, "key": "alice", "cost": 1}
    Trace,
    /// What Apache and nginx write: combined or common, with more fields or without
    Combined,
    /// Any JSON object per line; fields by path, such as user.id
    Jsonl,
    /// Columns that the first line names
    Csv,
}

fn delimiter(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        b"tab" | b"\\t" => Ok(b'\t'),
        [sign] if *sign != b'"' && !sign.is_ascii_alphanumeric() => Ok(*sign),
        _ => Err("a delimiter is one character such as ; or |, or tab".to_owned()),
    }
}

impl Reading {
    /// Opens a trace for policies, each of which makes its own key of a line unless `--key` says one for all.
    /// Costs are as any of those that they are `counted_by` counts. `-` or nothing is standard input, and what begins as gzip does is decompressed. On a terminal, a bar
    /// shows how far it is.
    pub fn open(
        &self,
        path: Option<&Path>,
        specs: &[&PolicyConfig],
        counted_by: &[&PolicyConfig],
    ) -> Result<Trace, Failure> {
        self.begin(path, true, specs, counted_by)
    }

    /// The same without a bar, for those who write on the terminal themselves.
    pub fn open_quietly(
        &self,
        path: Option<&Path>,
        specs: &[&PolicyConfig],
    ) -> Result<Trace, Failure> {
        self.begin(path, false, specs, specs)
    }

    fn begin(
        &self,
        path: Option<&Path>,
        shows_progress: bool,
        specs: &[&PolicyConfig],
        counted_by: &[&PolicyConfig],
    ) -> Result<Trace, Failure> {
        let kind = match self.input {
            Format::Trace => {
                self.refuse_flags_of_logs()?;
                let input = Input::open(path, shows_progress)?;
                let policies = counted_by.iter().map(|spec| spec.built.clone()).collect();
                let source = Source::Own(OwnTrace::new(input, policies));
                return Ok(Trace { source });
            }
            Format::Combined => Kind::Combined,
            Format::Jsonl => Kind::Json,
            Format::Csv => Kind::Csv,
        };
        self.refuse_flags_of_other_logs()?;
        let log =
            log::open(&self.settings(kind, counted_by), Input::open(path, shows_progress)?, specs)?;
        Ok(Trace { source: log.map_or(Source::Nothing, Source::Log) })
    }

    fn settings<'s>(&'s self, kind: Kind, counted_by: &'s [&'s PolicyConfig]) -> Settings<'s> {
        Settings {
            kind,
            key: self.key.as_deref(),
            cost: &self.cost,
            counted_by,
            tier: self.tier.as_deref(),
            condition: self.condition.as_deref(),
            time: self.time.as_deref(),
            time_unit: self.time_unit.unwrap_or(Unit::Auto),
            is_spread: self.spread,
            is_strict: self.strict,
            delimiter: self.delimiter.unwrap_or(b','),
            has_header: !self.no_header,
        }
    }

    /// Whether policies may mean different things by the key of one line: a trace says its keys itself.
    pub fn has_keys_by_policy(&self) -> bool {
        !matches!(self.input, Format::Trace) && self.key.is_none()
    }

    /// What each request of traffic that is not read but made up costs.
    pub fn cost_of_nothing_read(&self) -> Result<Option<Cost>, Failure> {
        if !matches!(self.input, Format::Trace) {
            return Err("--input is about a file to read; name one with --arrivals"
                .to_owned()
                .into());
        }
        self.refuse_other_flags_of_logs()?;
        if self.cost.is_empty() {
            return Ok(None);
        }
        let text = self.cost.join(",");
        let is_sound = |cost: &Cost| (1..=MAX_UNITS).contains(&cost.most());
        text.parse().ok().filter(is_sound).map(Some).ok_or_else(|| {
            format!("--cost of made-up requests must be a whole number from 1; found {text}").into()
        })
    }

    /// A trace says all that itself, and a flag must not be passed over in silence.
    fn refuse_flags_of_logs(&self) -> Result<(), Failure> {
        match self.cost.is_empty() {
            false => Err(is_about_logs("--cost")),
            true => self.refuse_other_flags_of_logs(),
        }
    }

    fn refuse_other_flags_of_logs(&self) -> Result<(), Failure> {
        let given = [
            ("--key", self.key.is_some()),
            ("--where", self.condition.is_some()),
            ("--tier", self.tier.is_some()),
            ("--time", self.time.is_some()),
            ("--time-unit", self.time_unit.is_some()),
            ("--spread", self.spread),
            ("--strict", self.strict),
            ("--delimiter", self.delimiter.is_some()),
            ("--no-header", self.no_header),
        ];
        match given.iter().find(|(_, is_given)| *is_given) {
            Some((flag, _)) => Err(is_about_logs(flag)),
            None => Ok(()),
        }
    }

    /// Only columns have a delimiter and names of their own, and the time in brackets has no unit.
    fn refuse_flags_of_other_logs(&self) -> Result<(), Failure> {
        let is_csv = self.input == Format::Csv;
        let is_in_brackets = self.input == Format::Combined && self.time.is_none();
        let refused = [
            (self.delimiter.is_some() && !is_csv, "--delimiter is about --input csv"),
            (self.no_header && !is_csv, "--no-header is about --input csv"),
            (
                self.time_unit.is_some() && is_in_brackets,
                "--time-unit is about times that are numbers, which the time in brackets is not; name another field with --time",
            ),
        ];
        match refused.iter().find(|(is_given, _)| *is_given) {
            Some((_, sentence)) => Err((*sentence).to_owned().into()),
            None => Ok(()),
        }
    }
}

fn is_about_logs(flag: &str) -> Failure {
    format!("{flag} is about access logs; say which kind with --input combined, jsonl or csv")
        .into()
}
