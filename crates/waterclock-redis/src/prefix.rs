//! What stands before a record: the override of its key, and the limits by which its state was written where no tag
//! says so (`records.lua`).

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use waterclock::{Factor, KeyOverride, Override, Timestamp};

use crate::keyspace::{Keyspace, TAG_DIGITS, Tag};
use crate::policies::Entry;
use crate::shape::{NUMBER, put};

const OVERRIDE: u8 = 4;
const WRITTEN_BY: u8 = 5;
/// Bytes before what a byte of these kinds announces: itself, and the length.
const HEAD: usize = 3;
/// The most overrides that a node remembers to have seen. One that it does not remember costs a call more.
const MOST_SEEN: usize = 65_536;

/// The limits by which a state was written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum WrittenBy {
    /// A registered definition, which the state's own tag names: the override before it has limits, too.
    Tagged,
    /// A registered definition, by a factor.
    Factor(Tag, Factor),
    /// These.
    Limits(Override),
}

impl WrittenBy {
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let text = match self {
            Self::Tagged => "r".to_owned(),
            Self::Factor(tag, factor) => {
                format!("f{}{factor}", String::from_utf8_lossy(tag.digits()))
            }
            Self::Limits(limits) => limits.to_string(),
        };
        framed(WRITTEN_BY, text.as_bytes())
    }

    fn read(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?;
        if text == "r" {
            return Some(Self::Tagged);
        }
        match text.strip_prefix('f') {
            Some(rest) => {
                let (tag, factor) = rest.split_at_checked(TAG_DIGITS)?;
                Some(Self::Factor(Tag::read(tag.as_bytes())?, factor.parse().ok()?))
            }
            None => text.parse().ok().map(Self::Limits),
        }
    }
}

/// An override as it stands before a record.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Kept {
    /// All of it.
    pub(crate) bytes: Vec<u8>,
    pub(crate) rule: Override,
    /// 0 if it does not expire.
    expires_us: u64,
    sealed: Vec<u8>,
}

impl Kept {
    /// One that does not expire yet; a script writes when it does.
    pub(crate) fn new(keyspace: &Keyspace, new: &KeyOverride) -> Option<Self> {
        let sealed = keyspace.seal(&new.key);
        let mut bytes = Vec::new();
        put(&mut bytes, 0);
        bytes.extend(u16::try_from(sealed.len()).ok()?.to_be_bytes());
        bytes.extend_from_slice(&sealed);
        bytes.extend(new.rule.to_string().into_bytes());
        u16::try_from(bytes.len()).ok()?;
        let bytes = framed(OVERRIDE, &bytes);
        Some(Self { bytes, rule: new.rule.clone(), expires_us: 0, sealed })
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let rest = bytes.get(HEAD..)?;
        let (expires, rest) = rest.split_at_checked(NUMBER)?;
        let expires_us = expires.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        let (length, rest) = rest.split_first_chunk::<2>()?;
        let (sealed, rule) = rest.split_at_checked(u16::from_be_bytes(*length).into())?;
        let rule = std::str::from_utf8(rule).ok()?.parse().ok()?;
        Some(Self { bytes: bytes.to_vec(), rule, expires_us, sealed: sealed.to_vec() })
    }

    pub(crate) fn has_limits(&self) -> bool {
        matches!(self.rule, Override::Limits(_))
    }

    pub(crate) fn holds_at(&self, now: Timestamp) -> bool {
        self.expires_us == 0 || now.as_nanos() / 1_000 < self.expires_us
    }

    fn expires_in(&self, now: Timestamp) -> Option<Duration> {
        let left = self.expires_us.saturating_sub(now.as_nanos() / 1_000);
        (self.expires_us > 0).then(|| Duration::from_micros(left))
    }

    /// As a caller sees it, if the key is the one that it was sealed for.
    pub(crate) fn shown(
        &self,
        keyspace: &Keyspace,
        hash: &[u8; 16],
        now: Timestamp,
    ) -> Option<KeyOverride> {
        let key = keyspace.unseal(hash, &self.sealed)?;
        Some(KeyOverride::new(key, self.rule.clone()).expires_in(self.expires_in(now)))
    }
}

fn framed(kind: u8, bytes: &[u8]) -> Vec<u8> {
    let length = u16::try_from(bytes.len()).unwrap_or(u16::MAX);
    [&[kind], &length.to_be_bytes()[..], bytes].concat()
}

/// A record, taken apart.
#[derive(Debug)]
pub(crate) struct Parts<'a> {
    pub(crate) kept: Option<Kept>,
    pub(crate) by: Option<WrittenBy>,
    /// The state as any other record has it; empty if it is fresh.
    pub(crate) state: &'a [u8],
}

