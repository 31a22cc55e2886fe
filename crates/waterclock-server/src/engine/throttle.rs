//! `CL.THROTTLE`: policies whose numbers come with every call.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::RwLock;
use waterclock::store::now_or_never;
use waterclock::{
    Charge, Decision, Gcra, Limit, MAX_UNITS, Migration, Policy, PolicyHandle, Store, StoreError,
    TscClock, Verb,
};
use waterclock_config::Micros;

use super::{Engine, Outcome, missing_answer};
use crate::observe::{Face, Tally, Totals};
use crate::off_workers::off_workers;

/// The name of all these policies in metrics. Names in files have no `@`.
const FAMILY: &str = "@throttle";

/// The name of every variant's limit: only limits of one name share what was spent.
const LIMIT: &str = "gcra";

/// How many combinations of numbers are kept.
const MAX_VARIANTS: usize = 1_000;
/// One in so many of them gives way for new ones if all were used lately.
const GIVES_WAY: usize = 8;
/// How often a call tries again with numbers that gave way in between.
const TRIES: usize = 3;

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
    /// Whether it was used again since numbers last had to give way.
    is_used: AtomicBool,
}

impl ThrottlePolicy {
    #[inline]
    fn note_use(&self) {
        if !self.is_used.load(Ordering::Relaxed) {
            self.is_used.store(true, Ordering::Relaxed);
        }
    }
}

/// The right to change which numbers there are.
type Turn = tokio::sync::OwnedMutexGuard<()>;

/// The policies in use. A key keeps its state when its numbers give way: that is an instant, whatever the numbers.
pub(crate) struct Throttle {
    variants: RwLock<HashMap<ThrottleNumbers, Arc<ThrottlePolicy>>>,
    /// Held while numbers come and go, so that the store and they agree.
    changing: Arc<tokio::sync::Mutex<()>>,
    /// Whether the store has the family.
    is_set_up: tokio::sync::OnceCell<()>,
    /// How long the period may be, in microseconds.
    max_period_us: AtomicU64,
    tally: Tally,
}

impl Throttle {
    pub(super) fn new(max_period: Micros, tally: impl FnOnce(&str) -> Tally) -> Throttle {
        Throttle {
            variants: RwLock::default(),
            changing: Arc::default(),
            is_set_up: tokio::sync::OnceCell::new(),
            max_period_us: AtomicU64::new(max_period.0),
            tally: tally(FAMILY),
        }
    }

    /// The name they are counted under, and the decisions so far.
    pub(super) fn totals(&self) -> (&'static str, Totals) {
        (FAMILY, self.tally.totals())
    }

    fn check_period(&self, numbers: ThrottleNumbers) -> Result<(), String> {
        let most = Micros(self.max_period_us.load(Ordering::Relaxed));
        if Duration::from_secs(numbers.period_s) <= most.duration() {
            return Ok(());
        }
        Err(format!(
            "a period of {} s is too long; `max_throttle_period` in [server] allows {most}",
            numbers.period_s
        ))
    }

    /// Takes out numbers that were not used again since the last time or, if all were, some of them.
    fn make_room(&self) -> Vec<Arc<ThrottlePolicy>> {
        let mut variants = self.variants.write();
        if variants.len() < MAX_VARIANTS {
            return Vec::new();
        }
        let unused: Vec<ThrottleNumbers> = variants
            .iter()
            .filter(|(_, variant)| !variant.is_used.swap(false, Ordering::Relaxed))
            .map(|(numbers, _)| *numbers)
            .collect();
        let gone = match &unused[..] {
            [] => variants.keys().copied().take(MAX_VARIANTS / GIVES_WAY).collect(),
            _ => unused,
        };
        gone.iter().filter_map(|numbers| variants.remove(numbers)).collect()
    }
}

