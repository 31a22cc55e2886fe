//! A policy on a stage of its own: a store in this process whose clock the events turn.

mod turn;

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use tollgate::{
    Charge, Crossing, Decision, ManualClock, MemoryStore, Store, StoreError, Timestamp, Verb,
};
use tollgate_server::config::PolicySpec;

use crate::trace::Event;

/// Keys that have something to remember at the same time. Far more than a machine's log has, and few enough
/// that a table of them starts small.
const MOST_KEYS: usize = 1 << 23;

/// A store whose clock the trace turns.
pub(crate) struct Stage<'a> {
    spec: &'a PolicySpec,
    store: MemoryStore<ManualClock>,
    clock: ManualClock,
}

impl<'a> Stage<'a> {
    pub(crate) fn set(spec: &'a PolicySpec) -> Result<Stage<'a>, StoreError> {
        let clock = ManualClock::default();
        let store = MemoryStore::new(MOST_KEYS, clock.clone());
        at_once(store.set_policy(spec.built.clone()))?;
        for tier in spec.shared_tiers() {
            at_once(store.set_variant(&spec.name, tier.built.clone(), Crossing::Units))?;
        }
        Ok(Stage { spec, store, clock })
    }

    /// What there is to know about the decisions, if they were not all made as they would be served.
    pub(crate) fn remark(&self) -> Option<String> {
        let many = format!(
            "more than {MOST_KEYS} keys were limited at the same time, so that some shared a budget"
        );
        (self.store.overflowed() > 0).then_some(many)
    }

    /// Plays an event; what is told of the decision.
    pub(crate) fn play(&self, event: &Event<'_>) -> Result<Decision, StoreError> {
        Ok(event.told(self.spec, self.decide(event)?))
    }

    /// What happens at an event, before it is known who is enrolled.
    fn decide(&self, event: &Event<'_>) -> Result<Decision, StoreError> {
        if let Some(decision) = event.free(self.spec) {
            return Ok(decision);
        }
        self.clock.set(Timestamp::from_micros(event.t_us));
        let (policy, key, cost) = (event.under(self.spec).name(), event.key.as_bytes(), event.cost);
        match event.verb() {
            Verb::Check => self.store.check(policy, key, cost),
            Verb::Peek => self.store.peek(policy, key, cost),
            rare => {
                at_once(self.store.apply(rare, &[Charge { policy, key, cost }]))?;
                self.store.peek(policy, key, cost)
            }
        }
    }
}

/// A store of this process keeps nobody waiting.
fn at_once<T>(future: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => done,
        Poll::Pending => {
            Err(StoreError::failed(tollgate::Failure::Timeout, "memory does not answer at once"))
        }
    }
}
