//! A whole answer in one step, for what most checks are.

use waterclock_core::Timestamp;
use waterclock_core::store::{Decide as _, View};

use super::{Key, Table, Variant};
use crate::store::Answer;

impl Table {
    /// A check with all that there is to say, of a key that has a slot, under a policy of one limit whose state is one
    /// word. `None` for everything else, of which nothing is charged.
    ///
    /// Says the same as [`answer`](Self::answer), which looks the key up for each step.
    #[inline]
    pub(crate) fn check_in_full(&self, key: Key, now: Timestamp, cost: u64) -> Option<Answer> {
        let (mut locked, now) = self.lock_at(key.fingerprint, now);
        let shard = &mut *locked.shard;
        if shard.is_tagged() || key.under != Variant::BASE || key.factor.is_some() {
            return None;
        }
        let at = shard.find(key.fingerprint)?;
        let decision =
            shard.policy.one_word()?.check(&mut shard.buckets.words_mut()[at], now, cost);
        let view = View::new(&shard.buckets.words()[shard.layout.key(at)], &shard.rest.logs);
        Some(Answer::of_one_word(&shard.policy, view, now, cost, decision))
    }
}