impl Engine {
    /// The name under which the keys of `CL.THROTTLE` are kept and counted.
    pub(crate) fn throttle_family(&self) -> &'static str {
        FAMILY
    }

    /// Gives the store the family, if it does not have it yet. No key is checked with the numbers of its first two members;
    /// the second one tells the store how keys move between variants.
    pub(super) async fn set_up_throttle(&self) -> Result<(), StoreError> {
        let member = |name: &str| Policy::new(name, [Limit::per_second(1).with_name(LIMIT)]);
        let set_up = || async {
            self.store.set_policy(member(FAMILY)?).await?;
            let second = member(&format!("{FAMILY}@"))?;
            self.store.set_variant(FAMILY, second, Migration::Time).await
        };
        self.throttle.is_set_up.get_or_try_init(set_up).await.copied()
    }

    /// Changes how long the period may be. Numbers that are in use stay.
    pub(crate) fn set_max_throttle_period(&self, max: Micros) {
        self.throttle.max_period_us.store(max.0, Ordering::Relaxed);
    }

    /// The policy with these numbers, if it was used before.
    pub fn known_throttle(&self, numbers: ThrottleNumbers) -> Option<Arc<ThrottlePolicy>> {
        self.throttle.variants.read().get(&numbers).cloned()
    }

    /// The policy with these numbers. Others may give way for it.
    async fn throttle_policy(
        &self,
        numbers: ThrottleNumbers,
    ) -> Result<Arc<ThrottlePolicy>, StoreError> {
        if let Some(variant) = self.known_throttle(numbers) {
            return Ok(variant);
        }
        let policy = numbers.policy().map_err(StoreError::unfit)?;
        self.throttle.check_period(numbers).map_err(StoreError::unfit)?;
        self.set_up_throttle().await?;
        let turn = Arc::clone(&self.throttle.changing).lock_owned().await;
        if let Some(variant) = self.known_throttle(numbers) {
            return Ok(variant);
        }
        let _turn = self.remove_throttles(self.throttle.make_room(), turn).await?;
        self.store.set_variant(FAMILY, policy.clone(), Migration::Time).await?;
        let handle = self.memory().and_then(|store| store.policy(policy.name()));
        let (full_in, is_used) = (numbers.full_in(), AtomicBool::new(false));
        let variant = Arc::new(ThrottlePolicy { numbers, full_in, policy, handle, is_used });
        self.throttle.variants.write().insert(numbers, Arc::clone(&variant));
        Ok(variant)
    }

    /// Removes numbers that gave way from the store. It goes on if the caller goes away, and keeps its turn until then.
    async fn remove_throttles(
        &self,
        gone: Vec<Arc<ThrottlePolicy>>,
        turn: Turn,
    ) -> Result<Turn, StoreError> {
        let names: Vec<String> = gone.iter().map(|gone| gone.policy.name().to_owned()).collect();
        if names.is_empty() {
            return Ok(turn);
        }
        let Some(memory) = self.memory().cloned() else {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            self.store.remove_variants(FAMILY, &names).await?;
            return Ok(turn);
        };
        // Every key of the family is looked at, which may take long.
        off_workers(move || {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            now_or_never(memory.remove_variants(FAMILY, &names)).unwrap_or(Ok(())).map(|()| turn)
        })
        .await
    }

    /// Decides without a future. `None` on a shared store, for another verb than check or peek, and if the numbers
    /// gave way to others.
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
            Verb::Check => handle.check_current(key, cost)?,
            Verb::Peek => handle.peek_current(key, cost)?,
            _ => return None,
        };
        variant.note_use();
        self.count_throttled(face, variant, verb, key, &decision);
        Some(decision)
    }

    /// Decides on any store. Also returns the policy with the numbers.
    pub async fn throttle(
        &self,
        face: Face,
        numbers: ThrottleNumbers,
        verb: Verb,
        key: &[u8],
        cost: u64,
    ) -> Result<(Arc<ThrottlePolicy>, Decision), StoreError> {
        let mut tries = 0;
        loop {
            // The first use of numbers is no second one.
            let variant = match self.known_throttle(numbers) {
                Some(variant) => {
                    variant.note_use();
                    variant
                }
                None => self.throttle_policy(numbers).await?,
            };
            let charge = Charge::new(variant.policy.name(), key, cost);
            tries += 1;
            match self.apply_charges(None, verb, &[charge]).await {
                Ok(answers) => {
                    let answer = answers.into_iter().next().ok_or_else(missing_answer)?;
                    self.count_throttled(face, &variant, verb, key, &answer.decision);
                    return Ok((variant, answer.decision));
                }
                // The numbers gave way in between.
                Err(StoreError::UnknownPolicy(_)) if tries < TRIES => {
                    let mut variants = self.throttle.variants.write();
                    if variants.get(&numbers).is_some_and(|known| Arc::ptr_eq(known, &variant)) {
                        variants.remove(&numbers);
                    }
                }
                Err(error) => {
                    self.throttle.tally.count(face, Outcome::Error);
                    return Err(error);
                }
            }
        }
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
        if !self.throttle.is_set_up.initialized() {
            return Ok(false);
        }
        let charges = [Charge::new(FAMILY, key, 0)];
        let found = self.apply_charges(None, Verb::Peek, &charges).await?;
        let known = found.iter().any(|answer| !answer.decision.reset_after().is_zero());
        if known {
            self.apply_charges(None, Verb::Reset, &charges).await?;
        }
        Ok(known)
    }
}
