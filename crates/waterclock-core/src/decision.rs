use core::fmt;
use core::time::Duration;

use crate::algorithm::NEVER;
use crate::limit::ends;
use crate::room::Room;
use crate::{Cost, LimitSet};

/// The answer to a check.
///
/// Durations are exact to the nanosecond; show them rounded up.
#[must_use = "a decision that is not looked at limits nothing"]
#[derive(Clone, Copy)]
pub struct Decision {
    pub(crate) allowed: bool,
    pub(crate) refused_by: LimitSet,
    pub(crate) shadow_refused_by: LimitSet,
    pub(crate) granted: u64,
    /// `UNBOUNDED` for none.
    pub(crate) limit: u64,
    /// `NEVER` for none.
    pub(crate) retry: u64,
    /// `i64::MIN` for none.
    pub(crate) counter: i64,
    pub(crate) room: Room,
}

/// Two decisions are the same if they say the same.
impl PartialEq for Decision {
    fn eq(&self, other: &Self) -> bool {
        let said = |d: &Self| {
            let outcome = (d.allowed, d.granted, d.refused_by, d.shadow_refused_by, d.counter);
            (outcome, d.limit, d.remaining(), d.retry, d.next_unit(), d.reset_after())
        };
        said(self) == said(other)
    }
}

impl Eq for Decision {}

impl fmt::Debug for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decision")
            .field("allowed", &self.allowed)
            .field("granted", &self.granted)
            .field("limit", &self.limit())
            .field("remaining", &self.remaining())
            .field("retry_after", &self.retry_after())
            .field("next_unit", &self.next_unit())
            .field("reset_after", &self.reset_after())
            .field("counter", &self.counter())
            .field("refused_by", &self.refused_by)
            .field("shadow_refused_by", &self.shadow_refused_by)
            .finish()
    }
}

impl Decision {
    /// Whether the whole cost was admitted.
    #[must_use]
    #[inline]
    pub fn is_allowed(&self) -> bool {
        self.allowed
    }

    /// How much was admitted: all or nothing in binary mode, what fitted in partial mode, and always the
    /// cost (as recorded) in count-refusals mode. Of a cost in several units, the largest number; [`Cost::granted`]
    /// tells the rest.
    #[must_use]
    #[inline]
    pub fn granted(&self) -> u64 {
        self.granted
    }

    /// The largest cost a fresh key could ever admit at once; `None` when unbounded.
    #[must_use]
    pub fn limit(&self) -> Option<u64> {
        bounded(self.limit)
    }

    /// The largest cost that would be admitted at this same instant after this call; `None` when
    /// unbounded.
    #[must_use]
    pub fn remaining(&self) -> Option<u64> {
        bounded(self.room.remaining(self.limit))
    }

    /// Zero when allowed; else the smallest wait after which this cost is admitted if nothing else
    /// happens; `None` when it never will be.
    ///
    /// Several limits of which some close again by themselves (quota, even slots) are searched for an
    /// instant at which all are open, but not without end: after 1 024 openings the wait is given as
    /// it stands, and another refusal may follow it.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        ends(self.retry).map(Duration::from_nanos)
    }

    /// Time until `remaining` next grows; `None` when it is as large as it gets.
    #[must_use]
    pub fn next_unit(&self) -> Option<Duration> {
        ends(self.room.next_unit(self.limit)).map(Duration::from_nanos)
    }

    /// Time until every answer equals a fresh key's.
    #[must_use]
    pub fn reset_after(&self) -> Duration {
        Duration::from_nanos(self.room.reset(self.limit))
    }

    /// The same numbers, but refused whatever there is room for: another request goes first.
    pub fn refused(mut self, retry_after: Option<Duration>) -> Self {
        (self.allowed, self.granted) = (false, 0);
        self.with_retry_after(retry_after.map(|wait| wait.max(Duration::from_nanos(1))))
    }

    /// The answer for a blocked key: refused for ever, by no limit, with nothing left.
    pub fn blocked(self) -> Self {
        let room = Room::Counted { remaining: 0, next_unit: NEVER, reset: 0 };
        Self { room, refused_by: LimitSet::default(), ..self.refused(None) }
    }

    /// The same numbers in shadow: the whole cost is granted, and the limits that refused become the ones that
    /// would have. Equals what the policy in shadow answers.
    pub fn in_shadow(mut self, cost: &Cost) -> Self {
        if !self.allowed {
            self.shadow_refused_by.extend(self.refused_by);
            self.refused_by = LimitSet::default();
            (self.allowed, self.granted, self.retry) = (true, cost.most(), 0);
        }
        self
    }

    /// The same with a longer `retry_after`, where something else stands in the way for that long; a shorter one
    /// changes nothing.
    pub fn with_retry_after(mut self, retry_after: Option<Duration>) -> Self {
        let wait = retry_after.map(|wait| u64::try_from(wait.as_nanos()).unwrap_or(NEVER));
        self.retry = self.retry.max(wait.unwrap_or(NEVER));
        self
    }

    /// In count-refusals mode, the limit minus everything recorded: negative while a refused client keeps retrying.
    #[must_use]
    pub fn counter(&self) -> Option<i64> {
        (self.counter != i64::MIN).then_some(self.counter)
    }

    /// The limits that refused; [`Policy::names`](crate::Policy::names) tells what they are called.
    #[must_use]
    pub fn refused_by(&self) -> LimitSet {
        self.refused_by
    }

    /// The shadow limits that would have refused.
    #[must_use]
    pub fn shadow_refused_by(&self) -> LimitSet {
        self.shadow_refused_by
    }
}

