//! Policies that are kept as text come first in a snapshot: they are needed before the keys.

use std::io::Read;

use super::parse::open;
use super::words::{Words, push_text};
use super::{KEPT, RestoreError, VERSION, VERSION_WITH_KEPT};
use crate::clock::Clock;
use crate::memory::kept::Kept;
use crate::memory::{MemoryStore, Shared};
use crate::sync::lock;

/// How many words follow the version before the first section.
const HEAD: usize = 6;

/// Names and texts.
pub(super) type SavedTexts<'a> = Vec<(&'a str, &'a str)>;

/// The version of the snapshot, and the section of policies that are kept; none if there are none.
pub(super) fn section(kept: &Kept) -> (u64, Vec<u64>) {
    let all = kept.all();
    if all.len() == 0 {
        return (VERSION, Vec::new());
    }
    let mut words = vec![KEPT, all.len() as u64];
    for (name, text) in all {
        push_text(name, &mut words);
        push_text(text, &mut words);
    }
    (VERSION_WITH_KEPT, words)
}

impl<'a> Words<'a> {
    pub(super) fn texts(&mut self) -> Option<SavedTexts<'a>> {
        let mut texts = SavedTexts::new();
        for _ in 0..self.next()? {
            texts.push((self.text()?, self.text()?));
        }
        Some(texts)
    }
}

impl<C: Clock> MemoryStore<C> {
    /// Restores only the policies that were [kept](crate::Store::keep_policy), and returns how many those are: set
    /// what they mean, and then [`restore`](Self::restore) the keys.
    ///
    /// Policies that are kept already stay as they are. After an error the store is as it was.
    pub fn restore_kept_policies(&self, from: &mut impl Read) -> Result<usize, RestoreError> {
        let mut bytes = Vec::new();
        from.read_to_end(&mut bytes)?;
        let mut words = open(&bytes)?;
        for _ in 0..HEAD {
            words.next().ok_or(RestoreError::Damaged)?;
        }
        if words.next() != Some(KEPT) {
            return Ok(0);
        }
        let texts = words.texts().ok_or(RestoreError::Damaged)?;
        self.shared.keep_all(&texts);
        Ok(texts.len())
    }
}

impl<C: Clock> Shared<C> {
    /// Keeps what was saved, except where a policy of the name is kept already.
    pub(super) fn keep_all(&self, texts: &SavedTexts<'_>) {
        let mut kept = lock(&self.kept);
        for (name, text) in texts {
            if kept.get(name).is_none() {
                // What was saved was within the bounds.
                _ = kept.keep(name, text);
            }
        }
    }
}
