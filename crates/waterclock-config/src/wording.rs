//! How complaints show lists and values.

use toml::de::DeValue;

/// `a`, `b` or `c`.
pub(crate) fn one_of(words: &[&str]) -> String {
    enumerate(words, "or")
}

/// `a`, `b` and `c`.
pub(crate) fn all_of(words: &[&str]) -> String {
    enumerate(words, "and")
}

fn enumerate(words: &[&str], joiner: &str) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    match quoted.split_last() {
        None => "nothing".to_owned(),
        Some((only, [])) => only.clone(),
        Some((last, rest)) => format!("{} {joiner} {last}", rest.join(", ")),
    }
}

/// What stands in the file, short enough for one line.
pub(crate) fn shown(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => quoted(text),
        DeValue::Integer(integer) => integer.to_string(),
        DeValue::Float(float) => float.to_string(),
        DeValue::Boolean(flag) => flag.to_string(),
        DeValue::Datetime(datetime) => datetime.to_string(),
        DeValue::Array(_) => "an array".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
    }
}

/// A string in quotes, cut where it would swamp the sentence.
pub fn quoted(text: &str) -> String {
    const LONGEST: usize = 60;
    let mut start: String = text.chars().take(LONGEST).collect();
    if text.chars().nth(LONGEST).is_some() {
        start.push('…');
    }
    format!("{start:?}")
}
