//! How far the reading of a file is, for people who watch.

use std::io::{self, IsTerminal, Read};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// How many lines are read between two looks at how many there were.
const PACE: u64 = 1 << 14;
const TEMPLATE: &str = "{bar:30} {percent:>3}% of {total_bytes}  {eta} left  {msg}";

/// A bar on standard error if that is a terminal, and nothing elsewhere. It is gone when this is.
pub(super) struct Progress {
    bar: ProgressBar,
    lines: u64,
}

impl Progress {
    pub(super) fn hidden() -> Progress {
        Progress { bar: ProgressBar::hidden(), lines: 0 }
    }

    /// Through so many bytes.
    pub(super) fn through(length: u64) -> Progress {
        if !io::stderr().is_terminal() {
            return Progress::hidden();
        }
        let bar =
            ProgressBar::with_draw_target(Some(length), ProgressDrawTarget::stderr_with_hz(10));
        match ProgressStyle::with_template(TEMPLATE) {
            Ok(style) => bar.with_style(style).into(),
            Err(_) => bar.into(),
        }
    }

    /// The same bytes, counted as they are read.
    pub(super) fn watch(&self, bytes: impl Read + Send + 'static) -> impl Read + Send + 'static {
        self.bar.wrap_read(bytes)
    }

    /// Takes note of a line.
    pub(super) fn line(&mut self) {
        self.lines += 1;
        if self.lines.is_multiple_of(PACE) && !self.bar.is_hidden() {
            let seconds = self.bar.elapsed().as_secs_f64().max(0.001);
            self.bar.set_message(format!("{:.0} lines/s", self.lines as f64 / seconds));
        }
    }
}

impl From<ProgressBar> for Progress {
    fn from(bar: ProgressBar) -> Progress {
        Progress { bar, lines: 0 }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
