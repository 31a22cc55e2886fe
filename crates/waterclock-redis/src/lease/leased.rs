//! What this node holds of one key: units in parts, each with its end, and the state as if only what was spent had been charged.

use std::collections::VecDeque;
use std::sync::Arc;

use waterclock::{Lease, Policy, Timestamp};

use super::book::{Taken, Taking};
use crate::call::{KeyCharge, Marks};
use crate::state::KeyState;

/// How many units of an automatic lease are taken first.
const FIRST_AUTO: u64 = 8;
/// A refill begins at no more than so many quarters of a lease.
const MOST_QUARTERS: u64 = 3;
/// The most parts that one key's units are kept in; what is held beyond that is not returned.
pub(super) const MOST_PARTS: usize = 8;

/// What this node holds of one key.
pub(super) struct Leased {
    pub(super) key: KeyCharge,
    /// The change of policies after which `key` was looked up.
    pub(super) version: u64,
    /// Counts how often what is held was dropped: units that were asked for before are not kept.
    pub(super) generation: u64,
    pub(super) seen: Timestamp,
    /// Units by when they run out, the first first; those are spent first.
    pub(super) parts: VecDeque<Part>,
    /// Units that ran out and are to be returned.
    pub(super) expired: Vec<Part>,
    /// The key as if only what was spent had been charged, and when that was so.
    pub(super) mirror: Option<(KeyState, Timestamp)>,
    /// How many units are held at most; what is asked for adapts it if the lease is automatic.
    pub(super) size: u64,
    taken_at: Timestamp,
    /// Whether more is taken before all is spent. Not if the store had fewer units than were asked for, or did not answer:
    /// then it is asked again when these are spent.
    pub(super) refills_ahead: bool,
    /// Whether that is happening.
    pub(super) is_refilling: bool,
    /// At how many quarters of `size` it begins: more if callers had to wait for it.
    low_mark: u64,
    pub(super) taking: Arc<tokio::sync::Mutex<()>>,
}

/// Units that were taken in one call.
pub(super) struct Part {
    pub(super) left: u64,
    pub(super) until: Timestamp,
    /// By which they are returned, if their limits need that.
    pub(super) marks: Option<Marks>,
}

impl Leased {
    pub(super) fn new(key: &KeyCharge, version: u64, now: Timestamp) -> Self {
        Self {
            key: key.clone(),
            version,
            generation: 0,
            seen: Timestamp::ZERO,
            parts: VecDeque::new(),
            expired: Vec::new(),
            mirror: None,
            size: 0,
            taken_at: now,
            refills_ahead: true,
            is_refilling: false,
            low_mark: 1,
            taking: Arc::default(),
        }
    }

    /// Spends from what is held.
    #[inline]
    pub(super) fn spend<T>(
        &mut self,
        cost: u64,
        now: Timestamp,
        spend: impl FnOnce(&mut KeyState, &Policy, u64) -> Option<T>,
    ) -> Option<T> {
        self.set_expired_aside(now);
        if self.parts.front()?.left < cost && self.held() < cost {
            return None;
        }
        let (state, at) = self.mirror.as_mut()?;
        state.now = state.now.after(now.since(*at));
        *at = now.max(*at);
        let answer = spend(state, &self.key.entry.policy, cost)?;
        self.pay(cost);
        Some(answer)
    }

    /// Whether more should be taken before callers have to wait for it.
    #[inline]
    pub(super) fn is_low(&self) -> bool {
        let low = self.size / 4 * self.low_mark;
        self.refills_ahead
            && !self.is_refilling
            && self.parts.front().is_none_or(|front| front.left <= low)
            && self.held() <= low
    }

    /// The right to take more, unless a caller has it.
    #[cold]
    pub(super) fn start_refill(&mut self) -> Option<Taking> {
        let taking = Arc::clone(&self.taking).try_lock_owned().ok();
        self.is_refilling = taking.is_some();
        taking
    }

    /// More arrives: if all was spent meanwhile, the next refill begins earlier; if hardly any was, later.
    pub(super) fn adapt_mark(&mut self) {
        if !std::mem::take(&mut self.is_refilling) {
            return;
        }
        self.low_mark = next_mark(self.low_mark, self.held(), self.size);
    }

