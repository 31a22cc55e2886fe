//! The short way of a lone check whose state lives in this process: no allocation, nobody waits.

use waterclock::{Answer, Decision, LimitDecision, Policy, Source, Verb};

use super::key::{Key, Standing};
use super::place::Place;
use super::reply::{Reply, outcome};
use super::served::Served;
use super::{Ask, Engine};
use crate::observe::Face;

impl Engine {
    /// Decides as [`Engine::apply`] would with this one ask, or says `None` where only that can: a
    /// store elsewhere, an exception for the key, a key in shadow, a verb that is rare. Measures no time; a face that
    /// asks many of these does that for all of them together.
    #[inline]
    pub fn decide_now(
        &self,
        face: Face,
        verb: Verb,
        served: &Served,
        key: &Key<'_>,
        cost: u64,
    ) -> Option<Decision> {
        let Place::Memory(store) = &self.place else { return None };
        if !matches!(key.standing(), Standing::Limited)
            || !served.enrols(key)
            || self.exceptions.of(served.name(), key).is_some()
        {
            return None;
        }
        let decision = match verb {
            Verb::Check => store.check(served.name(), key.bytes(), cost),
            Verb::Peek => store.peek(served.name(), key.bytes(), cost),
            Verb::Debit | Verb::Report(_) | Verb::Refund | Verb::Reset => return None,
        };
        // A policy that the store does not know is a complaint for the long way to make.
        let decision = decision.ok()?;
        if verb == Verb::Check {
            let outcome = outcome(&served.spec().built, &decision);
            self.count(face, served, key.bytes(), outcome);
        }
        Some(decision)
    }

    /// The same in full, for a policy of one limit: its numbers are the decision's.
    pub(super) fn reply_now(&self, face: Face, verb: Verb, ask: &Ask<'_>) -> Option<Reply> {
        let policy = ask.served.policy();
        let is_plain = ask.numbers.is_none() && ask.served.tier(ask.tier).is_none();
        if !is_plain || !stands_alone(&policy) {
            return None;
        }
        let decision = self.decide_now(face, verb, ask.served, ask.key, ask.cost.plain()?)?;
        Some(Reply::new(policy, in_full(decision)))
    }
}

/// What shadow limits say stands beside the decision, not in it.
fn stands_alone(policy: &Policy) -> bool {
    matches!(policy.limits(), [only] if !only.is_shadow()) && !policy.is_shadow()
}

fn in_full(decision: Decision) -> Answer {
    let limit = LimitDecision {
        allowed: decision.is_allowed(),
        limit: decision.limit(),
        remaining: decision.remaining(),
        retry_after: decision.retry_after(),
        next_unit: decision.next_unit(),
        reset_after: decision.reset_after(),
    };
    Answer { decision, limits: vec![limit], source: Source::Authoritative }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use waterclock::{Charge, ManualClock, MemoryStore, Store};

    use super::*;
    use waterclock_config::Config;

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

    /// The short way says what the long way says, number by number.
    #[tokio::test]
    async fn both_ways_say_the_same() {
        let config = Config::read("test", POLICIES).unwrap();
        let clock = ManualClock::default();
        let (short, long) =
            (MemoryStore::new(100, clock.clone()), MemoryStore::new(100, clock.clone()));
        for spec in &config.policies {
            assert!(stands_alone(&spec.built));
            short.set_policy(spec.built.clone()).await.unwrap();
            long.set_policy(spec.built.clone()).await.unwrap();
        }
        let mut random = fastrand::Rng::with_seed(4);
        for _ in 0..20_000 {
            clock.advance(Duration::from_micros(random.u64(..50_000)));
            let name = &*config.policies[random.usize(..config.policies.len())].name;
            let cost = random.u64(..6);
            let decision = short.check(name, b"k", cost).unwrap();
            let charge = Charge { policy: name, key: b"k", cost: cost.into() };
            let answers = long.apply(Verb::Check, &[charge]).await.unwrap();
            assert_eq!(in_full(decision), answers[0], "{name} {cost}");
        }
    }
}
