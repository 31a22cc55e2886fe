//! Text for terminals: colours, and text of others made harmless.
//!
//! Streams of `anstream` leave the colours out of pipes and files, and where `NO_COLOR` asks for it.

use anstyle::{AnsiColor, Style};

/// Allowed, healthy, better.
pub const GOOD: Style = AnsiColor::Green.on_default();
/// Refused, broken, worse.
pub const BAD: Style = AnsiColor::Red.on_default();
/// Warnings and notes.
pub const WARN: Style = AnsiColor::Yellow.on_default();
/// Titles.
pub const STRONG: Style = Style::new().bold();

/// A number with a comma between groups of three digits.
#[must_use]
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Text in a style, and plain after it.
pub fn styled(style: Style, text: impl std::fmt::Display) -> String {
    format!("{style}{text}{style:#}")
}

/// The text with invisible characters escaped: control characters, and those that change the direction of writing or
/// have no width.
#[must_use]
pub fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if is_invisible(character) {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    shown
}

/// Whether a character is not seen where it stands.
pub(crate) fn is_invisible(character: char) -> bool {
    character.is_control()
        || matches!(character,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// [`visible`] text for an error message, cut after 60 characters.
pub(crate) fn shown(text: &str) -> String {
    const LONGEST: usize = 60;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", visible(&text[..end])),
        None => visible(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invisible_characters_are_escaped() {
        assert_eq!(visible("grün 鍵 🔑 \"x\""), "grün 鍵 🔑 \"x\"");
        assert_eq!(visible("a\u{1b}[31m\r\n\u{9b}b"), "a\\u{1b}[31m\\r\\n\\u{9b}b");
        assert_eq!(visible("ab\u{202e}cd\u{200b}"), "ab\\u{202e}cd\\u{200b}");
    }
}
