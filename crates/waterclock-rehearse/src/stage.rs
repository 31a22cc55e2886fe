//! Virtual time: a policy in a store of this process whose clock the events turn.

use serde_json::json;
use waterclock::store::now_or_never;
use waterclock::{
    Answer, Charge, Cost, CostError, Factor, Limit, ManualClock, MemoryStore, Migration, Mode,
    Origin, Policy, Resolution, Store, StoreError, Subject, Timestamp, Verb,
};
use waterclock_config::PolicyConfig;

use crate::report::Checked;
use crate::trace::{Event, Op};
use crate::{Error, Note};

/// Keys that have state at the same time. More than one machine's log has, and few enough that the table starts small.
const MOST_KEYS: usize = 1 << 23;

/// Gives a store the variants of a policy, which share its keys.
pub async fn register_variants(
    policy: &PolicyConfig,
    store: &impl Store,
) -> Result<(), StoreError> {
    for variant in policy.scope.variants() {
        store.set_variant(policy.name(), Policy::clone(variant), Migration::Units).await?;
    }
    Ok(())
}

/// Which of a policy's numbers apply to a check of a key by a caller of a tier, with a factor.
#[must_use]
pub fn resolve<'r>(
    policy: &'r PolicyConfig,
    key: &'r str,
    (tier, factor): (Option<&'r str>, Option<Factor>),
    cost: Cost,
) -> Resolved<'r> {
    let (scope, key) = (&policy.scope, key.as_bytes());
    let subject = Subject::new(key).with_tier(tier).with_factor(factor);
    let subject = subject.with_address(scope.address_in(key));
    Resolved { resolution: scope.resolve(&subject), cost }
}

/// Which of a policy's numbers apply to an event, and at which cost.
pub(crate) fn resolve_event<'r>(
    policy: &'r PolicyConfig,
    event: &'r Event<'_>,
) -> Result<Resolved<'r>, CostError> {
    let cost = event.cost_under(policy.policy())?;
    Ok(resolve(policy, &event.key, (event.tier.as_deref(), event.factor), cost))
}

/// The charge of an event. Refunds and resets apply to the key's budget under the policy itself.
pub(crate) fn charge<'e>(
    policy: &'e PolicyConfig,
    resolved: &'e Resolved<'_>,
    event: &'e Event<'_>,
) -> Charge<'e> {
    let key = event.key.as_bytes();
    let decides = match event.op.gives_back() {
        true => policy.scope.resolve_base(key),
        false => resolved.resolution,
    };
    Charge::new(decides.policy.name(), key, resolved.cost.clone()).with_factor(decides.factor)
}

/// A policy that admits everything: for a configuration that does not have it, or before there is one.
pub fn without_limits(name: &str) -> Result<PolicyConfig, Error> {
    let policy = Policy::new(name, Vec::<Limit>::new()).map_err(|error| error.to_string())?;
    Ok(PolicyConfig::new(policy))
}

/// What a rehearsal of this policy does differently from a server, if anything.
#[must_use]
pub fn warning_about(policy: &PolicyConfig) -> Option<String> {
    let name = policy.name();
    policy.serving.lease.is_some().then(|| {
        format!("policy `{name}` leases units to servers; here each unit is counted at once")
    })
}

/// The policy that applies to one event, and its cost.
pub struct Resolved<'r> {
    resolution: Resolution<'r>,
    cost: Cost,
}

impl<'r> Resolved<'r> {
    /// What applies to the key, and why.
    #[must_use]
    pub fn resolution(&self) -> &Resolution<'r> {
        &self.resolution
    }

    /// The policy that decides.
    #[must_use]
    pub fn policy(&self) -> &'r Policy {
        self.resolution.policy
    }

    /// What is charged if it is allowed.
    #[must_use]
    pub fn cost(&self) -> &Cost {
        &self.cost
    }

    /// Whether the file names this key.
    pub(crate) fn is_by_key(&self) -> bool {
        self.resolution.origin == Origin::Key
    }

    /// The answer, where it takes no store.
    pub(crate) fn answer(&self) -> Option<Answer> {
        self.resolution.answer(&self.cost)
    }

    /// The answer for the client: keys that the policy is not rolled out to are never refused.
    #[must_use]
    pub fn report(&self, answer: Answer) -> Answer {
        self.resolution.report(answer, &self.cost)
    }
}

