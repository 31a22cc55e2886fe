//! Who asks, as policies that make their keys of the same fields tell them apart.

use super::recorded::Names;

/// The keys of all requests.
pub(super) struct Callers {
    pub(super) names: Vec<String>,
    /// For each request in its order, an index into the names.
    pub(super) places: Vec<usize>,
    /// Whose level is looked at.
    pub(super) watched: usize,
}

impl Callers {
    /// Whoever asks most often is watched.
    pub(super) fn recorded(keys: Names, places: Vec<usize>) -> Callers {
        let mut counts = vec![0_u64; keys.names.len()];
        places.iter().for_each(|place| counts[*place] += 1);
        let most = counts.iter().max().copied();
        let watched = counts.iter().position(|count| Some(*count) == most).unwrap_or(0);
        Callers { names: keys.names, places, watched }
    }

    pub(super) fn watched_name(&self) -> &str {
        self.names.get(self.watched).map_or("", String::as_str)
    }
}
