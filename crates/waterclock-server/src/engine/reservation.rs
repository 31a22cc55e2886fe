//! Reservations: units held until the caller commits or cancels them.
//!
//! One reservation is one call of the store, so that every server of a shared store can settle it. Exempt and
//! unlimited keys beside others are part of it under a policy without limits: nothing is held for them, but a
//! reservation takes as many costs to commit as it had charges.
//!
//! Where nothing limits any of its keys, the store is not asked: the id says all that settling needs. Only an id that the
//! caller chose is remembered by the store in any case, so that the caller can settle by it.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use waterclock::store::check_reserved_costs;
use waterclock::{
    BadReservation, Charge, Clock, Cost, Factor, Hold, Limit, OnExpiry, Policy, Settled,
    Settlement, Store, StoreError, Verb,
};
use waterclock_config::micros_up;
use waterclock_http::compose_key;

use super::check::{Route, Terms as RouteTerms, Variants};
use super::{Check, Engine, Outcome, Reply, missing_answer};
use crate::observe::Face;

/// The policy of charges that nothing limits. Names in files have no `@`.
pub(super) const UNLIMITED: &str = "@unlimited";
/// What ids begin with of which nothing is held. The number of charges follows.
const EXEMPT: &str = "exempt:";
/// How many charges such an id may stand for: more than any protocol takes.
const MOST_EXEMPT: usize = 1_024;

/// The terms of a reservation.
#[derive(Clone, Copy, Debug, Default)]
pub struct Terms<'a> {
    /// Chosen by the caller; `None`: the store makes one.
    pub id: Option<&'a str>,
    /// How long it is held; `None`: the store's default.
    pub ttl: Option<Duration>,
    /// What becomes of the units if it is not settled in time.
    pub on_expiry: OnExpiry,
}

/// The outcome of [`Engine::reserve`].
#[derive(Debug)]
#[non_exhaustive]
pub struct Holding {
    /// The decisions, in the order of the checks.
    pub replies: Vec<Reply>,
    /// The id and the time left to settle; `None` if it was refused.
    pub reservation: Option<(String, Duration)>,
}

/// A reservation as protocols write it in JSON.
#[derive(Debug, Serialize)]
pub(crate) struct Reservation<'a> {
    id: &'a str,
    expires_in_us: u64,
}

impl<'a> Reservation<'a> {
    pub(crate) fn new(id: &'a str, expires_in: Duration) -> Self {
        Reservation { id, expires_in_us: micros_up(expires_in) }
    }
}

/// What holds the units of one check.
struct HeldCharge<'a> {
    policy: Cow<'static, str>,
    key: Cow<'a, [u8]>,
    factor: Option<Factor>,
    /// The policy that answers, or the answer where no limit applies.
    answers: Result<Arc<Policy>, Reply>,
}

/// How many charges an id stands for of which nothing is held; none if it is not such an id.
fn exempt_charges(id: &str) -> Option<usize> {
    let (charges, _) = id.strip_prefix(EXEMPT)?.split_once(':')?;
    charges.parse().ok().filter(|charges| *charges <= MOST_EXEMPT)
}

/// Nothing was held and nothing is remembered: the answer is what was asked for.
fn settle_exempt(id: &str, charges: usize, with: Settlement<'_>) -> Result<Settled, StoreError> {
    let nothing = vec![Cost::from(0); charges];
    match with {
        Settlement::Cancel => Ok(Settled::new(true, nothing.clone(), nothing)),
        Settlement::Commit(costs) if costs.len() == charges => {
            Ok(Settled::new(false, nothing, costs.to_vec()))
        }
        Settlement::Commit(costs) => {
            let (id, costs) = (id.to_owned(), costs.len());
            Err(BadReservation::Costs { id, charges, costs }.into())
        }
    }
}

