//! `override import`: many overrides from a file.

use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use http::{Method, StatusCode};
use indicatif::{ProgressBar, ProgressDrawTarget};
use serde::Deserialize;
use waterclock_config::cannot_read;
use waterclock_rehearse::terminal::{grouped, visible};

use super::{On, ask, policy_path};
use crate::output::{Failure, say};
use crate::server::Server;

/// Lines that are sent at once, and their bytes: less than a server takes.
const MAX_LINES: usize = 1_000;
const MAX_BYTES: usize = 256 * 1_024;

/// Set and clear many overrides of a policy: exit code 0 all lines were fine, 1 some failed, 2 error.
///
/// Each line of the file is an object, as waterclock override list --json prints them:
/// {"key": "alice", "limits": ["100/s"], "expires_in": "2d"}, or {"key": "alice", "clear": true}.
/// Lines that fail are reported with their numbers, and the others are set all the same. Importing a file again is safe.
#[derive(clap::Args)]
pub(super) struct Import {
    /// The policy
    policy: String,
    /// The file; - is standard input
    file: PathBuf,
    #[command(flatten)]
    on: On,
}

/// What became of some lines.
#[derive(Deserialize)]
pub(super) struct Loaded {
    set: u64,
    pub(super) cleared: u64,
    pub(super) errors: Vec<LineError>,
}

#[derive(Deserialize)]
pub(super) struct LineError {
    line: usize,
    pub(super) detail: String,
}

/// Sends lines to a server.
pub(super) fn send(server: &Server, policy: &str, lines: String) -> Result<Loaded, Failure> {
    let path = format!("{}/overrides", policy_path(policy));
    let statuses = [StatusCode::OK, StatusCode::UNPROCESSABLE_ENTITY];
    let response = ask(server, Method::POST, &path, lines, &statuses)?;
    serde_json::from_slice(&response.body)
        .map_err(|error| format!("the server's answer cannot be read: {error}").into())
}

#[derive(Default)]
struct Totals {
    set: u64,
    cleared: u64,
    failed: u64,
}

impl Import {
    pub(super) fn run(&self) -> Result<ExitCode, Failure> {
        let server = self.on.server()?;
        let name = self.file.display().to_string();
        let mut file = open(&self.file).map_err(|error| cannot_read(&name, &error))?;
        let bar = progress_bar();
        let (mut totals, mut sent) = (Totals::default(), 0);
        let mut part = Part::default();
        loop {
            let is_end = part.fill(&mut *file).map_err(|error| cannot_read(&name, &error))?;
            let lines = std::mem::take(&mut part.lines);
            if !lines.is_empty() {
                let loaded = send(&server, &self.policy, lines).inspect_err(|_| {
                    // What was sent before is set; sending it again changes nothing.
                    totals.say(&bar);
                    say(&format!("{name}: stopped after line {sent}"));
                })?;
                totals.set += loaded.set;
                totals.cleared += loaded.cleared;
                part.errors.extend(loaded.errors.into_iter().map(|error| {
                    let at = error.line.checked_sub(1).and_then(|at| part.numbers.get(at));
                    (at.copied().unwrap_or(0), error.detail)
                }));
            }
            part.errors.sort();
            totals.failed += part.errors.len() as u64;
            for (line, detail) in std::mem::take(&mut part.errors) {
                bar.suspend(|| say(&format!("{name}:{line}: {}", visible(&detail))));
            }
            sent = part.read;
            bar.set_message(format!("{} lines", grouped(sent as u64)));
            bar.tick();
            if is_end {
                break;
            }
        }
        totals.say(&bar);
        Ok(if totals.failed > 0 { ExitCode::from(1) } else { ExitCode::SUCCESS })
    }
}

impl Totals {
    fn say(&self, bar: &ProgressBar) {
        bar.finish_and_clear();
        let [set, cleared, failed] = [self.set, self.cleared, self.failed].map(grouped);
        // If standard output is closed, the exit code still tells.
        _ = writeln!(io::stdout(), "{set} set, {cleared} cleared, {failed} failed");
    }
}

/// Some lines of the file.
#[derive(Default)]
struct Part {
    /// Lines read so far, those of earlier parts included.
    read: usize,
    lines: String,
    /// The number of each of these lines in the file.
    numbers: Vec<usize>,
    errors: Vec<(usize, String)>,
    /// A line that did not fit into the part before.
    next: Option<String>,
}

impl Part {
    /// Reads the next lines; whether these are the last.
    fn fill(&mut self, file: &mut dyn BufRead) -> io::Result<bool> {
        self.numbers.clear();
        while self.numbers.len() < MAX_LINES {
            let line = match self.next.take() {
                Some(line) => line,
                None => match self.read_line(file)? {
                    Some(line) => line,
                    None => return Ok(true),
                },
            };
            if line.trim().is_empty() {
                continue;
            }
            if !self.lines.is_empty() && self.lines.len() + line.len() > MAX_BYTES {
                self.next = Some(line);
                break;
            }
            self.numbers.push(self.read);
            self.lines.push_str(line.trim_end());
            self.lines.push('\n');
        }
        Ok(false)
    }

    /// The next line, empty if it cannot be sent; none at the end.
    fn read_line(&mut self, file: &mut dyn BufRead) -> io::Result<Option<String>> {
        let mut bytes = Vec::new();
        file.take(MAX_BYTES as u64).read_until(b'\n', &mut bytes)?;
        if bytes.is_empty() {
            return Ok(None);
        }
        self.read += 1;
        if bytes.len() == MAX_BYTES && bytes.last() != Some(&b'\n') {
            file.skip_until(b'\n')?;
            self.errors.push((self.read, format!("the line is longer than {MAX_BYTES} bytes")));
            return Ok(Some(String::new()));
        }
        Ok(Some(String::from_utf8(bytes).unwrap_or_else(|_| {
            self.errors.push((self.read, "the line is not UTF-8".to_owned()));
            String::new()
        })))
    }
}

fn open(path: &Path) -> io::Result<Box<dyn BufRead>> {
    match path.as_os_str() == "-" {
        true => Ok(Box::new(io::stdin().lock())),
        false => Ok(Box::new(BufReader::new(File::open(path)?))),
    }
}

/// Seen on terminals only.
fn progress_bar() -> ProgressBar {
    match io::stderr().is_terminal() {
        true => ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(10)),
        false => ProgressBar::hidden(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_bounded_and_keep_line_numbers() {
        let mut text = "\n{\"key\":1}\r\n".to_owned();
        text += &"x".repeat(MAX_BYTES + 5);
        text += "\n";
        for _ in 0..MAX_LINES + 10 {
            text += "short\n";
        }
        text += &("y".repeat(MAX_BYTES - 10) + "\n");
        text += &("z".repeat(MAX_BYTES - 10) + "\nlast");
        let (mut part, mut file) = (Part::default(), text.as_bytes());
        let (mut numbers, mut errors, mut rounds) = (Vec::new(), Vec::new(), 0);
        loop {
            let is_end = part.fill(&mut file).unwrap();
            let lines = std::mem::take(&mut part.lines);
            assert!(lines.len() <= MAX_BYTES && lines.lines().count() == part.numbers.len());
            numbers.extend_from_slice(&part.numbers);
            errors.append(&mut part.errors);
            rounds += 1;
            assert!(rounds < 10);
            if is_end {
                break;
            }
        }
        let count = MAX_LINES + 16;
        assert_eq!((numbers[0], numbers[1], numbers.last()), (2, 4, Some(&count)));
        assert_eq!(numbers.len(), count - 2);
        assert_eq!(errors.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [3]);
    }
}
