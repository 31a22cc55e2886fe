//! Which policies a store has, and which of them share their keys.

use std::sync::PoisonError;

use waterclock_core::Policy;
use waterclock_core::store::Migration;

use super::{Member, Shared, unknown};
use crate::clock::Clock;
use crate::places::OnFull;
use crate::store::StoreError;
use crate::sync::{Arc, lock};
use crate::table::{Table, Variant};

impl<C: Clock> Shared<C> {
    /// What is not said of a full store stays as it is.
    pub(super) fn set_policy(
        &self,
        policy: Policy,
        on_full: Option<OnFull>,
    ) -> Result<(), StoreError> {
        let _one_at_a_time = lock(&self.changing);
        let policy = Arc::new(policy);
        let known = self.members().get(policy.name()).cloned();
        let Some(known) = known else {
            let table = Table::sharing(&policy, &self.places);
            table.set_on_full(on_full.unwrap_or_default());
            let mut members = self.members.write().unwrap_or_else(PoisonError::into_inner);
            members.insert(policy.name().into(), Member { table, variant: Variant::BASE });
            return Ok(());
        };
        if let Some(on_full) = on_full {
            known.table.set_on_full(on_full);
        }
        // Keys migrate shard by shard: a check never waits for all of them.
        known.table.set_policy(known.variant, &policy, self.clock.now())
    }

    pub(super) fn set_variant(
        &self,
        of: &str,
        policy: Policy,
        migration: Migration,
    ) -> Result<(), StoreError> {
        let _one_at_a_time = lock(&self.changing);
        let policy = Arc::new(policy);
        let table = Arc::clone(&self.members().get(of).ok_or_else(|| unknown(of))?.table);
        if let Some(known) = self.members().get(policy.name())
            && (known.is_base() || !Arc::ptr_eq(&known.table, &table))
        {
            let name = policy.name();
            return Err(StoreError::unfit(format!(
                "policy `{name}` exists and is not a variant of `{of}`; give the variant another name"
            )));
        }
        let variant = table.set_variant(&policy, migration, self.clock.now())?;
        // By now every shard knows it.
        let mut members = self.members.write().unwrap_or_else(PoisonError::into_inner);
        members.insert(policy.name().into(), Member { table, variant });
        Ok(())
    }

    pub(super) fn remove_policy(&self, name: &str) -> Result<(), StoreError> {
        let _one_at_a_time = lock(&self.changing);
        let mut members = self.members.write().unwrap_or_else(PoisonError::into_inner);
        let Member { table, variant } = members.remove(name).ok_or_else(|| unknown(name))?;
        if variant == Variant::BASE {
            // By name: policies go by the thousand, and there are as many members.
            for name in table.variants() {
                members.remove(&*name);
            }
            // The table is dropped when no thread waits for this lock any more.
            drop(members);
        } else {
            // Keys migrate shard by shard: a check never waits for all of them.
            drop(members);
            table.remove_variants(&[variant], self.clock.now());
        }
        Ok(())
    }

    /// Removes variants of one policy at once, which costs as much as removing one. Names that are not variants of it
    /// are passed over.
    pub(super) fn remove_variants(&self, of: &str, names: &[&str]) -> Result<(), StoreError> {
        let one_at_a_time = lock(&self.changing);
        let mut members = self.members.write().unwrap_or_else(PoisonError::into_inner);
        let table = Arc::clone(&members.get(of).ok_or_else(|| unknown(of))?.table);
        let is_variant = |member: &&Member| !member.is_base() && Arc::ptr_eq(&member.table, &table);
        let mut variants = Vec::with_capacity(names.len());
        for name in names {
            if let Some(variant) =
                members.get(*name).filter(is_variant).map(|member| member.variant)
            {
                members.remove(*name);
                variants.push(variant);
            }
        }
        drop(members);
        // Every key is looked at, and other policies may change meanwhile. That none of these names is added again until
        // then is up to the caller.
        drop(one_at_a_time);
        table.remove_variants(&variants, self.clock.now());
        Ok(())
    }
}
