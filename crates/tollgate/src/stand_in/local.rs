//! This node's share of every limit, in memory, while the store does not answer.

use std::collections::{HashMap, HashSet};

use tollgate_core::{Crossing, Policy};

use super::share::share;
use crate::clock::MonotonicClock;
use crate::memory::MemoryStore;
use crate::store::{Answer, Charge, Source, Store, StoreError, Verb};
use crate::sync::{Mutex, lock};

/// Keys whose use is remembered until it can be told to the store.
const MOST_KEYS: usize = 100_000;

/// A policy's name and a key.
type Spender = (Box<str>, Box<[u8]>);

/// A store in this process that decides by this node's share, and remembers what it admitted.
#[derive(Debug)]
pub struct Local {
    nodes: u64,
    store: MemoryStore,
    noted: Mutex<Noted>,
}

#[derive(Debug, Default)]
struct Noted {
    /// Units admitted here that the store does not know of, by policy and key.
    spent: HashMap<Spender, u64>,
    starts_empty: HashSet<Box<str>>,
}

/// Units of one key that the store does not know of yet.
#[derive(Debug)]
pub struct Unsettled {
    /// Under this policy,
    pub policy: Box<str>,
    /// this key
    pub key: Box<[u8]>,
    /// used so many.
    pub units: u64,
}

impl Unsettled {
    fn charge(&self, cost: u64) -> Charge<'_> {
        Charge { policy: &self.policy, key: &self.key, cost }
    }
}

impl Local {
    /// The share of one of so many nodes.
    pub fn new(nodes: u64) -> Self {
        let store = MemoryStore::new(MOST_KEYS, MonotonicClock::default());
        Self { nodes, store, noted: Mutex::default() }
    }

    /// Adds or replaces a policy, given as it is for all nodes together.
    pub async fn set_policy(&self, policy: &Policy) -> Result<(), StoreError> {
        let shared = self.share(policy)?;
        self.store.set_policy(shared).await
    }

    /// The same for one that shares its keys.
    pub async fn set_variant(
        &self,
        of: &str,
        policy: &Policy,
        crossing: Crossing,
    ) -> Result<(), StoreError> {
        let shared = self.share(policy)?;
        self.store.set_variant(of, shared, crossing).await
    }

    /// Forgets a policy and what was admitted under it.
    pub async fn remove_policy(&self, name: &str) -> Result<(), StoreError> {
        {
            let mut noted = lock(&self.noted);
            noted.starts_empty.remove(name);
            noted.spent.retain(|(policy, _), _| **policy != *name);
        }
        self.store.remove_policy(name).await
    }

    /// This node's part of a policy.
    fn share(&self, policy: &Policy) -> Result<Policy, StoreError> {
        let shared = share(policy, self.nodes).map_err(|reason| {
            StoreError::Unfit(format!("policy `{}` divided by the nodes: {reason}", policy.name()))
        })?;
        let mut noted = lock(&self.noted);
        if shared.starts_empty {
            noted.starts_empty.insert(policy.name().into());
        } else {
            noted.starts_empty.remove(policy.name());
        }
        Ok(shared.policy)
    }

    /// Whether anything was admitted that the store does not know of.
    pub fn is_unsettled(&self) -> bool {
        !lock(&self.noted).spent.is_empty()
    }

    /// As [`Store::apply`], by this node alone.
    pub async fn apply(
        &self,
        verb: Verb,
        charges: &[Charge<'_>],
    ) -> Result<Vec<Answer>, StoreError> {
        if verb == Verb::Check {
            self.empty_newcomers(charges).await?;
        }
        let mut answers = self.store.apply(verb, charges).await?;
        let mut noted = lock(&self.noted);
        for (charge, answer) in charges.iter().zip(&mut answers) {
            answer.source = Source::Local;
            let granted = answer.decision.granted();
            if verb == Verb::Check && granted > 0 {
                noted.note(charge, granted);
            }
        }
        Ok(answers)
    }

    /// Remembers to tell the store of debits that were made here.
    pub fn note_debits(&self, charges: &[Charge<'_>]) {
        let mut noted = lock(&self.noted);
        charges.iter().filter(|c| c.cost > 0).for_each(|charge| noted.note(charge, charge.cost));
    }

    /// Uses up the one unit of keys that are to start with none.
    async fn empty_newcomers(&self, charges: &[Charge<'_>]) -> Result<(), StoreError> {
        let newcomers: Vec<Charge<'_>> = {
            let noted = lock(&self.noted);
            let is_new = |charge: &&Charge<'_>| noted.is_newcomer(charge);
            charges.iter().filter(is_new).map(|charge| Charge { cost: 1, ..*charge }).collect()
        };
        for newcomer in newcomers {
            // Noted only then: who comes in between finds the key empty, or empties it in vain.
            self.store.apply(Verb::Check, &[newcomer]).await?;
            lock(&self.noted).note(&newcomer, 0);
        }
        Ok(())
    }

    /// Takes out what the store is to be told: what is still in use of what was admitted here.
    pub async fn take_unsettled(&self) -> Result<Vec<Unsettled>, StoreError> {
        let spent = std::mem::take(&mut lock(&self.noted).spent);
        let mut all = Vec::new();
        for ((policy, key), units) in spent {
            let mut unsettled = Unsettled { policy, key, units };
            // A policy that has gone meanwhile does not keep the others from being settled.
            let Ok(answers) = self.store.apply(Verb::Peek, &[unsettled.charge(0)]).await else {
                continue;
            };
            let used = answers[0]
                .limits
                .iter()
                .filter_map(|limit| Some(limit.limit?.saturating_sub(limit.remaining?)));
            // What has drained since is no longer in use.
            unsettled.units = used.max().unwrap_or(units).min(units);
            if unsettled.units > 0 {
                all.push(unsettled);
            }
        }
        Ok(all)
    }

    /// So much of it the store counts from now on. What it had no room for stays used here: else
    /// every return of the store would be worth another share.
    pub async fn settled(&self, unsettled: &Unsettled, charged: u64) {
        _ = self.store.apply(Verb::Refund, &[unsettled.charge(charged)]).await;
    }

    /// The store could not be told; another time.
    pub fn put_back(&self, unsettled: &Unsettled) {
        lock(&self.noted).note(&unsettled.charge(0), unsettled.units);
    }
}

impl Noted {
    fn is_newcomer(&self, charge: &Charge<'_>) -> bool {
        self.starts_empty.contains(charge.policy)
            && !self.spent.contains_key(&(charge.policy.into(), charge.key.into()))
    }

    /// Adds units to a key's. Beyond the most keys they are not told to the store.
    fn note(&mut self, charge: &Charge<'_>, units: u64) {
        let full = self.spent.len() >= MOST_KEYS;
        let spender = (charge.policy.into(), charge.key.into());
        match self.spent.get_mut(&spender) {
            Some(spent) => *spent = spent.saturating_add(units),
            None if full => {}
            None => _ = self.spent.insert(spender, units),
        }
    }
}
