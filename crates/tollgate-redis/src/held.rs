//! State that was read elsewhere, decided on here by the core.

use tollgate::together::{retry_together, withhold_unless_all_admit};
use tollgate::{Answer, Crossing, Policy, Source, Timestamp, Verb};
use tollgate_core::{Logs, State, Verdict, View};

use crate::shape::{NotOurs, Shape};

/// What one key remembers under one policy, and when that was.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    words: Vec<u64>,
    logs: Logs,
    pub(crate) now: Timestamp,
}

impl Held {
    pub(crate) fn fresh(policy: &Policy, now: Timestamp) -> Self {
        Self { words: vec![0; policy.words()], logs: Logs::new(), now }
    }

    /// The state in a record as the script saw it.
    pub(crate) fn read(
        policy: &Policy,
        shape: &Shape,
        record: Option<&[u8]>,
        now: Timestamp,
    ) -> Result<Self, NotOurs> {
        let mut held = Self::fresh(policy, now);
        shape.read(record, now, &mut held.words, &mut held.logs)?;
        policy.redate(&mut held.state(), now);
        Ok(held)
    }

    pub(crate) fn state(&mut self) -> State<'_> {
        State::new(&mut self.words, &mut self.logs)
    }

    pub(crate) fn view(&self) -> View<'_> {
        View::new(&self.words, &self.logs)
    }

    pub(crate) fn refund(&mut self, policy: &Policy, units: u64) {
        let now = self.now;
        policy.refund(&mut self.state(), now, units);
    }

    /// The same key under another definition. What is fresh by one is fresh by all.
    pub(crate) fn carried(&self, old: &Policy, new: &Policy, crossing: Crossing) -> Self {
        let mut carried = Self::fresh(new, self.now);
        if old.fresh_in(self.view(), self.now).is_zero() {
            return carried;
        }
        match crossing {
            Crossing::Units => new.carry(old, self.view(), &mut carried.state(), self.now),
            Crossing::Time => {
                new.cross(crossing, old, self.view(), &mut carried.state(), self.now);
            }
        }
        carried
    }

    /// The record of this state, and for how many milliseconds it is to be kept; none if fresh.
    pub(crate) fn record(&self, policy: &Policy, shape: &Shape) -> Option<(Vec<u8>, u64)> {
        let left = policy.fresh_in(self.view(), self.now);
        let millis = u64::try_from(left.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
        (millis > 0).then(|| (shape.write(&self.words, &self.logs, self.now), millis))
    }

    /// The answer to a question about this state alone.
    pub(crate) fn answer(&mut self, policy: &Policy, verb: Verb, cost: u64) -> Answer {
        let answers = answer_all(verb, &mut [(policy, self, cost)]);
        answers.into_iter().next().expect("one question, one answer")
    }
}

/// Applies one check to states, exactly as a store in this process would.
pub(crate) fn answer_all(verb: Verb, lines: &mut [(&Policy, &mut Held, u64)]) -> Vec<Answer> {
    for (policy, held, cost) in lines.iter_mut() {
        let now = held.now;
        match verb {
            Verb::Debit => policy.debit(&mut held.state(), now, *cost),
            Verb::Report(outcome) => policy.report(&mut held.state(), now, outcome, *cost),
            Verb::Refund => policy.refund(&mut held.state(), now, *cost),
            Verb::Reset => policy.clear(&mut held.state()),
            Verb::Check | Verb::Peek => {}
        }
    }
    let judge = |(policy, held, cost): &(&Policy, &mut Held, u64)| {
        policy.judge(held.view(), held.now, *cost)
    };
    let mut verdicts: Vec<Verdict> = lines.iter().map(judge).collect();
    if verb == Verb::Check {
        let policies: Vec<&Policy> = lines.iter().map(|(policy, ..)| *policy).collect();
        withhold_unless_all_admit(&policies, &mut verdicts);
    }
    let answer = |((policy, held, cost), verdict): (&mut (&Policy, &mut Held, u64), Verdict)| {
        let now = held.now;
        if verb == Verb::Check {
            policy.record(&mut held.state(), now, *cost, verdict);
        }
        let decision = policy.answer(held.view(), now, *cost, verdict);
        let limits = policy.each(held.view(), now, *cost, verdict).collect();
        Answer { decision, limits, source: Source::Authoritative }
    };
    let mut answers: Vec<Answer> = lines.iter_mut().zip(verdicts).map(answer).collect();
    if verb == Verb::Check {
        retry_together(&mut answers);
    }
    answers
}
