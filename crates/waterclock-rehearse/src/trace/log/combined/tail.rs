//! What follows the number of bytes.

use super::quoted::quoted_end;

/// Words and quoted texts; whether each was quoted.
pub(super) struct Tail<'l> {
    pub(super) rest: &'l str,
}

impl<'l> Iterator for Tail<'l> {
    type Item = (&'l str, bool);

    fn next(&mut self) -> Option<(&'l str, bool)> {
        let rest = self.rest.trim_ascii_start();
        let (text, is_quoted, after) = match rest.strip_prefix('"') {
            Some(inside) => {
                let end = quoted_end(inside).unwrap_or(inside.len());
                (&inside[..end], true, inside.get(end + 1..).unwrap_or(""))
            }
            None if rest.is_empty() => return None,
            None => {
                let (word, after) = rest.split_once(' ').unwrap_or((rest, ""));
                (word, false, after)
            }
        };
        self.rest = after;
        Some((text, is_quoted))
    }
}
