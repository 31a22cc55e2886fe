//! Waiting for a key: what a caller in line asks for, how long its line takes, and checks that would overtake it.

use std::borrow::Cow;
use std::time::Duration;

use waterclock::{
    Algorithm, Charge, Cost, Decision, DecisionParts, Factor, Limit, LimitDecision, LimitSet, Mode,
    Policy, StoreError, Verb,
};

use super::check::{Route, Variants};
use super::line::{Ahead, Lines};
use super::{ActivePolicy, Check, Engine, Key, Outcome, Plan, Reply, missing_answer};
use crate::observe::Face;

/// A check that waits for its turn. It borrows neither the request that it came in nor the configuration, which a
/// reload may replace meanwhile.
pub(crate) struct PendingCheck {
    policy: Box<str>,
    key: Key<'static>,
    cost: Cost,
    tier: Option<String>,
    factor: Option<Factor>,
}

impl PendingCheck {
    pub(crate) fn new(check: &Check<'_>) -> PendingCheck {
        // A name that the policy does not have may be of any length.
        let is_known = |tier: &&Cow<'_, str>| check.policy.scope().tier(tier).is_some();
        PendingCheck {
            policy: check.policy.name().into(),
            key: check.key.clone().into_owned(),
            cost: check.cost.clone(),
            tier: check.tier.as_ref().filter(is_known).map(|tier| tier.clone().into_owned()),
            factor: check.factor,
        }
    }

    /// The check, under the configuration that is in force now.
    pub(crate) fn check<'a>(&'a self, plan: &'a Plan) -> Result<Check<'a>, StoreError> {
        let policy = plan.policy(&self.policy);
        let policy = policy.ok_or_else(|| StoreError::UnknownPolicy(self.policy.to_string()))?;
        let (key, cost) = (self.key.clone(), self.cost.clone());
        let tier = self.tier.as_deref().map(Cow::Borrowed);
        Ok(Check { policy, key, cost, tier, factor: self.factor, rate: None })
    }

    /// The line that it belongs to.
    pub(crate) fn line(&self) -> (&str, &[u8]) {
        (&self.policy, self.key.bytes())
    }

    pub(crate) fn cost(&self) -> &Cost {
        &self.cost
    }
}

/// What came of an attempt to pass.
pub(crate) struct Attempt {
    pub(crate) reply: Reply,
    /// Whether units were charged, which a caller that is gone gives back.
    pub(crate) is_charged: bool,
}

impl Attempt {
    pub(crate) fn uncharged(reply: Reply) -> Attempt {
        Attempt { reply, is_charged: false }
    }

    pub(crate) fn is_admitted(&self) -> bool {
        self.reply.answer.decision.is_allowed()
    }

    /// The same without the part that a policy in partial mode granted, or would grant.
    fn refused(mut reply: Reply) -> Attempt {
        let decision = reply.answer.decision;
        reply.answer.decision = decision.refused(decision.retry_after());
        Attempt::uncharged(reply)
    }
}

impl Route {
    /// Whether the store decides, and a refusal counts.
    fn can_refuse(&self) -> bool {
        matches!(self, Route::Store(terms) if !terms.policy.is_shadow())
    }
}

impl Engine {
    /// The callers in line.
    pub(crate) fn lines(&self) -> &std::sync::Arc<Lines> {
        &self.lines
    }

    /// The answer to a check that needs no line: nothing is asked for, or nothing limits the key, or it is blocked.
    pub(crate) async fn answer_at_once(
        &self,
        pending: &PendingCheck,
    ) -> Result<Option<Reply>, StoreError> {
        let plan = self.plan.load_full();
        let check = pending.check(&plan)?;
        let route = self.route(Verb::Check, &check, Variants::Apply).await?;
        if let Route::Answered { reply, .. } = route {
            return Ok(Some(reply));
        }
        if route.can_refuse() && !check.cost.is_zero() {
            return Ok(None);
        }
        self.charge_one(Verb::Check, &check).await.map(Some)
    }

