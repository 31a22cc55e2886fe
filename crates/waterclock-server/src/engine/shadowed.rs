//! Keys that a policy is not rolled out to: decided as if it were, and admitted all the same.
//!
//! They are asked about apart from the others, because what nobody is refused by takes no part in all or
//! nothing. The state is the policy's own, so that a larger share finds what was spent.
//!
//! They are asked about after the others were charged. So from here on nothing may be an error or be charged
//! twice because of somebody who is only watched.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use waterclock::{Charge, Policy, StoreError, Verb};

use super::apply::{Look, Under};
use super::{Ask, Engine, Reply};

/// Charges of one key under one policy. Those are summed, as everywhere.
struct Budget<'a> {
    charges: Vec<Charge<'a>>,
    /// Which asks they come from, and the policy.
    places: Vec<(usize, Arc<Policy>)>,
}

/// What became of a round of questions.
#[derive(Default)]
struct Round {
    replies: HashMap<usize, Reply>,
    /// Those whose policy the store does not know: nothing was charged for them.
    unknown: Vec<usize>,
    /// Why others have no reply.
    error: Option<StoreError>,
}

impl Engine {
    /// The replies to asks that these policies watch, by the places they have among all. Who is missing has
    /// no answer, and is admitted as everybody in shadow. `is_alone` says that there are no other asks.
    pub(super) async fn beside(
        &self,
        patience: Option<Duration>,
        verb: Verb,
        asks: &[Ask<'_>],
        in_shadow: Vec<(usize, Arc<Policy>)>,
        is_alone: bool,
    ) -> Result<HashMap<usize, Reply>, StoreError> {
        let mut first = self.round(patience, verb, asks, &in_shadow).await;
        let mut again = Vec::new();
        for place in first.unknown {
            // Only these: the others were charged.
            if let Some(ask) = asks.get(place)
                && let Ok(Under::Shadow(policy)) = self.under(verb, ask, Look::Again).await
            {
                again.push((place, policy));
            }
        }
        if !again.is_empty() {
            let second = self.round(patience, verb, asks, &again).await;
            first.replies.extend(second.replies);
            let gone = second.unknown.first().and_then(|place| {
                let (_, policy) = again.iter().find(|(other, _)| other == place)?;
                Some(StoreError::UnknownPolicy(policy.name().to_owned()))
            });
            first.error = first.error.or(second.error).or(gone);
        }
        match first.error {
            Some(error) if must_be_told(verb, &error, is_alone) => Err(error),
            _ => Ok(first.replies),
        }
    }

    async fn round(
        &self,
        patience: Option<Duration>,
        verb: Verb,
        asks: &[Ask<'_>],
        under: &[(usize, Arc<Policy>)],
    ) -> Round {
        let budgets = budgets(asks, under);
        let answers =
            join_all(budgets.iter().map(|budget| {
                self.place.apply_within(patience, verb, &budget.charges, &self.metrics)
            }));
        let mut round = Round::default();
        for (Budget { charges, places }, answers) in budgets.iter().zip(answers.await) {
            match answers {
                Ok(answers) => {
                    for ((charge, (place, policy)), answer) in
                        charges.iter().zip(places).zip(answers)
                    {
                        let reply = Reply::in_shadow(policy, answer, &charge.cost);
                        round.replies.insert(*place, reply);
                    }
                }
                Err(StoreError::UnknownPolicy(_)) => {
                    round.unknown.extend(places.iter().map(|(place, _)| *place));
                }
                Err(error) => round.error = Some(error),
            }
        }
        round
    }
}

fn budgets<'a>(asks: &'a [Ask<'_>], under: &'a [(usize, Arc<Policy>)]) -> Vec<Budget<'a>> {
    let mut budgets: Vec<Budget<'a>> = Vec::new();
    for (place, policy) in under {
        let Some(ask) = asks.get(*place) else { continue };
        let charge = Charge { policy: policy.name(), key: ask.key.bytes(), cost: ask.cost.clone() };
        let is_same = |budget: &&mut Budget<'_>| {
            let of = |other: &Charge<'_>| other.policy == charge.policy && other.key == charge.key;
            budget.charges.iter().any(of)
        };
        let place = (*place, Arc::clone(policy));
        match budgets.iter_mut().find(is_same) {
            Some(budget) => {
                budget.charges.push(charge);
                budget.places.push(place);
            }
            None => budgets.push(Budget { charges: vec![charge], places: vec![place] }),
        }
    }
    budgets
}

/// Nobody is refused because the store fails to say what it would have said. But what should be given back or
/// forgotten was not; and a question that is wrong is told so, if nothing was charged for it.
fn must_be_told(verb: Verb, error: &StoreError, is_alone: bool) -> bool {
    let admits = matches!(verb, Verb::Check | Verb::Peek);
    !admits || (is_alone && error.failure().is_none())
}
