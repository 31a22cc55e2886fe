//! Lines that people type, as with telnet. And what browsers send, which is not answered.

use super::parse::{Bounds, Fault, Spans};

/// Splits a line at its spaces; what stands in quotes, single or double, is one argument as it is.
pub(super) fn split(line: &[u8], spans: &mut Spans, bounds: Bounds) -> Result<(), Fault> {
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

/// A page can make a browser send requests here whose bodies hold commands. So a request line, or a
/// header field where it should not be, ends the connection before anything else is read.
fn is_http(line: &[u8]) -> bool {
    let mut words = line.split(|byte| is_space(*byte)).filter(|word| !word.is_empty());
    let Some(first) = words.next() else { return false };
    let last = words.next_back().unwrap_or_default();
    first == b"POST" || first.ends_with(b":") || last.starts_with(b"HTTP/")
}
