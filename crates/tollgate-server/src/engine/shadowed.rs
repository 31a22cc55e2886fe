//! Keys that a policy is not rolled out to: decided as if it were, and admitted all the same.
//!
//! They are asked about apart from the others, because what nobody is refused by takes no part in all or
//! nothing. The state is the policy's own, so that a larger share finds what was spent.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tollgate::{Answer, Charge, Policy, StoreError, Verb};

use super::{Ask, Engine};

/// Charges of one key under one policy. Those are summed, as everywhere.
struct Budget<'a> {
    charges: Vec<Charge<'a>>,
    /// Which asks they come from.
    places: Vec<usize>,
}

impl Engine {
    /// The answers to these asks under these policies, with the places they have among all.
    pub(super) async fn beside(
        &self,
        patience: Option<Duration>,
        verb: Verb,
        asks: &[Ask<'_>],
        under: &[(usize, Arc<Policy>)],
    ) -> Result<Vec<(usize, Answer)>, StoreError> {
        let mut budgets: Vec<Budget<'_>> = Vec::new();
        for (place, policy) in under {
            let Some(ask) = asks.get(*place) else { continue };
            let (policy, key) = (policy.name(), ask.key.bytes());
            let charge = Charge { policy, key, cost: ask.cost };
            let is_same = |budget: &&mut Budget<'_>| {
                budget.charges.iter().any(|other| other.policy == policy && other.key == key)
            };
            match budgets.iter_mut().find(is_same) {
                Some(budget) => {
                    budget.charges.push(charge);
                    budget.places.push(*place);
                }
                None => budgets.push(Budget { charges: vec![charge], places: vec![*place] }),
            }
        }
        let answers =
            join_all(budgets.iter().map(|budget| {
                self.place.apply_within(patience, verb, &budget.charges, &self.metrics)
            }));
        let mut all = Vec::with_capacity(under.len());
        for (budget, answers) in budgets.iter().zip(answers.await) {
            all.extend(budget.places.iter().copied().zip(answers?));
        }
        Ok(all)
    }
}
