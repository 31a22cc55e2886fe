//! The Redis protocol, from bytes to commands: arrays of bulk strings, and lines that people type.
//!
//! Nothing is allocated: an argument is a range in the caller's buffer. A command that exceeds the bounds is an error as
//! soon as that is known.

use std::fmt;

/// Arguments of one command, its name included.
pub const MOST_ARGUMENTS: usize = 64;
/// The one command that may have more arguments: several checks at once.
pub const MANY: &str = "rl.checks";
/// How many checks it may have, of three arguments each.
pub const MOST_CHECKS: usize = 1_024;
/// Arguments of that command: its name, the number of checks, the checks and their options.
pub const MANY_ARGUMENTS: usize = 2 + 3 * MOST_CHECKS + 6;
/// Bytes of one argument, or of a line.
pub const LONGEST_ARGUMENT: usize = 64 * 1024;
/// Bytes of one command, lengths and line ends included.
pub const LONGEST_COMMAND: usize = 1024 * 1024;
/// Bytes of a length with its line end: more digits than any length that is accepted.
const LONGEST_LENGTH: usize = 32;

/// How much a client may send.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Arguments of one command, its name included.
    pub arguments: usize,
    /// The same for [`MANY`].
    pub many: usize,
    /// Bytes of one argument.
    pub argument: usize,
}

impl Bounds {
    /// For authenticated clients.
    pub const KNOWN: Bounds =
        Bounds { arguments: MOST_ARGUMENTS, many: MANY_ARGUMENTS, argument: LONGEST_ARGUMENT };
    /// For clients that have not authenticated: enough for that.
    pub const STRANGER: Bounds = Bounds { arguments: 10, many: 10, argument: 16 * 1024 };
}

/// Why bytes are not a command. Nothing after them can be read either.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The number of arguments is invalid or too large.
    Arguments,
    /// The length of an argument is invalid or too large.
    Argument,
    /// This byte stands where an argument should begin.
    NoArgument(u8),
    /// An argument is not followed by a line end.
    NoLineEnd,
    /// A quotation without its end, or without a space after it.
    Quotes,
    /// A line, or a command in all, is too long.
    TooLong,
    /// This is HTTP.
    Http,
}

impl std::error::Error for Fault {}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Arguments => f.write_str("invalid multibulk length"),
            Fault::Argument => f.write_str("invalid bulk length"),
            Fault::NoArgument(byte) => {
                write!(f, "expected '$', got '{}'", char::from(*byte).escape_default())
            }
            Fault::NoLineEnd => f.write_str("expected a line end after an argument"),
            Fault::Quotes => f.write_str("unbalanced quotes in request"),
            Fault::TooLong => f.write_str("too big request"),
            Fault::Http => f.write_str("this port speaks the Redis protocol, not HTTP"),
        }
    }
}

/// Where an argument is, counted from the beginning of its command.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Span {
    from: usize,
    to: usize,
}

/// Places of arguments. Of those beyond the first 64 only the number is kept: they are found again by their lengths.
#[derive(Debug)]
pub(super) struct Spans {
    of: [Span; MOST_ARGUMENTS],
    len: usize,
    beyond: usize,
}

impl Spans {
    fn new() -> Spans {
        Spans { of: [Span::default(); MOST_ARGUMENTS], len: 0, beyond: 0 }
    }

    pub(super) fn push(&mut self, from: usize, to: usize, bounds: Bounds) -> Result<(), Fault> {
        if self.len >= bounds.arguments.min(MOST_ARGUMENTS) {
            return Err(Fault::Arguments);
        }
        if to - from > bounds.argument {
            return Err(Fault::Argument);
        }
        self.of[self.len] = Span { from, to };
        self.len += 1;
        Ok(())
    }
}

/// A command in the caller's buffer.
#[derive(Clone, Copy, Debug)]
pub struct Command<'b, 'p> {
    bytes: &'b [u8],
    spans: &'p Spans,
}

impl<'b> Command<'b, '_> {
    /// How many arguments, the name included. A command without any is not answered.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.spans.len + self.spans.beyond
    }

    /// Whether there is nothing to do.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The argument at this place, among the first 64; the name is at 0.
    #[must_use]
    #[inline]
    pub fn get(&self, at: usize) -> Option<&'b [u8]> {
        let span = self.spans.of[..self.spans.len].get(at)?;
        self.bytes.get(span.from..span.to)
    }

    /// All arguments from this place on.
    pub fn from(&self, at: usize) -> impl Iterator<Item = &'b [u8]> + use<'b, '_> {
        let all = &self.spans.of[..self.spans.len];
        let bytes = self.bytes;
        let beyond =
            Beyond { bytes, at: all.last().map_or(0, |last| last.to + 2), left: self.spans.beyond };
        let spans = all.get(at..).unwrap_or_default();
        let first = spans.iter().filter_map(move |span| bytes.get(span.from..span.to));
        first.chain(beyond.skip(at.saturating_sub(all.len())))
    }
}

