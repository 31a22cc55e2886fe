//! State that was read elsewhere, decided on here by the core.

use std::time::Duration;

use waterclock::store::{retry_together, withhold_unless_all_admit};
use waterclock::{Answer, Cost, Migration, Policy, Source, Timestamp, Verb};
use waterclock_core::store::{
    Decide as _, Logs, Migrate as _, Reserve as _, ReservedUnits as HeldUnits, State, Verdict, View,
};

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
        policy.refund(&mut self.state(), now, &units.into());
    }

    /// The same key under another definition. What is fresh by one is fresh by all.
    pub(crate) fn carried(&self, old: &Policy, new: &Policy, migration: Migration) -> Self {
        let mut carried = Self::fresh(new, self.now);
        if old.fresh_in(self.view(), self.now).is_zero() {
            return carried;
        }
        match migration {
            Migration::Units => new.migrate(old, self.view(), &mut carried.state(), self.now),
            Migration::Time => {
                new.migrate_variant(migration, old, self.view(), &mut carried.state(), self.now);
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
    pub(crate) fn answer(&mut self, policy: &Policy, verb: Verb, cost: &Cost) -> Answer {
        let answers = answer_all(verb, &mut [(policy, self, cost)]);
        answers.into_iter().next().expect("one question, one answer")
    }
}

/// Applies one check to states, exactly as a store in this process would.
pub(crate) fn answer_all(verb: Verb, lines: &mut [(&Policy, &mut Held, &Cost)]) -> Vec<Answer> {
    for (policy, held, cost) in lines.iter_mut() {
        let now = held.now;
        match verb {
            Verb::Debit => policy.debit(&mut held.state(), now, cost),
            Verb::Report(outcome) => policy.report(&mut held.state(), now, outcome, cost),
            Verb::Refund => policy.refund(&mut held.state(), now, cost),
            Verb::Reset => policy.clear(&mut held.state()),
            Verb::Check | Verb::Peek => {}
        }
    }
    let verdicts = judge(lines, verb == Verb::Check);
    if verb == Verb::Check {
        record(lines, &verdicts);
    }
    let mut answers = answers(lines, &verdicts);
    if verb == Verb::Check {
        retry_together(&mut answers);
    }
    answers
}

/// Holds the charges of one reservation in the same way: the answers and, if something is held, how much of
/// each key in the limits that can refuse, and what of each limit.
pub(crate) fn hold_all(
    lines: &mut [(&Policy, &mut Held, &Cost)],
    ttl: Duration,
) -> (Vec<Answer>, Option<Vec<(u64, HeldUnits)>>) {
    let verdicts = judge(lines, true);
    let holds =
        |((policy, ..), verdict): (&(&Policy, &mut Held, &Cost), &Verdict)| verdict.holds(policy);
    let held = if lines.iter().zip(&verdicts).all(holds) {
        let hold =
            |((policy, held, cost), verdict): (&mut (&Policy, &mut Held, &Cost), &Verdict)| {
                let now = held.now;
                let granted = if policy.is_shadow() { cost.most() } else { verdict.grants() };
                (granted, policy.hold(&mut held.state(), now, cost, *verdict, now.after(ttl)))
            };
        Some(lines.iter_mut().zip(&verdicts).map(hold).collect())
    } else {
        record(lines, &verdicts);
        None
    };
    let mut answers = answers(lines, &verdicts);
    retry_together(&mut answers);
    (answers, held)
}

/// The answer to a reservation that holds so much already.
pub(crate) fn answer_held(policy: &Policy, held: &Held, cost: &Cost, granted: u64) -> Answer {
    answer(policy, held, cost, Verdict::of_reservation(granted))
}

fn judge(lines: &[(&Policy, &mut Held, &Cost)], all_or_nothing: bool) -> Vec<Verdict> {
    let judge = |(policy, held, cost): &(&Policy, &mut Held, &Cost)| {
        policy.judge(held.view(), held.now, cost)
    };
    let mut verdicts: Vec<Verdict> = lines.iter().map(judge).collect();
    if all_or_nothing {
        let policies: Vec<&Policy> = lines.iter().map(|(policy, ..)| *policy).collect();
        withhold_unless_all_admit(&policies, &mut verdicts);
    }
    verdicts
}

fn record(lines: &mut [(&Policy, &mut Held, &Cost)], verdicts: &[Verdict]) {
    for ((policy, held, cost), verdict) in lines.iter_mut().zip(verdicts) {
        let now = held.now;
        policy.record(&mut held.state(), now, cost, *verdict);
    }
}

fn answers(lines: &[(&Policy, &mut Held, &Cost)], verdicts: &[Verdict]) -> Vec<Answer> {
    let states = lines.iter().zip(verdicts);
    states.map(|((policy, held, cost), verdict)| answer(policy, held, cost, *verdict)).collect()
}

fn answer(policy: &Policy, held: &Held, cost: &Cost, verdict: Verdict) -> Answer {
    let decision = policy.answer(held.view(), held.now, cost, verdict);
    let limits = policy.each(held.view(), held.now, cost, verdict).collect();
    Answer { decision, limits, source: Source::Authoritative }
}
