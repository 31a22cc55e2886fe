//! Just enough of replies to count them and to see what they say.

use memchr::memchr;

use crate::Error;

/// How one tells that something passed.
#[derive(Clone, Copy, Debug)]
pub enum Admits {
    /// An array that starts with this number.
    FirstIs(u8),
    /// Anything but nil.
    Something,
}

/// The reply at the start of some bytes: how many bytes it takes, and whether it lets pass what was
/// asked about. `None` while something is missing.
pub fn read(bytes: &[u8], admits: Admits) -> Result<Option<(usize, bool)>, Error> {
    let Some(mut at) = line_end(bytes, 0) else { return Ok(None) };
    let number = || digits(&bytes[1..at]);
    match bytes[0] {
        b'*' => {
            let first = at;
            for _ in 0..number() {
                match line_end(bytes, at) {
                    Some(next) => at = next,
                    None => return Ok(None),
                }
            }
            let Admits::FirstIs(passes) = admits else { return Err("an array".into()) };
            Ok(Some((at, bytes[first..at].starts_with(&[b':', passes, b'\r']))))
        }
        b'$' if bytes[1] == b'-' => Ok(Some((at, false))),
        b'$' => {
            let end = at + number() + 2;
            Ok((bytes.len() >= end).then_some((end, true)))
        }
        b'+' => Ok(Some((at, true))),
        _ => Err(String::from_utf8_lossy(&bytes[..at]).trim().into()),
    }
}

/// Where the next line starts.
fn line_end(bytes: &[u8], from: usize) -> Option<usize> {
    Some(from + memchr(b'\n', bytes.get(from..)?)? + 1)
}

fn digits(line: &[u8]) -> usize {
    let digits = line.iter().take_while(|byte| byte.is_ascii_digit());
    digits.fold(0, |number, digit| number * 10 + usize::from(digit - b'0'))
}
