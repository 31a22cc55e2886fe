//! Subjects of the judge: the core and the memory store, as functions from traces to answers.

use std::sync::Arc;
use std::time::Duration;

use waterclock::{
    Calendar, Charge, Concurrency, Cost, ErrorRate, EvenSlots, FixedWindow, Gcra, LeakyBucket,
    Limit, LimitError, ManualClock, MemoryStore, MinInterval, Mode, Outcome, Policy, Quota,
    RollingWindow, SlidingWindow, Store, Timestamp, Verb,
};
use waterclock_core::store::{Decide as _, Logs, State};

use crate::case::Event;
use crate::reference::{
    Algorithm, Align, Answer, LimitAnswer, LimitSpec, Mode as SpecMode, PolicySpec,
    Verb as SpecVerb,
};

/// A store, seen as a function from traces to answers.
pub trait Subject: Sync {
    /// The smallest step of its clock.
    const TICK_NS: u64;

    /// Runs a trace against a fresh key. With `sweep`, everything that may be dropped is dropped before every call.
    fn run(&self, spec: &PolicySpec, trace: &[Event], sweep: bool) -> Vec<Answer>;
}

/// The pure core, with its state in a vector.
#[derive(Clone, Copy, Debug)]
pub struct Core;

impl Subject for Core {
    const TICK_NS: u64 = 1;

    fn run(&self, spec: &PolicySpec, trace: &[Event], sweep: bool) -> Vec<Answer> {
        let policy = policy(spec);
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
            let given = waterclock::Answer::of(&policy, state.view(), now, &cost, verdict);
            if event.verb == SpecVerb::Check && !sweep {
                // The fast path of limiters must give the same answer.
                let mut other = State::new(&mut other_words, &mut other_logs);
                assert_eq!(policy.check(&mut other, now, event.cost), given.decision);
                assert_eq!((other_words, other_logs), (words.clone(), logs.clone()));
            }
            answer(&given)
        };
        trace.iter().map(call).collect()
    }
}

/// The memory store, through the `Store` trait.
#[derive(Clone, Copy, Debug)]
pub struct Memory;

impl Subject for Memory {
    const TICK_NS: u64 = 1;

    fn run(&self, spec: &PolicySpec, trace: &[Event], sweep: bool) -> Vec<Answer> {
        let clock = ManualClock::default();
        let store = MemoryStore::new(16, clock.clone());
        now_or_never(store.set_policy(policy(spec))).expect("the memory store takes any policy");
        let call = |event: &Event| {
            clock.set(Timestamp::from_nanos(event.at_ns));
            if sweep {
                store.sweep();
            }
            let charge = Charge::new("policy", b"alice", event.cost);
            let answers = now_or_never(store.apply(verb(event.verb), &[charge]))
                .expect("the policy is known");
            answer(&answers[0])
        };
        trace.iter().map(call).collect()
    }
}

/// The library's verb for one of a trace.
pub fn verb(verb: SpecVerb) -> Verb {
    match verb {
        SpecVerb::Check => Verb::Check,
        SpecVerb::Peek => Verb::Peek,
        SpecVerb::Debit => Verb::Debit,
        SpecVerb::ReportOk => Verb::Report(Outcome::Ok),
        SpecVerb::ReportError => Verb::Report(Outcome::Error),
        SpecVerb::Refund => Verb::Refund,
        SpecVerb::Reset => Verb::Reset,
    }
}

/// The output of a future that never waits.
pub fn now_or_never<T>(future: impl Future<Output = T>) -> T {
    waterclock::store::now_or_never(future).expect("the memory store answers at once")
}

/// An answer in the reference model's terms.
pub fn answer(given: &waterclock::Answer) -> Answer {
    let decision = &given.decision;
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
        next_same_ns: given.next_same().map(nanos),
        limits: given
            .limits
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

/// The library's policy for a specification of the reference model.
pub fn policy(spec: &PolicySpec) -> Policy {
    let named = |(i, limit): (usize, &LimitSpec)| -> Limit {
        self::limit(limit).expect("the case is valid").with_name(&format!("limit-{i}"))
    };
    let mode = match spec.mode {
        SpecMode::Binary => Mode::Binary,
        SpecMode::Partial => Mode::Partial,
        SpecMode::CountRefusals => Mode::CountRefusals,
    };
    let policy = Policy::new("policy", spec.limits.iter().enumerate().map(named));
    policy
        .and_then(|policy| policy.with_mode(mode))
        .expect("the case is valid")
        .with_shadow(spec.shadow)
}

fn limit(spec: &LimitSpec) -> Result<Limit, LimitError> {
    let ns = Duration::from_nanos;
    let limit: Limit = match spec.algorithm {
        Algorithm::Gcra { limit, per_ns, capacity, overdraft } => {
            Gcra::new(limit, ns(per_ns))?.with_capacity(capacity).with_overdraft(overdraft).into()
        }
        Algorithm::LeakyBucket { capacity, drip, every_ns, overdraft } => {
            LeakyBucket::new(capacity, drip, ns(every_ns))?.with_overdraft(overdraft).into()
        }
        Algorithm::FixedWindow { limit, per_ns, ref align } => match align {
            Align::First => FixedWindow::new(limit, ns(per_ns))?.into(),
            Align::Epoch => FixedWindow::aligned(limit, ns(per_ns))?.into(),
            Align::Calendar(edges) => {
                FixedWindow::on_calendar(limit, Arc::new(Edges(edges.clone())))?.into()
            }
        },
        Algorithm::SlidingWindow { limit, per_ns } => SlidingWindow::new(limit, ns(per_ns))?.into(),
        Algorithm::RollingWindow { limit, per_ns, buckets: None } => {
            RollingWindow::new(limit, ns(per_ns))?.into()
        }
        Algorithm::RollingWindow { limit, per_ns, buckets: Some(buckets) } => {
            RollingWindow::bucketed(limit, ns(per_ns), buckets)?.into()
        }
        Algorithm::Quota { limit, per_ns } => Quota::new(limit, ns(per_ns))?.into(),
        Algorithm::EvenSlots { limit, per_ns } => EvenSlots::new(limit, ns(per_ns))?.into(),
        Algorithm::Concurrency { limit, lease_ns } => Concurrency::new(limit, ns(lease_ns))?.into(),
        Algorithm::ErrorRate { threshold, per_ns, min_samples, cool_down_ns } => {
            ErrorRate::new(threshold, ns(per_ns), min_samples, ns(cool_down_ns))?.into()
        }
        Algorithm::MinInterval { every_ns } => MinInterval::new(ns(every_ns))?.into(),
    };
    let limit = limit.with_shadow(spec.shadow);
    match spec.min_interval_ns {
        Some(gap) => limit.with_min_interval(ns(gap)),
        None => Ok(limit),
    }
}

/// A calendar given by its edges.
#[derive(Debug)]
struct Edges(Vec<u64>);

impl Calendar for Edges {
    fn window_end(&self, now: Timestamp) -> Timestamp {
        let next = self.0.partition_point(|edge| *edge <= now.as_nanos());
        self.0.get(next).map_or(Timestamp::MAX, |edge| Timestamp::from_nanos(*edge))
    }

    fn shortest(&self) -> Duration {
        let lengths = self.0.windows(2).map(|edges| edges[1] - edges[0]);
        Duration::from_nanos(lengths.min().unwrap_or(1))
    }
}
