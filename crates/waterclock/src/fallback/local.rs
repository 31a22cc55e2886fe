//! This node's share of every limit, in memory, while the store does not answer.

use std::collections::{HashMap, HashSet};

use waterclock_core::store::Migration;
use waterclock_core::{Cost, Policy};

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
    spent: HashMap<Spender, Cost>,
    starts_empty: HashSet<Box<str>>,
}

/// Units of one key that the store does not know of yet.
#[derive(Debug)]
pub struct Unsettled {
    /// Under this policy,
    pub policy: Box<str>,
    /// this key
    pub key: Box<[u8]>,
    /// used so much.
    pub cost: Cost,
}

impl Unsettled {
    fn charge(&self, cost: Cost) -> Charge<'_> {
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
        migration: Migration,
    ) -> Result<(), StoreError> {
        let shared = self.share(policy)?;
        self.store.set_variant(of, shared, migration).await
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
        let shared = policy.share(self.nodes).map_err(|reason| {
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
        let charges = self.priced(verb, charges)?;
        if verb == Verb::Check {
            self.empty_newcomers(&charges).await?;
        }
        let mut answers = self.store.apply(verb, &charges).await?;
        let mut noted = lock(&self.noted);
        for (charge, answer) in charges.iter().zip(&mut answers) {
            answer.source = Source::Local;
            let granted = answer.decision.granted();
            if verb == Verb::Check && granted > 0 {
                noted.note(charge, &charge.cost.granted(granted));
            }
        }
        Ok(answers)
    }

    /// Remembers to tell the store of debits that were made here.
    pub fn note_debits(&self, charges: &[Charge<'_>]) {
        let Ok(charges) = self.priced(Verb::Debit, charges) else { return };
        let mut noted = lock(&self.noted);
        let debits = charges.iter().filter(|charge| !charge.cost.is_zero());
        debits.for_each(|charge| noted.note(charge, &charge.cost));
    }

    /// The same as the policies count them.
    fn priced<'a>(
        &self,
        verb: Verb,
        charges: &[Charge<'a>],
    ) -> Result<Vec<Charge<'a>>, StoreError> {
        let priced = |charge: &Charge<'a>| {
            let policy = self.store.policy_as_it_is(charge.policy);
            let policy = policy.ok_or_else(|| StoreError::UnknownPolicy(charge.policy.into()))?;
            charge.priced(verb, &policy)
        };
        charges.iter().map(priced).collect()
    }

    /// Uses up the one unit of keys that are to start with none.
    async fn empty_newcomers<'a>(&self, charges: &[Charge<'a>]) -> Result<(), StoreError> {
        let newcomers: Vec<Charge<'_>> = {
            let noted = lock(&self.noted);
            let is_new = |charge: &&Charge<'_>| noted.is_newcomer(charge);
            let emptying = |charge: &Charge<'a>| {
                let policy = self.store.policy_as_it_is(charge.policy)?;
                Some(Charge { cost: policy.one_of_each(), ..charge.clone() })
            };
            charges.iter().filter(is_new).filter_map(emptying).collect()
        };
        for newcomer in newcomers {
            // Noted only then: who comes in between finds the key empty, or empties it in vain.
            self.store.apply(Verb::Check, std::slice::from_ref(&newcomer)).await?;
            lock(&self.noted).note(&newcomer, &newcomer.cost.granted(0));
        }
        Ok(())
    }

    /// Takes out what the store is to be told: what is still in use of what was admitted here.
    pub async fn take_unsettled(&self) -> Result<Vec<Unsettled>, StoreError> {
        let spent = std::mem::take(&mut lock(&self.noted).spent);
        let mut all = Vec::new();
        for ((policy, key), cost) in spent {
            let mut unsettled = Unsettled { policy, key, cost };
            // A policy that has gone meanwhile does not keep the others from being settled.
            let Some(policy) = self.store.policy_as_it_is(&unsettled.policy) else { continue };
            let peek = [unsettled.charge(Cost::from(0))];
            let Ok(answers) = self.store.apply(Verb::Peek, &peek).await else { continue };
            unsettled.cost = in_use(&policy, &answers[0], &unsettled.cost);
            if !unsettled.cost.is_zero() {
                all.push(unsettled);
            }
        }
        Ok(all)
    }

    /// So much of it the store counts from now on. What it had no room for stays used here: else
    /// every return of the store would be worth another share.
    pub async fn settled(&self, unsettled: &Unsettled, charged: Cost) {
        _ = self.store.apply(Verb::Refund, &[unsettled.charge(charged)]).await;
    }

    /// The store could not be told; another time.
    pub fn put_back(&self, unsettled: &Unsettled) {
        lock(&self.noted).note(&unsettled.charge(Cost::from(0)), &unsettled.cost);
    }
}

/// What is still in use of what was admitted here: what has drained since is not.
fn in_use(policy: &Policy, answer: &Answer, spent: &Cost) -> Cost {
    let used = |counted: &dyn Fn(&str) -> bool| {
        let limits = policy.limits().iter().zip(&answer.limits);
        let counted = limits.filter(|(limit, _)| counted(limit.unit())).map(|(_, says)| says);
        counted.filter_map(|says| Some(says.limit?.saturating_sub(says.remaining?))).max()
    };
    let least = |used: Option<u64>, spent: u64| used.unwrap_or(spent).min(spent);
    match spent.plain() {
        Some(n) => Cost::from(least(used(&|_| true), n)),
        None => Cost::of_units(
            spent.units().map(|(unit, n)| (unit, least(used(&|counted| counted == unit), n))),
        ),
    }
}

impl Noted {
    fn is_newcomer(&self, charge: &Charge<'_>) -> bool {
        self.starts_empty.contains(charge.policy)
            && !self.spent.contains_key(&(charge.policy.into(), charge.key.into()))
    }

    /// Adds to what a key used. Beyond the most keys that is not told to the store.
    fn note(&mut self, charge: &Charge<'_>, cost: &Cost) {
        let full = self.spent.len() >= MOST_KEYS;
        let spender = (charge.policy.into(), charge.key.into());
        match self.spent.get_mut(&spender) {
            Some(spent) => *spent = spent.plus(cost),
            None if full => {}
            None => _ = self.spent.insert(spender, cost.clone()),
        }
    }
}
