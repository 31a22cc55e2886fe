//! The words and signs of an expression.

use super::part::Complaint;
use super::ratio::Ratio;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token<'t> {
    Name(&'t str),
    Text(String),
    Number(Ratio),
    Sign(&'static str),
    End,
}

/// Longer signs stand before those they begin with.
const SIGNS: [&str; 14] =
    ["==", "!=", "<=", ">=", "<", ">", "~", "+", "-", "*", "/", "(", ")", ","];
/// What people who know other languages write.
const FOREIGN: [(&str, &str); 5] =
    [("&&", "and"), ("||", "or"), ("!", "not"), ("=", "=="), ("?", "if … then … else …")];

/// The tokens with their places in bytes; the last one is the end.
pub(super) fn tokens(text: &str) -> Result<Vec<(usize, Token<'_>)>, Complaint> {
    let mut found = Vec::new();
    let mut at = 0;
    loop {
        at += text[at..].len() - text[at..].trim_start().len();
        let rest = &text[at..];
        let (length, token) = match rest.chars().next() {
            None => {
                found.push((at, Token::End));
                return Ok(found);
            }
            Some(quote @ ('"' | '\'')) => text_token(at, rest, quote)?,
            Some(first) if first.is_ascii_digit() => number_token(at, rest)?,
            Some(first) if starts_name(first) => {
                let length = name_length(rest);
                (length, Token::Name(&rest[..length]))
            }
            Some(first) => match SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
                Some(sign) => (sign.len(), Token::Sign(sign)),
                None => return Err(Complaint::new(at, unknown(rest, first))),
            },
        };
        found.push((at, token));
        at += length;
    }
}

fn unknown(rest: &str, first: char) -> String {
    match FOREIGN.iter().find(|(sign, _)| rest.starts_with(sign)) {
        Some((sign, ours)) => format!("`{sign}` is not a sign here; write `{ours}`"),
        None => format!("`{}` is not a sign here", first.escape_debug()),
    }
}

fn starts_name(letter: char) -> bool {
    letter.is_alphabetic() || letter == '_' || letter == '@'
}

fn goes_on_name(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_' || letter == '@'
}

/// A name, with points where more of it follows: `user.id`, `headers.0`.
fn name_length(rest: &str) -> usize {
    let mut letters = rest.char_indices().peekable();
    while let Some((at, letter)) = letters.next() {
        let mut more = || letters.peek().is_some_and(|(_, next)| goes_on_name(*next));
        if !(goes_on_name(letter) || letter == '.' && more()) {
            return at;
        }
    }
    rest.len()
}

fn number_token(at: usize, rest: &str) -> Result<(usize, Token<'_>), Complaint> {
    let end = rest.find(|letter: char| !(goes_on_name(letter) || letter == '.'));
    let written = &rest[..end.unwrap_or(rest.len())];
    match Ratio::parse(written) {
        Some(number) => Ok((written.len(), Token::Number(number))),
        None => {
            Err(Complaint::new(at, format!("`{written}` is not a number such as 1500 or 0.25")))
        }
    }
}

fn text_token(at: usize, rest: &str, quote: char) -> Result<(usize, Token<'_>), Complaint> {
    let mut text = String::new();
    let mut letters = rest.char_indices().skip(1);
    while let Some((end, letter)) = letters.next() {
        match letter {
            '\\' => match letters.next() {
                Some((_, escaped @ ('"' | '\'' | '\\'))) => text.push(escaped),
                Some((_, 't')) => text.push('\t'),
                Some((_, 'n')) => text.push('\n'),
                _ => {
                    let sentence = r#"after a backslash come `"`, `'`, `\`, `t` or `n`"#;
                    return Err(Complaint::new(at + end, sentence));
                }
            },
            _ if letter == quote => return Ok((end + 1, Token::Text(text))),
            _ => text.push(letter),
        }
    }
    Err(Complaint::new(at, format!("this text has no end; close it with {quote}")))
}
