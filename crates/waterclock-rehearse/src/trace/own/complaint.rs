//! What is wrong with a line of a trace, in our own words.

use crate::trace::event::WHOLE;
use crate::trace::shown::shown;

/// The parser's complaint about a line, told anew.
pub(super) fn complaint(line: &[u8], error: &serde_json::Error) -> String {
    let words = error.to_string();
    // Its own idea of the place is always line 1.
    let words = words.rsplit_once(" at line ").map_or(words.as_str(), |(words, _)| words);
    let written = Written::around(line, error.column());
    if error.is_data() {
        let value = words.strip_prefix("invalid type: ").or(words.strip_prefix("invalid value: "));
        return match value.and_then(|value| value.rsplit_once(", expected ")) {
            Some((value, must)) => format!("{must}; found {}", shown(&found(value, &written))),
            None => words.to_owned(),
        };
    }
    if words == "trailing characters" {
        return "one event per line; nothing may follow it".to_owned();
    }
    // Numbers that JSON cannot write, such as NaN.
    match WHOLE.iter().find(|name| written.spoils(name)) {
        Some(name) => format!("{}; found {}", must_be_whole(name), shown(&written.word)),
        None => r#"this line is not JSON; write an event such as {"t_us": 0, "key": "alice"}"#
            .to_owned(),
    }
}

pub(super) fn must_be_whole(name: &str) -> String {
    format!("`{name}` must be a whole number from 0")
}

/// The parser's name for a value, as the value stands in the line.
fn found(value: &str, written: &Written) -> String {
    match value {
        "sequence" => "an array".to_owned(),
        "map" => "an object".to_owned(),
        // Floats have lost digits.
        _ if value.starts_with("floating point ") => written.word.clone(),
        _ => match value.strip_prefix("string ") {
            Some(string) => string.to_owned(),
            None => value.split('`').nth(1).unwrap_or(value).to_owned(),
        },
    }
}

/// A number or a word outside quotes, and what stands before it.
struct Written {
    before: String,
    word: String,
}

impl Written {
    /// Around a column that is counted from 1.
    fn around(line: &[u8], column: usize) -> Written {
        let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-._".contains(byte);
        let (head, tail) = line.split_at(column.min(line.len()));
        let back = head.iter().rev().take_while(|byte| is_part(byte)).count();
        let on = tail.iter().take_while(|byte| is_part(byte)).count();
        let (before, start) = head.split_at(head.len() - back);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Written { before: text(before), word: text(start) + &text(&tail[..on]) }
    }

    /// Whether it stands where the whole number of that name should, and is none.
    fn spoils(&self, name: &str) -> bool {
        let before = self.before.trim_end().strip_suffix(':').map(str::trim_end);
        let is_whole = self.word.parse::<u64>().is_ok();
        !self.word.is_empty()
            && !is_whole
            && before.is_some_and(|key| key.ends_with(&format!("\"{name}\"")))
    }
}
