//! What a store would reject, found without a server.

use std::collections::HashMap;

use waterclock::{Detail, Policy, Serving, StoreError};

use crate::RedisStoreBuilder;
use crate::keyspace::Keyspace;
use crate::policies::{Entry, same_mark};

impl RedisStoreBuilder {
    /// Whether the store would accept a policy, or a variant of one: its numbers, and its leases.
    ///
    /// # Errors
    ///
    /// As [`Store::set_policy_as`](waterclock::Store::set_policy_as).
    pub fn check_policy(&self, policy: &Policy, serving: Serving) -> Result<(), StoreError> {
        Entry::new(policy.clone(), serving, None)?;
        let share = policy.share(self.nodes).map_err(|error| {
            StoreError::unfit(Detail::from(format!("policy `{}`: {error}", policy.name())))
        });
        share.map(drop)
    }
}

/// Whether records of policies with these names can be told apart; else the place of the second of two.
///
/// # Errors
///
/// As [`Store::set_policy`](waterclock::Store::set_policy) of that one.
pub fn check_names<'n>(
    names: impl IntoIterator<Item = &'n str>,
) -> Result<(), (usize, StoreError)> {
    let mut marks = HashMap::new();
    for (at, name) in names.into_iter().enumerate() {
        if let Some(twin) = marks.insert(Keyspace::mark(name), name) {
            return Err((at, same_mark(name, twin)));
        }
    }
    Ok(())
}