    /// Checks for the first in line, which overtakes no other caller.
    pub(crate) async fn attempt(&self, pending: &PendingCheck) -> Result<Attempt, StoreError> {
        if let Some(reply) = self.answer_at_once(pending).await? {
            return Ok(Attempt::uncharged(reply));
        }
        let plan = self.plan.load_full();
        let check = pending.check(&plan)?;
        let mode = check.policy.scope().policy().mode();
        if mode != Mode::Binary {
            // A refused check would take a part of the cost, or count as an attempt.
            let reply = self.charge_one(Verb::Peek, &check).await?;
            if !reply.answer.decision.is_allowed() {
                return Ok(Attempt::refused(reply));
            }
        }
        let reply = self.charge_one(Verb::Check, &check).await?;
        let decision = reply.answer.decision;
        if decision.is_allowed() {
            return Ok(Attempt { reply, is_charged: true });
        }
        if mode == Mode::Partial && decision.granted() > 0 {
            // Another server came between; a part of the cost is of no use here.
            let part = Check { cost: check.cost.granted(decision.granted()), ..check };
            self.charge_one(Verb::Refund, &part).await?;
        }
        Ok(Attempt::refused(reply))
    }

    /// Gives back what was charged for a caller that is gone.
    pub(crate) async fn give_back(&self, pending: &PendingCheck) {
        let plan = self.plan.load_full();
        if let Ok(check) = pending.check(&plan) {
            _ = self.charge_one(Verb::Refund, &check).await;
            self.nudge(check.policy, &check.key);
        }
    }

    /// Refuses a caller that others in line are before. When it may pass is an estimate.
    pub(crate) async fn refuse_behind(
        &self,
        pending: &PendingCheck,
        ahead: &Ahead,
    ) -> Result<Reply, StoreError> {
        let plan = self.plan.load_full();
        let check = pending.check(&plan)?;
        let reply = self.charge_one(Verb::Peek, &check).await?;
        self.behind(None, &check, reply, ahead).await
    }

    /// Counts the outcome of a wait.
    pub(crate) fn count_waited(&self, face: Face, pending: &PendingCheck, reply: Option<&Reply>) {
        if let Some(policy) = self.plan().policy(&pending.policy) {
            let outcome = reply.map_or(Outcome::Error, Reply::outcome);
            self.count(face, policy, pending.key.bytes(), outcome);
        }
    }

