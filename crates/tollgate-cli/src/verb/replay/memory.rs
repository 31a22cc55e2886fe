//! A trace through a store of this process.

use std::io::BufRead;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use tollgate::{
    Charge, Crossing, Decision, ManualClock, MemoryStore, Store, StoreError, Timestamp, Verb,
};
use tollgate_server::config::PolicySpec;

use super::conclude;
use super::event::Event;
use super::report::Report;
use super::trace::Trace;
use crate::failure::Failure;

pub(super) fn play(
    spec: &PolicySpec,
    mut trace: Trace<impl BufRead>,
    mut report: impl Report,
) -> Result<(), Failure> {
    let failed = |error: StoreError| Failure::from(error.to_string());
    let stage = Stage::set(spec).map_err(failed)?;
    let mut is_empty = true;
    let complaint = loop {
        match trace.next_event() {
            Ok(Some(event)) => {
                is_empty = false;
                let decision = stage.decide(&event).map_err(failed)?;
                report.add(event.under(spec), &event, &event.told(spec, decision))?;
            }
            Ok(None) => break None,
            Err(failure) => break Some(failure),
        }
    };
    conclude(&spec.built, report, is_empty, complaint)
}

/// A store whose clock the trace turns.
struct Stage<'a> {
    spec: &'a PolicySpec,
    store: MemoryStore<ManualClock>,
    clock: ManualClock,
}

impl<'a> Stage<'a> {
    fn set(spec: &'a PolicySpec) -> Result<Stage<'a>, StoreError> {
        let clock = ManualClock::default();
        // A bound on keys would make decisions depend on it.
        let store = MemoryStore::new(usize::MAX, clock.clone());
        at_once(store.set_policy(spec.built.clone()))?;
        for tier in spec.shared_tiers() {
            at_once(store.set_variant(&spec.name, tier.built.clone(), Crossing::Units))?;
        }
        Ok(Stage { spec, store, clock })
    }

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