/// A number of units that no limit reaches: it loses every minimum, as it should.
pub(crate) const UNBOUNDED: u64 = u64::MAX;

pub(crate) fn bounded(units: u64) -> Option<u64> {
    (units != UNBOUNDED).then_some(units)
}

/// One limit's own numbers within a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitDecision {
    /// Whether this limit admitted the whole cost.
    pub allowed: bool,
    /// The largest cost a fresh key could ever admit at once; `None` when unbounded.
    pub limit: Option<u64>,
    /// The largest cost this limit would admit now; `None` when unbounded.
    pub remaining: Option<u64>,
    /// Zero when allowed; else the wait for this cost; `None` for never.
    pub retry_after: Option<Duration>,
    /// Time until `remaining` next grows; `None` when full.
    pub next_unit: Option<Duration>,
    /// Time until this limit answers as a fresh one.
    pub reset_after: Duration,
}

/// Everything a decision says, as it arrives over a wire.
///
/// The fields mean what the methods of [`Decision`] with their names say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecisionParts {
    /// Whether the whole cost was admitted.
    pub allowed: bool,
    /// How much was admitted.
    pub granted: u64,
    /// The largest cost a fresh key could ever admit at once; `None` when unbounded.
    pub limit: Option<u64>,
    /// The largest cost that would be admitted at the same instant; `None` when unbounded.
    pub remaining: Option<u64>,
    /// Zero when allowed; else the wait for this cost; `None` for never.
    pub retry_after: Option<Duration>,
    /// Time until `remaining` next grows; `None` when full.
    pub next_unit: Option<Duration>,
    /// Time until every answer equals a fresh key's.
    pub reset_after: Duration,
    /// In count-refusals mode, the limit minus everything recorded; `None` in other modes, or if it was not sent.
    pub counter: Option<i64>,
    /// The limits that refused; [`Policy::limits_named`](crate::Policy::limits_named) finds them.
    pub refused_by: LimitSet,
    /// The shadow limits that would have refused.
    pub shadow_refused_by: LimitSet,
}

impl Decision {
    /// The decision with these numbers, made by another process. Nothing is computed.
    ///
    /// ```
    /// use waterclock_core::{Decision, DecisionParts, LimitSet};
    /// use core::time::Duration;
    ///
    /// let parts = DecisionParts {
    ///     allowed: true,
    ///     granted: 1,
    ///     limit: Some(5),
    ///     remaining: Some(4),
    ///     retry_after: Some(Duration::ZERO),
    ///     next_unit: Some(Duration::from_millis(200)),
    ///     reset_after: Duration::from_millis(200),
    ///     counter: None,
    ///     refused_by: LimitSet::default(),
    ///     shadow_refused_by: LimitSet::default(),
    /// };
    /// let decision = Decision::from_parts(parts);
    /// assert!(decision.is_allowed());
    /// assert_eq!(decision.remaining(), Some(4));
    /// ```
    pub fn from_parts(parts: DecisionParts) -> Self {
        Self {
            allowed: parts.allowed,
            refused_by: parts.refused_by,
            shadow_refused_by: parts.shadow_refused_by,
            granted: parts.granted,
            limit: parts.limit.unwrap_or(UNBOUNDED),
            retry: parts.retry_after.map_or(NEVER, nanos),
            counter: parts.counter.unwrap_or(i64::MIN),
            room: Room::Counted {
                remaining: parts.remaining.unwrap_or(UNBOUNDED),
                next_unit: parts.next_unit.map_or(NEVER, nanos),
                reset: nanos(parts.reset_after),
            },
        }
    }
}

/// A wait that was sent is one that ends, however long it is.
fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(NEVER).min(NEVER - 1)
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use crate::store::{Decide as _, Logs, State};
    use crate::{FixedWindow, Gcra, Limit, Mode, Policy, RollingWindow, Timestamp};

    /// Deciding first and turning the answer is the same as deciding in shadow, and charges the same.
    #[test]
    fn turned_into_a_shadow_it_says_what_the_shadow_says() {
        let s = core::time::Duration::from_secs(1);
        for mode in [Mode::Binary, Mode::Partial, Mode::CountRefusals] {
            let window = Limit::from(FixedWindow::new(4, s).unwrap());
            let second = match mode {
                Mode::CountRefusals => Limit::from(RollingWindow::new(5, 3 * s).unwrap()),
                _ => Limit::from(Gcra::new(2, s).unwrap().with_capacity(5)),
            };
            let candidate =
                Limit::from(FixedWindow::new(2, s).unwrap()).with_name("new").with_shadow(true);
            for limits in [vec![second.clone()], vec![window, second, candidate]] {
                let live = Policy::new("p", limits).unwrap().with_mode(mode).unwrap();
                let shadow = live.clone().with_shadow(true);
                let (mut a, mut b) = (vec![0; live.words()], vec![0; live.words()]);
                let (mut a_logs, mut b_logs) = (Logs::new(), Logs::new());
                let mut refusals = 0;
                for n in 0..2_000u64 {
                    let now = Timestamp::from_micros(n * 97_000);
                    let cost = n * 7 % 11 / 2;
                    let turned = live.check(&mut State::new(&mut a, &mut a_logs), now, cost);
                    let meant = shadow.check(&mut State::new(&mut b, &mut b_logs), now, cost);
                    refusals += u64::from(!turned.is_allowed());
                    assert_eq!(turned.in_shadow(&cost.into()), meant, "{mode:?} {n}");
                }
                assert!(refusals > 100, "{refusals}");
            }
        }
    }
}