/// The arguments after the first 64, which were read once already.
struct Beyond<'b> {
    bytes: &'b [u8],
    at: usize,
    left: usize,
}

impl<'b> Iterator for Beyond<'b> {
    type Item = &'b [u8];

    fn next(&mut self) -> Option<&'b [u8]> {
        self.left = self.left.checked_sub(1)?;
        let (len, from) = length(self.bytes, self.at + 1, Fault::Argument).ok()??;
        let to = from + usize::try_from(len).ok()?;
        self.at = to + 2;
        self.bytes.get(from..to)
    }
}

#[derive(Clone, Copy, Debug)]
enum Form {
    /// Nothing was seen yet.
    Unknown,
    /// An array of so many arguments.
    Array(usize),
    /// A line.
    Line,
}

/// Reads one command after the other, and resumes an incomplete one when more was received.
#[derive(Debug)]
pub struct Parser {
    form: Form,
    /// Up to here the command is understood.
    at: usize,
    spans: Spans,
    /// The last command was complete: the next byte begins another.
    whole: bool,
}

impl Default for Parser {
    fn default() -> Parser {
        Parser { form: Form::Unknown, at: 0, spans: Spans::new(), whole: false }
    }
}

impl Parser {
    /// Reads the command at the beginning of `buffer` and returns its length; `None` if it is incomplete. Then call
    /// again with the same bytes and those received since.
    #[inline]
    pub fn read(&mut self, buffer: &[u8], bounds: Bounds) -> Result<Option<usize>, Fault> {
        if self.whole {
            (self.form, self.at, self.whole) = (Form::Unknown, 0, false);
            (self.spans.len, self.spans.beyond) = (0, 0);
        }
        let length = self.read_on(buffer, bounds)?;
        match length {
            Some(length) if length > LONGEST_COMMAND => return Err(Fault::TooLong),
            None if buffer.len() >= LONGEST_COMMAND => return Err(Fault::TooLong),
            _ => self.whole = length.is_some(),
        }
        Ok(length)
    }

    /// The command that [`Parser::read`] has found in this buffer.
    #[inline]
    pub fn command<'b>(&self, buffer: &'b [u8]) -> Command<'b, '_> {
        Command { bytes: buffer, spans: &self.spans }
    }

    fn read_on(&mut self, buffer: &[u8], bounds: Bounds) -> Result<Option<usize>, Fault> {
        loop {
            match self.form {
                Form::Unknown => match buffer.first() {
                    None => return Ok(None),
                    Some(b'*') => {
                        let Some((wanted, at)) = length(buffer, 1, Fault::Arguments)? else {
                            return Ok(None);
                        };
                        // As with Redis, an empty array is ignored.
                        let wanted = usize::try_from(wanted).unwrap_or(0);
                        if wanted > bounds.many {
                            return Err(Fault::Arguments);
                        }
                        (self.form, self.at) = (Form::Array(wanted), at);
                    }
                    Some(_) => self.form = Form::Line,
                },
                Form::Array(wanted) => return self.read_arguments(buffer, wanted, bounds),
                Form::Line => return self.read_line(buffer, bounds),
            }
        }
    }

    #[inline]
    fn read_arguments(
        &mut self,
        buffer: &[u8],
        wanted: usize,
        bounds: Bounds,
    ) -> Result<Option<usize>, Fault> {
        while self.spans.len + self.spans.beyond < wanted {
            match buffer.get(self.at) {
                None => return Ok(None),
                Some(b'$') => {}
                Some(other) => return Err(Fault::NoArgument(*other)),
            }
            let Some((length, from)) = length(buffer, self.at + 1, Fault::Argument)? else {
                return Ok(None);
            };
            let length = usize::try_from(length).map_err(|_| Fault::Argument)?;
            if length > bounds.argument {
                return Err(Fault::Argument);
            }
            let to = from + length;
            if to + 2 > LONGEST_COMMAND {
                return Err(Fault::TooLong);
            }
            match buffer.get(to..to + 2) {
                None => return Ok(None),
                Some(b"\r\n") => {}
                Some(_) => return Err(Fault::NoLineEnd),
            }
            if wanted <= bounds.arguments {
                self.spans.push(from, to, bounds)?;
            } else {
                self.push_of_many(buffer, from, to, bounds)?;
            }
            self.at = to + 2;
        }
        Ok(Some(self.at))
    }

    /// An argument of a command that has more than others may have.
    fn push_of_many(
        &mut self,
        buffer: &[u8],
        from: usize,
        to: usize,
        bounds: Bounds,
    ) -> Result<(), Fault> {
        let is_name = self.spans.len == 0;
        if is_name && !buffer[from..to].eq_ignore_ascii_case(MANY.as_bytes()) {
            return Err(Fault::Arguments);
        }
        if self.spans.len + self.spans.beyond >= bounds.many {
            return Err(Fault::Arguments);
        }
        if self.spans.len < MOST_ARGUMENTS {
            return self.spans.push(from, to, bounds);
        }
        self.spans.beyond += 1;
        Ok(())
    }

    fn read_line(&mut self, buffer: &[u8], bounds: Bounds) -> Result<Option<usize>, Fault> {
        let longest = bounds.argument + 2;
        let Some(end) = buffer[self.at..].iter().position(|byte| *byte == b'\n') else {
            self.at = buffer.len();
            return if self.at > longest { Err(Fault::TooLong) } else { Ok(None) };
        };
        let end = self.at + end;
        if end >= longest {
            return Err(Fault::TooLong);
        }
        let line = &buffer[..end];
        split_line(line.strip_suffix(b"\r").unwrap_or(line), &mut self.spans, bounds)?;
        Ok(Some(end + 1))
    }
}

