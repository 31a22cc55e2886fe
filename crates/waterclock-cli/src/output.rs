//! What commands write: standard output, files, JSON, errors and warnings.

use std::fmt;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use clap::builder::Styles;
use serde::Serialize;
use waterclock_config::Invalid;
use waterclock_rehearse::Error;
use waterclock_rehearse::terminal::{BAD, GOOD, STRONG, WARN, styled, visible};

/// Details.
pub(crate) const FAINT: Style = Style::new().dimmed();

/// The colours of `--help` and of errors about arguments.
pub(crate) const HELP: Styles = Styles::styled()
    .header(STRONG)
    .usage(STRONG)
    .literal(AnsiColor::Cyan.on_default())
    .placeholder(FAINT)
    .valid(GOOD)
    .invalid(WARN)
    .error(BAD.bold());

/// Why a command ends with exit code 2: lines for standard error.
#[derive(Debug)]
pub(crate) struct Failure {
    lines: Vec<String>,
}

impl Failure {
    /// Prints it; the exit code that goes with it.
    pub(crate) fn report(self) -> ExitCode {
        self.lines.iter().for_each(|line| say(line));
        if self.lines.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(2) }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.lines.join("; "))
    }
}

impl From<String> for Failure {
    fn from(line: String) -> Failure {
        Failure { lines: vec![line] }
    }
}

impl From<&str> for Failure {
    fn from(line: &str) -> Failure {
        Failure { lines: vec![line.to_owned()] }
    }
}

impl From<Invalid> for Failure {
    fn from(invalid: Invalid) -> Failure {
        Failure { lines: invalid.into_lines() }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        match error {
            Error::Output(error) => error.into(),
            error => Failure { lines: error.to_string().lines().map(str::to_owned).collect() },
        }
    }
}

/// A reader that has seen enough (`waterclock replay … | head`) is not a failure.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure { lines: Vec::new() },
            _ => Failure::from(format!("standard output: cannot be written: {error}")),
        }
    }
}

/// Prints a line on standard error. If that is closed, the line is lost. What files and arguments contain must not move
/// the cursor or ring the bell.
pub(crate) fn say(line: &str) {
    let mut stderr = anstream::stderr();
    for line in line.split('\n').map(visible) {
        let _ = match line.split_once("warning: ") {
            Some(("", rest)) => writeln!(stderr, "{} {rest}", styled(WARN, "warning:")),
            _ => writeln!(stderr, "{line}"),
        };
    }
}

/// Prints a warning on standard error.
pub(crate) fn warn(sentence: &str) {
    say(&format!("warning: {sentence}"));
}

/// Where a command writes its text: standard output, unless a page or a picture goes there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextOutput {
    Stdout,
    Stderr,
}

impl TextOutput {
    /// Only one thing can go to standard output. These are the flags that name files, and whether JSON goes there.
    pub(crate) fn beside(
        files: &[(&str, Option<&PathBuf>)],
        is_json: bool,
    ) -> Result<TextOutput, Failure> {
        let is_stdout = |path: Option<&PathBuf>| path.is_some_and(|path| is_stdout(path));
        let flags = files.iter().filter(|(_, path)| is_stdout(*path)).map(|(flag, _)| *flag);
        let wanted: Vec<&str> = flags.chain(is_json.then_some("--json")).collect();
        match &*wanted {
            [] | ["--json"] => Ok(TextOutput::Stdout),
            [_] => Ok(TextOutput::Stderr),
            [one, other, ..] => Err(format!(
                "{one} and {other} cannot both go to standard output; name a file instead of -"
            )
            .into()),
        }
    }

    pub(crate) fn stream(self) -> Box<dyn Write> {
        match self {
            TextOutput::Stdout => Box::new(anstream::stdout().lock()),
            TextOutput::Stderr => Box::new(anstream::stderr().lock()),
        }
    }
}

fn is_stdout(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Writes a whole file; `-` is standard output.
pub(crate) fn write_whole(path: &Path, text: &str) -> Result<(), Failure> {
    if is_stdout(path) {
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())?;
        return Ok(out.flush()?);
    }
    std::fs::write(path, text)
        .map_err(|error| format!("{}: cannot be written: {error}", path.display()).into())
}

/// Writes a line of JSON on standard output, unchanged: escaping text for a terminal would alter it.
pub(crate) fn print_json(value: &impl Serialize) -> io::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    serde_json::to_writer(&mut out, value).map_err(io::Error::from)?;
    writeln!(out)?;
    out.flush()
}

/// The description of a policy or a rule with colours: titles stand out, and bounds are faint.
pub(crate) fn described(text: &str) -> String {
    let line = |line: &str| match line.split_once(':') {
        Some((title, _)) if title.trim() == "bound" => styled(FAINT, line),
        Some((title, rest)) => format!("{}:{rest}", styled(STRONG, title)),
        None => line.to_owned(),
    };
    text.lines().map(|text| line(&visible(text))).collect::<Vec<String>>().join("\n")
}