#[cfg(test)]
mod parts_tests {
    use alloc::vec;

    use super::*;
    use crate::store::{Decide as _, Logs, State};
    use crate::{FixedWindow, Gcra, Limit, MinInterval, Mode, Policy, SlidingWindow, Timestamp};

    /// Everything a decision reports.
    fn said(decision: &Decision) -> DecisionParts {
        DecisionParts {
            allowed: decision.is_allowed(),
            granted: decision.granted(),
            limit: decision.limit(),
            remaining: decision.remaining(),
            retry_after: decision.retry_after(),
            next_unit: decision.next_unit(),
            reset_after: decision.reset_after(),
            counter: decision.counter(),
            refused_by: decision.refused_by(),
            shadow_refused_by: decision.shadow_refused_by(),
        }
    }

    fn policies() -> [Policy; 6] {
        let second = Duration::from_secs(1);
        let shadow = FixedWindow::new(2, second).unwrap().with_name("shadow").with_shadow(true);
        let sliding = || SlidingWindow::new(5, second).unwrap();
        let several = [Gcra::new(7, second).unwrap().with_name("gcra"), shadow, sliding().into()];
        [
            Policy::from(Gcra::new(7, second).unwrap().with_capacity(3)),
            Policy::from(MinInterval::new(second).unwrap()),
            Policy::from(Limit::per_second(0)),
            Policy::new("several", several).unwrap(),
            Policy::from(sliding()).with_mode(Mode::Partial).unwrap(),
            Policy::from(sliding()).with_mode(Mode::CountRefusals).unwrap(),
        ]
    }

    #[test]
    fn what_was_heard_says_what_was_said() {
        let (mut refused, mut never, mut shadows, mut counters) = (0, 0, 0, 0);
        for policy in policies() {
            let (mut words, mut logs) = (vec![0; policy.words()], Logs::new());
            for step in 0..40_u64 {
                let now = Timestamp::from_nanos(step * 77_777_777);
                let mut state = State::new(&mut words, &mut logs);
                let decision = policy.check(&mut state, now, step % 9);
                let rebuilt = Decision::from_parts(said(&decision));
                assert_eq!(rebuilt, decision, "{}", policy.name());
                assert_eq!(said(&rebuilt), said(&decision), "{}", policy.name());
                refused += u32::from(!decision.is_allowed());
                never += u32::from(decision.retry_after().is_none());
                shadows += u32::from(!decision.shadow_refused_by().is_empty());
                counters += u32::from(decision.counter().is_some());
            }
        }
        assert!([refused, never, shadows, counters].iter().all(|seen| *seen > 0));
    }

    #[test]
    fn a_blocked_key_has_nothing_left_and_nothing_comes_back() {
        for policy in policies() {
            let (mut words, mut logs) = (vec![0; policy.words()], Logs::new());
            let mut state = State::new(&mut words, &mut logs);
            let blocked = policy.check(&mut state, Timestamp::ZERO, 1).blocked();
            assert!(!blocked.is_allowed() && blocked.refused_by().is_empty());
            assert_eq!((blocked.granted(), blocked.retry_after()), (0, None));
            assert_eq!(blocked.remaining(), Some(0), "{}", policy.name());
            assert_eq!((blocked.next_unit(), blocked.reset_after()), (None, Duration::ZERO));
        }
    }

    #[test]
    fn the_longest_wait_is_not_never() {
        let policy = Policy::from(Limit::per_second(1));
        let (mut words, mut logs) = (vec![0; policy.words()], Logs::new());
        let decision = policy.check(&mut State::new(&mut words, &mut logs), Timestamp::ZERO, 1);
        let mut parts = said(&decision);
        parts.retry_after = Some(Duration::MAX);
        assert!(Decision::from_parts(parts).retry_after().is_some());
    }

    #[test]
    fn limits_are_found_by_their_names() {
        let [.., several, _, _] = policies();
        let all = several.limits_named(["sliding-window", "gcra"]).unwrap();
        assert!(several.names(all).eq(["gcra", "sliding-window"]));
        assert!(several.limits_named::<&str>([]).unwrap().is_empty());
        assert_eq!(several.limits_named(["gcra", "nobody"]), None);
    }
}