/// A number with its line end, and where the next line begins; `None` if there is more to come.
#[inline]
fn length(buffer: &[u8], from: usize, fault: Fault) -> Result<Option<(i64, usize)>, Fault> {
    let mut number: i64 = 0;
    let negative = buffer.get(from) == Some(&b'-');
    let first = from + usize::from(negative);
    let mut at = first;
    loop {
        match buffer.get(at) {
            None => return Ok(None),
            Some(digit @ b'0'..=b'9') if at - from < LONGEST_LENGTH => {
                number = number.saturating_mul(10).saturating_add(i64::from(digit - b'0'));
                at += 1;
            }
            Some(b'\r') if at > first => break,
            Some(_) => return Err(fault),
        }
    }
    match buffer.get(at + 1) {
        None => Ok(None),
        Some(b'\n') => Ok(Some((if negative { -number } else { number }, at + 2))),
        Some(_) => Err(fault),
    }
}

/// Splits a typed line at its spaces. Text in single or double quotes is one argument.
fn split_line(line: &[u8], spans: &mut Spans, bounds: Bounds) -> Result<(), Fault> {
    if is_http(line) {
        return Err(Fault::Http);
    }
    let mut at = 0;
    while let Some(space) = line[at..].iter().position(|byte| !is_space(*byte)) {
        at += space;
        let (from, to, next) = match line[at] {
            quote @ (b'"' | b'\'') => quoted(line, at, quote)?,
            _ => {
                let length = line[at..].iter().position(|byte| is_space(*byte));
                let to = length.map_or(line.len(), |length| at + length);
                (at, to, to)
            }
        };
        spans.push(from, to, bounds)?;
        at = next;
    }
    Ok(())
}

/// Where the quotation begins and ends, and where the line goes on.
fn quoted(line: &[u8], at: usize, quote: u8) -> Result<(usize, usize, usize), Fault> {
    let from = at + 1;
    let length = line[from..].iter().position(|byte| *byte == quote).ok_or(Fault::Quotes)?;
    let to = from + length;
    match line.get(to + 1) {
        Some(after) if !is_space(*after) => Err(Fault::Quotes),
        _ => Ok((from, to, to + 1)),
    }
}

fn is_space(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0
}

/// A page can make a browser send requests here whose bodies contain commands. So a request line or a header field
/// ends the connection before anything else is read.
fn is_http(line: &[u8]) -> bool {
    let mut words = line.split(|byte| is_space(*byte)).filter(|word| !word.is_empty());
    let Some(first) = words.next() else { return false };
    let last = words.next_back().unwrap_or_default();
    first == b"POST" || first.ends_with(b":") || last.starts_with(b"HTTP/")
}
