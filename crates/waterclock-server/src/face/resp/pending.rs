//! Commands that wait for the store.

use std::sync::Arc;
use std::time::Duration;

use waterclock::{Cost, Decision, Settlement, StoreError, Verb};

use super::write::Replies;
use super::{cell, rl};
use crate::engine::{Check, Engine, Terms, ThrottleNumbers, ThrottlePolicy, missing_answer};
use crate::observe::Face;

/// A command whose reply needs the store.
pub(super) enum Pending<'t> {
    /// `RL.CHECK` and the like.
    Check { verb: Verb, check: Check<'t> },
    /// `RL.RESERVE`.
    Reserve { check: Check<'t>, ttl: Duration },
    /// `RL.COMMIT` with what was used, or `RL.CANCEL`.
    Settle { id: &'t str, used: Option<Cost> },
    /// `CL.THROTTLE`.
    Throttle {
        verb: Verb,
        numbers: ThrottleNumbers,
        policy: Option<Arc<ThrottlePolicy>>,
        key: &'t [u8],
        cost: u64,
    },
    /// `DEL`.
    Delete { keys: Vec<&'t [u8]> },
}

/// The store's answer to a command.
pub(super) enum Answered {
    Decision(Decision),
    Throttle(Arc<ThrottlePolicy>, Verb, Decision),
    Reservation(Decision, Option<String>),
    Settled,
    Deleted(usize),
    Failed(StoreError),
}

impl Pending<'_> {
    /// Whether it must not run at the same time as the commands around it.
    pub(super) fn runs_alone(&self) -> bool {
        match self {
            Pending::Check { verb, .. } | Pending::Throttle { verb, .. } => {
                !matches!(verb, Verb::Check | Verb::Peek)
            }
            Pending::Reserve { .. } | Pending::Settle { .. } | Pending::Delete { .. } => true,
        }
    }

    pub(super) async fn run(self, engine: &Engine) -> Answered {
        self.try_run(engine).await.unwrap_or_else(Answered::Failed)
    }

    async fn try_run(self, engine: &Engine) -> Result<Answered, StoreError> {
        match self {
            Pending::Check { verb, check } => {
                let replies = engine.apply(Face::Resp, verb, &[check]).await?;
                let reply = replies.into_iter().next().ok_or_else(missing_answer)?;
                Ok(Answered::Decision(reply.answer.decision))
            }
            Pending::Reserve { check, ttl } => {
                let terms = Terms { ttl: Some(ttl), ..Terms::default() };
                let holding = engine.reserve(Face::Resp, terms, &[check]).await?;
                let reply = holding.replies.into_iter().next().ok_or_else(missing_answer)?;
                let id = holding.reservation.map(|(id, _)| id);
                Ok(Answered::Reservation(reply.answer.decision, id))
            }
            Pending::Settle { id, used } => {
                let with = match &used {
                    Some(cost) => Settlement::Commit(std::slice::from_ref(cost)),
                    None => Settlement::Cancel,
                };
                engine.settle(id, with).await?;
                Ok(Answered::Settled)
            }
            Pending::Throttle { verb, numbers, policy, key, cost } => {
                let policy = match policy {
                    Some(policy) => policy,
                    None => engine.throttle_policy(numbers).await?,
                };
                let decision = engine.throttle(Face::Resp, &policy, verb, key, cost).await?;
                Ok(Answered::Throttle(policy, verb, decision))
            }
            Pending::Delete { keys } => {
                let mut deleted = 0;
                for key in keys {
                    deleted += usize::from(engine.reset_throttled(key).await?);
                }
                Ok(Answered::Deleted(deleted))
            }
        }
    }
}

impl Answered {
    pub(super) fn write(&self, replies: &mut Replies) {
        match self {
            Answered::Decision(decision) => rl::write_decision(decision, replies),
            Answered::Reservation(decision, id) => {
                rl::write_reservation(decision, id.as_deref(), replies);
            }
            Answered::Settled => replies.simple("OK"),
            Answered::Throttle(policy, verb, decision) => {
                cell::write_decision(policy, *verb, decision, replies);
            }
            Answered::Deleted(count) => replies.integer(i64::try_from(*count).unwrap_or(i64::MAX)),
            Answered::Failed(error) => match error.failure() {
                // The reason may name hosts.
                Some(kind) => {
                    replies.error(&format!("UNAVAILABLE the store failed ({})", kind.name()));
                }
                None => replies.error(&format!("ERR {error}")),
            },
        }
    }
}
