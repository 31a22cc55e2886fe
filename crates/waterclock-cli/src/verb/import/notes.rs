//! What has no counterpart: each sentence once, with all the places that it is about.

use std::fmt;

use serde::Serialize;

/// How many places a sentence names.
const MOST_PLACES: usize = 3;

/// Sentences in the order in which they first came up.
#[derive(Default)]
pub(super) struct Notes {
    sentences: Vec<(String, Vec<String>)>,
}

impl Notes {
    /// A sentence about a place. It has no full stop: it also stands in lists.
    pub(super) fn add(&mut self, place: &str, sentence: impl Into<String>) {
        let sentence = sentence.into();
        let known = self.sentences.iter_mut().find(|(known, _)| *known == sentence);
        match known {
            Some((_, places)) if places.iter().any(|known| known == place) => {}
            Some((_, places)) => places.push(place.to_owned()),
            None => self.sentences.push((sentence, vec![place.to_owned()])),
        }
    }

    pub(super) fn into_notes(self) -> Vec<Note> {
        let note = |(message, places)| Note { places, message };
        self.sentences.into_iter().map(note).collect()
    }
}

/// What has no counterpart. Displays as `login, api: sentence`.
#[derive(Serialize)]
pub(super) struct Note {
    /// Policies, or lines of files.
    places: Vec<String>,
    message: String,
}

impl Note {
    /// About one place.
    pub(super) fn new(place: &str, message: impl Into<String>) -> Note {
        Note { places: vec![place.to_owned()], message: message.into() }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (named, others) = self.places.split_at(self.places.len().min(MOST_PLACES));
        f.write_str(&named.join(", "))?;
        if !others.is_empty() {
            write!(f, " and {} more", others.len())?;
        }
        write!(f, ": {}", self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_names_its_places() {
        let mut notes = Notes::default();
        for place in ["a", "b", "a", "c", "d", "e"] {
            notes.add(place, "gone");
        }
        notes.add("a", "other");
        let lines: Vec<String> = notes.into_notes().iter().map(Note::to_string).collect();
        assert_eq!(lines, ["a, b, c and 2 more: gone", "a: other"]);
    }
}
