//! The lines of a file, of which none is longer than it may be.

use std::borrow::Cow;
use std::io::{self, BufRead, Cursor, Read};

use super::input::Input;

/// The longest line, in bytes. A server writes no longer ones, and whatever else it is must not fill memory.
const LONGEST: usize = 1 << 20;
const MARK: &[u8] = "\u{feff}".as_bytes();

pub(super) struct Lines {
    input: Input,
    /// What comes before the rest of the input: lines that were taken and given back.
    back: Cursor<Vec<u8>>,
    line: Vec<u8>,
    /// How many bytes of it are its first line: a quoted field may go on in the next.
    first: usize,
    /// Where the line begins, counted from 1.
    pub(super) number: u64,
    /// How many lines of the file it is.
    height: u64,
    is_kept: bool,
    /// What is left of such a line is passed over when the next one is wanted.
    is_too_long: bool,
}

impl Lines {
    pub(super) fn new(input: Input) -> Lines {
        Lines {
            input,
            back: Cursor::default(),
            line: Vec::with_capacity(1 << 10),
            first: 0,
            number: 0,
            height: 1,
            is_kept: false,
            is_too_long: false,
        }
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
            while self.is_too_long {
                self.line.clear();
                self.read()?;
            }
            self.number += self.height;
            self.height = 1;
            self.line.clear();
            if !self.read()? {
                return Ok(false);
            }
            self.input.progress.line();
            if self.number == 1 && self.line.starts_with(MARK) {
                self.line.drain(..MARK.len());
            }
            self.first = self.line.len();
            if self.is_too_long || !self.line.trim_ascii().is_empty() {
                return Ok(true);
            }
        }
    }

    /// Makes the next line the same one again.
    pub(super) fn keep(&mut self) {
        self.is_kept = true;
    }

    /// Appends the line that follows; whether there is one, and room for it.
    pub(super) fn extend(&mut self) -> io::Result<bool> {
        self.height += 1;
        let is_more = self.read()?;
        // What is too long together need not be so alone.
        Ok(is_more && !std::mem::take(&mut self.is_too_long))
    }

    /// Gives back all lines that were appended, to be read alone.
    pub(super) fn give_back(&mut self) -> io::Result<()> {
        let mut given = self.line.split_off(self.first);
        self.back.read_to_end(&mut given)?;
        self.back = Cursor::new(given);
        self.height = 1;
        Ok(())
    }

    fn read(&mut self) -> io::Result<bool> {
        let room = (LONGEST + 1).saturating_sub(self.line.len()) as u64;
        let bytes = (&mut self.back).chain(&mut self.input.bytes);
        let read = bytes.take(room).read_until(b'\n', &mut self.line)?;
        self.is_too_long = self.line.len() > LONGEST && self.line.last() != Some(&b'\n');
        Ok(read > 0)
    }

    /// The line without its end.
    pub(super) fn bytes(&self) -> Result<&[u8], String> {
        if self.is_too_long {
            return Err(format!("this line is longer than {LONGEST} bytes"));
        }
        let line = self.line.strip_suffix(b"\n").unwrap_or(&self.line);
        Ok(line.strip_suffix(b"\r").unwrap_or(line))
    }

    /// The same as text. What is no UTF-8 is shown as such, and no reason to stop.
    pub(super) fn text(&self) -> Result<Cow<'_, str>, String> {
        self.bytes().map(String::from_utf8_lossy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::progress::Progress;

    fn lines(text: &str) -> Lines {
        let bytes = Box::new(Cursor::new(text.to_owned().into_bytes()));
        Lines::new(Input { name: "x".to_owned(), bytes, progress: Progress::hidden() })
    }

    /// Where the next line is, and what it says.
    fn next(lines: &mut Lines) -> Option<(u64, Result<String, String>)> {
        let is_there = lines.advance().unwrap();
        is_there.then(|| (lines.number, lines.text().map(Cow::into_owned)))
    }

    #[test]
    fn what_is_given_back_comes_again() {
        let mut lines = lines("a\nb\n\nc\r\nd\ne");
        let said = |number: u64, text: &str| Some((number, Ok(text.to_owned())));
        assert_eq!(next(&mut lines), said(1, "a"));
        (0..3).for_each(|_| assert!(lines.extend().unwrap()));
        assert_eq!(lines.text().unwrap(), "a\nb\n\nc");
        lines.give_back().unwrap();
        assert_eq!(lines.text().unwrap(), "a");
        assert_eq!(next(&mut lines), said(2, "b"));
        // Beyond what was given back, and beyond the end.
        (0..4).for_each(|_| assert!(lines.extend().unwrap()));
        assert!(!lines.extend().unwrap());
        lines.give_back().unwrap();
        assert_eq!(next(&mut lines), said(4, "c"));
        assert!(lines.extend().unwrap());
        assert_eq!(lines.text().unwrap(), "c\r\nd");
        assert_eq!(next(&mut lines), said(6, "e"));
        assert_eq!(next(&mut lines), None);
    }

    #[test]
    fn what_is_too_long_is_passed_over() {
        let (most, more) = ("m".repeat(LONGEST), "m".repeat(LONGEST * 3));
        let mut lines = lines(&format!("{more}\na\n{most}\nb\n{more}"));
        let too_long = || Err(format!("this line is longer than {LONGEST} bytes"));
        assert_eq!(next(&mut lines), Some((1, too_long())));
        assert_eq!(next(&mut lines), Some((2, Ok("a".to_owned()))));
        // Two that are too long together are not so alone.
        assert!(!lines.extend().unwrap());
        lines.give_back().unwrap();
        assert_eq!(next(&mut lines), Some((3, Ok(most))));
        assert!(!lines.extend().unwrap());
        lines.give_back().unwrap();
        assert_eq!(next(&mut lines), Some((4, Ok("b".to_owned()))));
        assert_eq!(next(&mut lines), Some((5, too_long())));
        assert_eq!(next(&mut lines), None);
    }
}