    /// Charges as [`charge`](Engine::charge) does, unless that would overtake a caller in line; and wakes callers for whom
    /// the verb may have changed something.
    pub(super) async fn charge_in_turn(
        &self,
        deadline: Option<Duration>,
        verb: Verb,
        checks: &[Check<'_>],
    ) -> Result<Vec<Reply>, StoreError> {
        if self.may_overtake(verb, checks) {
            // Boxed, because it is rare.
            let replies = Box::pin(self.refuse_overtaking(deadline, checks)).await?;
            if let Some(replies) = replies {
                return Ok(replies);
            }
        }
        let replies = self.charge(deadline, verb, checks).await;
        if !matches!(verb, Verb::Check | Verb::Peek) {
            checks.iter().for_each(|check| self.nudge(check.policy, &check.key));
        }
        replies
    }

    /// Whether some of these checks may overtake callers in line. One load, if there are none.
    #[inline]
    pub(super) fn may_overtake(&self, verb: Verb, checks: &[Check<'_>]) -> bool {
        let holds_up =
            |check: &Check<'_>| self.lines.holds_up(check.policy.name(), check.key.bytes());
        verb == Verb::Check && !self.lines.is_empty() && checks.iter().any(holds_up)
    }

    /// Refuses checks that would overtake a caller in line, and what is checked together with them. `None` if there are
    /// none after all: nothing limits those keys.
    pub(super) async fn refuse_overtaking(
        &self,
        deadline: Option<Duration>,
        checks: &[Check<'_>],
    ) -> Result<Option<Vec<Reply>>, StoreError> {
        let (mut limited, mut is_behind) = (Vec::with_capacity(checks.len()), false);
        for check in checks {
            let route = self.route(Verb::Check, check, Variants::Apply).await?;
            let is_limited = route.can_refuse();
            let line = self.lines.all(check.policy.name(), check.key.bytes());
            let line = line.filter(|_| is_limited && !check.cost.is_zero());
            is_behind |= line.is_some();
            limited.push((is_limited, line));
        }
        if !is_behind {
            return Ok(None);
        }
        let mut replies = Vec::with_capacity(checks.len());
        let peeked = self.charge(deadline, Verb::Peek, checks).await?;
        for ((check, reply), (_, line)) in checks.iter().zip(peeked).zip(&limited) {
            replies.push(match line {
                Some(ahead) => self.behind(deadline, check, reply, ahead).await?,
                None => reply,
            });
        }
        // All or nothing: what is checked together passes together.
        let waits = replies.iter().map(|reply| reply.answer.decision.retry_after());
        let longest = waits.max_by_key(|wait| wait.unwrap_or(Duration::MAX)).flatten();
        for (reply, (is_limited, _)) in replies.iter_mut().zip(&limited) {
            if *is_limited {
                reply.answer.decision = reply.answer.decision.refused(longest);
            }
        }
        Ok(Some(replies))
    }

    /// Turns the reply of a peek into a refusal by those in line, and by no limit.
    async fn behind(
        &self,
        deadline: Option<Duration>,
        check: &Check<'_>,
        mut reply: Reply,
        ahead: &Ahead,
    ) -> Result<Reply, StoreError> {
        let decision = reply.answer.decision;
        let retry_after = match decision.retry_after() {
            Some(own) => {
                let estimate = Estimate { policy: &reply.policy, ahead, cost: &check.cost };
                let ((all, after), apart) =
                    (estimate.parts(), estimate.apart(&reply.answer.limits));
                let factor = check.policy.scope().resolve(&check.subject()).factor;
                let charge = Charge::new(reply.policy.name(), check.key.bytes(), all);
                let charge = charge.with_factor(factor);
                let answers = self.apply_charges(deadline, Verb::Peek, &[charge]).await?;
                let at_once = answers.first().and_then(|answer| answer.decision.retry_after());
                at_once.map(|wait| wait.saturating_add(after).max(apart).max(own))
            }
            None => None,
        };
        let parts = DecisionParts {
            allowed: false,
            granted: 0,
            limit: decision.limit(),
            remaining: decision.remaining(),
            retry_after: retry_after.map(|wait| wait.max(Duration::from_nanos(1))),
            next_unit: decision.next_unit(),
            reset_after: decision.reset_after(),
            counter: decision.counter(),
            refused_by: LimitSet::default(),
            shadow_refused_by: decision.shadow_refused_by(),
        };
        reply.answer.decision = Decision::from_parts(parts);
        reply.is_held_up = true;
        Ok(reply)
    }

    pub(super) async fn charge_one(
        &self,
        verb: Verb,
        check: &Check<'_>,
    ) -> Result<Reply, StoreError> {
        let replies = self.charge(None, verb, std::slice::from_ref(check)).await?;
        replies.into_iter().next().ok_or_else(missing_answer)
    }

    /// Wakes callers in line for a key, which was changed by something else than a check.
    pub(super) fn nudge(&self, policy: &ActivePolicy, key: &Key<'_>) {
        self.lines.nudge(policy.name(), key.bytes());
    }
}

/// How long a line takes. Exact for one bucket; elsewhere callers may pass sooner or later.
///
/// All that the line asks for is looked at as one cost, as far as the limits admit that at once; the rest comes at
/// their pace. Limits that keep admissions apart do so for every caller.
struct Estimate<'a> {
    policy: &'a Policy,
    ahead: &'a Ahead,
    cost: &'a Cost,
}

impl<'a> Estimate<'a> {
    /// What to ask the store for, and how long the rest takes after that.
    fn parts(&self) -> (Cost, Duration) {
        let all = self.ahead.cost.plus(self.cost);
        let capped = |unit: Option<&str>, units: u64, own: u64| {
            let counts = |limit: &&Limit| unit.is_none_or(|unit| limit.unit() == unit);
            let most = self.live_limits().filter(counts).filter_map(Limit::max_cost).min();
            units.min(most.unwrap_or(u64::MAX).max(own))
        };
        let at_once = match (all.plain(), self.cost.plain()) {
            (Some(units), Some(own)) => Cost::from(capped(None, units, own)),
            _ => all.map(|unit, units| capped(Some(unit), units, self.cost.of(unit))),
        };
        let rest = |limit: &Limit| {
            let rest = all.of(limit.unit()).saturating_sub(at_once.of(limit.unit()));
            limit.time_for(rest).unwrap_or_default()
        };
        let after = self.live_limits().map(rest).max().unwrap_or_default();
        (at_once, after)
    }

    /// How long limits keep this caller apart from those before it, given each limit's own numbers.
    fn apart(&self, limits: &[LimitDecision]) -> Duration {
        let callers = u32::try_from(self.ahead.callers).unwrap_or(u32::MAX);
        let apart = |(limit, decision): (&Limit, &LimitDecision)| {
            let first = decision.retry_after.unwrap_or_default();
            let own = match limit.algorithm() {
                Algorithm::MinInterval(gap) => {
                    first.saturating_add(gap.period().saturating_mul(callers))
                }
                Algorithm::EvenSlots(slots) => {
                    let of_period = u32::try_from(slots.limit().max(1)).unwrap_or(u32::MAX);
                    let slot = slots.period() / of_period;
                    // The first may pass late in its half of a slot.
                    first.saturating_add(slot.saturating_mul(callers)).saturating_sub(slot / 2)
                }
                _ => Duration::ZERO,
            };
            own.max(limit.min_interval().unwrap_or_default().saturating_mul(callers))
        };
        let numbered = self.policy.limits().iter().zip(limits);
        numbered.filter(|(limit, _)| !limit.is_shadow()).map(apart).max().unwrap_or_default()
    }

    fn live_limits(&self) -> impl Iterator<Item = &'a Limit> {
        self.policy.limits().iter().filter(|limit| !limit.is_shadow())
    }
}

#[cfg(test)]
mod tests {
    use waterclock::store::now_or_never;
    use waterclock::{Answer, Clock, ManualClock, MemoryStore, Store};
    use waterclock_config::Config;

