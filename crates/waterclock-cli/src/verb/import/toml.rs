//! The text of a `waterclock.toml`.

use std::fmt::Write as _;

use waterclock_config::Pattern;

use super::notes::Note;

/// What files become.
pub(super) struct Translation {
    /// What the reader of the result should know: whole comments, without the `#`.
    pub(super) about: &'static [&'static str],
    /// What has no counterpart, and what to do instead.
    pub(super) notes: Vec<Note>,
    /// The tables.
    pub(super) tables: String,
}

impl Translation {
    /// The whole file.
    pub(super) fn to_toml(&self, files: &[&str]) -> String {
        let mut out = String::new();
        let from: Vec<String> = files.iter().map(|file| one_line(file)).collect();
        line(&mut out, &format!("# Imported from {}.", from.join(", ")));
        line(&mut out, "#");
        for about in self.about {
            line(&mut out, &format!("# {about}"));
        }
        for note in &self.notes {
            line(&mut out, &format!("# {}.", one_line(&note.to_string())));
        }
        out.push_str(&self.tables);
        out
    }
}

/// The head of a policy's table, after an empty line.
pub(super) fn policy(out: &mut String, name: &str, place: &str) {
    let is_bare = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '-';
    let key = if name.chars().all(is_bare) { name.to_owned() } else { quoted(name) };
    line(out, "");
    line(out, &format!("[policies.{key}] # {}", one_line(place)));
}

/// The entries of a rule's `descriptor`.
pub(super) fn descriptor(out: &mut String, entries: &[(String, Pattern)]) {
    let entries: Vec<String> = entries.iter().map(entry).collect();
    line(out, &format!("descriptor = [{}]", entries.join(", ")));
}

fn entry((key, value): &(String, Pattern)) -> String {
    let key = quoted(key);
    match value {
        Pattern::Any => format!("{{ key = {key} }}"),
        Pattern::Exact(value) => format!("{{ key = {key}, value = {} }}", quoted(value)),
        Pattern::Prefix(prefix) => {
            format!("{{ key = {key}, value = {} }}", quoted(&format!("{prefix}*")))
        }
    }
}

pub(super) fn list(texts: &[String]) -> String {
    texts.iter().map(|text| quoted(text)).collect::<Vec<String>>().join(", ")
}

/// A basic string of TOML.
pub(super) fn quoted(text: &str) -> String {
    let mut out = String::from('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => out.extend(['\\', letter]),
            // Writing to a string does not fail.
            letter if letter.is_control() => _ = write!(out, "\\u{:04X}", u32::from(letter)),
            letter => out.push(letter),
        }
    }
    out.push('"');
    out
}

/// A comment ends with its line.
pub(super) fn one_line(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

pub(super) fn line(out: &mut String, text: &str) {
    out.push_str(text);
    out.push('\n');
}
