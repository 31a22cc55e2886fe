//! Questions that the store has to be waited for.

use std::sync::Arc;
use std::time::Duration;

use waterclock::{Cost, Decision, Settlement, StoreError, Verb};

use super::write::Replies;
use super::{cell, hold, rl};
use crate::engine::{
    ActivePolicy, Check, Engine, Key, Terms, ThrottleNumbers, ThrottlePolicy, missing_answer,
};
use crate::observe::Face;

/// What is asked.
pub(super) struct Question<'t> {
    pub(super) verb: Verb,
    pub(super) cost: Cost,
    pub(super) about: About<'t>,
}

/// What it is about.
pub(super) enum About<'t> {
    /// A key of a policy in the configuration.
    Policy { served: &'t ActivePolicy, key: Key<'t> },
    /// Units of a key to hold.
    Hold { served: &'t ActivePolicy, key: Key<'t>, ttl: Duration },
    /// A reservation of which the cost was used, or nothing.
    Settle { id: &'t str, is_cancelled: bool },
    /// A key of `CL.THROTTLE`.
    Throttle { numbers: ThrottleNumbers, variant: Option<Arc<ThrottlePolicy>>, key: &'t [u8] },
    /// Keys of `CL.THROTTLE`, under whatever numbers.
    Throttled { keys: Vec<&'t [u8]> },
}

/// What the store has said.
pub(super) enum Said {
    Policy(Decision),
    Throttle(Arc<ThrottlePolicy>, Verb, Decision),
    Held(Decision, Option<String>),
    Settled,
    Count(usize),
    Nothing(StoreError),
}

impl Question<'_> {
    /// Whether what comes before and after must not be asked at the same time.
    pub(super) fn stands_alone(&self) -> bool {
        let is_held = matches!(self.about, About::Hold { .. } | About::Settle { .. });
        is_held || !matches!(self.verb, Verb::Check | Verb::Peek)
    }

    pub(super) async fn ask(self, engine: &Engine) -> Said {
        self.ask_or_fail(engine).await.unwrap_or_else(Said::Nothing)
    }

    async fn ask_or_fail(self, engine: &Engine) -> Result<Said, StoreError> {
        let (verb, cost) = (self.verb, self.cost);
        match self.about {
            About::Policy { served, key } => {
                let ask = Check { policy: served, key, cost, tier: None, rate: None };
                let replies = engine.apply(Face::Resp, verb, &[ask]).await?;
                let first = replies.into_iter().next();
                first.map(|reply| Said::Policy(reply.answer.decision)).ok_or_else(missing_answer)
            }
            About::Hold { served, key, ttl } => {
                let ask = Check { policy: served, key, cost, tier: None, rate: None };
                let terms = Terms { ttl: Some(ttl), ..Terms::default() };
                let holding = engine.reserve(Face::Resp, terms, &[ask]).await?;
                let first = holding.replies.into_iter().next().ok_or_else(missing_answer)?;
                let id = holding.reservation.map(|(id, _)| id);
                Ok(Said::Held(first.answer.decision, id))
            }
            About::Settle { id, is_cancelled } => {
                let costs = [cost];
                let with =
                    if is_cancelled { Settlement::Cancel } else { Settlement::Commit(&costs) };
                engine.settle(id, with).await?;
                Ok(Said::Settled)
            }
            About::Throttle { numbers, variant, key } => {
                let variant = match variant {
                    Some(variant) => variant,
                    None => engine.throttle_policy(numbers).await?,
                };
                let decision =
                    engine.throttle(Face::Resp, &variant, verb, key, cost.most()).await?;
                Ok(Said::Throttle(variant, verb, decision))
            }
            About::Throttled { keys } => {
                let mut count = 0;
                for key in keys {
                    count += usize::from(engine.reset_throttled(key).await?);
                }
                Ok(Said::Count(count))
            }
        }
    }
}

impl Said {
    pub(super) fn write(&self, replies: &mut Replies) {
        match self {
            Said::Policy(decision) => rl::answer(decision, replies),
            Said::Held(decision, id) => hold::answer(decision, id.as_deref(), replies),
            Said::Settled => replies.simple("OK"),
            Said::Throttle(variant, verb, decision) => {
                cell::answer(variant, *verb, decision, replies);
            }
            Said::Count(count) => replies.integer(i64::try_from(*count).unwrap_or(i64::MAX)),
            Said::Nothing(error) => match error.failure() {
                // The reason may name hosts.
                Some(kind) => {
                    replies.error(&format!("UNAVAILABLE the store failed ({})", kind.name()));
                }
                None => replies.error(&format!("ERR {error}")),
            },
        }
    }
}
