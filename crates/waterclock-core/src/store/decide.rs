//! The one function: judge every limit, then record in all or none, then answer.

use core::cmp::Ordering;
use core::time::Duration;

use super::one_limit::OneWord;
use super::several;
use super::wait::fixed_point;
use super::{State, Verdict, View};
use crate::algorithm::NEVER;
use crate::decision::{UNBOUNDED, bounded};
use crate::limit::ends;
use crate::room::Room;
use crate::{
    Algorithm, Cost, Decision, ErrorRate, Limit, LimitDecision, LimitSet, Mode, Outcome, Policy,
    Timestamp,
};

/// Deciding about one key, and every other change of its state.
///
/// A check is [`judge`](Decide::judge), [`record`](Decide::record) and [`answer`](Decide::answer), in this
/// order; a store that decides about several policies at once judges all of them first.
pub trait Decide: super::Sealed {
    /// How many words the state of one key takes, all zero when fresh.
    #[must_use]
    fn words(&self) -> usize;

    /// Whether the words alone are not the whole state: some algorithms keep [`Logs`](super::Logs) beside them.
    #[must_use]
    fn keeps_logs(&self) -> bool;

    /// Decides and charges.
    fn check(&self, state: &mut State<'_>, now: Timestamp, cost: u64) -> Decision;

    /// The policy in its shortest form, if it is one limit whose whole state is one word.
    #[must_use]
    fn one_word(&self) -> Option<OneWord<'_>>;

    /// Decides and charges nothing: what `check` would say, with the numbers as they stand.
    fn peek(&self, view: View<'_>, now: Timestamp, cost: &Cost) -> Decision;

    /// The answer to a check of a policy that [reserves only](Policy::reserves_only): never, with the numbers
    /// as they stand.
    fn refuse_check(&self, view: View<'_>, now: Timestamp, cost: &Cost) -> Decision;

    /// Asks every limit, records nothing.
    #[must_use]
    fn judge(&self, view: View<'_>, now: Timestamp, cost: &Cost) -> Verdict;

    /// Charges what the verdict grants.
    fn record(&self, state: &mut State<'_>, now: Timestamp, cost: &Cost, verdict: Verdict);

    /// Whether recording a verdict would charge any limit anything.
    #[must_use]
    fn charges(&self, view: View<'_>, now: Timestamp, cost: &Cost, verdict: Verdict) -> bool;

    /// The numbers of a decision, from the state after the verdict was recorded (or was not).
    fn answer(&self, view: View<'_>, now: Timestamp, cost: &Cost, verdict: Verdict) -> Decision;

    /// Each limit's own numbers, in policy order, from the state after the verdict was recorded.
    fn each<'a>(
        &'a self,
        view: View<'a>,
        now: Timestamp,
        cost: &'a Cost,
        verdict: Verdict,
    ) -> impl Iterator<Item = LimitDecision> + 'a;

    /// How long until the same cost is admitted next, from the state after the verdict was recorded; `None` for never.
    /// Zero if it would be admitted at once, and always for a policy in shadow. After a refusal it is the decision's
    /// `retry_after`.
    ///
    /// A breaker that is closed admits at once; one that just admitted its probe, when the probe counts as lost. Places of
    /// a concurrency limit are free again when their leases end.
    #[must_use]
    fn next_same(&self, view: View<'_>, now: Timestamp, cost: &Cost) -> Option<Duration>;

    /// Charges units that were used already, whatever there is room for: shadow limits too, and
    /// into debt if need be. Debts are bounded: gcra and leaky buckets owe at most what returns within
    /// 40 years, or 100 with overdraft, counters at most 2^53 − 1 units.
    fn debit(&self, state: &mut State<'_>, now: Timestamp, cost: &Cost);

    /// Counts the outcome of admitted requests, so many times. Only error-rate limits use it.
    fn report(&self, state: &mut State<'_>, now: Timestamp, outcome: Outcome, times: &Cost);

    /// Gives back up to so much.
    fn refund(&self, state: &mut State<'_>, now: Timestamp, cost: &Cost);

    /// For stores whose clock can step back: a state from the future becomes one of now, in which
    /// what was used is still used. Without it, such a key would wait until the clock caught up.
    fn redate(&self, state: &mut State<'_>, now: Timestamp);

    /// Clears the key: its words are zero again and its logs are freed.
    fn clear(&self, state: &mut State<'_>);

    /// Makes the key's logs about half as long, for a store that has no memory for more: rolling windows join entries,
    /// which then count for as long as the later of both, so that the key may wait up to a window longer and is never
    /// admitted more; breakers join reports of one kind or, where kinds alternate, drop the older half. A log of one entry
    /// stays as it is, and so do places that are held.
    fn coarsen(&self, state: &mut State<'_>);

    /// How long until the state answers as a fresh one if nothing else happens; at zero it may be
    /// dropped. Shadow limits count here, unlike in a decision's `reset_after`.
    #[must_use]
    fn fresh_in(&self, view: View<'_>, now: Timestamp) -> Duration;

    /// How long until at most half of each limit is used, if nothing else happens. A store without room may forget
    /// the state then: its key starts fresh, and is admitted up to half a capacity more than it would have been.
    ///
    /// What must not be forgotten counts until it is fresh: places of concurrency limits, breakers, gaps between events, and keys whose
    /// refusals count. A debt is more than a capacity, so that it is kept longest of all.
    #[must_use]
    fn half_fresh_in(&self, view: View<'_>, now: Timestamp) -> Duration;
}

/// How long until a limit admits its part of a cost; one that is not asked for anything admits it now.
#[inline]
fn wait(limit: &Limit, part: View<'_>, at: u64, cost: &Cost) -> u64 {
    match cost.of(limit.unit()) {
        0 => 0,
        units => limit.wait(part, at, units),
    }
}

impl Decide for Policy {
    #[inline]
    fn words(&self) -> usize {
        self.state_words()
    }

    #[inline]
    fn keeps_logs(&self) -> bool {
        self.has_logs()
    }

    // Nothing but the choice of the algorithm: each has a function of its own, and no other is called.
    #[inline(always)]
    fn check(&self, state: &mut State<'_>, now: Timestamp, cost: u64) -> Decision {
        match self.plain() {
            Some(limit) => limit.algorithm().check_alone(state.reborrow(), now.as_nanos(), cost),
            None => self.check_several(state, now, cost),
        }
    }

    #[inline]
    fn one_word(&self) -> Option<OneWord<'_>> {
        self.narrowed().map(OneWord)
    }

    #[inline]
    fn peek(&self, view: View<'_>, now: Timestamp, cost: &Cost) -> Decision {
        self.answer(view, now, cost, self.judge(view, now, cost))
    }

    fn refuse_check(&self, view: View<'_>, now: Timestamp, cost: &Cost) -> Decision {
        let mut decision = self.peek(view, now, cost);
        if cost.is_zero() {
            return decision;
        }
        for (i, limit) in self.limits().iter().enumerate() {
            if limit.lease().is_some() && !limit.is_shadow() {
                decision.refused_by.insert(i);
            }
        }
        decision.refused(None)
    }

    #[inline]
    fn judge(&self, view: View<'_>, now: Timestamp, cost: &Cost) -> Verdict {
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

    #[inline]
    fn record(&self, state: &mut State<'_>, now: Timestamp, cost: &Cost, verdict: Verdict) {
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

    fn charges(&self, view: View<'_>, now: Timestamp, cost: &Cost, verdict: Verdict) -> bool {
        let units = |(start, limit): (usize, &Limit)| {
            let part = view.part(start, limit.words());
            self.charged(limit, part, now.as_nanos(), cost, verdict)
        };
        !cost.is_zero() && self.parts().any(|part| units(part) > 0)
    }

    #[inline]
    fn answer(&self, view: View<'_>, now: Timestamp, cost: &Cost, verdict: Verdict) -> Decision {
        let at = now.as_nanos();
        let (mut limit, mut remaining, mut next_unit, mut reset) = (UNBOUNDED, UNBOUNDED, NEVER, 0);
        for (live, part) in self.live(view) {
            let (most, room) = (live.max_cost().unwrap_or(UNBOUNDED), live.room(part, at));
            let left = room.remaining(most);
            limit = limit.min(most);
            reset = reset.max(room.reset(most));
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
            next_unit = fixed_point(at, true, |at| {
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

    fn each<'a>(
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
                reset_after: Duration::from_nanos(room.reset(most)),
            }
        })
    }

    fn next_same(&self, view: View<'_>, now: Timestamp, cost: &Cost) -> Option<Duration> {
        if self.is_shadow() {
            return Some(Duration::ZERO);
        }
        ends(self.wait_for(view, now.as_nanos(), cost)).map(Duration::from_nanos)
    }

    fn debit(&self, state: &mut State<'_>, now: Timestamp, cost: &Cost) {
        for (start, limit) in self.parts() {
            let units = cost.of(limit.unit());
            limit.debit(state.part(start, limit.words()), now.as_nanos(), units);
        }
    }

    fn report(&self, state: &mut State<'_>, now: Timestamp, outcome: Outcome, times: &Cost) {
        for (start, limit) in self.parts() {
            let times = times.of(limit.unit());
            limit.report(state.part(start, limit.words()), now.as_nanos(), outcome, times);
        }
    }

    fn refund(&self, state: &mut State<'_>, now: Timestamp, cost: &Cost) {
        for (start, limit) in self.parts() {
            let units = cost.of(limit.unit());
            limit.refund(state.part(start, limit.words()), now.as_nanos(), units);
        }
    }

    fn redate(&self, state: &mut State<'_>, now: Timestamp) {
        for (start, limit) in self.parts() {
            limit.redate(state.part(start, limit.words()), now.as_nanos());
        }
    }

    fn clear(&self, state: &mut State<'_>) {
        for (start, limit) in self.parts() {
            if limit.algorithm().keeps_log() {
                state.logs.close(&mut state.words[start]);
            }
        }
        state.words.fill(0);
    }

    fn coarsen(&self, state: &mut State<'_>) {
        for (start, limit) in self.parts() {
            if state.words[start] != 0 && limit.algorithm().keeps_log() {
                let log = state.logs.open(&mut state.words[start]);
                match limit.algorithm() {
                    Algorithm::RollingWindow(_) => log.join_pairs(|_, _| true),
                    Algorithm::ErrorRate(_) => ErrorRate::coarsen(log),
                    _ => {}
                }
            }
        }
    }

    fn fresh_in(&self, view: View<'_>, now: Timestamp) -> Duration {
        // Asked for each key of a shard at once while one is waiting, and so is the next.
        if let (Some(limit), [word]) = (self.narrowed(), view.words) {
            return Duration::from_nanos(limit.reset(*word, now.as_nanos()));
        }
        let waits = self
            .parts()
            .map(|(start, limit)| limit.reset(view.part(start, limit.words()), now.as_nanos()));
        Duration::from_nanos(waits.max().unwrap_or(0))
    }

    fn half_fresh_in(&self, view: View<'_>, now: Timestamp) -> Duration {
        if let (Some(limit), [word]) = (self.narrowed(), view.words) {
            return Duration::from_nanos(limit.half_reset(*word, now.as_nanos()));
        }
        if self.mode() == Mode::CountRefusals {
            return self.fresh_in(view, now);
        }
        let waits = self.parts().map(|(start, limit)| {
            limit.half_reset(view.part(start, limit.words()), now.as_nanos())
        });
        Duration::from_nanos(waits.max().unwrap_or(0))
    }
}

impl Policy {
    /// A check by several limits, or by one with a gap, a shadow or another mode.
    #[inline(never)]
    fn check_several(&self, state: &mut State<'_>, now: Timestamp, cost: u64) -> Decision {
        let at = now.as_nanos();
        let admitted = if !self.several().is_empty() {
            several::admit(self.several(), state.words, at, cost)
        } else if self.admits_together() {
            several::admit_any(self.limits(), state, at, cost)
        } else {
            None
        };
        admitted.unwrap_or_else(|| self.check_all(state, now, cost))
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

    /// The limits that refused. A partial grant is not a refusal; given up, it is one after all.
    fn refused_by(&self, verdict: Verdict) -> LimitSet {
        let mut refused = LimitSet::default();
        if self.mode() != Mode::Partial || verdict.grants == 0 {
            let live = |i: &usize| !self.limits()[*i].is_shadow();
            verdict.unfit.iter().filter(live).for_each(|i| refused.insert(i));
        }
        refused
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

    /// The part of an answer that only a refusal needs.
    #[cold]
    fn refuse(&self, decision: &mut Decision, view: View<'_>, at: u64, cost: &Cost) {
        if self.is_shadow() {
            *decision = decision.in_shadow(cost);
            return;
        }
        decision.retry = self.wait_for(view, at, cost);
    }

    /// How long until all limits that can refuse admit this cost at once.
    fn wait_for(&self, view: View<'_>, at: u64, cost: &Cost) -> u64 {
        let wait = |at| self.longest(view, |limit, part| wait(limit, part, at, cost));
        fixed_point(at, self.recurs(), wait)
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
