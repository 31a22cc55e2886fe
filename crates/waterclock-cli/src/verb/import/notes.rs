//! What has no counterpart: each sentence once, with all the places that it is about.

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

    /// `login, api: sentence`.
    pub(super) fn into_lines(self) -> Vec<String> {
        self.sentences.into_iter().map(|(sentence, places)| about(&places, &sentence)).collect()
    }
}

fn about(places: &[String], sentence: &str) -> String {
    let (named, others) = places.split_at(places.len().min(MOST_PLACES));
    let named = named.join(", ");
    match others.len() {
        0 => format!("{named}: {sentence}"),
        others => format!("{named} and {others} more: {sentence}"),
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
        assert_eq!(notes.into_lines(), ["a, b, c and 2 more: gone", "a: other"]);
    }
}
