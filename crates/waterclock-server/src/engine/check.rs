//! One check: what applies to each key, what the store decides, and the reply.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use waterclock::Store as _;
use waterclock::store::now_or_never;
use waterclock::{
    Action, Answer, Charge, Clock, Cost, CostError, Decision, LimitDecision, Origin, Policy,
    StoreError, Subject, Verb,
};

use super::{ActivePolicy, Engine, Key, Outcome, Rate, Reply};
use crate::observe::Face;

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
    /// The tier that the caller names. Tiers the policy does not have are ignored.
    pub tier: Option<Cow<'a, str>>,
    /// Numbers that replace those of the policy's first limit for this call.
    pub rate: Option<Rate>,
}

impl<'a> Check<'a> {
    /// A check of a key. The cost is priced here, once; the errors are about the cost.
    pub fn new(
        policy: &'a ActivePolicy,
        key: Key<'a>,
        verb: Verb,
        cost: Option<&Cost>,
    ) -> Result<Check<'a>, CostError> {
        let cost = verb.price(policy.scope().policy(), cost)?;
        Ok(Check { policy, key, cost, tier: None, rate: None })
    }

    /// The same for a caller of a tier.
    #[must_use]
    pub fn with_tier(mut self, tier: Option<Cow<'a, str>>) -> Check<'a> {
        self.tier = tier;
        self
    }

    #[inline]
    fn subject(&self) -> Subject<'_> {
        self.key.subject().with_tier(self.tier.as_deref())
    }
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
    Store(Arc<Policy>),
    /// The store decides on its own, and the key is admitted in any case.
    Shadow(Arc<Policy>),
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
        face: Face,
        verb: Verb,
        checks: &[Check<'_>],
    ) -> Vec<Result<Reply, StoreError>> {
        let started = self.metrics.clock().now();
        let one = async |check: &Check<'_>| {
            if let Some(reply) = self.reply_now(face, verb, check) {
                return Ok(reply);
            }
            let replies = Box::pin(self.decide(face.into(), verb, std::slice::from_ref(check)));
            replies.await?.into_iter().next().ok_or_else(missing_answer)
        };
        let mut replies = Vec::with_capacity(checks.len());
        for some in checks.chunks(MAX_CONCURRENT) {
            replies.extend(join_all(some.iter().map(one)).await);
        }
        self.metrics.decided(face, started);
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
        let store = self.memory.as_ref()?;
        if self.overrides.get(policy.name(), key).is_some()
            || (verb == Verb::Check && self.lines.holds_up(policy.name(), key.bytes()))
        {
            return None;
        }
        let resolution = policy.scope().resolve(&key.subject());
        if resolution.action != Action::Enforce || !resolution.is_usual() {
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
            let outcome = Outcome::of(resolution.policy, &decision);
            self.count(face, policy, key.bytes(), outcome);
        }
        Some(decision)
    }

    /// The same as a whole reply, for a policy of one limit: its numbers are the decision's.
    fn reply_now(&self, face: Face, verb: Verb, check: &Check<'_>) -> Option<Reply> {
        let policy = check.policy.scope().policy();
        let is_plain = check.rate.is_none()
            && check.tier.as_deref().and_then(|tier| check.policy.scope().tier(tier)).is_none();
        if !is_plain || !has_one_live_limit(policy) {
            return None;
        }
        let cost = check.cost.plain()?;
        let decision = self.decide_now(face, verb, check.policy, &check.key, cost)?;
        Some(Reply::new(Arc::clone(policy), answer_of_only_limit(decision)))
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
        let mut replies = self.charge_in_turn(caller.deadline, verb, checks).await;
        if matches!(verb, Verb::Refund | Verb::Reset) && replies.is_ok() {
            let is_usual = |check: &Check<'_>| {
                let runtime = self.overrides.get(check.policy.name(), &check.key);
                let subject = check.subject().with_override(runtime.as_ref());
                check.policy.scope().resolve(&subject).is_usual()
            };
            if !checks.iter().all(is_usual) {
                // Refunds change the policy's own state; the reply has the numbers that apply to the key. If
                // the peek fails, the refund has happened all the same.
                let peeked = self.charge(caller.deadline, Verb::Peek, checks).await;
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
            let is_blocked = verb == Verb::Check && routes.iter().any(Route::is_blocked);
            let verb = if is_blocked { Verb::Peek } else { verb };
            let mut charges = Vec::with_capacity(checks.len());
            for (check, route) in checks.iter().zip(&routes) {
                if let Route::Store(policy) = route {
                    charges.push(Charge::new(policy.name(), check.key.bytes(), check.cost.clone()));
                }
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
                Route::Store(policy) => match answers.next() {
                    Some(answer) if is_blocked => Reply::withheld(policy, answer),
                    Some(answer) => Reply::new(policy, answer),
                    None => return Err(missing_answer()),
                },
                Route::Shadow(policy) => {
                    let unanswered = || Reply::unanswered_shadow(&policy, &check.cost);
                    shadows.remove(&at).unwrap_or_else(unanswered)
                }
            });
        }
        Ok(replies)
    }

    /// What decides about a check. [`waterclock::Scope`] knows the order of precedence.
    pub(super) async fn route(
        &self,
        verb: Verb,
        check: &Check<'_>,
        variants: Variants,
    ) -> Result<Route, StoreError> {
        let scope = check.policy.scope();
        let runtime = self.overrides.get(check.policy.name(), &check.key);
        let resolution = if matches!(verb, Verb::Refund | Verb::Reset) {
            scope.resolve_base(check.key.bytes())
        } else {
            scope.resolve(
                &check
                    .subject()
                    .with_override(runtime.as_ref())
                    .has_own_numbers(check.rate.is_some())
                    .skips_variants(variants == Variants::Skip),
            )
        };
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
        Ok(if is_shadow { Route::Shadow(policy) } else { Route::Store(policy) })
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

/// Decisions of shadow limits stand beside the policy's decision, so only a live limit has all its numbers in it.
fn has_one_live_limit(policy: &Policy) -> bool {
    matches!(policy.limits(), [only] if !only.is_shadow()) && !policy.is_shadow()
}

fn answer_of_only_limit(decision: Decision) -> Answer {
    let limit = LimitDecision {
        allowed: decision.is_allowed(),
        limit: decision.limit(),
        remaining: decision.remaining(),
        retry_after: decision.retry_after(),
        next_unit: decision.next_unit(),
        reset_after: decision.reset_after(),
    };
    Answer::new(decision, vec![limit])
}

#[cfg(test)]
mod tests {
    use waterclock::{ManualClock, MemoryStore, Store};
    use waterclock_config::Config;

    use super::*;

    const POLICIES: &str = r#"
policies.gcra.limits = [{ algorithm = "gcra", limit = 3, per = "1s", capacity = 5 }]
policies.gap.limits = [{ algorithm = "gcra", limit = 30, per = "1s", min_interval = "70ms" }]
policies.debt.limits = [{ algorithm = "gcra", limit = 3, per = "1s", overdraft = true }]
policies.leaky.limits = [{ algorithm = "leaky-bucket", capacity = 7, drip = 3, every = "300ms" }]
policies.fixed.limits = [{ algorithm = "fixed-window", limit = 4, per = "1s" }]
policies.sliding.limits = ["4/s sliding-window"]
policies.rolling.limits = ["4/s rolling-window"]
policies.quota.limits = ["4/s quota"]
policies.even.limits = ["4/s even-slots"]
policies.rest.limits = [{ algorithm = "min-interval", every = "90ms" }]
policies.nary = { mode = "nary", limits = ["4/s"] }
policies.uniform = { mode = "uniform", limits = ["4/s rolling-window"] }
"#;

    /// The reply built from a lone decision is the store's own answer, number by number.
    #[tokio::test]
    async fn a_lone_decision_has_the_numbers_of_the_whole_answer() {
        let config = Config::read("test", POLICIES).unwrap();
        let clock = ManualClock::default();
        let (short, long) =
            (MemoryStore::new(100, clock.clone()), MemoryStore::new(100, clock.clone()));
        for spec in &config.policies {
            assert!(has_one_live_limit(spec.policy()));
            short.set_policy(Policy::clone(spec.policy())).await.unwrap();
            long.set_policy(Policy::clone(spec.policy())).await.unwrap();
        }
        let mut random = fastrand::Rng::with_seed(4);
        for _ in 0..20_000 {
            clock.advance(Duration::from_micros(random.u64(..50_000)));
            let name = config.policies[random.usize(..config.policies.len())].name();
            let cost = random.u64(..6);
            let decision = now_or_never(short.check_n(name, b"k", cost)).unwrap().unwrap();
            let charge = Charge { policy: name, key: b"k", cost: cost.into() };
            let answers = long.apply(Verb::Check, &[charge]).await.unwrap();
            assert_eq!(answer_of_only_limit(decision), answers[0], "{name} {cost}");
        }
    }
}
