//! Keys with limits of their own in a snapshot: their overrides, and what they have spent under which limits.

use waterclock_core::{Policy, Timestamp};

use super::words::Words;
use crate::clock::Clock;
use crate::memory::{Member, Shared};
use crate::store::{KeyOverride, Override};
use crate::sync::Arc;
use crate::table::{Kept, Saved};

/// One key as it was written.
pub(super) struct SavedSpecial<'a> {
    pub(super) fingerprint: u64,
    kept: Option<SavedOverride<'a>>,
    /// The limits by which its state was written.
    by: Option<Policy>,
    state: Saved,
}

struct SavedOverride<'a> {
    key: &'a [u8],
    rule: Override,
    expires_at: Timestamp,
}

/// Reads one key, for the first time or again.
pub(super) fn parse_special<'a>(words: &mut Words<'a>) -> Option<SavedSpecial<'a>> {
    let fingerprint = words.next().filter(|fingerprint| *fingerprint != 0)?;
    let kept = match words.next()? {
        0 => None,
        1 => {
            let (key, rule) = (words.bytes()?, words.text()?.parse().ok()?);
            let expires_at = Timestamp::from_nanos(words.next()?.min(Timestamp::MAX.as_nanos()));
            Some(SavedOverride { key, rule, expires_at })
        }
        _ => return None,
    };
    let mut state = Saved::default();
    let by = match words.text()? {
        "" => None,
        limits => {
            let Override::Limits(limits) = limits.parse().ok()? else { return None };
            let policy = Policy::new("restored", limits.iter().cloned()).ok()?;
            words.state(&policy, &mut state)?;
            Some(policy)
        }
    };
    Some(SavedSpecial { fingerprint, kept, by, state })
}

impl<C: Clock> Shared<C> {
    /// Puts a key back; whether it has something to remember.
    pub(super) fn put_back_special(
        &self,
        policy: &str,
        base: &Member,
        saved: SavedSpecial<'_>,
        (latest, now): (Timestamp, Timestamp),
    ) -> bool {
        let SavedSpecial { fingerprint, kept, by, mut state } = saved;
        let kept = kept.filter(|kept| now < kept.expires_at).and_then(|saved| {
            let new = KeyOverride::new(saved.key, saved.rule);
            // The policy may count other units by now, or have other tiers.
            let kept = self.kept(policy, base, &new).ok()?;
            Some(Kept { expires_at: saved.expires_at, ..kept })
        });
        if kept.is_some() {
            self.places.take_override_anyway();
        }
        let is_kept = kept.is_some();
        if let Some(kept) = kept
            && base.table.set_kept(fingerprint, kept).is_some()
        {
            self.places.drop_override();
        }
        let Some(by) = by else { return is_kept };
        let by = by.clone().with_mode(base.policy().mode()).unwrap_or(by);
        state.rewind(&by, latest, now);
        base.table.put_back_special(fingerprint, Arc::new(by), &state, now) || is_kept
    }
}