impl<'a> Parts<'a> {
    pub(crate) fn of(record: &'a [u8]) -> Option<Self> {
        let (kept, rest) = match split(OVERRIDE, record)? {
            (Some(bytes), rest) => (Some(Kept::read(bytes)?), rest),
            (None, rest) => (None, rest),
        };
        let (by, state) = match split(WRITTEN_BY, rest)? {
            (Some(bytes), state) => (Some(WrittenBy::read(&bytes[HEAD..])?), state),
            (None, state) => (None, state),
        };
        Some(Self { kept, by, state })
    }

    /// By which limits the state was written, where no tag says so.
    pub(crate) fn written_by(&self) -> Option<WrittenBy> {
        let own = || match self.kept.as_ref().map(|kept| &kept.rule) {
            Some(limits @ Override::Limits(_)) => Some(WrittenBy::Limits(limits.clone())),
            _ => None,
        };
        match &self.by {
            Some(WrittenBy::Tagged) => None,
            Some(by) => Some(by.clone()),
            None => own(),
        }
    }
}

fn split(kind: u8, record: &[u8]) -> Option<(Option<&[u8]>, &[u8])> {
    match record {
        [first, a, b, ..] if *first == kind => {
            let length = HEAD + usize::from(u16::from_be_bytes([*a, *b]));
            let (bytes, rest) = record.split_at_checked(length)?;
            Some((Some(bytes), rest))
        }
        _ => Some((None, record)),
    }
}

/// The overrides that this node has seen, by the key of the record. The script that applies one makes sure that it is
/// still there.
#[derive(Debug, Default)]
pub(crate) struct SeenOverrides {
    by_record: Mutex<HashMap<Vec<u8>, Arc<Seen>>>,
    /// Read without the lock, because mostly there are none.
    count: AtomicUsize,
}

#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) kept: Kept,
    /// The policy with the limits of its own, if it has some, and the one that they replace.
    pub(crate) own: Mutex<Option<(Arc<Entry>, Arc<Entry>)>>,
}

impl SeenOverrides {
    pub(crate) fn get(&self, record: &[u8]) -> Option<Arc<Seen>> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        self.by_record.lock().get(record).cloned()
    }

    pub(crate) fn note(&self, record: &[u8], kept: Option<Kept>) {
        let mut by_record = self.by_record.lock();
        match kept {
            Some(kept) => {
                if by_record.len() >= MOST_SEEN && !by_record.contains_key(record) {
                    // Any of them: one that is missed is seen again by the next call.
                    let some: Vec<_> = by_record.keys().take(MOST_SEEN / 8).cloned().collect();
                    some.iter().for_each(|record| _ = by_record.remove(record));
                }
                by_record.insert(record.to_vec(), Arc::new(Seen { kept, own: Mutex::default() }));
            }
            None => _ = by_record.remove(record),
        }
        self.count.store(by_record.len(), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use waterclock::Limit;

    #[test]
    fn records_are_taken_apart() {
        let keyspace = Keyspace::new("wc".into(), "secret");
        let rule = Override::limits([Limit::per_minute(5)]).unwrap();
        let new = KeyOverride::new("alice", rule.clone());
        let kept = Kept::new(&keyspace, &new).unwrap();
        assert!(!kept.bytes.windows(5).any(|bytes| bytes == b"alice"), "the key is sealed");
        let by = WrittenBy::Factor(Tag::read(b"042").unwrap(), "0.5".parse().unwrap());
        let record = [&*kept.bytes, &by.bytes(), b"17042"].concat();
        let parts = Parts::of(&record).unwrap();
        assert_eq!(
            (parts.kept.as_ref(), parts.by, parts.state),
            (Some(&kept), Some(by), &b"17042"[..])
        );
        let hash = keyspace.hash(b"alice");
        assert_eq!(kept.shown(&keyspace, &hash, Timestamp::ZERO), Some(new));
        assert_eq!(kept.shown(&keyspace, &keyspace.hash(b"bob"), Timestamp::ZERO), None);
        let parts = Parts::of(&kept.bytes).unwrap();
        assert_eq!(parts.written_by(), Some(WrittenBy::Limits(rule)));
        let plain = Parts::of(b"17042").unwrap();
        assert!(plain.kept.is_none() && plain.by.is_none());
        for cut in 1..kept.bytes.len() {
            assert!(Parts::of(&kept.bytes[..cut]).is_none_or(|parts| parts.kept.is_none()));
        }
    }
}
