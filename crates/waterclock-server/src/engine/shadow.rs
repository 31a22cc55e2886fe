//! Checks of keys that their policy is not rolled out to: decided, reported and never refused.
//!
//! They charge the policy's own state, so that a larger rollout finds what was spent. They run after the other checks of
//! a call and apart from them: they are not part of all or nothing, and their failures must not undo or repeat the
//! charges of the others.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::future::join_all;
use waterclock::{Charge, StoreError, Verb};

use super::check::{Route, Terms, Variants};
use super::{Check, Engine, Reply};

/// A check in shadow: its place among all checks of the call, and the policy.
struct Shadowed {
    at: usize,
    terms: Terms,
}

/// Charges of one key under one policy, which the store sums.
struct SharedBudget<'a> {
    charges: Vec<Charge<'a>>,
    checks: Vec<&'a Shadowed>,
}

impl Engine {
    /// The replies by the place of their checks. A check without a reply is admitted, as all in shadow are.
    pub(super) async fn charge_shadows(
        &self,
        deadline: Option<Duration>,
        verb: Verb,
        checks: &[Check<'_>],
        routes: &[Route],
        is_alone: bool,
    ) -> Result<HashMap<usize, Reply>, StoreError> {
        let shadowed = |(at, route): (usize, &Route)| match route {
            Route::Shadow(terms) => Some(Shadowed { at, terms: terms.clone() }),
            Route::Answered { .. } | Route::Store(_) => None,
        };
        let mut in_shadow: Vec<Shadowed> = routes.iter().enumerate().filter_map(shadowed).collect();
        let (mut replies, mut error) = (HashMap::new(), None);
        for is_first in [true, false] {
            let budgets = budgets(checks, &in_shadow);
            let charging =
                budgets.iter().map(|budget| self.apply_charges(deadline, verb, &budget.charges));
            let answers = join_all(charging).await;
            let mut unknown = Vec::new();
            for (budget, answers) in budgets.iter().zip(answers) {
                match answers {
                    Ok(answers) => {
                        let checks = budget.charges.iter().zip(&budget.checks);
                        for ((charge, Shadowed { at, terms }), answer) in checks.zip(answers) {
                            let reply = Reply::in_shadow(&terms.policy, answer, &charge.cost);
                            replies.insert(*at, reply);
                        }
                    }
                    Err(StoreError::UnknownPolicy(_)) if is_first => {
                        unknown.extend(budget.checks.iter().map(|shadowed| shadowed.at));
                    }
                    Err(failed) => error = error.or(Some(failed)),
                }
            }
            // An override or a tier was removed in between. Only these are tried again: the others were charged.
            in_shadow = Vec::new();
            for at in unknown {
                if let Ok(Route::Shadow(terms)) =
                    self.route(verb, &checks[at], Variants::Skip).await
                {
                    in_shadow.push(Shadowed { at, terms });
                }
            }
            if in_shadow.is_empty() {
                break;
            }
        }
        match error {
            Some(error) if fails_the_call(verb, &error, is_alone) => Err(error),
            _ => Ok(replies),
        }
    }
}

fn budgets<'a>(checks: &'a [Check<'_>], in_shadow: &'a [Shadowed]) -> Vec<SharedBudget<'a>> {
    let mut budgets: Vec<SharedBudget<'a>> = Vec::new();
    for shadowed in in_shadow {
        let check = &checks[shadowed.at];
        let charge = shadowed.terms.charge(check);
        let is_same = |budget: &&mut SharedBudget<'_>| {
            let of = |other: &Charge<'_>| other.policy == charge.policy && other.key == charge.key;
            budget.charges.iter().any(of)
        };
        match budgets.iter_mut().find(is_same) {
            Some(budget) => {
                budget.charges.push(charge);
                budget.checks.push(shadowed);
            }
            None => budgets.push(SharedBudget { charges: vec![charge], checks: vec![shadowed] }),
        }
    }
    budgets
}

/// A store that fails refuses no key in shadow. But a refund or a reset that did not happen is an error; and so is a
/// check that is wrong in itself, if nothing was charged for it.
fn fails_the_call(verb: Verb, error: &StoreError, is_alone: bool) -> bool {
    let admits = matches!(verb, Verb::Check | Verb::Peek);
    !admits || (is_alone && error.failure().is_none())
}
