//! One check: what applies to each key, what the store decides, and the reply.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::timeout;
use waterclock::Store as _;
use waterclock::store::now_or_never;
use waterclock::{
    Action, Charge, Clock, Cost, CostError, Decision, Factor, MemoryStore, Mode, Origin, Override,
    Policy, StoreError, Subject, TscClock, UnknownTier, Verb,
};

use super::reservation::UNLIMITED;
use super::{ActivePolicy, Engine, Key, Outcome, Rate, Reply};
use crate::observe::Face;

/// How long the override of a key is looked up that would not need the store otherwise.
const MAX_LOOKUP: Duration = Duration::from_millis(10);
/// Checks of one batch that wait for the store at the same time.
const MAX_CONCURRENT: usize = 64;

/// One policy, one key and a cost to decide about.
pub struct Check<'a> {
    /// The policy, from the [`Plan`](super::Plan).
    pub policy: &'a ActivePolicy,
    /// The key to charge.
    pub key: Key<'a>,
    /// How much, as the policy counts it; 0 is a peek.
    pub cost: Cost,
    /// A tier that the policy knows.
    pub tier: Option<Cow<'a, str>>,
    /// How much stricter the limits are for this call.
    pub factor: Option<Factor>,
    /// Numbers that replace those of the policy's first limit for this call.
    pub rate: Option<Rate>,
}

impl<'a> Check<'a> {
    /// A check of a key. The cost is priced here, once; the errors are about the cost.
    #[inline]
    pub fn new(
        policy: &'a ActivePolicy,
        key: Key<'a>,
        verb: Verb,
        cost: Option<&Cost>,
    ) -> Result<Check<'a>, CostError> {
        let cost = verb.price(policy.scope().policy(), cost)?;
        Ok(Check { policy, key, cost, tier: None, factor: None, rate: None })
    }

    /// The same for a caller of a tier.
    ///
    /// # Errors
    ///
    /// The policy knows neither this tier nor a default tier.
    #[inline]
    pub fn with_tier(self, tier: Option<Cow<'a, str>>) -> Result<Check<'a>, UnknownTier> {
        let tier = tier.map(|name| known_tier(self.policy, name)).transpose()?;
        Ok(Check { tier, ..self })
    }

    /// The same where an error would admit the request: a tier that is not known is the default tier, or none.
    #[must_use]
    pub fn with_tier_or_none(self, tier: Option<Cow<'a, str>>) -> Check<'a> {
        let tier = tier.and_then(|name| known_tier(self.policy, name).ok());
        Check { tier, ..self }
    }

    /// The same with limits that are stricter or looser by a factor.
    #[must_use]
    #[inline]
    pub fn with_factor(mut self, factor: Option<Factor>) -> Check<'a> {
        self.factor = factor.filter(|factor| !factor.is_one());
        self
    }

    #[inline]
    pub(super) fn subject(&self) -> Subject<'_> {
        self.key.subject().with_tier(self.tier.as_deref()).with_factor(self.factor)
    }
}

fn known_tier<'a>(policy: &ActivePolicy, name: Cow<'a, str>) -> Result<Cow<'a, str>, UnknownTier> {
    let known = policy.scope().known_tier(&name)?;
    Ok(if known == name { name } else { Cow::Owned(known.to_owned()) })
}

/// The protocol that checks, and its deadline.
#[derive(Clone, Copy, Debug)]
pub struct Caller {
    /// The protocol, for the counters.
    pub face: Face,
    /// Less than the store's own deadline; `None`: that deadline.
    pub deadline: Option<Duration>,
}

impl From<Face> for Caller {
    fn from(face: Face) -> Caller {
        Caller { face, deadline: None }
    }
}

/// What decides about one check.
pub(super) enum Route {
    /// No store is needed.
    Answered {
        reply: Reply,
        /// Whether the key is blocked, so that the other checks of the call charge nothing either.
        is_blocked: bool,
    },
    /// The store decides, together with the other checks of the call.
    Store(Terms),
    /// The store decides on its own, and the key is admitted in any case.
    Shadow(Terms),
}

/// The policy that decides about a check, and by which factor.
#[derive(Clone)]
pub(super) struct Terms {
    pub(super) policy: Arc<Policy>,
    pub(super) factor: Option<Factor>,
}

