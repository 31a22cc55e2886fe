//! The lines of a log, of which none is longer than it may be.

use std::borrow::Cow;
use std::io::{self, BufRead, Read};

use crate::trace::input::Input;

/// The longest line, in bytes. A server writes no longer ones, and whatever else it is must not fill memory.
pub(super) const LONGEST: usize = 1 << 20;
const MARK: &[u8] = "\u{feff}".as_bytes();

pub(super) struct Lines {
    input: Input,
    line: Vec<u8>,
    /// Where the line begins, counted from 1.
    pub(super) number: u64,
    /// How many lines of the file it is: a quoted field may go on in the next.
    height: u64,
    is_kept: bool,
    is_too_long: bool,
}

impl Lines {
    pub(super) fn new(input: Input) -> Lines {
        let line = Vec::with_capacity(1 << 10);
        Lines { input, line, number: 0, height: 1, is_kept: false, is_too_long: false }
    }

    pub(super) fn name(&self) -> &str {
        &self.input.name
    }

    /// Goes to the next line that is not empty; whether there is one.
    pub(super) fn advance(&mut self) -> io::Result<bool> {
        if std::mem::take(&mut self.is_kept) {
            return Ok(true);
        }
        loop {
            self.number += self.height;
            self.height = 1;
            self.line.clear();
            if !self.read()? {
                return Ok(false);
            }
            if self.number == 1 && self.line.starts_with(MARK) {
                self.line.drain(..MARK.len());
            }
            if self.is_too_long || !self.line.trim_ascii().is_empty() {
                return Ok(true);
            }
        }
    }

    /// Makes the next line the same one again.
    pub(super) fn keep(&mut self) {
        self.is_kept = true;
    }

    /// Appends the line that follows; whether there is one.
    pub(super) fn extend(&mut self) -> io::Result<bool> {
        self.height += 1;
        self.read()
    }

    fn read(&mut self) -> io::Result<bool> {
        let room = (LONGEST + 1).saturating_sub(self.line.len()) as u64;
        let read = self.input.bytes.by_ref().take(room).read_until(b'\n', &mut self.line)?;
        self.is_too_long = self.line.len() > LONGEST && self.line.last() != Some(&b'\n');
        if self.is_too_long {
            self.skip_rest()?;
        }
        self.input.progress.line();
        Ok(read > 0)
    }

    fn skip_rest(&mut self) -> io::Result<()> {
        loop {
            self.line.clear();
            let mut some = self.input.bytes.by_ref().take(LONGEST as u64);
            if some.read_until(b'\n', &mut self.line)? == 0 || self.line.last() == Some(&b'\n') {
                self.line.clear();
                return Ok(());
            }
        }
    }

    /// The line without its end. What is no UTF-8 is shown as such, and no reason to stop.
    pub(super) fn text(&self) -> Result<Cow<'_, str>, String> {
        if self.is_too_long {
            return Err(format!("this line is longer than {LONGEST} bytes"));
        }
        let line = self.line.strip_suffix(b"\n").unwrap_or(&self.line);
        Ok(String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(line)))
    }
}
