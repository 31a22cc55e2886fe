//! What a key keeps when its policy changes, or when it is checked under a variant: what was spent.

use super::{Log, State, View};
use crate::algorithm::Meter;
use crate::arith::gcd;
use crate::{Algorithm, Gcra, Limit, Policy, PolicyError, Timestamp};

/// What a key keeps that is checked under one policy and then under a variant of it. Exhaustive: a store must know
/// every way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Migration {
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
    /// The key will be checked under the old limit again.
    Kept,
}

/// Moving the state of a key from one policy to another.
pub trait Migrate: super::Sealed {
    /// Fills the fresh `state` of a key under this policy from what it remembers under `old`.
    ///
    /// A limit with the same name and algorithm keeps the units spent; anything else starts fresh.
    fn migrate(&self, old: &Policy, memory: View<'_>, state: &mut State<'_>, now: Timestamp);

    /// The same for a key that may be checked under `old` again: it keeps what `migration` says, even where
    /// that is more than the limits hold.
    fn migrate_variant(
        &self,
        migration: Migration,
        old: &Policy,
        memory: View<'_>,
        state: &mut State<'_>,
        now: Timestamp,
    );

    /// Whether keys can migrate between this policy and a variant of it. By time only one gcra limit can:
    /// nothing else is full again at one instant.
    fn check_migration(&self, migration: Migration) -> Result<(), PolicyError>;

    /// Makes the fresh `state` a copy of another key's words, which keep their logs in the same place.
    fn copy(&self, from: &[u64], state: &mut State<'_>);
}

impl Migrate for Policy {
    fn migrate(&self, old: &Policy, memory: View<'_>, state: &mut State<'_>, now: Timestamp) {
        self.migrate_with(Excess::Dropped, old, memory, state, now);
    }

    fn migrate_variant(
        &self,
        migration: Migration,
        old: &Policy,
        memory: View<'_>,
        state: &mut State<'_>,
        now: Timestamp,
    ) {
        if migration == Migration::Units {
            return self.migrate_with(Excess::Kept, old, memory, state, now);
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

    fn check_migration(&self, migration: Migration) -> Result<(), PolicyError> {
        let fits = match self.limits() {
            _ if migration == Migration::Units => true,
            [only] => {
                matches!(only.algorithm(), Algorithm::Gcra(_)) && only.min_interval().is_none()
            }
            _ => false,
        };
        if fits { Ok(()) } else { Err(PolicyError::NotByTime(self.name().into())) }
    }

    fn copy(&self, from: &[u64], state: &mut State<'_>) {
        state.words.copy_from_slice(from);
        for (start, limit) in self.parts() {
            if limit.algorithm().keeps_log() {
                let log = state.logs.get(from[start]).clone();
                state.words[start] = 0;
                keep_log(log, state.part(start, 1));
            }
        }
    }
}

impl Policy {
    fn migrate_with(
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
                migrate_limit(excess, before, memory, limit, state, now.as_nanos());
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

fn migrate_limit(
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
    migrate_algorithm(excess, old, own, new, to, now);
    if let (Some(a), Some(b)) = (before.gap(), after.gap()) {
        state.words[new_words] = shifted(memory.words[old_words], a.every, b.every);
    }
}

fn migrate_algorithm(
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
            if b.same_start(a, own.words[0]).is_some() =>
        {
            let end = b.same_start(a, own.words[0]).unwrap_or(0);
            state.words.copy_from_slice(&[end, own.words[1]]);
        }
        (Algorithm::SlidingWindow(a), Algorithm::SlidingWindow(b)) if a.per == b.per => {
            state.words.copy_from_slice(own.words);
        }
        (Algorithm::Quota(a), Algorithm::Quota(b)) => {
            b.migrate(a, own.words, state.words, now);
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
