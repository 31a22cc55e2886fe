//! Text of a file, as complaints show it.

use crate::visible::visible;

/// As it is, but harmless for a terminal, and cut where it would swamp the sentence.
pub(super) fn shown(text: &str) -> String {
    const LONGEST: usize = 60;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", visible(&text[..end])),
        None => visible(text),
    }
}
