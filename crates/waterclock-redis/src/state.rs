//! What one key remembers, read from its record, and decisions on it by the core.

use std::time::Duration;

use waterclock::store::{retry_together, withhold_unless_all_admit};
use waterclock::{Answer, Cost, Decision, Migration, Policy, Timestamp, Verb};
use waterclock_core::store::{
    Decide as _, Logs, Migrate as _, Reserve as _, ReservedUnits, State, Verdict, View,
};

use crate::shape::{NotOurs, Shape};

/// What one key remembers under one policy, at an instant of the server's clock.
#[derive(Clone, Debug)]
pub(crate) struct KeyState {
    words: Vec<u64>,
    logs: Logs,
    pub(crate) now: Timestamp,
}

impl KeyState {
    pub(crate) fn fresh(policy: &Policy, now: Timestamp) -> Self {
        Self { words: vec![0; policy.words()], logs: Logs::new(), now }
    }

    /// The state that a script replied with.
    pub(crate) fn of_reply(
        policy: &Policy,
        shape: &Shape,
        reply: Option<&[u8]>,
        now: Timestamp,
    ) -> Result<Self, NotOurs> {
        let mut read = Self::fresh(policy, now);
        shape.read_reply(reply, now, &mut read.words, &mut read.logs)?;
        policy.redate(&mut read.state(), now);
        Ok(read)
    }

    /// The state in a whole record.
    pub(crate) fn of_record(
        policy: &Policy,
        shape: &Shape,
        record: &[u8],
        now: Timestamp,
    ) -> Result<Self, NotOurs> {
        let mut read = Self::fresh(policy, now);
        shape.read_record(record, now, &mut read.words, &mut read.logs)?;
        policy.redate(&mut read.state(), now);
        Ok(read)
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

    /// The same key under another definition of its policy. A fresh key stays fresh.
    pub(crate) fn carried(
        &self,
        old: &Policy,
        new: &Policy,
        migration: Migration,
        keeps_excess: bool,
    ) -> Self {
        let mut carried = Self::fresh(new, self.now);
        if old.fresh_in(self.view(), self.now).is_zero() {
            return carried;
        }
        match migration {
            Migration::Units if !keeps_excess => {
                new.migrate(old, self.view(), &mut carried.state(), self.now);
            }
            migration => {
                new.migrate_variant(migration, old, self.view(), &mut carried.state(), self.now);
            }
        }
        carried
    }

    /// The record of this state; none if fresh.
    pub(crate) fn record(&self, policy: &Policy, shape: &Shape) -> Option<Vec<u8>> {
        let left = policy.fresh_in(self.view(), self.now);
        (!left.is_zero()).then(|| shape.write(&self.words, &self.logs, self.now))
    }

    /// Charges a plain cost that is admitted at once; `None` if it is not, and then nothing changes.
    #[inline]
    pub(crate) fn spend(&mut self, policy: &Policy, cost: u64) -> Option<Answer> {
        let now = self.now;
        if let (Some(one), [word]) = (policy.one_word(), &mut *self.words) {
            let decision = one.check(word, now, cost);
            return decision
                .is_allowed()
                .then(|| Answer::of_one_word(policy, self.view(), now, cost, decision));
        }
        let cost = Cost::from(cost);
        let verdict = policy.judge(self.view(), now, &cost);
        if !verdict.admits() {
            return None;
        }
        policy.record(&mut self.state(), now, &cost, verdict);
        Some(Answer::of(policy, self.view(), now, &cost, verdict))
    }

    /// The same, without the numbers of each limit.
    #[inline]
    pub(crate) fn spend_and_decide(&mut self, policy: &Policy, cost: u64) -> Option<Decision> {
        let now = self.now;
        if let (Some(one), [word]) = (policy.one_word(), &mut *self.words) {
            return Some(one.check(word, now, cost)).filter(Decision::is_allowed);
        }
        self.spend(policy, cost).map(|answer| answer.decision)
    }

    /// The answer to a question about this key alone.
    pub(crate) fn answer(&mut self, policy: &Policy, verb: Verb, cost: &Cost) -> Answer {
        let answers = answer_all(verb, &mut [Question { policy, state: self, cost }]);
        answers.into_iter().next().expect("one question, one answer")
    }
}

/// One key of a check.
pub(crate) struct Question<'a> {
    pub(crate) policy: &'a Policy,
    pub(crate) state: &'a mut KeyState,
    pub(crate) cost: &'a Cost,
}