    use super::*;

    const POLICIES: &str = r#"
policies.bucket.limits = [{ algorithm = "gcra", limit = 10, per = "1s", capacity = 4 }]
policies.leaky.limits = [{ algorithm = "leaky-bucket", capacity = 5, every = "300ms" }]
policies.window.limits = [{ algorithm = "fixed-window", limit = 4, per = "1s" }]
policies.rolling.limits = ["4/s rolling-window"]
policies.gap.limits = [{ algorithm = "min-interval", every = "90ms" }]
policies.spaced.limits = [{ algorithm = "gcra", limit = 100, per = "1s", min_interval = "70ms" }]
policies.two.limits = [{ name = "a", algorithm = "gcra", limit = 2, per = "1s" }, { name = "b", algorithm = "min-interval", every = "90ms" }]
"#;

    /// A line that really passes, on a clock that stands still in between: never sooner than estimated; and in one
    /// bucket, and where admissions are kept apart, just then.
    #[test]
    fn a_line_takes_as_long_as_estimated() {
        let config = Config::read("test", POLICIES).unwrap();
        let mut random = fastrand::Rng::with_seed(4);
        for round in 0..500 {
            let spec = &config.policies[random.usize(..config.policies.len())];
            let (name, policy) = (spec.name(), spec.policy());
            let clock = ManualClock::default();
            let store = MemoryStore::new(100, clock.clone());
            now_or_never(store.set_policy(Policy::clone(policy))).unwrap().unwrap();
            let apply = |verb, cost: &Cost| -> Answer {
                let charge = Charge::new(name, b"k", cost.clone());
                now_or_never(store.apply(verb, &[charge])).unwrap().unwrap().remove(0)
            };
            for _ in 0..6 {
                clock.advance(Duration::from_millis(random.u64(..40)));
                _ = apply(Verb::Check, &Cost::from(1));
            }
            let most = policy.limits().iter().filter_map(Limit::max_cost).min().unwrap_or(3);
            let costs: Vec<Cost> =
                (0..random.u64(1..12)).map(|_| random.u64(1..=most).into()).collect();
            let (own, before) = costs.split_last().unwrap();
            let ahead = Ahead {
                callers: before.len() as u64,
                cost: before.iter().fold(Cost::default(), |sum, cost| sum.plus(cost)),
            };
            let estimate = Estimate { policy, ahead: &ahead, cost: own };
            let (all, after) = estimate.parts();
            let at_once = apply(Verb::Peek, &all).decision.retry_after().unwrap();
            let expected = (at_once + after).max(estimate.apart(&apply(Verb::Peek, own).limits));
            let started = clock.now();
            for cost in &costs {
                while !apply(Verb::Peek, cost).decision.is_allowed() {
                    clock.advance(apply(Verb::Peek, cost).decision.retry_after().unwrap());
                }
                assert!(apply(Verb::Check, cost).decision.is_allowed());
            }
            let took = clock.now().since(started);
            assert!(took >= expected, "{round} {name} {costs:?}: {took:?}, not {expected:?}");
            if ["bucket", "leaky", "gap"].contains(&name) {
                assert_eq!(took, expected, "{round} {name} {costs:?}");
            }
        }
    }
}
