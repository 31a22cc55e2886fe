//! Text of others, made harmless for a terminal.

/// The text with everything that is no plain character spelled out: control characters, and those that
/// turn the direction of writing or take no room.
pub fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() || is_hidden(character) {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    shown
}

fn is_hidden(character: char) -> bool {
    matches!(character,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_seen_stays() {
        assert_eq!(visible("grün 鍵 🔑 \"x\""), "grün 鍵 🔑 \"x\"");
        assert_eq!(visible("a\u{1b}[31m\r\n\u{9b}b"), "a\\u{1b}[31m\\r\\n\\u{9b}b");
        assert_eq!(visible("ab\u{202e}cd\u{200b}"), "ab\\u{202e}cd\\u{200b}");
    }
}