impl Terms {
    pub(super) fn charge<'a>(&'a self, check: &'a Check<'_>) -> Charge<'a> {
        Charge::new(self.policy.name(), check.key.bytes(), check.cost.clone())
            .with_factor(self.factor)
    }
}

/// Whether tiers and overrides of the configuration apply. The store may have dropped them since the caller has
/// taken its plan.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Variants {
    Apply,
    Skip,
}

impl Engine {
    /// Decides about all checks together: all are charged, or none. The replies are in their order.
    pub async fn apply(
        &self,
        caller: impl Into<Caller>,
        verb: Verb,
        checks: &[Check<'_>],
    ) -> Result<Vec<Reply>, StoreError> {
        let caller = caller.into();
        let started = self.metrics.clock().now();
        let replies = self.decide(caller, verb, checks).await;
        self.metrics.decided(caller.face, started);
        replies
    }

    /// Decides about each check on its own, whatever becomes of the others.
    pub async fn apply_each(
        &self,
        caller: impl Into<Caller>,
        verb: Verb,
        checks: &[Check<'_>],
    ) -> Vec<Result<Reply, StoreError>> {
        let caller = caller.into();
        let started = self.metrics.clock().now();
        let one = async |check: &Check<'_>| {
            if let Some(reply) = self.reply_now(caller.face, verb, check) {
                return Ok(reply);
            }
            let replies = Box::pin(self.decide(caller, verb, std::slice::from_ref(check)));
            replies.await?.into_iter().next().ok_or_else(missing_answer)
        };
        let mut replies = Vec::with_capacity(checks.len());
        // Mostly a store in memory answers all of them, and no future is needed.
        let now = checks.iter().map_while(|check| self.reply_now(caller.face, verb, check));
        replies.extend(now.map(Ok));
        for some in checks[replies.len()..].chunks(MAX_CONCURRENT) {
            replies.extend(join_all(some.iter().map(one)).await);
        }
        self.metrics.decided(caller.face, started);
        replies
    }

    /// Decides as [`apply`](Engine::apply) does about one check of a plain cost, without an allocation or a future.
    /// `None` where that is impossible: a shared store, another verb than check or peek, or a key that the policy
    /// does not apply to as it is. The time is not measured; callers measure a batch of these.
    #[inline]
    pub fn decide_now(
        &self,
        face: Face,
        verb: Verb,
        policy: &ActivePolicy,
        key: &Key<'_>,
        cost: u64,
    ) -> Option<Decision> {
        let store = self.usual_memory(policy, key)?;
        if verb == Verb::Check && self.lines.holds_up(policy.name(), key.bytes()) {
            return None;
        }
        let decision = match verb {
            Verb::Check => now_or_never(store.check_n(policy.name(), key.bytes(), cost))?,
            Verb::Peek => now_or_never(store.peek_n(policy.name(), key.bytes(), cost))?,
            _ => return None,
        };
        // If the store does not know the policy, `apply` returns the error.
        let decision = decision.ok()?;
        if verb == Verb::Check {
            let outcome = Outcome::of(policy.scope().policy(), &decision);
            self.count(face, policy, key.bytes(), outcome);
        }
        Some(decision)
    }

    /// The memory store, if there is one and it decides about this key by the policy as it is.
    #[inline]
    fn usual_memory(&self, policy: &ActivePolicy, key: &Key<'_>) -> Option<&MemoryStore<TscClock>> {
        let store = self.memory.as_ref()?;
        if store.has_override(policy.name(), key.bytes()) {
            return None;
        }
        let resolution = policy.scope().resolve(&key.subject());
        (resolution.action == Action::Enforce && resolution.is_usual()).then_some(store)
    }

    /// The same as a whole reply.
    fn reply_now(&self, face: Face, verb: Verb, check: &Check<'_>) -> Option<Reply> {
        let Check { policy, key, cost, .. } = check;
        let is_plain = check.rate.is_none()
            && check.factor.is_none()
            && check.tier.as_deref().and_then(|tier| policy.scope().tier(tier)).is_none();
        let (cost, store) = (cost.plain()?, self.usual_memory(policy, key).filter(|_| is_plain)?);
        if verb == Verb::Check && self.lines.holds_up(policy.name(), key.bytes()) {
            return None;
        }
        let answer = match verb {
            Verb::Check => store.check_in_full(policy.name(), key.bytes(), cost),
            Verb::Peek => store.peek_in_full(policy.name(), key.bytes(), cost),
            _ => return None,
        };
        let reply = Reply::new(Arc::clone(policy.scope().policy()), answer.ok()?);
        if verb == Verb::Check {
            self.count(face, policy, key.bytes(), reply.outcome());
        }
        Some(reply)
    }

    async fn decide(
        &self,
        caller: Caller,
        verb: Verb,
        checks: &[Check<'_>],
    ) -> Result<Vec<Reply>, StoreError> {
        if let [check] = checks
            && let Some(reply) = self.reply_now(caller.face, verb, check)
        {
            return Ok(vec![reply]);
        }
        // Boxed, so that the futures of calls which are answered above are small: they are moved several times.
        let charging = Box::pin(self.charge_in_turn(caller.deadline, verb, checks));
        let mut replies = charging.await;
        if matches!(verb, Verb::Refund | Verb::Reset) && replies.is_ok() {
            let is_usual =
                |check: &Check<'_>| check.policy.scope().resolve(&check.subject()).is_usual();
            if !checks.iter().all(is_usual) {
                // Refunds change the policy's own state; the reply has the numbers that apply to the key. If
                // the peek fails, the refund has happened all the same.
                let peeked = Box::pin(self.charge(caller.deadline, Verb::Peek, checks)).await;
                replies = peeked.or(replies);
            }
        }
        match &replies {
            Ok(replies) if verb == Verb::Check => {
                for (check, reply) in checks.iter().zip(replies) {
                    self.count(caller.face, check.policy, check.key.bytes(), reply.outcome());
                }
            }
            Ok(_) => {}
            Err(_) => {
                let count = |check: &Check<'_>| {
                    check.policy.tally().count(caller.face, Outcome::Error);
                };
                checks.iter().for_each(count);
            }
        }
        replies
    }

    /// Finds what applies to each check and asks the store, without counting. The checks that can be refused are
    /// charged all or none; those in shadow come after them.
    pub(super) async fn charge(
        &self,
        deadline: Option<Duration>,
        verb: Verb,
        checks: &[Check<'_>],
    ) -> Result<Vec<Reply>, StoreError> {
        let mut variants = Variants::Apply;
        let (routes, verb, is_blocked, answers) = loop {
            let mut routes = Vec::with_capacity(checks.len());
            for check in checks {
                routes.push(self.route(verb, check, variants).await?);
            }
            if checks.len() > 1 {
                self.enforce_overrides(checks, &mut routes).await;
            }
            let is_blocked = verb == Verb::Check && routes.iter().any(Route::is_blocked);
            let verb = if is_blocked { Verb::Peek } else { verb };
            let mut charges = Vec::with_capacity(checks.len());
            for (check, route) in checks.iter().zip(&routes) {
                if let Route::Store(terms) = route {
                    charges.push(terms.charge(check));
                }
            }
            if verb == Verb::Check && checks.len() > 1 && is_one_partial(&charges, &routes) {
                // The store takes them for one charge, and would grant a part of it.
                self.set_up_unlimited().await?;
                charges.push(Charge::new(UNLIMITED, charges[0].key, 1));
            }
            if charges.is_empty() {
                break (routes, verb, is_blocked, Vec::new());
            }
            match self.apply_charges(deadline, verb, &charges).await {
                // An override or a tier was removed in between. Nothing was charged so far.
                Err(StoreError::UnknownPolicy(_)) if variants == Variants::Apply => {
                    variants = Variants::Skip;
                }
                answers => break (routes, verb, is_blocked, answers?),
            }
        };
        let mut shadows = HashMap::new();
        if routes.iter().any(|route| matches!(route, Route::Shadow(_))) {
            let is_alone = answers.is_empty();
            // Boxed, because it is rare.
            let charging = Box::pin(self.charge_shadows(deadline, verb, checks, &routes, is_alone));
            shadows = charging.await?;
        }
        let mut answers = answers.into_iter();
        let mut replies = Vec::with_capacity(checks.len());
        for (at, (check, route)) in checks.iter().zip(routes).enumerate() {
            replies.push(match route {
                Route::Answered { reply, .. } => reply,
                Route::Store(Terms { policy, .. }) => match answers.next() {
                    Some(answer) if is_blocked => Reply::withheld(policy, answer),
                    Some(answer) => Reply::new(policy, answer),
                    None => return Err(missing_answer()),
                },
                Route::Shadow(Terms { policy, .. }) => {
                    let unanswered = || Reply::unanswered_shadow(&policy, &check.cost);
                    shadows.remove(&at).unwrap_or_else(unanswered)
                }
            });
        }
        Ok(replies)
    }

    /// A key with an override is enforced, so that it is part of all or nothing even where its policy is not rolled out
    /// to it.
    async fn enforce_overrides(&self, checks: &[Check<'_>], routes: &mut [Route]) {
        for (check, route) in checks.iter().zip(routes) {
            if let Route::Shadow(terms) = route
                && let Ok(Some(_)) = self.override_of(check.policy, &check.key).await
            {
                *route = Route::Store(terms.clone());
            }
        }
    }

    /// What decides about a check. [`waterclock::Scope`] knows the order of precedence.
    pub(super) async fn route(
        &self,
        verb: Verb,
        check: &Check<'_>,
        variants: Variants,
    ) -> Result<Route, StoreError> {
        let scope = check.policy.scope();
        let mut resolution = if matches!(verb, Verb::Refund | Verb::Reset) {
            scope.resolve_base(check.key.bytes())
        } else {
            scope.resolve(
                &check
                    .subject()
                    .has_own_numbers(check.rate.is_some())
                    .skips_variants(variants == Variants::Skip),
            )
        };
        if matches!(resolution.action, Action::Exempt | Action::Unlimited) {
            // The store is not asked about such a key, but its override goes first. If the store fails, it is as good as
            // none.
            let kept = self.override_of(check.policy, &check.key);
            let kept = timeout(MAX_LOOKUP, kept).await.ok().and_then(Result::ok).flatten();
            match kept.map(|kept| kept.rule) {
                Some(Override::Block) => resolution.action = Action::Block,
                Some(Override::Exempt) | None => {}
                Some(_) if resolution.action == Action::Exempt => {}
                // No limits, however they are scaled.
                Some(Override::Factor(_)) => {}
                Some(Override::Tier(_)) if check.factor.is_some_and(Factor::is_zero) => {}
                Some(_) => resolution = scope.resolve_base(check.key.bytes()),
            }
        }
        if let Some(answer) = resolution.answer(&check.cost) {
            let reply = Reply::new(Arc::clone(resolution.policy), answer);
            return Ok(Route::Answered { reply, is_blocked: resolution.action == Action::Block });
        }
        let policy = match (resolution.origin, check.rate) {
            // Boxed, because it is rare and nests deep.
            (Origin::Call, Some(rate)) => {
                Box::pin(check.policy.with_rate(rate, &self.store)).await?
            }
            _ => Arc::clone(resolution.policy),
        };
        let is_shadow = resolution.action == Action::Shadow;
        let terms = Terms { policy, factor: resolution.factor };
        Ok(if is_shadow { Route::Shadow(terms) } else { Route::Store(terms) })
    }
}

impl Route {
    fn is_blocked(&self) -> bool {
        matches!(self, Route::Answered { is_blocked: true, .. })
    }
}

pub(crate) fn missing_answer() -> StoreError {
    StoreError::failed(waterclock::Failure::BadReply, "fewer answers than charges")
}

/// Whether all charges are of one key, whose policy grants in part.
fn is_one_partial(charges: &[Charge<'_>], routes: &[Route]) -> bool {
    let grants_in_part = |route: &Route| matches!(route, Route::Store(terms) if terms.policy.mode() == Mode::Partial);
    let is_one = |all: &[Charge<'_>]| {
        let first = all.first().map(|charge| (charge.policy, charge.key));
        all.iter().all(|charge| Some((charge.policy, charge.key)) == first)
    };
    routes.iter().any(grants_in_part) && is_one(charges)
}
