//! Policies that share their keys.
//!
//! Each shard knows the whole family, and each state is tagged with the variant that wrote it. So a key has
//! one state, in one place, under one lock, whichever variant it is checked under.

use std::collections::HashMap;

use waterclock_core::store::{
    Decide as _, Logs, Migrate as _, Migration, Persist as _, State, View,
};
use waterclock_core::{Cost, Factor, Policy, PolicyError, Timestamp};

use super::special::By;
use crate::store::{StoreError, tier_variant};
use crate::sync::{Arc, Mutex, lock};

/// The most words a state has: 16 limits of three words and a gap, and some.
pub(super) const MOST_WORDS: usize = 128;

/// A member of a family. No two of one family ever have the same, one after the other included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Variant(pub(super) u64);

impl Variant {
    /// The policy that the family is named by.
    pub(crate) const BASE: Self = Self(0);
}

/// A key, and the variant that it is checked under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) fingerprint: u64,
    pub(crate) under: Variant,
    /// By which factor, if that is not 1.
    pub(crate) factor: Option<Factor>,
}

impl Key {
    #[inline]
    pub(crate) fn new(fingerprint: u64, under: Variant) -> Self {
        Self { fingerprint, under, factor: None }
    }
}

impl From<u64> for Key {
    #[inline]
    fn from(fingerprint: u64) -> Self {
        Self::new(fingerprint, Variant::BASE)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Family {
    pub(super) base: Arc<Policy>,
    variants: HashMap<Variant, Arc<Policy>, ahash::RandomState>,
    migration: Migration,
    /// The most words that a member's state has.
    words: usize,
    next: u64,
    scaled: ScaledPolicies,
}

/// The factors of a family that were used last.
#[derive(Debug, Default)]
struct ScaledPolicies(Mutex<Vec<(Variant, Factor, Arc<Policy>)>>);

/// How many: a site has a few roles.
const MAX_SCALED: usize = 16;

/// A family that changes has other policies.
impl Clone for ScaledPolicies {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Family {
    pub(super) fn new(base: &Arc<Policy>) -> Self {
        Self {
            base: Arc::clone(base),
            variants: HashMap::default(),
            migration: Migration::Units,
            words: base.words(),
            next: 1,
            scaled: ScaledPolicies::default(),
        }
    }

    /// The policy of these limits.
    pub(super) fn by(&self, by: &By) -> Arc<Policy> {
        match by {
            By::Own(policy) => Arc::clone(policy),
            By::Member(variant, None) => Arc::clone(self.find(*variant).1),
            By::Member(variant, Some(factor)) => self.scaled(*variant, *factor),
        }
    }

    /// A member by a factor; the member itself, if its limits cannot be scaled so far.
    fn scaled(&self, variant: Variant, factor: Factor) -> Arc<Policy> {
        let (variant, policy) = self.find(variant);
        let mut recent = lock(&self.scaled.0);
        if let Some(at) = recent.iter().position(|known| (known.0, known.1) == (variant, factor)) {
            return Arc::clone(&recent[at].2);
        }
        let scaled = policy.scaled(policy.name(), factor);
        let scaled = scaled.map_or_else(|_| Arc::clone(policy), Arc::new);
        if recent.len() >= MAX_SCALED {
            recent.remove(0);
        }
        recent.push((variant, factor, Arc::clone(&scaled)));
        scaled
    }

    /// Whether the limits of a member can be scaled so far.
    pub(crate) fn scales(&self, variant: Variant, factor: Factor) -> bool {
        self.check_scale(variant, factor).is_ok()
    }

    pub(crate) fn check_scale(&self, variant: Variant, factor: Factor) -> Result<(), PolicyError> {
        let (variant, policy) = self.find(variant);
        let is_known = |known: &(Variant, Factor, _)| (known.0, known.1) == (variant, factor);
        if lock(&self.scaled.0).iter().any(is_known) {
            return Ok(());
        }
        policy.scaled(policy.name(), factor).map(|_| ())
    }

    /// The member that a tier is; the base, if there is none.
    pub(super) fn tier(&self, tier: &str) -> Variant {
        let name = tier_variant(self.base.name(), tier);
        let found = self.variants().find(|(_, policy)| policy.name() == name);
        found.map_or(Variant::BASE, |(variant, _)| variant)
    }

    /// Fills the fresh state of one policy from what another remembers. A state that is fresh to the policy that wrote
    /// it is fresh to all.
    pub(super) fn carry(
        &self,
        (by, state): (&Policy, View<'_>),
        (policy, to): (&Policy, &mut State<'_>),
        now: Timestamp,
        owes: bool,
    ) {
        if by.fresh_in(state, now).is_zero() {
            return;
        }
        match self.migration {
            Migration::Units if !owes => policy.migrate(by, state, to, now),
            migration => policy.migrate_variant(migration, by, state, to, now),
        }
    }

    /// Whether states must say by which member they were written. Once they do they go on.
    pub(super) fn is_tagged(&self) -> bool {
        self.next > 1
    }

    /// Words of a state, with the one that says by whom it was written.
    pub(super) fn state_words(&self) -> usize {
        self.words + usize::from(self.is_tagged())
    }

    pub(crate) fn base(&self) -> &Arc<Policy> {
        &self.base
    }

    pub(crate) fn migration(&self) -> Migration {
        self.migration
    }

    pub(crate) fn variants(&self) -> impl Iterator<Item = (Variant, &Arc<Policy>)> {
        self.variants.iter().map(|(variant, policy)| (*variant, policy))
    }

    /// The member, or the base where it has been removed.
    pub(super) fn find(&self, variant: Variant) -> (Variant, &Arc<Policy>) {
        match self.variants.get(&variant) {
            Some(policy) => (variant, policy),
            None => (Variant::BASE, &self.base),
        }
    }

    /// Puts another policy in a member's place.
    pub(super) fn replace(
        &mut self,
        variant: Variant,
        policy: &Arc<Policy>,
    ) -> Result<(), StoreError> {
        policy.check_migration(self.migration)?;
        match self.variants.get_mut(&variant) {
            Some(member) => *member = Arc::clone(policy),
            None if variant == Variant::BASE => self.base = Arc::clone(policy),
            None => {
                let name = policy.name();
                return Err(StoreError::unfit(format!("policy `{name}` has been removed")));
            }
        }
        self.measure();
        Ok(())
    }

    /// Adds a member, or replaces the one of its name.
    pub(super) fn add(
        &mut self,
        policy: &Arc<Policy>,
        migration: Migration,
    ) -> Result<Variant, StoreError> {
        if !self.variants.is_empty() && migration != self.migration {
            return Err(StoreError::unfit(format!(
                "policy `{}` migrates by {migration:?}, but the other variants of `{}` by {:?}; all variants of \
                 a policy migrate the same way",
                policy.name(),
                self.base.name(),
                self.migration
            )));
        }
        self.base.check_migration(migration)?;
        policy.check_migration(migration)?;
        if !policy.counts_as(&self.base) {
            return Err(StoreError::unfit(format!(
                "policy `{}` counts other units than `{}`, whose keys it is to share; let them count the same",
                policy.name(),
                self.base.name()
            )));
        }
        self.migration = migration;
        let known = self.variants().find(|(_, member)| member.name() == policy.name());
        let variant = known.map_or(Variant(self.next), |(variant, _)| variant);
        self.next = self.next.max(variant.0 + 1);
        self.variants.insert(variant, Arc::clone(policy));
        self.measure();
        Ok(variant)
    }

    /// Removes a member; its keys go on under the base.
    pub(super) fn remove(&mut self, variant: Variant) {
        self.variants.remove(&variant);
    }

    /// States never get smaller: a removed variant may have been the widest.
    fn measure(&mut self) {
        let widest = self.variants.values().map(|policy| policy.words()).max().unwrap_or(0);
        self.words = if self.is_tagged() {
            self.words.max(widest).max(self.base.words())
        } else {
            self.base.words()
        };
    }

    /// Whether this is `before` with more members and nothing else.
    pub(super) fn only_adds_to(&self, before: &Self) -> bool {
        let same = |variant: &Variant, policy: &Arc<Policy>| {
            self.variants.get(variant).is_some_and(|here| Arc::ptr_eq(here, policy))
        };
        Arc::ptr_eq(&self.base, &before.base)
            && self.state_words() == before.state_words()
            && before.variants.iter().all(|(variant, policy)| same(variant, policy))
    }

    /// The member that wrote a state, and the state.
    pub(super) fn written<'w>(&self, words: &'w [u64]) -> (Variant, &Arc<Policy>, &'w [u64]) {
        if !self.is_tagged() {
            return (Variant::BASE, &self.base, words);
        }
        let (variant, policy) = self.find(Variant(words[0]));
        (variant, policy, &words[1..1 + policy.words()])
    }

    /// The same, for writing.
    pub(super) fn writing<'w>(&self, words: &'w mut [u64]) -> (&Arc<Policy>, &'w mut [u64]) {
        if !self.is_tagged() {
            return (&self.base, words);
        }
        let (_, policy) = self.find(Variant(words[0]));
        (policy, &mut words[1..1 + policy.words()])
    }

    /// What a state means to a member. A state that is fresh to the variant that wrote it is fresh to all: it may be
    /// evicted at any time.
    pub(super) fn seen<T>(
        &self,
        under: Variant,
        state: View<'_>,
        by: &Policy,
        now: Timestamp,
        look: impl FnOnce(&Policy, View<'_>) -> T,
    ) -> T {
        let (_, policy) = self.find(under);
        let (mut words, mut logs) = ([0; MOST_WORDS], Logs::new());
        let mut seen = State::new(&mut words[..policy.words()], &mut logs);
        // Nothing is written, so nothing is lost: exhausted is as far as it goes.
        self.carry((by, state), (policy, &mut seen), now, false);
        look(policy, seen.view())
    }

    /// Makes a state one of this member's. What is more than its limits hold is kept where `owes` says so: a
    /// check admits nothing on top of that, so that only limits in shadow could have it.
    pub(super) fn enter(
        &self,
        under: Variant,
        words: &mut [u64],
        logs: &mut Logs,
        now: Timestamp,
        owes: bool,
    ) {
        let (under, policy) = self.find(under);
        if !self.is_tagged() || words[0] == under.0 {
            return;
        }
        let (mut seen_words, mut seen_logs) = ([0; MOST_WORDS], Logs::new());
        let seen_words = &mut seen_words[..policy.words()];
        let mut seen = State::new(seen_words, &mut seen_logs);
        let (_, by, memory) = self.written(words);
        self.carry((by, View::new(memory, logs)), (policy, &mut seen), now, owes);
        let (by, memory) = self.writing(words);
        by.clear(&mut State::new(memory, logs));
        words.fill(0);
        words[0] = under.0;
        let (_, to) = self.writing(words);
        policy.adopt(seen.view(), &mut State::new(to, logs));
    }

    /// Gives units back. Units are the same for every variant; a time is the variant's own.
    pub(super) fn refund(
        &self,
        under: Variant,
        words: &mut [u64],
        logs: &mut Logs,
        now: Timestamp,
        cost: &Cost,
    ) {
        if self.migration == Migration::Time {
            self.enter(under, words, logs, now, true);
        }
        let (policy, words) = self.writing(words);
        policy.refund(&mut State::new(words, logs), now, cost);
    }

    /// Fills fresh words with a state that another family's member wrote.
    pub(super) fn take_over(
        &self,
        before: &Self,
        memory: &[u64],
        memory_logs: &Logs,
        words: &mut [u64],
        logs: &mut Logs,
        now: Timestamp,
    ) {
        let (variant, by, memory) = before.written(memory);
        let (stays, policy) = self.find(variant);
        if self.is_tagged() {
            words[0] = stays.0;
        }
        let (_, words) = self.writing(words);
        let (memory, mut state) = (View::new(memory, memory_logs), State::new(words, logs));
        if Arc::ptr_eq(by, policy) {
            policy.adopt(memory, &mut state);
        } else if stays == variant {
            policy.migrate(by, memory, &mut state, now);
        } else if self.migration == Migration::Units {
            // The variant was removed: its limits will not be checked again.
            policy.migrate(by, memory, &mut state, now);
        } else {
            policy.migrate_variant(self.migration, by, memory, &mut state, now);
        }
    }
}