/// A policy in virtual time: events are decided about at the time they carry.
pub struct Stage<'a> {
    policy: &'a PolicyConfig,
    store: MemoryStore<ManualClock>,
    clock: ManualClock,
}

impl<'a> Stage<'a> {
    /// An empty stage, on which no key has state yet.
    pub fn new(policy: &'a PolicyConfig) -> Result<Stage<'a>, StoreError> {
        let clock = ManualClock::default();
        let store = MemoryStore::new(MOST_KEYS, clock.clone());
        at_once(store.set_policy(Policy::clone(policy.policy())))?;
        at_once(register_variants(policy, &store))?;
        Ok(Stage { policy, store, clock })
    }

    /// A note on decisions that a server might make differently, if there were any.
    #[must_use]
    pub fn note(&self) -> Option<Note> {
        let many = format!(
            "more than {MOST_KEYS} keys were limited at the same time, so some of them shared a budget"
        );
        let facts = json!({ "most_keys": MOST_KEYS });
        (self.store.overflowed() > 0).then(|| Note::new("shared-budgets", facts, many))
    }

    /// Plays an event: which policy applied, and the answer for the client.
    pub fn play<'e>(&'e self, event: &'e Event<'_>) -> Result<(Resolved<'e>, Answer), StoreError> {
        let resolved = resolve_event(self.policy, event)?;
        let answer = self.answer(&resolved, event)?;
        let reported = resolved.report(answer);
        Ok((resolved, reported))
    }

    /// Counts a check as another policy counted it: what that policy granted, or all if it counts refused calls, whatever
    /// there is room for here.
    pub(crate) fn count_as(
        &self,
        event: &Event<'_>,
        other: &Checked<'_>,
    ) -> Result<(), StoreError> {
        let resolved = resolve_event(self.policy, event)?;
        let counts_refusals = other.resolved.policy().mode() == Mode::CountRefusals;
        if resolved.answer().is_some() || (other.is_refused() && !counts_refusals) {
            return Ok(());
        }
        let cost = match resolved.cost.plain() {
            Some(units) if !counts_refusals => Cost::from(units.min(other.decision.granted())),
            _ => resolved.cost.clone(),
        };
        self.clock.set(Timestamp::from_micros(event.t_us));
        let charge = Charge { cost, ..charge(self.policy, &resolved, event) };
        at_once(self.store.apply(Verb::Debit, &[charge])).map(drop)
    }

    fn answer(&self, resolved: &Resolved<'_>, event: &Event<'_>) -> Result<Answer, StoreError> {
        let now = Timestamp::from_micros(event.t_us);
        let gives_back = event.op.gives_back();
        if !gives_back && let Some(answer) = resolved.answer() {
            return Ok(answer);
        }
        self.clock.set(now);
        let (verb, charge) = (event.verb(), charge(self.policy, resolved, event));
        if gives_back && !resolved.resolution.is_usual() {
            at_once(self.store.apply(verb, &[charge]))?;
            let peek = Event { op: Op::Peek, ..event.under(0) };
            return self.answer(resolved, &peek);
        }
        let is_plain = charge.factor.is_none();
        match (verb, charge.cost.plain().filter(|_| is_plain)) {
            (Verb::Check, Some(units)) => {
                self.store.check_in_full(charge.policy, charge.key, units)
            }
            (Verb::Peek, Some(units)) => self.store.peek_in_full(charge.policy, charge.key, units),
            _ => {
                let answers = at_once(self.store.apply(verb, &[charge]))?;
                answers.into_iter().next().ok_or_else(no_answer)
            }
        }
    }
}

pub(crate) fn no_answer() -> StoreError {
    StoreError::failed(waterclock::Failure::BadReply, "no answer to a question")
}

/// The result of a future of the memory store, which is ready at once.
fn at_once<T>(future: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
    now_or_never(future).unwrap_or_else(|| {
        Err(StoreError::failed(
            waterclock::Failure::Timeout,
            "the memory store did not answer at once",
        ))
    })
}
