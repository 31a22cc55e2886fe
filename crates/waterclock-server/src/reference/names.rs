//! Names of the policies that limits become.

use std::fmt::Write as _;

use sha2::{Digest, Sha256};

use super::Descriptor;

/// The longest name of a policy.
const LONGEST: usize = 64;
/// How much of a hash tells two limits apart.
const HASH: usize = 6;

/// The name of the policy of a limit: its path as far as there is room, and a hash of all of it. The same path has the
/// same name in every configuration, so that what was counted stays counted.
pub(super) fn policy_name(domain: &str, path: &[&Descriptor]) -> String {
    let mut hash = Sha256::new();
    let mut plain = String::new();
    let texts = path.iter().flat_map(|entry| [&entry.key, &entry.value]);
    let mut last = "";
    for text in std::iter::once(domain).chain(texts.map(String::as_str)) {
        hash.update((text.len() as u64).to_be_bytes());
        hash.update(text);
        // Envoy Gateway gives many entries a value that is their key.
        if text != last && !std::ptr::eq(text, domain) {
            push_plain(&mut plain, text);
        }
        last = text;
    }
    plain.truncate(LONGEST - 2 * HASH - 1);
    let mut name = plain.trim_end_matches('-').to_owned();
    name.push('-');
    for byte in &hash.finalize()[..HASH] {
        // Writing to a string does not fail.
        _ = write!(name, "{byte:02x}");
    }
    name
}

/// Letters, digits and some others; the rest is a `-`, and never two of them.
fn push_plain(name: &mut String, text: &str) {
    let separator = if name.is_empty() { "" } else { "-" };
    for letter in separator.chars().chain(text.chars()) {
        if letter.is_ascii_alphanumeric() || "_./:".contains(letter) {
            name.push(letter);
        } else if !name.ends_with('-') && !name.is_empty() {
            name.push('-');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(domain: &str, path: &[(&str, &str)]) -> String {
        let entry = |(key, value): &(&str, &str)| Descriptor {
            key: (*key).to_owned(),
            value: (*value).to_owned(),
            ..Descriptor::default()
        };
        let path: Vec<Descriptor> = path.iter().map(entry).collect();
        policy_name(domain, &path.iter().collect::<Vec<_>>())
    }

    #[test]
    fn names_show_their_path_and_differ_in_all_of_it() {
        let route = "httproute/default/backend/rule/0/match/0/www_example_com";
        let long = named("default/eg/http", &[(route, route), ("rule-0-match-0", "x")]);
        assert!(long.starts_with("httproute/default/backend/rule/0/match/0/www_exampl"), "{long}");
        assert_eq!(long.len(), 64);
        let odd = named("d", &[("ключ", "a b"), ("-", "")]);
        assert!(odd.starts_with("a-b-"), "{odd}");
        let names = [
            named("d", &[("a", "b-c")]),
            named("d", &[("a-b", "c")]),
            named("d", &[("a", "b"), ("c", "")]),
            named("e", &[("a", "b-c")]),
            named("d", &[("a", "b"), ("c", "c")]),
        ];
        let distinct: std::collections::HashSet<_> = names.iter().collect();
        assert_eq!(distinct.len(), names.len(), "{names:?}");
        assert_eq!(named("d", &[("a", "b-c")]), names[0]);
    }
}
