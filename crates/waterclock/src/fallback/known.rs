//! The policies that were set, how each is served, and by how many nodes it is divided.

use std::sync::Arc;

use waterclock_core::{Policy, Share, Timestamp};

use super::Shared;
use super::local::LocalShare;
use super::serving::{OnStoreError, Serving};
use crate::store::{Charge, Store, StoreError, now_or_never};

/// A policy that was set.
#[derive(Clone)]
pub(super) struct Known {
    pub(super) policy: Arc<Policy>,
    /// By how many nodes its limits are divided.
    pub(super) nodes: u64,
    pub(super) serving: Serving,
    /// The policy that this one is a variant of.
    pub(super) of: Option<Box<str>>,
}

impl Known {
    /// When the local share ends in an outage that began then.
    pub(super) fn local_until(&self, began: Timestamp) -> Option<Timestamp> {
        let Serving { on_store_error, local_for, .. } = self.serving;
        let is_local = on_store_error == OnStoreError::Local;
        local_for.filter(|_| is_local).map(|local_for| began.after(local_for))
    }
}

impl<S: Store> Shared<S> {
    /// How many nodes share the store.
    pub(super) fn nodes(&self) -> u64 {
        self.nodes.max(self.store.nodes_alive().unwrap_or(0))
    }

    /// This node's part of a policy, and by how many nodes it is divided: as many as share the store. If it cannot be
    /// divided by so many, it is by those that are known beforehand.
    pub(super) fn share_of(&self, policy: &Policy) -> Result<(Share, u64), StoreError> {
        let (share, nodes) = (LocalShare::of(policy, self.nodes)?, self.nodes());
        Ok((LocalShare::of(policy, nodes).unwrap_or(share), nodes))
    }
}

impl<S> Shared<S> {
    pub(super) fn know(&self, policy: &Policy, nodes: u64, serving: Serving, of: Option<Box<str>>) {
        let policy = Arc::new(policy.clone());
        let name = policy.name().into();
        self.policies.write().insert(name, Known { policy, nodes, serving, of });
    }

    /// Divides a policy by so many nodes, unless it is.
    pub(super) fn divide(&self, policy: &str, nodes: u64) {
        let mut policies = self.policies.write();
        let Some(known) = policies.get_mut(policy).filter(|known| known.nodes != nodes) else {
            return;
        };
        known.nodes = nodes;
        // A limit that cannot be divided by so many stays as it is.
        if let Ok(share) = LocalShare::of(&known.policy, nodes) {
            _ = now_or_never(self.local.set_policy(share));
        }
    }

    /// The policies of charges, as far as they are known.
    pub(super) fn known(&self, charges: &[Charge<'_>]) -> Result<Vec<Known>, StoreError> {
        let policies = self.policies.read();
        let known = |charge: &Charge<'_>| policies.get(charge.policy).cloned();
        let unknown = |charge: &Charge<'_>| StoreError::UnknownPolicy(charge.policy.to_owned());
        charges.iter().map(|charge| known(charge).ok_or_else(|| unknown(charge))).collect()
    }
}
