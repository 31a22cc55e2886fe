//! This node's share of every limit, in memory, while the store does not answer.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;
use tollgate::{
    Answer, Charge, MemoryStore, MonotonicClock, Policy, Source, Store, StoreError, Verb,
};

use super::share::share;

/// Keys whose use is remembered until it can be told to the store.
const MOST_KEYS: usize = 100_000;

/// A policy's name and a key.
type Spender = (Box<str>, Box<[u8]>);

#[derive(Debug)]
pub(crate) struct Local {
    nodes: u64,
    now: Mutex<Outage>,
}

/// What happened since the store was last well.
#[derive(Debug)]
struct Outage {
    store: Arc<MemoryStore>,
    /// Units admitted here, by policy and key.
    spent: HashMap<Spender, u64>,
    policies: HashMap<Box<str>, Policy>,
    starts_empty: HashSet<Box<str>>,
}

/// Units of one key that the store does not know of yet.
#[derive(Debug)]
pub(crate) struct Unsettled {
    pub(crate) policy: Box<str>,
    pub(crate) key: Box<[u8]>,
    pub(crate) units: u64,
}

impl Local {
    pub(crate) fn new(nodes: u64) -> Self {
        let outage = Outage {
            store: Arc::new(empty_store()),
            spent: HashMap::new(),
            policies: HashMap::new(),
            starts_empty: HashSet::new(),
        };
        Self { nodes, now: Mutex::new(outage) }
    }

    pub(crate) async fn set_policy(&self, policy: &Policy) -> Result<(), StoreError> {
        let shared = share(policy, self.nodes).map_err(|reason| {
            StoreError::Unfit(format!("policy `{}` divided by the nodes: {reason}", policy.name()))
        })?;
        let store = {
            let mut now = self.now.lock();
            let name: Box<str> = policy.name().into();
            if shared.starts_empty {
                now.starts_empty.insert(name.clone());
            } else {
                now.starts_empty.remove(&name);
            }
            now.policies.insert(name, shared.policy.clone());
            Arc::clone(&now.store)
        };
        store.set_policy(shared.policy).await
    }

    /// Whether anything was admitted that the store does not know of.
    pub(crate) fn is_unsettled(&self) -> bool {
        !self.now.lock().spent.is_empty()
    }

    pub(crate) async fn apply(
        &self,
        verb: Verb,
        charges: &[Charge<'_>],
    ) -> Result<Vec<Answer>, StoreError> {
        let (store, newcomers) = {
            let mut now = self.now.lock();
            let newcomers: Vec<Charge<'_>> = charges
                .iter()
                .filter(|_| verb == Verb::Check)
                .filter(|charge| now.starts_empty.contains(charge.policy) && now.note(charge, 0))
                .map(|charge| Charge { cost: 1, ..*charge })
                .collect();
            (Arc::clone(&now.store), newcomers)
        };
        for newcomer in newcomers {
            _ = store.apply(Verb::Check, &[newcomer]).await?;
        }
        let mut answers = store.apply(verb, charges).await?;
        let mut now = self.now.lock();
        for (charge, answer) in charges.iter().zip(&mut answers) {
            answer.source = Source::Local;
            if verb == Verb::Check && answer.decision.is_allowed() {
                now.note(charge, answer.decision.granted());
            }
        }
        Ok(answers)
    }

    /// What is still in use of what was admitted here. Everything starts over afterwards.
    pub(crate) async fn settle(&self) -> Result<Vec<Unsettled>, StoreError> {
        let policies = self.now.lock().policies.clone();
        let fresh = empty_store();
        for policy in policies.into_values() {
            fresh.set_policy(policy).await?;
        }
        let (store, spent) = {
            let mut now = self.now.lock();
            let store = std::mem::replace(&mut now.store, Arc::new(fresh));
            (store, std::mem::take(&mut now.spent))
        };
        let mut unsettled = Vec::new();
        for ((policy, key), spent) in spent {
            let peek = Charge { policy: &policy, key: &key, cost: 0 };
            let answers = store.apply(Verb::Peek, &[peek]).await?;
            let used = answers[0]
                .limits
                .iter()
                .filter_map(|limit| Some(limit.limit?.saturating_sub(limit.remaining?)));
            // What has drained since is no longer in use.
            let units = used.max().unwrap_or(spent).min(spent);
            if units > 0 {
                unsettled.push(Unsettled { policy, key, units });
            }
        }
        Ok(unsettled)
    }
}

impl Outage {
    /// Adds units to a key's; true if the key is new.
    fn note(&mut self, charge: &Charge<'_>, units: u64) -> bool {
        let spender = (charge.policy.into(), charge.key.into());
        let full = self.spent.len() >= MOST_KEYS;
        match self.spent.get_mut(&spender) {
            Some(spent) => *spent = spent.saturating_add(units),
            None if full => return true,
            None => {
                self.spent.insert(spender, units);
                return true;
            }
        }
        false
    }
}

fn empty_store() -> MemoryStore {
    MemoryStore::new(MOST_KEYS, MonotonicClock::default())
}
