//! `CL.THROTTLE`: policies whose numbers come with every call.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use waterclock::{
    Charge, Decision, DynStore, Gcra, Limit, MAX_UNITS, Migration, Policy, PolicyHandle, Store,
    StoreError, TscClock, Verb,
};

use super::{Engine, Outcome, missing_answer};
use crate::observe::{Face, Tally, Totals};

/// The name of all these policies in metrics. Names in files have no dot.
const FAMILY: &str = "cl.throttle";

/// The name of every variant's limit: only limits of one name share what was spent.
const LIMIT: &str = "gcra";

/// The most combinations of numbers until a restart.
const MAX_VARIANTS: usize = 1_000;

/// The numbers of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ThrottleNumbers {
    /// The capacity, less one.
    pub max_burst: u64,
    /// Units per period.
    pub count: u64,
    /// The period, in seconds.
    pub period_s: u64,
}

impl ThrottleNumbers {
    /// The policy with these numbers. The error completes a sentence.
    fn policy(self) -> Result<Policy, String> {
        let ThrottleNumbers { max_burst, count, period_s } = self;
        let capacity = max_burst.saturating_add(1);
        if capacity > MAX_UNITS || count > MAX_UNITS {
            return Err(format!("max_burst and count must be below {MAX_UNITS}"));
        }
        let gcra = Gcra::new(count, Duration::from_secs(period_s))
            .map_err(|error| error.to_string())?
            .with_capacity(capacity);
        if gcra.capacity() < capacity {
            return Err("max_burst takes more than 100 years to refill at this rate".to_owned());
        }
        let name = format!("{FAMILY}@{max_burst}/{count}/{period_s}");
        Policy::new(&name, [gcra.with_name(LIMIT)]).map_err(|error| error.to_string())
    }

    /// How long an empty key takes to refill.
    fn full_in(self) -> Duration {
        let capacity = u128::from(self.max_burst) + 1;
        let ns = capacity * u128::from(self.period_s) * 1_000_000_000;
        let ns = ns.div_ceil(u128::from(self.count).max(1));
        Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
    }
}

/// A policy with the numbers of a call.
pub struct ThrottlePolicy {
    /// Its numbers.
    pub numbers: ThrottleNumbers,
    /// How long an empty key takes to refill. A key that was charged under other numbers can take longer, and then
    /// even a peek is refused.
    pub full_in: Duration,
    policy: Policy,
    /// The policy in the memory store, looked up beforehand; `None` on a shared store.
    handle: Option<PolicyHandle<TscClock>>,
}

/// The policies in use.
pub(crate) struct Throttle {
    variants: RwLock<HashMap<ThrottleNumbers, Arc<ThrottlePolicy>>>,
    tally: Tally,
}

impl Throttle {
    /// Gives the store the family, before keys are restored to it. No key is checked with the numbers of its first
    /// two members; the second one tells the store how keys move between variants.
    pub(super) async fn set_up(store: &DynStore) -> Result<(), StoreError> {
        let member = |name: &str| Policy::new(name, [Limit::per_second(1).with_name(LIMIT)]);
        store.set_policy(member(FAMILY)?).await?;
        store.set_variant(FAMILY, member(&format!("{FAMILY}@"))?, Migration::Time).await
    }

    pub(super) fn new(tally: impl FnOnce(&str) -> Tally) -> Throttle {
        Throttle { variants: RwLock::default(), tally: tally(FAMILY) }
    }

    /// The name they are counted under, and the decisions so far.
    pub(super) fn totals(&self) -> (&'static str, Totals) {
        (FAMILY, self.tally.totals())
    }
}

impl Engine {
    /// The policy with these numbers, if it was used before.
    pub fn known_throttle(&self, numbers: ThrottleNumbers) -> Option<Arc<ThrottlePolicy>> {
        self.throttle.variants.read().get(&numbers).cloned()
    }

    /// The policy with these numbers.
    pub async fn throttle_policy(
        &self,
        numbers: ThrottleNumbers,
    ) -> Result<Arc<ThrottlePolicy>, StoreError> {
        if let Some(variant) = self.known_throttle(numbers) {
            return Ok(variant);
        }
        let policy = numbers.policy().map_err(StoreError::unfit)?;
        if self.throttle.variants.read().len() >= MAX_VARIANTS {
            let reason = format!(
                "more than {MAX_VARIANTS} different combinations of max_burst, count and period"
            );
            return Err(StoreError::unfit(reason));
        }
        self.store.set_variant(FAMILY, policy.clone(), Migration::Time).await?;
        let handle = self.memory().and_then(|store| store.policy(policy.name()));
        let full_in = numbers.full_in();
        let variant = Arc::new(ThrottlePolicy { numbers, full_in, policy, handle });
        // The first one stays: other connections may have it already.
        Ok(Arc::clone(self.throttle.variants.write().entry(numbers).or_insert(variant)))
    }

    /// Decides without a future. `None` on a shared store, and for another verb than check or peek.
    #[inline]
    pub fn throttle_now(
        &self,
        face: Face,
        variant: &ThrottlePolicy,
        verb: Verb,
        key: &[u8],
        cost: u64,
    ) -> Option<Decision> {
        let handle = variant.handle.as_ref()?;
        let decision = match verb {
            Verb::Check => handle.check(key, cost),
            Verb::Peek => handle.peek(key, cost),
            _ => return None,
        };
        self.count_throttled(face, variant, verb, key, &decision);
        Some(decision)
    }

    /// Decides on any store.
    pub async fn throttle(
        &self,
        face: Face,
        variant: &ThrottlePolicy,
        verb: Verb,
        key: &[u8],
        cost: u64,
    ) -> Result<Decision, StoreError> {
        let charge = Charge { policy: variant.policy.name(), key, cost: cost.into() };
        let answers = self.apply_charges(None, verb, &[charge]).await;
        let answers = answers.inspect_err(|_| self.throttle.tally.count(face, Outcome::Error))?;
        let answer = answers.into_iter().next().ok_or_else(missing_answer)?;
        self.count_throttled(face, variant, verb, key, &answer.decision);
        Ok(answer.decision)
    }

    #[inline]
    fn count_throttled(
        &self,
        face: Face,
        variant: &ThrottlePolicy,
        verb: Verb,
        key: &[u8],
        decision: &Decision,
    ) {
        if verb == Verb::Check {
            let outcome = Outcome::of(&variant.policy, decision);
            self.count_as(face, (FAMILY, &self.throttle.tally), key, outcome);
        }
    }

    /// Resets a key, whatever numbers it was checked with. Returns whether it had spent anything.
    pub async fn reset_throttled(&self, key: &[u8]) -> Result<bool, StoreError> {
        let charges = [Charge { policy: FAMILY, key, cost: 0.into() }];
        let found = self.apply_charges(None, Verb::Peek, &charges).await?;
        let known = found.iter().any(|answer| !answer.decision.reset_after().is_zero());
        if known {
            self.apply_charges(None, Verb::Reset, &charges).await?;
        }
        Ok(known)
    }
}
