//! This node's share of every limit, in memory, while the store is unreachable.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use waterclock_core::store::Migration;
use waterclock_core::{Cost, Policy, Share};

use crate::clock::TscClock;
use crate::memory::MemoryStore;
use crate::store::{Answer, Charge, Detail, Source, Store, StoreError, Verb};
use crate::sync::{Mutex, lock};

/// The most keys whose usage is remembered until the store can be charged for it.
const MAX_KEYS: usize = 100_000;

/// A policy's name and a key.
type Spender = (Box<str>, Box<[u8]>);

/// Decides by this node's share of each limit, and remembers what it admitted.
#[derive(Debug)]
pub(super) struct LocalShare {
    store: MemoryStore,
    spending: Mutex<Spending>,
}

#[derive(Debug, Default)]
struct Spending {
    /// Units admitted here that the store was not charged for, by policy and key.
    spent: HashMap<Spender, Cost>,
    starts_empty: HashSet<Box<str>>,
}

/// Units of one key that the store was not charged for.
#[derive(Debug)]
pub(super) struct Unreconciled {
    pub(super) policy: Box<str>,
    pub(super) key: Box<[u8]>,
    pub(super) cost: Cost,
}

impl Unreconciled {
    pub(super) fn charge(&self, cost: Cost) -> Charge<'_> {
        Charge::new(&self.policy, &self.key, cost)
    }
}

impl Default for LocalShare {
    fn default() -> Self {
        let store = MemoryStore::new(MAX_KEYS, TscClock::default());
        Self { store, spending: Mutex::default() }
    }
}

impl LocalShare {
    /// This node's part of a policy, which is given as it is for all nodes together.
    pub(super) fn of(policy: &Policy, nodes: u64) -> Result<Share, StoreError> {
        policy.share(nodes).map_err(|error| {
            let name = policy.name();
            let sentence = format!("policy `{name}` divided by {nodes} nodes: {error}");
            StoreError::unfit(Detail::from(sentence).caused_by(error))
        })
    }

    /// Adds or replaces a policy.
    pub(super) async fn set_policy(&self, share: Share) -> Result<(), StoreError> {
        self.note_start(&share);
        self.store.set_policy(share.policy).await
    }

    /// Adds or replaces a policy that shares its keys with another.
    pub(super) async fn set_variant(
        &self,
        of: &str,
        share: Share,
        migration: Migration,
    ) -> Result<(), StoreError> {
        self.note_start(&share);
        self.store.set_variant(of, share.policy, migration).await
    }

    fn note_start(&self, share: &Share) {
        let mut spending = lock(&self.spending);
        if share.starts_empty {
            spending.starts_empty.insert(share.policy.name().into());
        } else {
            spending.starts_empty.remove(share.policy.name());
        }
    }

    /// Removes a policy and what was admitted under it.
    pub(super) async fn remove_policy(&self, name: &str) -> Result<(), StoreError> {
        self.drop_spending(&[name]);
        self.store.remove_policy(name).await
    }

    /// The same for variants of a policy.
    pub(super) async fn remove_variants(&self, of: &str, names: &[&str]) -> Result<(), StoreError> {
        self.drop_spending(names);
        self.store.remove_variants(of, names).await
    }

    fn drop_spending(&self, names: &[&str]) {
        let mut spending = lock(&self.spending);
        names.iter().for_each(|name| _ = spending.starts_empty.remove(*name));
        spending.spent.retain(|(policy, _), _| !names.contains(&&**policy));
    }

    /// This node's part of a policy, as it was set.
    pub(super) fn policy(&self, name: &str) -> Option<Arc<Policy>> {
        self.store.policy_as_it_is(name)
    }

    /// Whether units were admitted that the store was not charged for.
    #[cfg(any(test, feature = "tokio"))]
    pub(super) fn is_unreconciled(&self) -> bool {
        !lock(&self.spending).spent.is_empty()
    }

    /// As [`Store::apply`], by this node alone.
    pub(super) async fn apply(
        &self,
        verb: Verb,
        charges: &[Charge<'_>],
    ) -> Result<Vec<Answer>, StoreError> {
        let charges = self.priced(verb, charges)?;
        if verb == Verb::Check {
            self.empty_new_keys(&charges).await?;
        }
        let mut answers = self.store.apply(verb, &charges).await?;
        let mut spending = lock(&self.spending);
        for (charge, answer) in charges.iter().zip(&mut answers) {
            answer.source = Source::Local;
            let granted = answer.decision.granted();
            if verb == Verb::Check && granted > 0 {
                spending.add(charge, &charge.cost.granted(granted));
            }
        }
        Ok(answers)
    }

    /// Remembers to charge the store for debits that were made here.
    pub(super) fn note_debits(&self, charges: &[Charge<'_>]) {
        let Ok(charges) = self.priced(Verb::Debit, charges) else { return };
        let mut spending = lock(&self.spending);
        let debits = charges.iter().filter(|charge| !charge.cost.is_zero());
        debits.for_each(|charge| spending.add(charge, &charge.cost));
    }

    /// The charges in the units that their policies count.
    fn priced<'a>(
        &self,
        verb: Verb,
        charges: &[Charge<'a>],
    ) -> Result<Vec<Charge<'a>>, StoreError> {
        let priced = |charge: &Charge<'a>| {
            let policy = self.policy(charge.policy);
            let policy = policy.ok_or_else(|| StoreError::UnknownPolicy(charge.policy.into()))?;
            charge.priced(verb, &policy)
        };
        charges.iter().map(priced).collect()
    }

