//! The one function: judge every limit, then record in all or none, then answer.

use core::cmp::Ordering;
use core::time::Duration;

use crate::algorithm::gcra::Cells;
use crate::algorithm::{Meter, NEVER};
use crate::decision::{Room, UNBOUNDED, bounded};
use crate::limit::ends;
use crate::{
    Cost, Decision, Limit, LimitDecision, LimitSet, Logs, Mode, Outcome, Policy, State, Timestamp,
    View,
};

/// How many steps a wait over limits that shrink again may take before it is given as it stands.
///
/// Two quotas of unrelated periods may take arbitrarily long to admit at once; each step is the
/// next instant at which one of them changes its mind.
const MOST_STEPS: u32 = 1_024;

/// Debts may be a hundred years deep at the last instant there is; beyond that nobody looks.
const LAST_LOOK: u64 = Timestamp::MAX.as_nanos() + 36_525 * 86_400 * 1_000_000_000;

/// The smallest d with `wait(now + d) == 0`, where `wait` says how long there is no hope at least.
///
/// Waits that only ever end need one look. Where room can shrink again (`recurs`) the others may
/// have moved on in the meantime: look again until nobody objects.
#[inline]
pub(crate) fn settle(now: u64, recurs: bool, wait: impl Fn(u64) -> u64) -> u64 {
    let first = wait(now);
    if !recurs || first == 0 || first == NEVER {
        return first;
    }
    let mut total = first;
    for _ in 0..MOST_STEPS {
        let at = now.saturating_add(total);
        if at > LAST_LOOK {
            break;
        }
        match wait(at) {
            0 => break,
            NEVER => return NEVER,
            more => total = total.saturating_add(more),
        }
    }
    total
}

/// A check by one limit that stands alone, without a gap, in binary mode: most policies are that,
/// and need no sets and no second look. Says the same as judge, record and answer do.
#[inline]
pub(crate) fn alone<M: Meter>(meter: &M, mut state: State<'_>, now: u64, cost: u64) -> Decision {
    let retry = if cost == 0 { 0 } else { meter.wait(state.view(), now, meter.need(cost)) };
    let allowed = retry == 0;
    if allowed && cost > 0 {
        meter.charge(state.reborrow(), now, cost);
    }
    let mut refused_by = LimitSet::default();
    if !allowed {
        refused_by.insert(0);
    }
    Decision {
        allowed,
        refused_by,
        shadow_refused_by: LimitSet::default(),
        granted: if allowed { cost } else { 0 },
        limit: meter.max_cost().unwrap_or(UNBOUNDED),
        retry,
        counter: i64::MIN,
        room: meter.room(state.view(), now),
    }
}

/// A policy of one limit whose whole state is one word, as most are.
#[derive(Clone, Copy)]
pub struct OneWord<'a>(Cells<'a, u64>);

impl core::fmt::Debug for OneWord<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("OneWord")
    }
}

impl OneWord<'_> {
    /// As [`Policy::check`].
    #[inline]
    pub fn check(&self, word: &mut u64, now: Timestamp, cost: u64) -> Decision {
        let mut no_logs = Logs::new();
        let state = State::new(core::slice::from_mut(word), &mut no_logs);
        alone(&self.0, state, now.as_nanos(), cost)
    }
}

/// How long until a limit admits its part of a cost; one that is not asked for anything admits it now.
#[inline]
fn wait(limit: &Limit, part: View<'_>, at: u64, cost: &Cost) -> u64 {
    match cost.of(limit.unit()) {
        0 => 0,
        units => limit.wait(part, at, units),
    }
}

/// What the limits of a policy said to a cost, before anything was recorded.
#[derive(Clone, Copy, Debug)]
pub struct Verdict {
    admits: bool,
    grants: u64,
    /// The limits that do not admit the whole cost.
    unfit: LimitSet,
    shadow_refused: LimitSet,
}

impl Verdict {
    /// Whether the whole cost is admitted.
    #[must_use]
    pub fn admits(&self) -> bool {
        self.admits
    }

    /// How much is granted; in uniform mode, recorded. Of several units, the largest number.
    #[must_use]
    pub fn grants(&self) -> u64 {
        self.grants
    }