impl Engine {
    /// Holds the units of all checks, or of none, until they are settled. Counted as checks.
    pub async fn reserve(
        &self,
        face: Face,
        terms: Terms<'_>,
        checks: &[Check<'_>],
    ) -> Result<Holding, StoreError> {
        check_reserved_costs(checks.iter().map(|check| &check.cost))?;
        if terms.id.is_some_and(|id| id.starts_with(EXEMPT)) {
            let detail = "an id that begins with `exempt:` is made by the server; choose another";
            return Err(BadReservation::Other(detail.into()).into());
        }
        let started = self.metrics.clock().now();
        // One with an id may be a repetition, which has its units already.
        if terms.id.is_none()
            && self.may_overtake(Verb::Check, checks)
            && let Some(replies) = self.refuse_overtaking(None, checks).await?
        {
            for (check, reply) in checks.iter().zip(&replies) {
                self.count(face, check.policy, check.key.bytes(), reply.outcome());
            }
            return Ok(Holding { replies, reservation: None });
        }
        let mut holding = self.hold(terms, checks, Variants::Apply).await;
        if let Err(StoreError::UnknownPolicy(_)) = holding {
            // An override or a tier was removed in between.
            holding = self.hold(terms, checks, Variants::Skip).await;
        }
        for (at, check) in checks.iter().enumerate() {
            let reply = holding.as_ref().ok().and_then(|holding| holding.replies.get(at));
            let outcome = reply.map_or(Outcome::Error, Reply::outcome);
            self.count(face, check.policy, check.key.bytes(), outcome);
        }
        self.metrics.decided(face, started);
        holding
    }

    /// Settles a reservation, once. Settling it again answers the same and changes nothing.
    pub async fn settle(&self, id: &str, with: Settlement<'_>) -> Result<Settled, StoreError> {
        if let Some(charges) = exempt_charges(id) {
            return settle_exempt(id, charges, with);
        }
        let settled = self.timed(self.store.settle(id, with)).await;
        // Units may have been given back, of which keys only the store knows.
        if settled.is_ok() {
            self.lines.nudge_all(None);
        }
        settled
    }

    async fn hold(
        &self,
        terms: Terms<'_>,
        checks: &[Check<'_>],
        variants: Variants,
    ) -> Result<Holding, StoreError> {
        let mut held = Vec::with_capacity(checks.len());
        for check in checks {
            let Some(charge) = self.held_charge(check, variants).await? else {
                // A blocked key: nothing is held, as a check charges nothing.
                let replies = self.charge(None, Verb::Check, checks).await?;
                return Ok(Holding { replies, reservation: None });
            };
            held.push(charge);
        }
        let charges: Vec<Charge<'_>> = held
            .iter()
            .zip(checks)
            .map(|(held, check)| {
                Charge::new(&held.policy, &held.key, check.cost.clone()).with_factor(held.factor)
            })
            .collect();
        let Terms { id, ttl, on_expiry } = terms;
        let hold = Hold { id, ttl, charges: &charges, on_expiry };
        let is_exempt = held.iter().all(|held| held.answers.is_err());
        if id.is_none() && is_exempt && charges.len() <= MOST_EXEMPT {
            let id = format!("{EXEMPT}{}:{}", charges.len(), self.exempt_ids.next());
            let reservation = Some((id, hold.checked_ttl(&[])?));
            let replies = held.into_iter().filter_map(|held| held.answers.err()).collect();
            return Ok(Holding { replies, reservation });
        }
        if held.iter().any(|held| held.answers.is_err()) {
            self.set_up_unlimited().await?;
        }
        let reserved = self.timed(self.store.reserve(&hold)).await?;
        let mut answers = reserved.answers.into_iter();
        let mut replies = Vec::with_capacity(checks.len());
        for held in held {
            let answer = answers.next().ok_or_else(missing_answer)?;
            replies.push(match held.answers {
                Ok(policy) => Reply::new(policy, answer),
                Err(reply) => reply,
            });
        }
        Ok(Holding { replies, reservation: reserved.id.map(|id| (id, reserved.expires_in)) })
    }

    /// Gives the store the policy of charges that nothing limits, if it does not have it yet.
    pub(super) async fn set_up_unlimited(&self) -> Result<(), StoreError> {
        let set_up = || async {
            let policy = Policy::new(UNLIMITED, Vec::<Limit>::new());
            self.store.set_policy(policy?).await
        };
        self.unlimited.get_or_try_init(set_up).await.copied()
    }

    /// `None` if the key is blocked.
    async fn held_charge<'a>(
        &self,
        check: &'a Check<'_>,
        variants: Variants,
    ) -> Result<Option<HeldCharge<'a>>, StoreError> {
        let limited = |policy: Arc<Policy>, factor| HeldCharge {
            policy: policy.name().to_owned().into(),
            key: check.key.bytes().into(),
            factor,
            answers: Ok(policy),
        };
        Ok(Some(match self.route(Verb::Check, check, variants).await? {
            Route::Answered { is_blocked: true, .. } => return Ok(None),
            Route::Answered { reply, .. } => HeldCharge {
                policy: UNLIMITED.into(),
                // Keys of different policies must not meet.
                key: compose_key([check.policy.name().as_bytes(), check.key.bytes()]).into(),
                factor: None,
                answers: Err(reply),
            },
            Route::Store(RouteTerms { policy, factor }) => limited(policy, factor),
            Route::Shadow(RouteTerms { policy, factor }) => {
                limited(check.policy.in_shadow(&policy, &self.store).await?, factor)
            }
        }))
    }
}
