//! What is judged: anything that turns a trace into answers.

use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use waterclock::{
    Charge, Cost, Decision, LimitDecision, ManualClock, MemoryStore, Outcome, Policy, Store,
    Timestamp, Verb,
};
use waterclock_core::{Logs, State};

use crate::case::Event;
use crate::reference::{Answer, LimitAnswer, PolicySpec, Verb as SpecVerb};

/// A store, seen as a function from traces to answers.
pub trait Subject: Sync {
    /// The smallest step of its clock.
    const TICK_NS: u64;

    /// Runs a trace against a key that nobody used before. With `sweep`, everything that may be
    /// forgotten is forgotten before every call.
    fn run(&self, spec: &PolicySpec, trace: &[Event], sweep: bool) -> Vec<Answer>;
}

/// The pure core, with its state in a vector.
#[derive(Clone, Copy, Debug)]
pub struct Core;

impl Subject for Core {
    const TICK_NS: u64 = 1;

    fn run(&self, spec: &PolicySpec, trace: &[Event], sweep: bool) -> Vec<Answer> {
        let policy = crate::policy(spec);
        let (mut words, mut logs) = (vec![0; policy.words()], Logs::new());
        let mut latest = Timestamp::ZERO;
        let call = |event: &Event| {
            latest = latest.max(Timestamp::from_nanos(event.at_ns));
            let (now, cost) = (latest, Cost::from(event.cost));
            let (mut other_words, mut other_logs) = (words.clone(), logs.clone());
            let mut state = State::new(&mut words, &mut logs);
            if sweep && policy.fresh_in(state.view(), now).is_zero() {
                policy.clear(&mut state);
            }
            match event.verb {
                SpecVerb::Debit => policy.debit(&mut state, now, &cost),
                SpecVerb::ReportOk => policy.report(&mut state, now, Outcome::Ok, &cost),
                SpecVerb::ReportError => policy.report(&mut state, now, Outcome::Error, &cost),
                SpecVerb::Refund => policy.refund(&mut state, now, &cost),
                SpecVerb::Reset => policy.clear(&mut state),
                SpecVerb::Check | SpecVerb::Peek => {}
            }
            let verdict = policy.judge(state.view(), now, &cost);
            if event.verb == SpecVerb::Check {
                policy.record(&mut state, now, &cost, verdict);
            }
            let decision = policy.answer(state.view(), now, &cost, verdict);
            let limits: Vec<_> = policy.each(state.view(), now, &cost, verdict).collect();
            if event.verb == SpecVerb::Check && !sweep {
                // The short cut that limiters take must not say anything else.
                let mut other = State::new(&mut other_words, &mut other_logs);
                assert_eq!(policy.check(&mut other, now, event.cost), decision);
                assert_eq!((other_words, other_logs), (words.clone(), logs.clone()));
            }
            answer(&decision, &limits)
        };
        trace.iter().map(call).collect()
    }
}

/// The memory store, through its public seam.
#[derive(Clone, Copy, Debug)]
pub struct Memory;

impl Subject for Memory {
    const TICK_NS: u64 = 1;

    fn run(&self, spec: &PolicySpec, trace: &[Event], sweep: bool) -> Vec<Answer> {
        let clock = ManualClock::default();
        let store = MemoryStore::new(16, clock.clone());
        let policy: Policy = crate::policy(spec);
        now_or_never(store.set_policy(policy)).expect("the memory store takes any policy");
        let call = |event: &Event| {
            clock.set(Timestamp::from_nanos(event.at_ns));
            if sweep {
                store.sweep();
            }
            let verb = match event.verb {
                SpecVerb::Check => Verb::Check,
                SpecVerb::Peek => Verb::Peek,
                SpecVerb::Debit => Verb::Debit,
                SpecVerb::ReportOk => Verb::Report(Outcome::Ok),
                SpecVerb::ReportError => Verb::Report(Outcome::Error),
                SpecVerb::Refund => Verb::Refund,
                SpecVerb::Reset => Verb::Reset,
            };
            let charge = Charge { policy: "policy", key: b"alice", cost: event.cost.into() };
            let answers = now_or_never(store.apply(verb, &[charge])).expect("the policy is known");
            answer(&answers[0].decision, &answers[0].limits)
        };
        trace.iter().map(call).collect()
    }
}

/// The output of a future that never waits.
pub fn now_or_never<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => unreachable!("the memory store answers at once"),
    }
}

/// A decision in the reference model's terms.
pub fn answer(decision: &Decision, limits: &[LimitDecision]) -> Answer {
    Answer {
        allowed: decision.is_allowed(),
        granted: decision.granted(),
        limit: decision.limit(),
        remaining: decision.remaining(),
        retry_after_ns: decision.retry_after().map(nanos),
        next_unit_ns: decision.next_unit().map(nanos),
        reset_after_ns: nanos(decision.reset_after()),
        refused_by: decision.refused_by().iter().collect(),
        shadow_refused_by: decision.shadow_refused_by().iter().collect(),
        counter: decision.counter(),
        limits: limits
            .iter()
            .map(|limit| LimitAnswer {
                allowed: limit.allowed,
                limit: limit.limit,
                remaining: limit.remaining,
                retry_after_ns: limit.retry_after.map(nanos),
                next_unit_ns: limit.next_unit.map(nanos),
                reset_after_ns: nanos(limit.reset_after),
            })
            .collect(),
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
