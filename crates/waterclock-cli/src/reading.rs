//! Flags that say what to read and how, which several verbs share.

use std::fs::File;
use std::io::{self, IsTerminal};
use std::path::Path;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use waterclock::{Cost, MAX_UNITS};
use waterclock_config::cannot_read;
use waterclock_rehearse::trace::{Format, Input, Reading, TimeUnit};

use crate::output::Failure;

/// How events are read.
#[derive(clap::Args)]
#[command(next_help_heading = "Access logs")]
pub(crate) struct ReadingFlags {
    /// The format of the input: a trace or an access log; gzip is detected
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = InputFormat::Trace)]
    input: InputFormat,
    /// The key of a line, such as `client_ip + " " + segments(path, 1)` [default: the fields of the policy's key, or
    /// the address]
    #[arg(long, value_name = "EXPR")]
    key: Option<String>,
    /// The cost of a line, rounded up, such as `if method == "POST" then 5 else 1`; for a policy that counts several
    /// units once for each, such as `tokens=bytes / 4` [default: 1]
    #[arg(long, value_name = "EXPR")]
    cost: Vec<String>,
    /// Which lines count, such as `status != 429 and not path ~ "/health"` [default: all]
    #[arg(long = "where", value_name = "EXPR")]
    condition: Option<String>,
    /// The tier of a line, such as `or_else(plan, "free")`
    #[arg(long, value_name = "EXPR")]
    tier: Option<String>,
    /// The field of the time [default: the first of t_us, time, timestamp, ts, @timestamp, date]
    #[arg(long, value_name = "FIELD")]
    time: Option<String>,
    /// The unit of times that are numbers [default: auto]
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
    /// The first line of a CSV file is data, not a header; its columns are f1, f2 and so on
    #[arg(long)]
    no_header: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum InputFormat {
    /// Waterclock's own JSON lines: {"t_us": 0, "key": "alice", "cost": 1}
    Trace,
    /// Apache's and nginx's combined or common format, optionally with more fields
    Combined,
    /// Any JSON object per line; fields by path, such as user.id
    Jsonl,
    /// Columns that the first line names
    Csv,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Unit {
    /// By the end of the field's name (_s, _ms, _us, _ns), or else by size: below 10^11 seconds, below 10^14
    /// milliseconds, below 10^17 microseconds, else nanoseconds
    Auto,
    S,
    Ms,
    Us,
    Ns,
}

fn delimiter(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        b"tab" | b"\\t" => Ok(b'\t'),
        [sign] if *sign != b'"' && !sign.is_ascii_alphanumeric() => Ok(*sign),
        _ => Err("a delimiter is one character such as ; or |, or tab".to_owned()),
    }
}

impl ReadingFlags {
    /// The options of the library. A flag that has no effect is an error.
    pub(crate) fn reading(&self) -> Result<Reading, Failure> {
        if self.input == InputFormat::Trace {
            self.refuse_flags_of_logs(!self.cost.is_empty())?;
        } else {
            self.refuse_flags_of_other_logs()?;
        }
        Ok(Reading {
            format: match self.input {
                InputFormat::Trace => Format::Trace,
                InputFormat::Combined => Format::Combined,
                InputFormat::Jsonl => Format::Jsonl,
                InputFormat::Csv => Format::Csv,
            },
            key: self.key.clone(),
            cost: self.cost.clone(),
            condition: self.condition.clone(),
            tier: self.tier.clone(),
            time: self.time.clone(),
            time_unit: match self.time_unit {
                None | Some(Unit::Auto) => TimeUnit::Auto,
                Some(Unit::S) => TimeUnit::S,
                Some(Unit::Ms) => TimeUnit::Ms,
                Some(Unit::Us) => TimeUnit::Us,
                Some(Unit::Ns) => TimeUnit::Ns,
            },
            spread: self.spread,
            strict: self.strict,
            delimiter: self.delimiter,
            no_header: self.no_header,
        })
    }

    /// The cost of generated requests.
    pub(crate) fn cost_of_made_up(&self) -> Result<Option<Cost>, Failure> {
        if self.input != InputFormat::Trace {
            return Err("--input is for a file; name one with --arrivals".into());
        }
        self.refuse_flags_of_logs(false)?;
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

    fn refuse_flags_of_logs(&self, has_cost: bool) -> Result<(), Failure> {
        let given = [
            ("--cost", has_cost),
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
            Some((flag, _)) => Err(format!(
                "{flag} is for access logs; name their format with --input combined, jsonl or csv"
            )
            .into()),
            None => Ok(()),
        }
    }

    /// Only CSV has a delimiter and a header, and the time in brackets has no unit.
    fn refuse_flags_of_other_logs(&self) -> Result<(), Failure> {
        let is_csv = self.input == InputFormat::Csv;
        let is_in_brackets = self.input == InputFormat::Combined && self.time.is_none();
        let refused = [
            (self.delimiter.is_some() && !is_csv, "--delimiter is for --input csv"),
            (self.no_header && !is_csv, "--no-header is for --input csv"),
            (
                self.time_unit.is_some() && is_in_brackets,
                "--time-unit is for times that are numbers, but the time in brackets is not; name another field with --time",
            ),
        ];
        match refused.iter().find(|(is_given, _)| *is_given) {
            Some((_, sentence)) => Err((*sentence).into()),
            None => Ok(()),
        }
    }
}

/// Opens a file, with a progress bar if standard error is a terminal; `-` or nothing is standard input.
pub(crate) fn open_with_progress(path: Option<&Path>) -> Result<Input, Failure> {
    const TEMPLATE: &str = "{bar:30} {percent:>3}% of {total_bytes}  {eta} left  {msg}";
    let Some(path) = path.filter(|path| path.as_os_str() != "-" && io::stderr().is_terminal())
    else {
        return Ok(Input::open(path)?);
    };
    let name = path.display().to_string();
    let file = File::open(path).map_err(|error| cannot_read(&name, &error))?;
    // Only regular files know their length.
    let Some(length) =
        file.metadata().ok().filter(std::fs::Metadata::is_file).map(|about| about.len())
    else {
        return Ok(Input::new(name, file)?);
    };
    let bar = ProgressBar::with_draw_target(Some(length), ProgressDrawTarget::stderr_with_hz(10));
    let bar = match ProgressStyle::with_template(TEMPLATE) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    };
    let input = Input::new(name, bar.wrap_read(file))?;
    let bar = ClearedBar(bar);
    Ok(input.observed_by(move |lines| {
        let seconds = bar.0.elapsed().max(Duration::from_millis(1)).as_secs_f64();
        bar.0.set_message(format!("{:.0} lines/s", lines as f64 / seconds));
    }))
}

/// A progress bar that disappears when reading ends.
struct ClearedBar(ProgressBar);

impl Drop for ClearedBar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
