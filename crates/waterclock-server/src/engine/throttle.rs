//! Policies that callers make up as they go: `CL.THROTTLE` names its numbers with every call.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use waterclock::{
    Charge, Crossing, Decision, Gcra, Limit, MAX_UNITS, Policy, PolicyHandle, StoreError, TscClock,
    Verb,
};

use super::Engine;
use super::place::Place;
use super::reply::{Outcome, outcome};
use crate::observe::{Face, Tally, Totals};

/// The family of all such policies, and their label in metrics. No policy of a file has a dot.
const FAMILY: &str = "cl.throttle";

/// All variants call their limit the same: only then can they share what was spent.
const LIMIT: &str = "gcra";

/// Different numbers that are known at a time.
const MOST_VARIANTS: usize = 1_000;

/// The numbers of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ThrottleNumbers {
    /// One less than what a fresh key admits at once.
    pub max_burst: u64,
    /// Units per period.
    pub count: u64,
    /// The period, in seconds.
    pub period_s: u64,
}

impl ThrottleNumbers {
    /// The complaint is half a sentence.
    fn limit(self) -> Result<Gcra, String> {
        let capacity = self.max_burst.saturating_add(1);
        if capacity > MAX_UNITS || self.count > MAX_UNITS {
            return Err(format!("max_burst and count must be below {MAX_UNITS}"));
        }
        let gcra = Gcra::new(self.count, Duration::from_secs(self.period_s))
            .map_err(|error| error.to_string())?
            .with_capacity(capacity);
        if gcra.capacity() < capacity {
            return Err("a burst must come back within 100 years".to_owned());
        }
        Ok(gcra)
    }

    fn policy(self) -> Result<Policy, String> {
        let name = format!("{FAMILY}@{}/{}/{}", self.max_burst, self.count, self.period_s);
        Policy::new(&name, [self.limit()?.with_name(LIMIT)]).map_err(|error| error.to_string())
    }
}

/// A policy with the numbers of a call, ready to be asked.
pub struct Variant {
    /// Its numbers.
    pub numbers: ThrottleNumbers,
    policy: Policy,
    /// Where state lives in this process, the policy found beforehand.
    handle: Option<PolicyHandle<TscClock>>,
    full_in: Duration,
}

impl Variant {
    fn new(numbers: ThrottleNumbers, policy: Policy, place: &Place) -> Variant {
        let handle = match place {
            Place::Memory(store) => store.policy(policy.name()),
            Place::Redis(_) => None,
        };
        let capacity = u128::from(numbers.max_burst) + 1;
        let ns = capacity * u128::from(numbers.period_s) * 1_000_000_000;
        let ns = ns.div_ceil(u128::from(numbers.count).max(1));
        let full_in = Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX));
        Variant { numbers, policy, handle, full_in }
    }

    /// How long a key that has nothing left takes to become full. One that came here from other numbers
    /// can take longer, and then even a peek is refused.
    #[must_use]
    pub fn full_in(&self) -> Duration {
        self.full_in
    }
}

/// The variants in use.
pub(crate) struct Throttle {
    variants: RwLock<HashMap<ThrottleNumbers, Arc<Variant>>>,
    tally: Tally,
}

impl Throttle {
    /// Gives the family to a store, before keys are restored to it. Nobody is decided about by the
    /// numbers of its first two members; there are two because only a second one says how keys cross
    /// from one to the other.
    pub(super) async fn begin(place: &Place) -> Result<(), StoreError> {
        let member = |name: &str| {
            let policy = Policy::new(name, [Limit::per_second(1).with_name(LIMIT)]);
            policy.map_err(|error| StoreError::Unfit(error.to_string()))
        };
        place.set_plain(member(FAMILY)?).await?;
        place.set_variant(FAMILY, member(&format!("{FAMILY}@"))?, Crossing::Time).await
    }

    pub(super) fn new(tally: impl FnOnce(&str) -> Tally) -> Throttle {
        Throttle { variants: RwLock::default(), tally: tally(FAMILY) }
    }

    /// The name under which they are counted, and decisions so far.
    pub(super) fn totals(&self) -> (&'static str, Totals) {
        (FAMILY, self.tally.totals())
    }
}

impl Engine {
    /// The policy with these numbers, if somebody has asked with them before.
    pub fn known_variant(&self, numbers: ThrottleNumbers) -> Option<Arc<Variant>> {
        self.throttle.variants.read().get(&numbers).cloned()
    }

    /// The policy with these numbers.
    pub async fn variant(&self, numbers: ThrottleNumbers) -> Result<Arc<Variant>, StoreError> {
        if let Some(variant) = self.known_variant(numbers) {
            return Ok(variant);
        }
        let policy = numbers.policy().map_err(StoreError::Unfit)?;
        if self.throttle.variants.read().len() >= MOST_VARIANTS {
            let reason = format!("there are {MOST_VARIANTS} different numbers in use already");
            return Err(StoreError::Unfit(reason));
        }
        self.place.set_variant(FAMILY, policy.clone(), Crossing::Time).await?;
        let variant = Arc::new(Variant::new(numbers, policy, &self.place));
        // Whoever was first stays: others may hold it already.
        Ok(Arc::clone(self.throttle.variants.write().entry(numbers).or_insert(variant)))
    }

    /// Decides at once, or says `None` where that takes a store elsewhere or a verb that is rare.
    #[inline]
    pub fn throttle_now(
        &self,
        face: Face,
        variant: &Variant,
        verb: Verb,
        key: &[u8],
        cost: u64,
    ) -> Option<Decision> {
        let handle = variant.handle.as_ref()?;
        let decision = match verb {
            Verb::Check => handle.check(key, cost),
            Verb::Peek => handle.peek(key, cost),
            Verb::Debit | Verb::Report(_) | Verb::Refund | Verb::Reset => return None,
        };
        if verb == Verb::Check {
            self.count_throttled(face, key, outcome(&variant.policy, &decision));
        }
        Some(decision)
    }

    /// Decides wherever state lives.
    pub async fn throttle(
        &self,
        face: Face,
        variant: &Variant,
        verb: Verb,
        key: &[u8],
        cost: u64,
    ) -> Result<Decision, StoreError> {
        let charge = Charge { policy: variant.policy.name(), key, cost: cost.into() };
        let answers = self.place.apply(verb, &[charge], &self.metrics).await;
        match answers.map(|answers| answers.into_iter().next()) {
            Ok(Some(answer)) => {
                if verb == Verb::Check {
                    let outcome = outcome(&variant.policy, &answer.decision);
                    self.count_throttled(face, key, outcome);
                }
                Ok(answer.decision)
            }
            Ok(None) => Err(super::short_of_answers()),
            Err(error) => {
                self.throttle.tally.count(face, Outcome::Error);
                Err(error)
            }
        }
    }

    #[inline]
    fn count_throttled(&self, face: Face, key: &[u8], outcome: Outcome) {
        self.count_as(face, (FAMILY, &self.throttle.tally), key, outcome);
    }

    /// Forgets a key, whatever numbers it was asked with. Says whether anything was known of it.
    pub async fn forget_throttled(&self, key: &[u8]) -> Result<bool, StoreError> {
        let charges = [Charge { policy: FAMILY, key, cost: 0.into() }];
        let found = self.place.apply(Verb::Peek, &charges, &self.metrics).await?;
        let known = found.iter().any(|answer| !answer.decision.reset_after().is_zero());
        if known {
            self.place.apply(Verb::Reset, &charges, &self.metrics).await?;
        }
        Ok(known)
    }
}
