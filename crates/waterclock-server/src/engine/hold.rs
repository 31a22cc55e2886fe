//! Reservations: what holds each key's units until the truth is known, and how they are settled.
//!
//! One reservation is one call of the store, whoever its keys are, so that every server of a shared store
//! can settle it. What nobody limits is held there, too, under a policy without limits: it holds nothing, but
//! a reservation has an id and as many costs to commit as it had charges, for exempt keys as for others.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use waterclock::{
    Charge, Clock, Hold, Limit, OnExpiry, Policy, Settled, Settlement, StoreError, Verb,
};
use waterclock_http::compose_key;

use super::apply::{Look, Under};
use super::place::Place;
use super::{Ask, Engine, Outcome, Reply, short_of_answers};
use crate::observe::Face;

/// Holds what nobody limits. No policy of a file has a dot.
const UNLIMITED: &str = "held.unlimited";

/// On which terms something is held.
#[derive(Clone, Copy, Debug, Default)]
pub struct Terms<'a> {
    /// Chosen by the caller; `None`: the store makes one.
    pub id: Option<&'a str>,
    /// How long it may take to settle; `None`: what the store says.
    pub ttl: Option<Duration>,
    /// What becomes of it if nobody settles it in time.
    pub on_expiry: OnExpiry,
}

/// What came of a wish to hold something.
#[derive(Debug)]
pub struct Holding {
    /// The decisions, in the order of the asks.
    pub replies: Vec<Reply>,
    /// By what it is settled, and how long it can be; nothing if it was refused.
    pub reservation: Option<(String, Duration)>,
}

/// Gives the store what holds the units of those whom nobody limits.
pub(super) async fn begin(place: &Place) -> Result<(), StoreError> {
    let policy = Policy::new(UNLIMITED, Vec::<Limit>::new());
    place.set_plain(policy.map_err(|error| StoreError::Unfit(error.to_string()))?).await
}

/// What one ask is held under.
struct Line<'a> {
    policy: Cow<'static, str>,
    key: Cow<'a, [u8]>,
    /// The answer, where it is not the store's.
    reply: Result<Arc<Policy>, Reply>,
}

impl Engine {
    /// Holds all asks or none until they are settled. Counted as a check is.
    pub async fn reserve(
        &self,
        face: Face,
        terms: Terms<'_>,
        asks: &[Ask<'_>],
    ) -> Result<Holding, StoreError> {
        let started = self.metrics.clock().now();
        let mut holding = self.hold(terms, asks, Look::First).await;
        if let Err(StoreError::UnknownPolicy(_)) = holding {
            // An override was taken back in between, or a reload has left it out: look again.
            holding = self.hold(terms, asks, Look::Again).await;
        }
        for (at, ask) in asks.iter().enumerate() {
            let reply = holding.as_ref().ok().and_then(|holding| holding.replies.get(at));
            let outcome = reply.map_or(Outcome::Error, Reply::outcome);
            self.count(face, ask.served, ask.key.bytes(), outcome);
        }
        self.metrics.decided(face, started);
        holding
    }

    /// Settles a reservation, once: what is asked after that answers the same and changes nothing.
    pub async fn settle(&self, id: &str, with: Settlement<'_>) -> Result<Settled, StoreError> {
        self.place.settle(id, with, &self.metrics).await
    }

    async fn hold(
        &self,
        terms: Terms<'_>,
        asks: &[Ask<'_>],
        look: Look,
    ) -> Result<Holding, StoreError> {
        let mut lines = Vec::with_capacity(asks.len());
        for ask in asks {
            let Some(line) = self.held_under(ask, look).await? else {
                // Nothing is held where somebody is blocked, as nothing is charged by a check.
                let replies = self.decide(None, Verb::Check, asks).await?;
                return Ok(Holding { replies, reservation: None });
            };
            lines.push(line);
        }
        let charges: Vec<Charge<'_>> = lines
            .iter()
            .zip(asks)
            .map(|(line, ask)| Charge {
                policy: &line.policy,
                key: &line.key,
                cost: ask.cost.clone(),
            })
            .collect();
        let Terms { id, ttl, on_expiry } = terms;
        let hold = Hold { id, ttl, charges: &charges, on_expiry };
        let reserved = self.place.reserve(&hold, &self.metrics).await?;
        let mut answers = reserved.answers.into_iter();
        let mut replies = Vec::with_capacity(asks.len());
        for line in lines {
            let answer = answers.next().ok_or_else(short_of_answers)?;
            replies
                .push(line.reply.map_or_else(|reply| reply, |policy| Reply::new(policy, answer)));
        }
        Ok(Holding { replies, reservation: reserved.id.map(|id| (id, reserved.expires_in)) })
    }

    /// What holds the units of one ask; nothing, if its key is blocked.
    async fn held_under<'a>(
        &self,
        ask: &Ask<'a>,
        look: Look,
    ) -> Result<Option<Line<'a>>, StoreError> {
        let limited = |policy: Arc<Policy>| Line {
            policy: policy.name().to_owned().into(),
            key: ask.key.bytes().into(),
            reply: Ok(policy),
        };
        let free = |reply: Reply| Line {
            policy: UNLIMITED.into(),
            // Those of different policies are not one.
            key: compose_key([ask.served.name().as_bytes(), ask.key.bytes()]).into(),
            reply: Err(reply),
        };
        Ok(Some(match self.under(Verb::Check, ask, look).await? {
            Under::Blocked(_) => return Ok(None),
            Under::Exempt(policy) => free(Reply::exempt(policy, &ask.cost)),
            Under::Unlimited(policy) => free(Reply::unlimited(policy, &ask.cost)),
            Under::Policy(policy) => limited(policy),
            Under::Shadow(policy) => limited(ask.served.in_shadow(&policy, &self.place).await?),
        }))
    }
}