    /// Whether a reservation would hold something by it: all of it, or what fits in nary mode.
    #[must_use]
    pub fn holds(&self, policy: &Policy) -> bool {
        let holds_part = policy.mode() == Mode::Partial && self.grants > 0;
        self.admits || holds_part || policy.is_shadow()
    }

    /// The verdict of a reservation that holds so many units already.
    #[must_use]
    pub fn held(units: u64) -> Self {
        let none = LimitSet::default();
        Self { admits: true, grants: units, unfit: none, shadow_refused: none }
    }

    /// The same verdict for a charge given up because another charge of its check was refused.
    /// Uniform policies record all the same.
    #[must_use]
    pub fn withheld(mut self, policy: &Policy) -> Self {
        self.admits = false;
        if policy.mode() != Mode::CountRefusals {
            self.grants = 0;
        }
        self
    }

    /// Whether recording it changes anything.
    #[must_use]
    #[inline]
    pub fn writes(&self, policy: &Policy, cost: &Cost) -> bool {
        !cost.is_zero()
            && policy.words() > 0
            && (self.grants > 0 || policy.limits().iter().any(Limit::is_shadow))
    }
}

impl Policy {
    /// Decides and charges.
    pub fn check(&self, state: &mut State<'_>, now: Timestamp, cost: u64) -> Decision {
        match self.plain() {
            Some(limit) => limit.algorithm().check_alone(state.reborrow(), now.as_nanos(), cost),
            None => self.check_all(state, now, cost),
        }
    }

