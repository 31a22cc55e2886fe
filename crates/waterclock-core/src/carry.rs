//! What a key keeps when its policy changes, or when it is asked under another one: what was spent.

use alloc::format;
use alloc::string::String;

use crate::algorithm::Meter;
use crate::arith::gcd;
use crate::logs::Log;
use crate::{Algorithm, Gcra, Limit, Policy, State, Timestamp, View};

/// What stays the same of a key that is asked under one policy and then under another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Crossing {
    /// The units spent: 5 of 100 spent leave none of 5.
    #[default]
    Units,
    /// The instant at which the key is full again, whatever it takes for a unit to return. For gcra
    /// only; rounded up to what the other numbers can tell apart in microseconds.
    Time,
}

/// What becomes of more than the new limit holds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Excess {
    /// Exhausted is as far as a lowered limit goes. What was owed beyond the old limit is owed still.
    Dropped,
    /// It will be asked under the old limit again.
    Kept,
}

impl Policy {
    /// Fills the fresh `state` of a key under this policy from what it remembers under `old`.
    ///
    /// A limit with the same name and algorithm keeps the units spent; anything else starts fresh.
    pub fn carry(&self, old: &Policy, memory: View<'_>, state: &mut State<'_>, now: Timestamp) {
        self.carry_with(Excess::Dropped, old, memory, state, now);
    }

    /// The same for a key that may be asked under `old` again: it keeps what `crossing` says, however
    /// much that is.
    pub fn cross(
        &self,
        crossing: Crossing,
        old: &Policy,
        memory: View<'_>,
        state: &mut State<'_>,
        now: Timestamp,
    ) {
        if crossing == Crossing::Units {
            return self.carry_with(Excess::Kept, old, memory, state, now);
        }
        for (start, limit) in self.parts() {
            let before = old.parts().find(|(_, before)| keeps(before, limit));
            if let Some((at, before)) = before
                && let (Algorithm::Gcra(a), Algorithm::Gcra(b)) =
                    (before.algorithm(), limit.algorithm())
            {
                let full_at = b.as_of(a, a.full_at(&memory.words[at..]));
                b.set_full_at(full_at, &mut state.words[start..]);
            }
        }
    }

    fn carry_with(
        &self,
        excess: Excess,
        old: &Policy,
        memory: View<'_>,
        state: &mut State<'_>,
        now: Timestamp,
    ) {
        for (start, limit) in self.parts() {
            if let Some((at, before)) = old.parts().find(|(_, before)| keeps(before, limit)) {
                let memory = memory.part(at, before.words());
                let state = state.part(start, limit.words());
                carry_limit(excess, before, memory, limit, state, now.as_nanos());
            }
        }
    }

    /// Whether a key can be asked under this policy and then under another; if not, why. By time only one
    /// gcra limit can: nothing else is full again at one instant.
    pub fn crosses(&self, crossing: Crossing) -> Result<(), String> {
        let fits = match self.limits() {
            _ if crossing == Crossing::Units => true,
            [only] => {
                matches!(only.algorithm(), Algorithm::Gcra(_)) && only.min_interval().is_none()
            }
            _ => false,
        };
        let why = "it must be one gcra limit without a min_interval to cross by time";
        if fits { Ok(()) } else { Err(format!("policy `{}`: {why}", self.name())) }
    }

    /// Makes the fresh `state` a copy of another key's words, which keep their logs in the same place.
    pub fn copy(&self, from: &[u64], state: &mut State<'_>) {
        state.words.copy_from_slice(from);
        for (start, limit) in self.parts() {
            if limit.algorithm().keeps_log() {
                let log = state.logs.get(from[start]).clone();
                state.words[start] = 0;
                keep_log(log, state.part(start, 1));
            }
        }
    }

    /// The limits that would start fresh if this policy replaced `old`.
    pub fn starts_fresh<'a>(&'a self, old: &'a Policy) -> impl Iterator<Item = &'a str> {
        let kept = |limit: &Limit| old.limits().iter().any(|before| keeps(before, limit));
        self.limits().iter().filter(move |limit| !kept(limit)).map(Limit::name)
    }
}

impl Limit {
    /// Whether this limit's state means something to the one that takes its place.
    pub(crate) fn keeps_state_of(&self, after: &Limit) -> bool {
        keeps(self, after)
    }
}

fn keeps(before: &Limit, after: &Limit) -> bool {
    use Algorithm::{Gcra, LeakyBucket};
    let same_algorithm = match (before.algorithm(), after.algorithm()) {
        // A leaky bucket that drips one by one is gcra inside.
        (Gcra(_) | LeakyBucket(_), Gcra(_) | LeakyBucket(_)) => true,
        (old, new) => core::mem::discriminant(old) == core::mem::discriminant(new),
    };
    same_algorithm && before.name() == after.name()
}

