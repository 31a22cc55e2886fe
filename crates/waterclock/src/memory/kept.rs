//! Policies that are kept as text, for the next run.

use std::collections::BTreeMap;

use crate::store::{
    KeptChange, KeptChanges, MAX_KEPT_BYTES, MAX_KEPT_POLICIES, StoreError, check_kept,
};

/// The policies that are kept. Only this process uses them: after a change it gets all of them.
#[derive(Debug, Default)]
pub(super) struct Kept {
    version: u64,
    texts: BTreeMap<Box<str>, Box<str>>,
    /// Of names and texts together.
    bytes: usize,
}

impl Kept {
    pub(super) fn keep(&mut self, name: &str, text: &str) -> Result<KeptChange, StoreError> {
        check_kept(name, text)?;
        let (before, old) = (self.version, self.texts.get(name));
        if old.is_some_and(|old| **old == *text) {
            return Ok(KeptChange::new(before, before, true));
        }
        let freed = old.map_or(0, |old| name.len() + old.len());
        let bytes = self.bytes - freed + name.len() + text.len();
        let is_new = old.is_none();
        if bytes > MAX_KEPT_BYTES || is_new && self.texts.len() >= MAX_KEPT_POLICIES {
            return Err(StoreError::KeptFull(name.to_owned()));
        }
        self.texts.insert(name.into(), text.into());
        self.bytes = bytes;
        self.version += 1;
        Ok(KeptChange::new(before, self.version, !is_new))
    }

    pub(super) fn remove(&mut self, name: &str) -> KeptChange {
        let (before, dropped) = (self.version, self.texts.remove(name));
        if let Some(text) = &dropped {
            self.bytes -= name.len() + text.len();
            self.version += 1;
        }
        KeptChange::new(before, self.version, dropped.is_some())
    }

    pub(super) fn changes(&self, since: u64) -> KeptChanges {
        if since == self.version {
            return KeptChanges::none(since);
        }
        let all = self.all().map(|(name, text)| (name.to_owned(), Some(text.to_owned())));
        KeptChanges {
            version: self.version,
            starts_over: true,
            has_more: false,
            changes: all.collect(),
        }
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.texts.get(name).map(|text| &**text)
    }

    pub(super) fn all(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.texts.iter().map(|(name, text)| (&**name, &**text))
    }
}