    /// Units that can be spent, once those that ran out are set aside.
    pub(super) fn held(&self) -> u64 {
        self.parts.iter().map(|part| part.left).sum()
    }

    /// Drops what is held. It stays charged, which admits less.
    pub(super) fn drop_units(&mut self) {
        self.generation += 1;
        self.parts.clear();
        self.expired.clear();
        self.mirror = None;
    }

    /// Pays a cost of what is held, which is enough.
    #[inline]
    pub(super) fn pay(&mut self, cost: u64) {
        let mut owed = cost;
        while owed > 0
            && let Some(front) = self.parts.front_mut()
        {
            let paid = owed.min(front.left);
            (front.left, owed) = (front.left - paid, owed - paid);
            if front.left == 0 {
                self.parts.pop_front();
            }
        }
        debug_assert_eq!(owed, 0, "more was admitted than was held");
    }

    pub(super) fn push(&mut self, taken: &Taken, until: Timestamp) {
        if taken.filled == 0 {
            return;
        }
        if self.parts.len() == MOST_PARTS {
            // The oldest is about to run out.
            self.parts.pop_front();
        }
        self.parts.push_back(Part { left: taken.filled, until, marks: taken.marks.clone() });
    }

    #[inline]
    pub(super) fn set_expired_aside(&mut self, now: Timestamp) {
        while self.parts.front().is_some_and(|part| now >= part.until) {
            let part = self.parts.pop_front().filter(|_| self.expired.len() < MOST_PARTS);
            self.expired.extend(part);
        }
    }

    /// Takes out units that ran out.
    pub(super) fn take_expired(&mut self, now: Timestamp) -> Vec<Part> {
        self.set_expired_aside(now);
        std::mem::take(&mut self.expired)
    }

    /// Whether nothing is held, and no caller takes units or is about to.
    pub(super) fn is_idle(&self) -> bool {
        self.parts.is_empty() && self.expired.is_empty() && Arc::strong_count(&self.taking) == 1
    }

    /// Goes on under the present definition of its policy; returns what was held under another.
    pub(super) fn renew(
        &mut self,
        key: &KeyCharge,
        version: u64,
    ) -> Option<(KeyCharge, Vec<Part>)> {
        self.version = version;
        if Arc::ptr_eq(&self.key.entry, &key.entry) {
            return None;
        }
        let parts = self.expired.drain(..).chain(self.parts.drain(..)).collect();
        let old = std::mem::replace(&mut self.key, key.clone());
        (self.mirror, self.size, self.refills_ahead) = (None, 0, true);
        (self.is_refilling, self.low_mark) = (false, 1);
        Some((old, parts))
    }

    /// How many units to hold: as many as the policy says, or as are spent in about an eighth of their time.
    pub(super) fn adapt(&mut self, lease: Lease, most: u64, now: Timestamp) {
        let since = now.since(self.taken_at);
        self.taken_at = now;
        self.size = match lease {
            Lease::Auto if self.size == 0 => most.min(FIRST_AUTO),
            Lease::Auto if since < lease.ttl() / 8 => self.size.saturating_mul(2).min(most),
            Lease::Auto if since > lease.ttl() / 2 => (self.size / 2).max(1).min(most),
            Lease::Auto => self.size.min(most),
            _ => most,
        };
    }
}

/// At how many quarters of a lease the next refill begins, if so much was left when the last one arrived.
fn next_mark(mark: u64, left: u64, size: u64) -> u64 {
    match left {
        0 => (mark + 1).min(MOST_QUARTERS),
        left if left > size / 16 * mark * 3 => (mark - 1).max(1),
        _ => mark,
    }
}

#[cfg(test)]
mod tests {
    use super::next_mark;

    #[test]
    fn a_refill_begins_earlier_where_callers_outrun_it() {
        let outrun = |mark, _| next_mark(mark, 0, 1_000);
        assert_eq!((0..5).fold(1, outrun), 3);
        // Half of what was left then is spent until it arrives.
        assert_eq!(next_mark(3, 375, 1_000), 3);
        assert_eq!(next_mark(3, 700, 1_000), 2);
        assert_eq!(next_mark(1, 250, 1_000), 1);
    }
}