impl Gcra {
    /// An instant by other numbers' measure, in 1/scale ns of these.
    fn as_of(&self, other: &Self, full_at: u128) -> u128 {
        let ((step, scale), (_, other_scale)) = (self.unit_ns(), other.unit_ns());
        if self.unit_ns() == other.unit_ns() {
            return full_at;
        }
        let (scale, other_scale) = (u128::from(scale), u128::from(other_scale));
        let part = (full_at % other_scale * scale).div_ceil(other_scale);
        let exact = (full_at / other_scale).saturating_mul(scale).saturating_add(part);
        // What a whole number of units leaves of a microsecond is a multiple of this.
        let grain = gcd(step.into(), 1_000);
        exact.div_ceil(grain).saturating_mul(grain)
    }
}

fn carry_limit(
    excess: Excess,
    before: &Limit,
    memory: View<'_>,
    after: &Limit,
    mut state: State<'_>,
    now: u64,
) {
    let (old, new) = (before.algorithm(), after.algorithm());
    let (old_words, new_words) = (old.words(), new.words());
    let (own, to) = (memory.part(0, old_words), state.part(0, new_words));
    carry_algorithm(excess, old, own, new, to, now);
    if let (Some(a), Some(b)) = (before.gap(), after.gap()) {
        state.words[new_words] = shifted(memory.words[old_words], a.every, b.every);
    }
}

fn carry_algorithm(
    excess: Excess,
    before: &Algorithm,
    own: View<'_>,
    after: &Algorithm,
    state: State<'_>,
    now: u64,
) {
    match (before, after) {
        // Units that return at the same pace are on their way already.
        (Algorithm::Gcra(a), Algorithm::Gcra(b)) if a.unit_ns() == b.unit_ns() => {
            let full_at = a.full_at(own.words);
            let most = match excess {
                Excess::Dropped if !b.overdraft() => b.full_at_most(a, own.words, now),
                _ => u128::MAX,
            };
            b.set_full_at(full_at.min(most), state.words);
        }
        (Algorithm::LeakyBucket(a), Algorithm::LeakyBucket(b)) if a.drips_like(b) => {
            let (level, anchor) = a.at(own.words, now);
            let owed = level.saturating_sub(a.capacity());
            let keeps_all = excess == Excess::Kept || b.overdraft();
            let most = if keeps_all { u64::MAX } else { b.capacity().saturating_add(owed) };
            state.words.copy_from_slice(&[level.min(most), anchor]);
        }
        // Counters hold whatever the limit is now, where the window is the same or can be moved.
        (Algorithm::FixedWindow(a), Algorithm::FixedWindow(b))
            if let Some(end) = b.same_start(a, own.words[0]) =>
        {
            state.words.copy_from_slice(&[end, own.words[1]]);
        }
        (Algorithm::SlidingWindow(a), Algorithm::SlidingWindow(b)) if a.per == b.per => {
            state.words.copy_from_slice(own.words);
        }
        (Algorithm::Quota(a), Algorithm::Quota(b)) => {
            b.carry(a, own.words, state.words, now);
        }
        (Algorithm::EvenSlots(a), Algorithm::EvenSlots(b)) if a == b => {
            state.words.copy_from_slice(own.words);
        }
        (Algorithm::RollingWindow(_), Algorithm::RollingWindow(_))
        | (Algorithm::Concurrency(_), Algorithm::Concurrency(_)) => {
            // Stamps are instants: they count for the new period, whatever it is. A lease that was given
            // lasts as long as it was given for.
            keep_log(own.logs.get(own.words[0]).clone(), state);
        }
        (Algorithm::ErrorRate(_), Algorithm::ErrorRate(_)) => {
            // Open is open; for how long is for the new numbers to say.
            state.words[1] = own.words[1];
            keep_log(own.logs.get(own.words[0]).clone(), state);
        }
        (Algorithm::MinInterval(a), Algorithm::MinInterval(b)) => {
            state.words[0] = shifted(own.words[0], a.every, b.every);
        }
        (a, b) => {
            // Of event algorithms this asks whether the last event still counts.
            let spent =
                if a.max_cost().is_some() { a.used(own, now) } else { a.reset(own, now).min(1) };
            let spent = match b.max_cost() {
                Some(most) if b.need(2) == 2 && excess == Excess::Dropped => {
                    let owed = a.max_cost().map_or(0, |limit| spent.saturating_sub(limit));
                    spent.min(most.saturating_add(owed))
                }
                _ => spent,
            };
            match b.max_cost() {
                _ if spent == 0 => {}
                Some(_) => b.debit(state, now, spent),
                None => b.charge(state, now, spent),
            }
        }
    }
}

fn keep_log(log: Log, state: State<'_>) {
    if !log.entries.is_empty() {
        *state.logs.open(&mut state.words[0]) = log;
    }
}

/// When the next event is welcome, for another interval since the same last event.
fn shifted(welcome_at: u64, old_every: u64, new_every: u64) -> u64 {
    if welcome_at == 0 { 0 } else { welcome_at.saturating_sub(old_every).saturating_add(new_every) }
}
