//! Names of policies: plain and unique.

use std::collections::HashSet;

use waterclock_config::Pattern;

use super::notes::Notes;

/// The longest name of a policy.
const LONGEST: usize = 64;

/// The names that are taken.
#[derive(Default)]
pub(super) struct Names {
    taken: HashSet<String>,
}

impl Names {
    /// `edge-remote_address`, from the path to a limit.
    pub(super) fn of_path(&mut self, domain: &str, entries: &[(String, Pattern)]) -> String {
        let mut words = vec![domain];
        for (key, value) in entries {
            words.push(key);
            match value {
                Pattern::Exact(value) | Pattern::Prefix(value) => words.push(value),
                Pattern::Any => {}
            }
        }
        self.unique(&plain(&words.join("-").to_ascii_lowercase(), "_"))
    }

    /// The name of the policy for a limiter of this name. Another one is said.
    pub(super) fn of_limiter(&mut self, given: &str, notes: &mut Notes) -> String {
        let name = self.keep(given);
        if name != given {
            notes.add(given, format!("its policy is called {name}, because a policy's name is unique, of letters, digits and _ . / : -, and 64 characters at most"));
        }
        name
    }

    /// The name itself, if a policy may have it; else with a `-` for what it may not have.
    pub(super) fn keep(&mut self, name: &str) -> String {
        self.unique(&plain(name, "_./:-"))
    }

    /// With a number at the end if the name is taken.
    fn unique(&mut self, base: &str) -> String {
        let numbered = (2_u32..).map(|number| {
            let end = format!("-{number}");
            format!("{}{end}", cut(base, LONGEST - end.len()))
        });
        let name = std::iter::once(cut(base, LONGEST).to_owned())
            .chain(numbered)
            .find(|name| !self.taken.contains(name))
            .unwrap_or_default();
        self.taken.insert(name.clone());
        name
    }
}

/// Letters, digits and these; the rest is a `-`, and never two of them.
fn plain(text: &str, others: &str) -> String {
    let mut name = String::new();
    for letter in text.chars() {
        if letter.is_ascii_alphanumeric() || others.contains(letter) {
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