    /// The policy in its shortest form, if it is one limit whose whole state is one word.
    #[inline]
    #[must_use]
    pub fn one_word(&self) -> Option<OneWord<'_>> {
        self.plain()?.algorithm().in_one_word().map(OneWord)
    }

    #[inline(never)]
    fn check_all(&self, state: &mut State<'_>, now: Timestamp, cost: u64) -> Decision {
        if self.reserves_only() {
            return self.refuse_check(state.view(), now, &cost.into());
        }
        let cost = Cost::from(cost);
        let verdict = self.judge(state.view(), now, &cost);
        self.record(state, now, &cost, verdict);
        self.answer(state.view(), now, &cost, verdict)
    }

    /// Decides and charges nothing: what `check` would say, with the numbers as they stand.
    #[inline]
    pub fn peek(&self, view: View<'_>, now: Timestamp, cost: &Cost) -> Decision {
        self.answer(view, now, cost, self.judge(view, now, cost))
    }

    /// The answer to a check of a policy that [reserves only](Self::reserves_only): never, with the numbers
    /// as they stand.
    pub fn refuse_check(&self, view: View<'_>, now: Timestamp, cost: &Cost) -> Decision {
        let mut decision = self.peek(view, now, cost);
        if cost.is_zero() {
            return decision;
        }
        for (i, limit) in self.limits().iter().enumerate() {
            if limit.lease().is_some() && !limit.is_shadow() {
                decision.refused_by.insert(i);
            }
        }
        decision.standing_back(None)
    }

    /// Asks every limit, records nothing.
    #[inline]
    #[must_use]
    pub fn judge(&self, view: View<'_>, now: Timestamp, cost: &Cost) -> Verdict {
        let at = now.as_nanos();
        let (mut unfit, mut shadow_refused) = (LimitSet::default(), LimitSet::default());
        let mut admits = true;
        for (i, (start, limit)) in self.parts().enumerate() {
            let part = view.part(start, limit.words());
            if wait(limit, part, at, cost) == 0 {
                continue;
            }
            unfit.insert(i);
            if !limit.is_shadow() {
                admits = false;
            } else if self.mode() != Mode::Partial || limit.remaining(part, at) == Some(0) {
                shadow_refused.insert(i);
            }
        }
        let cost = cost.most();
        let grants = match self.mode() {
            _ if admits => cost,
            Mode::Binary => 0,
            Mode::Partial => self.remaining(view, at).map_or(cost, |left| left.min(cost)),
            Mode::CountRefusals => cost,
        };
        Verdict { admits, grants, unfit, shadow_refused }
    }

    /// The limits that refused. A partial grant is not a refusal; given up, it is one after all.
    fn refused_by(&self, verdict: Verdict) -> LimitSet {
        let mut refused = LimitSet::default();
        if self.mode() != Mode::Partial || verdict.grants == 0 {
            let live = |i: &usize| !self.limits()[*i].is_shadow();
            verdict.unfit.iter().filter(live).for_each(|i| refused.insert(i));
        }
        refused
    }

    /// Charges what the verdict grants.
    #[inline]
    pub fn record(&self, state: &mut State<'_>, now: Timestamp, cost: &Cost, verdict: Verdict) {
        if cost.is_zero() {
            return;
        }
        let at = now.as_nanos();
        for (start, limit) in self.parts() {
            let part = state.part(start, limit.words());
            let units = self.charged(limit, part.view(), at, cost, verdict);
            limit.charge(part, at, units);
        }
    }

    /// Whether recording a verdict would charge any limit anything.
    #[must_use]
    pub fn charges(&self, view: View<'_>, now: Timestamp, cost: &Cost, verdict: Verdict) -> bool {
        let units = |(start, limit): (usize, &Limit)| {
            let part = view.part(start, limit.words());
            self.charged(limit, part, now.as_nanos(), cost, verdict)
        };
        !cost.is_zero() && self.parts().any(|part| units(part) > 0)
    }

    /// How much a limit is charged.
    #[inline]
    pub(crate) fn charged(
        &self,
        limit: &Limit,
        view: View<'_>,
        at: u64,
        cost: &Cost,
        verdict: Verdict,
    ) -> u64 {
        let cost = cost.of(limit.unit());
        match limit.is_shadow() {
            true => self.shadow_units(limit, view, at, cost),
            // What is granted in part is of the one unit that all limits count.
            false if self.mode() == Mode::Partial => verdict.grants,
            false if verdict.grants > 0 => cost,
            false => 0,
        }
    }

    /// A shadow limit is charged what it alone would have admitted.
    fn shadow_units(&self, limit: &Limit, view: View<'_>, at: u64, cost: u64) -> u64 {
        match self.mode() {
            Mode::CountRefusals => cost,
            _ if limit.wait(view, at, cost) == 0 => cost,
            Mode::Binary => 0,
            Mode::Partial => limit.remaining(view, at).map_or(cost, |left| left.min(cost)),
        }
    }

    /// The numbers of a decision, from the state after the verdict was recorded (or was not).
    #[inline]
    pub fn answer(
        &self,
        view: View<'_>,
        now: Timestamp,
        cost: &Cost,
        verdict: Verdict,
    ) -> Decision {
        let at = now.as_nanos();
        let (mut limit, mut remaining, mut next_unit, mut reset) = (UNBOUNDED, UNBOUNDED, NEVER, 0);
        for (live, part) in self.live(view) {
            let (most, room) = (live.max_cost().unwrap_or(UNBOUNDED), live.room(part, at));
            let left = room.remaining(most);
            limit = limit.min(most);
            reset = reset.max(room.reset());
            // One more is admitted when those that have no more than the least left have it.
            next_unit = match left.cmp(&remaining) {
                Ordering::Less => room.next_unit(most),
                Ordering::Equal => next_unit.max(room.next_unit(most)),
                Ordering::Greater => next_unit,
            };
            remaining = remaining.min(left);
        }
        if remaining == limit {
            next_unit = NEVER;
        } else if self.recurs() {
            next_unit = settle(at, true, |at| {
                self.longest(view, |live, part| live.wait_for_units(part, at, remaining + 1))
            });
        }
        let mut decision = Decision {
            allowed: verdict.admits,
            refused_by: self.refused_by(verdict),
            shadow_refused_by: verdict.shadow_refused,
            granted: verdict.grants,
            limit,
            retry: 0,
            counter: i64::MIN,
            room: Room::Counted { remaining, next_unit, reset },
        };
        if !verdict.admits {
            self.refuse(&mut decision, view, at, cost);
        }
        if self.mode() == Mode::CountRefusals {
            let counters = self.live(view).filter_map(|(limit, part)| limit.counter(part, at));
            decision.counter = counters.min().unwrap_or(i64::MIN);
        }
        decision
    }

    /// The part of an answer that only a refusal needs.
    #[cold]
    fn refuse(&self, decision: &mut Decision, view: View<'_>, at: u64, cost: &Cost) {
        if self.is_shadow() {
            *decision = decision.in_shadow(cost);
            return;
        }
        let wait = |at| self.longest(view, |limit, part| wait(limit, part, at, cost));
        decision.retry = settle(at, self.recurs(), wait);
    }

    /// Each limit's own numbers, in policy order, from the state after the verdict was recorded.
    pub fn each<'a>(
        &'a self,
        view: View<'a>,
        now: Timestamp,
        cost: &'a Cost,
        verdict: Verdict,
    ) -> impl Iterator<Item = LimitDecision> + 'a {
        let at = now.as_nanos();
        self.parts().enumerate().map(move |(i, (start, limit))| {
            let part = view.part(start, limit.words());
            let (most, room) = (limit.max_cost().unwrap_or(UNBOUNDED), limit.room(part, at));
            let allowed = !verdict.unfit.contains(i);
            let retry = if allowed { 0 } else { wait(limit, part, at, cost) };
            LimitDecision {
                allowed,
                limit: bounded(most),
                remaining: bounded(room.remaining(most)),
                retry_after: ends(retry).map(Duration::from_nanos),
                next_unit: ends(room.next_unit(most)).map(Duration::from_nanos),
                reset_after: Duration::from_nanos(room.reset()),
            }
        })
    }

    /// Charges units that were used already, whatever there is room for: shadow limits too, and
    /// into debt if need be. Debts are bounded: gcra and leaky buckets owe at most what returns within
    /// 40 years, or 100 with overdraft, counters at most 2^53 − 1 units.
    pub fn debit(&self, state: &mut State<'_>, now: Timestamp, cost: &Cost) {
        for (start, limit) in self.parts() {
            let units = cost.of(limit.unit());
            limit.debit(state.part(start, limit.words()), now.as_nanos(), units);
        }
    }

    /// Takes into account how something that was admitted ended, so many times. Only limits by the share of
    /// errors care.
    pub fn report(&self, state: &mut State<'_>, now: Timestamp, outcome: Outcome, times: &Cost) {
        for (start, limit) in self.parts() {
            let times = times.of(limit.unit());
            limit.report(state.part(start, limit.words()), now.as_nanos(), outcome, times);
        }
    }

    /// Gives back up to so much.
    pub fn refund(&self, state: &mut State<'_>, now: Timestamp, cost: &Cost) {
        for (start, limit) in self.parts() {
            let units = cost.of(limit.unit());
            limit.refund(state.part(start, limit.words()), now.as_nanos(), units);
        }
    }

    /// For stores whose clock can step back: a state from the future becomes one of now, in which
    /// what was used is still used. Without it, such a key would wait until the clock caught up.
    pub fn redate(&self, state: &mut State<'_>, now: Timestamp) {
        for (start, limit) in self.parts() {
            limit.redate(state.part(start, limit.words()), now.as_nanos());
        }
    }

    /// Forgets the key: its words are zero again and its logs are freed.
    pub fn clear(&self, state: &mut State<'_>) {
        for (start, limit) in self.parts() {
            if limit.algorithm().keeps_log() {
                state.logs.close(&mut state.words[start]);
            }
        }
        state.words.fill(0);
    }

    /// How long until the state answers as a fresh one if nothing else happens; at zero it may be
    /// dropped. Shadow limits count here, unlike in a decision's `reset_after`.
    #[must_use]
    pub fn fresh_in(&self, view: View<'_>, now: Timestamp) -> Duration {
        let waits = self
            .parts()
            .map(|(start, limit)| limit.reset(view.part(start, limit.words()), now.as_nanos()));
        Duration::from_nanos(waits.max().unwrap_or(0))
    }

    /// The limits that can refuse, with their state.
    #[inline]
    fn live<'a>(&'a self, view: View<'a>) -> impl Iterator<Item = (&'a Limit, View<'a>)> {
        self.parts()
            .filter(|(_, limit)| !limit.is_shadow())
            .map(move |(start, limit)| (limit, view.part(start, limit.words())))
    }

    #[inline]
    fn longest(&self, view: View<'_>, wait: impl Fn(&Limit, View<'_>) -> u64) -> u64 {
        self.live(view).map(|(limit, part)| wait(limit, part)).max().unwrap_or(0)
    }

    #[inline]
    fn remaining(&self, view: View<'_>, at: u64) -> Option<u64> {
        self.live(view).filter_map(|(limit, part)| limit.remaining(part, at)).min()
    }
}
