//! Names of policies, from the path to a limit.

use std::collections::HashSet;

use waterclock_config::Pattern;

/// The longest name of a policy.
const LONGEST: usize = 64;

/// Names that are taken.
#[derive(Default)]
pub(super) struct Names {
    taken: HashSet<String>,
}

impl Names {
    /// `edge-remote_address`, or with a number at the end if that is taken.
    pub(super) fn of(&mut self, domain: &str, entries: &[(String, Pattern)]) -> String {
        let mut words = vec![domain];
        for (key, value) in entries {
            words.push(key);
            match value {
                Pattern::Exact(value) | Pattern::Prefix(value) => words.push(value),
                Pattern::Any => {}
            }
        }
        let base = plain(&words.join("-"));
        let numbered = (2_u32..).map(|number| {
            let end = format!("-{number}");
            format!("{}{end}", cut(&base, LONGEST - end.len()))
        });
        let name = std::iter::once(cut(&base, LONGEST).to_owned())
            .chain(numbered)
            .find(|name| !self.taken.contains(name))
            .unwrap_or_default();
        self.taken.insert(name.clone());
        name
    }
}

/// What names may hold; the rest is a `-`, and never two of them.
fn plain(text: &str) -> String {
    let mut name = String::new();
    for letter in text.chars() {
        let letter = letter.to_ascii_lowercase();
        let is_plain = letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_';
        if is_plain {
            name.push(letter);
        } else if !name.ends_with('-') && !name.is_empty() {
            name.push('-');
        }
    }
    let name = name.trim_end_matches('-');
    if name.is_empty() { "imported".to_owned() } else { name.to_owned() }
}

/// Every letter is one byte.
fn cut(name: &str, most: usize) -> &str {
    name.get(..most).unwrap_or(name).trim_end_matches('-')
}
