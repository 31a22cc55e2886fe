//! What events are read from, compressed or not, line by line with a bound on each line.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;
use waterclock_config::cannot_read;

use crate::Error;

/// The longest line, in bytes. A server writes no longer ones, and whatever else it is must not fill memory.
const LONGEST: usize = 1 << 20;
const MARK: &[u8] = "\u{feff}".as_bytes();

/// The lines of an input that are not empty. A line may be extended by the next, and given back.
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
    lines_read: u64,
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
            lines_read: 0,
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
            self.lines_read += 1;
            if self.lines_read.is_multiple_of(LINES_PER_CALL)
                && let Some(observer) = &mut self.input.observer
            {
                observer(self.lines_read);
            }
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

/// How much is read from the system at a time.
const CHUNK: usize = 1 << 17;
/// How every gzip file begins.
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// How many lines are read between two calls of an observer.
const LINES_PER_CALL: u64 = 1 << 14;

/// Bytes to read on any thread, and their name in error messages. Gzip is recognised and decompressed.
pub struct Input {
    name: String,
    bytes: Box<dyn BufRead + Send>,
    observer: Option<Box<dyn FnMut(u64) + Send>>,
}

impl Input {
    /// Opens a file; `-` or nothing is standard input.
    pub fn open(path: Option<&Path>) -> Result<Input, Error> {
        match path {
            Some(path) if path.as_os_str() != "-" => {
                let name = path.display().to_string();
                let file = File::open(path).map_err(|error| cannot_read(&name, &error))?;
                Input::new(name, file)
            }
            _ => Input::new("<stdin>", io::stdin()),
        }
    }

    /// Reads from anything, under a name for error messages.
    pub fn new(
        name: impl Into<String>,
        mut bytes: impl Read + Send + 'static,
    ) -> Result<Input, Error> {
        let name = name.into();
        // A pipe may deliver its bytes one by one.
        let mut first = Vec::with_capacity(GZIP.len());
        let look = bytes.by_ref().take(GZIP.len() as u64).read_to_end(&mut first);
        look.map_err(|error| cannot_read(&name, &error))?;
        let is_gzip = first == GZIP;
        let bytes = BufReader::with_capacity(CHUNK, Cursor::new(first).chain(bytes));
        let bytes: Box<dyn BufRead + Send> = if is_gzip {
            // A file may hold several compressed streams, one after the other.
            Box::new(BufReader::with_capacity(CHUNK, MultiGzDecoder::new(bytes)))
        } else {
            Box::new(bytes)
        };
        Ok(Input { name, bytes, observer: None })
    }

    /// Its name in error messages.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Shows up to so many lines, without those that are empty, until one tells something. All of them are read again.
    pub(super) fn look_ahead<T>(
        mut self,
        most: usize,
        mut judge: impl FnMut(&[u8]) -> Option<T>,
    ) -> Result<(Input, Option<T>), Error> {
        let (mut seen, mut found) = (Vec::new(), None);
        for _ in 0..most {
            let start = seen.len();
            let line = (&mut self.bytes).take(LONGEST as u64).read_until(b'\n', &mut seen);
            if line.map_err(|error| cannot_read(&self.name, &error))? == 0 {
                break;
            }
            let line = &seen[start..];
            let line = if start == 0 { line.strip_prefix(MARK).unwrap_or(line) } else { line };
            found = if line.trim_ascii().is_empty() { None } else { judge(line) };
            if found.is_some() {
                break;
            }
        }
        self.bytes = Box::new(Cursor::new(seen).chain(self.bytes));
        Ok((self, found))
    }

    /// Calls this with the number of lines read so far, every few thousand lines; it is dropped when reading ends.
    #[must_use]
    pub fn observed_by(self, observer: impl FnMut(u64) + Send + 'static) -> Input {
        Input { observer: Some(Box::new(observer)), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Lines {
        let bytes = Box::new(Cursor::new(text.to_owned().into_bytes()));
        Lines::new(Input { name: "x".to_owned(), bytes, observer: None })
    }

    /// The number and the text of the next line.
    fn next(lines: &mut Lines) -> Option<(u64, Result<String, String>)> {
        let is_there = lines.advance().unwrap();
        is_there.then(|| (lines.number, lines.text().map(Cow::into_owned)))
    }

    #[test]
    fn what_is_given_back_comes_again() {
        let mut lines = lines("a\nb\n\nc\r\nd\ne");
        let expected = |number: u64, text: &str| Some((number, Ok(text.to_owned())));
        assert_eq!(next(&mut lines), expected(1, "a"));
        (0..3).for_each(|_| assert!(lines.extend().unwrap()));
        assert_eq!(lines.text().unwrap(), "a\nb\n\nc");
        lines.give_back().unwrap();
        assert_eq!(lines.text().unwrap(), "a");
        assert_eq!(next(&mut lines), expected(2, "b"));
        // Beyond what was given back, and beyond the end.
        (0..4).for_each(|_| assert!(lines.extend().unwrap()));
        assert!(!lines.extend().unwrap());
        lines.give_back().unwrap();
        assert_eq!(next(&mut lines), expected(4, "c"));
        assert!(lines.extend().unwrap());
        assert_eq!(lines.text().unwrap(), "c\r\nd");
        assert_eq!(next(&mut lines), expected(6, "e"));
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
