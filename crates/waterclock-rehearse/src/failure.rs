//! Why a command ends with exit code 2: sentences for standard error.

use std::io::{self, Write};
use std::process::ExitCode;

use waterclock_config::Invalid;

use crate::style::{WARN, styled};

/// What goes to standard error, one line each.
#[derive(Debug)]
pub struct Failure {
    lines: Vec<String>,
}

impl Failure {
    /// Both, in this order.
    pub fn and(mut self, other: Failure) -> Failure {
        self.lines.extend(other.lines);
        self
    }

    /// Says it; the exit code that goes with it.
    pub fn report(self) -> ExitCode {
        for line in &self.lines {
            say(line);
        }
        if self.lines.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(2) }
    }
}

impl From<String> for Failure {
    fn from(line: String) -> Failure {
        Failure { lines: vec![line] }
    }
}

impl From<Invalid> for Failure {
    fn from(invalid: Invalid) -> Failure {
        Failure { lines: invalid.into_lines() }
    }
}

/// A reader that has seen enough (`waterclock replay … | head`) is no failure worth a word.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure { lines: Vec::new() },
            _ => Failure::from(format!("standard output: cannot be written: {error}")),
        }
    }
}

/// A line on standard error. If that is closed, there is nobody to tell.
pub fn say(line: &str) {
    let mut stderr = anstream::stderr();
    let _ = match line.split_once("warning: ") {
        Some(("", rest)) => writeln!(stderr, "{} {rest}", styled(WARN, "warning:")),
        _ => writeln!(stderr, "{line}"),
    };
}
