//! The policies of a store, each with how it is served.

use std::sync::Arc;
use std::time::Duration;

use tollgate::{Algorithm, Mode, Policy, StoreError};

use crate::keyspace::{Keyspace, Mark};
use crate::shape::Shape;

/// Older definitions of a policy whose records are still looked for.
const REMEMBERED: usize = 4;

/// What to do while the store does not answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnStoreError {
    /// Serve this node's share from memory.
    #[default]
    Local,
    /// Admit everything.
    Allow,
    /// Admit nothing: the check fails.
    Deny,
}

/// Units taken out beforehand, to be spent without asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// How many units at a time.
    pub size: u64,
    /// For how long they may be spent.
    pub ttl: Duration,
}

/// How a policy is served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Serving {
    /// What to do while the store does not answer.
    pub on_store_error: OnStoreError,
    /// Lease mode, for policies with hot keys.
    pub lease: Option<Lease>,
}

/// A policy with everything that follows from it.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) policy: Policy,
    pub(crate) shape: Shape,
    pub(crate) mark: Mark,
    pub(crate) serving: Serving,
    /// Definitions this one replaced, the latest first.
    pub(crate) older: Vec<Arc<Entry>>,
}

impl Entry {
    pub(crate) fn new(
        policy: Policy,
        serving: Serving,
        before: Option<&Arc<Entry>>,
    ) -> Result<Self, StoreError> {
        let shape = Shape::of(&policy)?;
        if serving.lease.is_some() {
            leasable(&policy)?;
        }
        let mark = Keyspace::mark(policy.name(), &shape.fingerprint());
        let mut older: Vec<Arc<Entry>> = Vec::new();
        for entry in before.into_iter().flat_map(|entry| std::iter::once(entry).chain(&entry.older))
        {
            let known = |mark| older.iter().any(|other: &Arc<Entry>| other.mark == mark);
            if entry.mark != mark && !known(entry.mark) && older.len() < REMEMBERED {
                older.push(Arc::clone(entry));
            }
        }
        Ok(Self { policy, shape, mark, serving, older })
    }
}

fn leasable(policy: &Policy) -> Result<(), StoreError> {
    let unfit = |what: &str| {
        let name = policy.name();
        Err(StoreError::Unfit(format!("policy `{name}` cannot be leased: {what}")))
    };
    if policy.admits_by() != Mode::Binary || policy.is_shadow() {
        return unfit("only binary policies that are not in shadow can be");
    }
    for limit in policy.limits() {
        let event =
            matches!(limit.algorithm(), Algorithm::EvenSlots(_) | Algorithm::MinInterval(_));
        if event || limit.gap().is_some() || limit.is_shadow() {
            return unfit("units taken out beforehand keep no distance and cast no shadow");
        }
    }
    Ok(())
}
