//! Puts calls about one key in an order that the sequential core explains.

use std::collections::HashSet;

use waterclock::{Answer, Cost, Policy, Timestamp, Verb};
use waterclock_core::Algorithm;
use waterclock_core::store::{Decide as _, Logs, State, View};

use crate::server::Execution;

/// The most states that are tried for one key. What is not decided by then is left undecided.
const MOST_TRIED: usize = 20_000;

/// A call about the key.
pub(super) struct Call<'h> {
    pub(super) verb: Verb,
    pub(super) cost: u64,
    pub(super) called_ms: u64,
    pub(super) returned_ms: u64,
    pub(super) told: Told<'h>,
}

/// What the caller was told.
pub(super) enum Told<'h> {
    /// Nothing: nobody knows whether it was made.
    Nothing,
    /// That it was made and admitted. Its numbers may be those of another instant.
    Admitted,
    /// All of it.
    Answer(&'h Answer),
}

/// A state of the key.
#[derive(Clone)]
struct Key {
    words: Vec<u64>,
    logs: Logs,
}

pub(super) struct Search<'s> {
    policy: &'s Policy,
    calls: &'s [Call<'s>],
    executed: &'s [&'s Execution],
    /// States of one word, by what was done before them.
    tried: HashSet<(usize, u32, Vec<u64>)>,
    count: usize,
}

impl<'s> Search<'s> {
    pub(super) fn new(
        policy: &'s Policy,
        calls: &'s [Call<'s>],
        executed: &'s [&'s Execution],
    ) -> Self {
        Self { policy, calls, executed, tried: HashSet::new(), count: 0 }
    }

    /// Whether some order explains all calls; none if that takes too long to find out.
    pub(super) fn explains_all(&mut self) -> Option<bool> {
        let key = Key { words: vec![0; self.policy.words()], logs: Logs::new() };
        self.explains(0, 0, &key)
    }

    /// A server drops a record that it is asked for when its time is over, and a clock that steps back does not bring it
    /// back.
    fn unless_expired(&self, key: &Key, now_us: u64) -> Key {
        let mut key = key.clone();
        if let Algorithm::Gcra(gcra) = self.policy.limits()[0].algorithm()
            && gcra.full_at(&key.words) / u128::from(gcra.unit_ns().1)
                < u128::from(now_us / 1_000) * 1_000_000
        {
            key.words.fill(0);
        }
        key
    }

    fn explains(&mut self, at: usize, done: u32, key: &Key) -> Option<bool> {
        let is_left = |i: usize| done >> i & 1 == 0;
        let is_told = |call: &Call<'_>| !matches!(call.told, Told::Nothing);
        if !self.calls.iter().enumerate().any(|(i, call)| is_left(i) && is_told(call)) {
            return Some(true);
        }
        let Some(now) = self.executed.get(at).copied() else { return Some(false) };
        let key = &self.unless_expired(key, now.now_us);
        self.count += 1;
        if self.count > MOST_TRIED {
            return None;
        }
        // What is in a log does not show in words.
        let is_known = !matches!(self.policy.limits()[0].algorithm(), Algorithm::RollingWindow(_));
        if is_known && !self.tried.insert((at, done, key.words.clone())) {
            return Some(false);
        }
        let mut is_undecided = false;
        for (i, call) in self.calls.iter().enumerate() {
            let is_possible = is_left(i)
                && call.called_ms <= now.at_ms
                && (!is_told(call) || now.at_ms <= call.returned_ms);
            if !is_possible {
                continue;
            }
            let mut after = key.clone();
            let answer = self.apply(&mut after, now.now_us, call);
            let is_so = match call.told {
                Told::Nothing => true,
                Told::Admitted => answer.decision.is_allowed(),
                Told::Answer(told) => told.decision == answer.decision,
            };
            if !is_so {
                continue;
            }
            match self.explains(at, done | 1 << i, &after) {
                Some(true) => return Some(true),
                Some(false) => {}
                None => is_undecided = true,
            }
        }
        // A call that was told something has to be explained before it returned.
        let next = self.executed.get(at + 1);
        let is_late = self.calls.iter().enumerate().any(|(i, call)| {
            let is_over = next.is_none_or(|next| next.at_ms > call.returned_ms);
            is_left(i) && is_told(call) && is_over
        });
        if !is_late {
            match self.explains(at + 1, done, key) {
                Some(true) => return Some(true),
                Some(false) => {}
                None => is_undecided = true,
            }
        }
        (!is_undecided).then_some(false)
    }

    /// The sequential core.
    fn apply(&self, key: &mut Key, now_us: u64, call: &Call<'_>) -> Answer {
        let policy = self.policy;
        let (now, cost) = (Timestamp::from_micros(now_us), Cost::from(call.cost));
        // A peek writes nothing, whatever it finds.
        let mut seen = key.clone();
        let Key { words, logs } = if call.verb == Verb::Peek { &mut seen } else { key };
        // A store re-dates what a clock that stepped back would have in the future. A debt can be any depth: no clock steps
        // back where there are some.
        if let Algorithm::Gcra(gcra) = policy.limits()[0].algorithm()
            && !self.calls.iter().any(|call| call.verb == Verb::Debit)
        {
            let (unit_ns, of) = gcra.unit_ns();
            let deepest = u128::from(now.as_nanos()) * u128::from(of)
                + u128::from(gcra.capacity()) * u128::from(unit_ns);
            if gcra.full_at(words) > deepest {
                gcra.set_full_at(deepest, words);
            }
        }
        policy.redate(&mut State::new(words, logs), now);
        call.verb.change(policy, &mut State::new(words, logs), now, &cost);
        let verdict = policy.judge(View::new(words, logs), now, &cost);
        if call.verb == Verb::Check {
            policy.record(&mut State::new(words, logs), now, &cost, verdict);
        }
        Answer::of(policy, View::new(words, logs), now, &cost, verdict)
    }
}