    /// Uses up the one unit of keys that start empty.
    async fn empty_new_keys<'a>(&self, charges: &[Charge<'a>]) -> Result<(), StoreError> {
        let new_keys: Vec<Charge<'_>> = {
            let spending = lock(&self.spending);
            let is_new = |charge: &&Charge<'_>| spending.is_new(charge);
            let emptying = |charge: &Charge<'a>| {
                let policy = self.policy(charge.policy)?;
                Some(Charge { cost: policy.one_of_each(), ..charge.clone() })
            };
            charges.iter().filter(is_new).filter_map(emptying).collect()
        };
        for emptied in new_keys {
            // Recorded last: a concurrent check finds the key empty, or empties it again without effect.
            self.store.apply(Verb::Check, std::slice::from_ref(&emptied)).await?;
            lock(&self.spending).add(&emptied, &emptied.cost.granted(0));
        }
        Ok(())
    }

    /// Takes the charges that the store has missed: units admitted here that have not drained yet.
    pub(super) async fn take_unreconciled(&self) -> Vec<Unreconciled> {
        let spent = std::mem::take(&mut lock(&self.spending).spent);
        // The order of the map is another in every process; a history must replay.
        let mut spent: Vec<(Spender, Cost)> = spent.into_iter().collect();
        spent.sort_by(|(a, _), (b, _)| a.cmp(b));
        let mut all = Vec::new();
        for ((policy, key), cost) in spent {
            let mut unreconciled = Unreconciled { policy, key, cost };
            // A policy that was removed meanwhile does not stop the others.
            let Some(policy) = self.policy(&unreconciled.policy) else { continue };
            let peek = [unreconciled.charge(Cost::from(0))];
            let Ok(answers) = self.store.apply(Verb::Peek, &peek).await else { continue };
            unreconciled.cost = in_use(&policy, &answers[0], &unreconciled.cost);
            if !unreconciled.cost.is_zero() {
                all.push(unreconciled);
            }
        }
        all
    }

    /// The store has been charged for `charged`. Units it had no room for stay used here: otherwise every outage would
    /// grant another share.
    pub(super) async fn reconciled(&self, unreconciled: &Unreconciled, charged: Cost) {
        _ = self.store.apply(Verb::Refund, &[unreconciled.charge(charged)]).await;
    }

    /// The store could not be charged; the charges are kept for the next attempt.
    pub(super) fn put_back(&self, unreconciled: &Unreconciled) {
        lock(&self.spending).add(&unreconciled.charge(Cost::from(0)), &unreconciled.cost);
    }
}

/// Units admitted here that have not drained since.
fn in_use(policy: &Policy, answer: &Answer, spent: &Cost) -> Cost {
    let used = |counted: &dyn Fn(&str) -> bool| {
        let limits = policy.limits().iter().zip(&answer.limits);
        let counted = limits.filter(|(limit, _)| counted(limit.unit())).map(|(_, now)| now);
        counted.filter_map(|now| Some(now.limit?.saturating_sub(now.remaining?))).max()
    };
    let least = |used: Option<u64>, spent: u64| used.unwrap_or(spent).min(spent);
    match spent.plain() {
        Some(n) => Cost::from(least(used(&|_| true), n)),
        None => Cost::of_units(
            spent.units().map(|(unit, n)| (unit, least(used(&|counted| counted == unit), n))),
        ),
    }
}

impl Spending {
    fn is_new(&self, charge: &Charge<'_>) -> bool {
        self.starts_empty.contains(charge.policy)
            && !self.spent.contains_key(&(charge.policy.into(), charge.key.into()))
    }

    /// Adds to the usage of a key. Keys beyond the maximum are not charged to the store later.
    fn add(&mut self, charge: &Charge<'_>, cost: &Cost) {
        let full = self.spent.len() >= MAX_KEYS;
        let spender = (charge.policy.into(), charge.key.into());
        match self.spent.get_mut(&spender) {
            Some(spent) => *spent = spent.plus(cost),
            None if full => {}
            None => _ = self.spent.insert(spender, cost.clone()),
        }
    }
}
