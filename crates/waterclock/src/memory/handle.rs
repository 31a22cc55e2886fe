//! One policy of a store, looked up once.

use waterclock_core::{Decision, Policy};

use super::{Member, Shared};
use crate::clock::{Clock, TscClock};
use crate::sync::Arc;
use crate::table::Key;

/// One policy of a [`MemoryStore`](crate::MemoryStore), found once and then checked without looking it
/// up: as fast as a [`KeyedLimiter`](crate::KeyedLimiter), on the store's keys.
///
/// If the policy is replaced in the store, the handle uses the new one.
///
/// ```
/// use waterclock::{Limit, MemoryStore, Policy, Store};
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let store = MemoryStore::default();
/// store.set_policy(Policy::new("login", [Limit::per_minute(5)])?).await?;
/// let login = store.policy("login").expect("it was just set");
/// assert!(login.check(b"alice", 1).is_allowed());
/// let decisions = login.check_batch([(&b"alice"[..], 1), (b"bob", 6)]);
/// assert_eq!(decisions.iter().map(|decision| decision.is_allowed()).collect::<Vec<_>>(), [true, false]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Debug)]
pub struct PolicyHandle<C = TscClock> {
    store: Arc<Shared<C>>,
    member: Member,
}

impl<C> Clone for PolicyHandle<C> {
    fn clone(&self) -> Self {
        Self { store: Arc::clone(&self.store), member: self.member.clone() }
    }
}

impl<C: Clock> PolicyHandle<C> {
    pub(super) fn new(store: Arc<Shared<C>>, member: Member) -> Self {
        Self { store, member }
    }

    /// Decides about one key, and charges what is allowed. Allocates nothing for a key it knows. A policy
    /// with a concurrency limit, which only a reservation can hold, always refuses; one that counts several
    /// units is charged this many of each.
    #[inline]
    pub fn check(&self, key: &[u8], cost: u64) -> Decision {
        self.store.check(&self.member, key, cost)
    }

    /// The same, but charges nothing.
    pub fn peek(&self, key: &[u8], cost: u64) -> Decision {
        self.store.peek(&self.member, key, cost)
    }

    /// As [`check`](Self::check), unless the policy was a variant that has been removed: then `None`, and nothing is
    /// charged. (A check decides by the policy that it was a variant of.)
    pub fn check_current(&self, key: &[u8], cost: u64) -> Option<Decision> {
        let (key, now, _) = self.store.find(&self.member, key);
        self.member.table.check_current(key, now, cost)
    }

    /// The same, but charges nothing.
    pub fn peek_current(&self, key: &[u8], cost: u64) -> Option<Decision> {
        let (key, now, _) = self.store.find(&self.member, key);
        self.member.table.peek_current(key, now, cost)
    }

    /// Decides about many keys, each on its own: one clock read, and memory that is fetched for several
    /// keys at once. `answer` gets each decision in turn.
    #[inline]
    pub fn check_each<'a>(
        &self,
        charges: impl IntoIterator<Item = (&'a [u8], u64)>,
        mut answer: impl FnMut(Decision),
    ) {
        let fingerprints =
            charges.into_iter().map(|(key, cost)| (self.store.fingerprint(key), cost));
        let (now, Member { table, variant }) = (self.store.clock.now(), &self.member);
        table.in_batches(fingerprints, |found, fingerprint, cost| {
            let key = Key::new(fingerprint, *variant);
            self.store.release_before(now, || self.member.spot(key));
            answer(table.check_in(found, fingerprint, key, now, cost));
        });
    }

    /// As [`check_each`](Self::check_each), with the answers in a vector.
    pub fn check_batch<'a>(
        &self,
        charges: impl IntoIterator<Item = (&'a [u8], u64)>,
    ) -> Vec<Decision> {
        let charges = charges.into_iter();
        let mut decisions = Vec::with_capacity(charges.size_hint().0);
        self.check_each(charges, |decision| decisions.push(decision));
        decisions
    }

    /// The policy it applies.
    #[must_use]
    pub fn policy(&self) -> Arc<Policy> {
        self.member.policy()
    }
}
