//! Units that are charged beforehand, for proxies that spend them later. No decision is counted: proxies report theirs.

use waterclock::{Limit, Mode, Policy, Source, StoreError, Verb};

use super::check::{Route, Variants};
use super::{Check, Engine, Reply, missing_answer};

/// What could be charged.
pub(crate) enum Taken {
    /// So many units, none if nothing is left; with the store's answer.
    Units(u64, Box<Reply>),
    /// Nothing limits the key, or its limits are in shadow.
    Unlimited,
    /// The key is blocked.
    Blocked,
}

impl Engine {
    /// Charges up to so many units of a key: as many as fit.
    ///
    /// `check` makes the check of a number of units, and `counts` tells which limits they count for.
    pub(crate) async fn take_up_to<'a>(
        &self,
        units: u64,
        check: impl Fn(u64) -> Check<'a>,
        counts: impl Fn(&Policy, &Limit) -> bool,
    ) -> Result<Taken, StoreError> {
        let all = check(units);
        let mode = match self.route(Verb::Check, &all, Variants::Apply).await? {
            Route::Answered { is_blocked: true, .. } => return Ok(Taken::Blocked),
            Route::Answered { .. } | Route::Shadow(_) => return Ok(Taken::Unlimited),
            Route::Store(terms) if terms.policy.is_shadow() => return Ok(Taken::Unlimited),
            Route::Store(terms) => terms.policy.mode(),
        };
        let reply = match mode {
            // A refused attempt would count.
            Mode::CountRefusals => self.charge_one(Verb::Peek, &all).await?,
            _ => self.charge_in_line(&all).await?,
        };
        let decision = &reply.answer.decision;
        if reply.answer.source == Source::Policy {
            return Ok(if decision.is_allowed() { Taken::Unlimited } else { Taken::Blocked });
        }
        let fits = match mode {
            Mode::CountRefusals if decision.is_allowed() => units,
            _ if decision.is_allowed() => return Ok(Taken::Units(units, Box::new(reply))),
            _ if decision.granted() > 0 && mode == Mode::Partial => {
                return Ok(Taken::Units(decision.granted(), Box::new(reply)));
            }
            _ => {
                let limits = reply.policy.limits().iter().zip(reply.answer.limits.iter());
                let counting = limits.filter(|(limit, _)| counts(&reply.policy, limit));
                counting.filter_map(|(_, decided)| decided.remaining).min().unwrap_or(0)
            }
        };
        if fits == 0 || reply.is_held_up {
            return Ok(Taken::Units(0, Box::new(reply)));
        }
        let fits = fits.min(units);
        let reply = self.charge_in_line(&check(fits)).await?;
        // Another server may have come between.
        let is_allowed = reply.answer.decision.is_allowed();
        Ok(Taken::Units(if is_allowed { fits } else { 0 }, Box::new(reply)))
    }

    /// Gives back units that were charged and not spent. If the store fails, they stay charged.
    pub(crate) async fn give_back_units(&self, check: &Check<'_>) {
        _ = self.charge_in_turn(None, Verb::Refund, std::slice::from_ref(check)).await;
    }

    /// Charges one check, behind the callers in line.
    async fn charge_in_line(&self, check: &Check<'_>) -> Result<Reply, StoreError> {
        let replies = self.charge_in_turn(None, Verb::Check, std::slice::from_ref(check)).await?;
        replies.into_iter().next().ok_or_else(missing_answer)
    }
}
