//! A memory store with a manual clock, and header fields as text.

use std::time::Duration;

use waterclock::store::now_or_never;
use waterclock::{Answer, Charge, Clock, ManualClock, MemoryStore, Policy, Store, Timestamp, Verb};
use waterclock_http::{HeaderFields, HeaderStyle};

/// 2025-01-01T00:00:00Z: aligned windows of a day and less start here.
pub(crate) const START: Timestamp = Timestamp::from_micros(1_735_689_600_000_000);

pub(crate) struct Scene {
    pub(crate) store: MemoryStore<ManualClock>,
    pub(crate) clock: ManualClock,
}

impl Scene {
    pub(crate) fn new(policies: &[&Policy]) -> Self {
        let clock = ManualClock::default();
        clock.set(START);
        let store = MemoryStore::new(1_000, clock.clone());
        for policy in policies {
            let set =
                now_or_never(store.set_policy((*policy).clone())).expect("memory answers at once");
            set.expect("memory takes every policy");
        }
        Self { store, clock }
    }

    pub(crate) fn apply(&self, verb: Verb, charges: &[Charge<'_>]) -> Vec<Answer> {
        let answers =
            now_or_never(self.store.apply(verb, charges)).expect("memory answers at once");
        answers.expect("every policy is known")
    }

    pub(crate) fn check(&self, policy: &Policy, cost: u64) -> Answer {
        self.ask(Verb::Check, policy, cost)
    }

    pub(crate) fn ask(&self, verb: Verb, policy: &Policy, cost: u64) -> Answer {
        self.apply(verb, &[Charge::new(policy.name(), b"alice", cost)]).remove(0)
    }

    /// What a check of this cost would answer later.
    pub(crate) fn foresee(&self, policy: &Policy, cost: u64, after: Duration) -> Answer {
        // Within a shard time never goes back, so the future is asked last.
        self.clock.set(self.clock.now().after(after));
        self.ask(Verb::Peek, policy, cost)
    }
}

/// `name: value` lines in the order of their names.
pub(crate) fn lines(fields: &HeaderFields) -> Vec<String> {
    let mut pairs: Vec<(&str, &str)> = fields.iter().collect();
    pairs.sort_unstable();
    pairs.iter().map(|(name, value)| format!("{name}: {value}")).collect()
}

pub(crate) fn fields(style: HeaderStyle, policy: &Policy, answer: &Answer) -> Vec<String> {
    lines(&HeaderFields::new(style, policy, answer))
}