impl Question<'_> {
    fn judge(&self) -> Verdict {
        self.policy.judge(self.state.view(), self.state.now, self.cost)
    }

    fn record(&mut self, verdict: Verdict) {
        let now = self.state.now;
        self.policy.record(&mut self.state.state(), now, self.cost, verdict);
    }

    fn hold(&mut self, verdict: Verdict, ttl: Duration) -> (u64, ReservedUnits) {
        let Self { policy, state, cost } = self;
        let now = state.now;
        let granted = if policy.is_shadow() { cost.most() } else { verdict.grants() };
        (granted, policy.hold(&mut state.state(), now, cost, verdict, now.after(ttl)))
    }

    fn answer(&self, verdict: Verdict) -> Answer {
        answer(self.policy, self.state, self.cost, verdict)
    }
}

/// Applies one check to states, exactly as a store in this process would.
pub(crate) fn answer_all(verb: Verb, questions: &mut [Question<'_>]) -> Vec<Answer> {
    for Question { policy, state, cost } in questions.iter_mut() {
        let now = state.now;
        verb.change(policy, &mut state.state(), now, cost);
    }
    if verb != Verb::Check {
        return questions.iter().map(|question| question.answer(question.judge())).collect();
    }
    let verdicts = judge_together(questions);
    record(questions, &verdicts);
    answer_together(questions, &verdicts)
}

/// The answers to a check that other policies refuse, whatever their limits say. What always records has done so.
pub(crate) fn answer_withheld(questions: &mut [Question<'_>], refusing: &[&Policy]) -> Vec<Answer> {
    let mut verdicts: Vec<Verdict> = questions.iter().map(Question::judge).collect();
    let mut policies: Vec<&Policy> = questions.iter().map(|question| question.policy).collect();
    verdicts.extend(refusing.iter().map(|_| Verdict::refused()));
    policies.extend(refusing);
    withhold_unless_all_admit(&policies, &mut verdicts);
    verdicts.truncate(questions.len());
    record(questions, &verdicts);
    answer_together(questions, &verdicts)
}

/// Holds the charges of one reservation in the same way: the answers and, if something is held, how much of
/// each key in the limits that can refuse, and what of each limit.
pub(crate) fn hold_all(
    questions: &mut [Question<'_>],
    ttl: Duration,
) -> (Vec<Answer>, Option<Vec<(u64, ReservedUnits)>>) {
    let verdicts = judge_together(questions);
    let mut both = questions.iter_mut().zip(&verdicts);
    let held = if both.all(|(question, verdict)| verdict.holds(question.policy)) {
        let both = questions.iter_mut().zip(&verdicts);
        Some(both.map(|(question, verdict)| question.hold(*verdict, ttl)).collect())
    } else {
        record(questions, &verdicts);
        None
    };
    (answer_together(questions, &verdicts), held)
}

/// The answer to a reservation that holds so much already.
pub(crate) fn answer_held(policy: &Policy, state: &KeyState, cost: &Cost, granted: u64) -> Answer {
    answer(policy, state, cost, Verdict::of_reservation(granted))
}

/// All or nothing.
fn judge_together(questions: &[Question<'_>]) -> Vec<Verdict> {
    let mut verdicts: Vec<Verdict> = questions.iter().map(Question::judge).collect();
    let policies: Vec<&Policy> = questions.iter().map(|question| question.policy).collect();
    withhold_unless_all_admit(&policies, &mut verdicts);
    verdicts
}

fn record(questions: &mut [Question<'_>], verdicts: &[Verdict]) {
    questions.iter_mut().zip(verdicts).for_each(|(question, verdict)| question.record(*verdict));
}

fn answer_together(questions: &[Question<'_>], verdicts: &[Verdict]) -> Vec<Answer> {
    let both = questions.iter().zip(verdicts);
    let mut answers: Vec<Answer> =
        both.map(|(question, verdict)| question.answer(*verdict)).collect();
    retry_together(&mut answers);
    answers
}

fn answer(policy: &Policy, state: &KeyState, cost: &Cost, verdict: Verdict) -> Answer {
    Answer::of(policy, state.view(), state.now, cost, verdict)
}
