//! A decision that was made elsewhere, from the numbers that were heard of it.

use core::time::Duration;

use crate::algorithm::NEVER;
use crate::decision::{Room, UNBOUNDED};
use crate::{Decision, LimitSet};

/// Everything a decision says, as it comes over a wire.
///
/// The fields mean what the methods of [`Decision`] with their names say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heard {
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
    /// In uniform mode, limit minus everything recorded; `None` in others, or where nobody told.
    pub counter: Option<i64>,
    /// The limits that refused; [`Policy::limits_named`](crate::Policy::limits_named) finds them.
    pub refused_by: LimitSet,
    /// The shadow limits that would have refused.
    pub shadow_refused_by: LimitSet,
}

impl Decision {
    /// A decision of somebody else, who told these numbers. Nothing is worked out here: it says what was
    /// heard.
    ///
    /// ```
    /// use waterclock_core::{Decision, Heard, LimitSet};
    /// use core::time::Duration;
    ///
    /// let heard = Heard {
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
    /// let decision = Decision::heard(heard);
    /// assert!(decision.is_allowed());
    /// assert_eq!(decision.remaining(), Some(4));
    /// ```
    pub fn heard(heard: Heard) -> Self {
        Self {
            allowed: heard.allowed,
            refused_by: heard.refused_by,
            shadow_refused_by: heard.shadow_refused_by,
            granted: heard.granted,
            limit: heard.limit.unwrap_or(UNBOUNDED),
            retry: heard.retry_after.map_or(NEVER, nanos),
            counter: heard.counter.unwrap_or(i64::MIN),
            room: Room::Counted {
                remaining: heard.remaining.unwrap_or(UNBOUNDED),
                next_unit: heard.next_unit.map_or(NEVER, nanos),
                reset: nanos(heard.reset_after),
            },
        }
    }
}

/// A wait that was told is one that ends, however long it is.
fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(NEVER).min(NEVER - 1)
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::{
        FixedWindow, Gcra, Limit, Logs, MinInterval, Mode, Policy, SlidingWindow, State, Timestamp,
    };

    /// What a decision says to those who hear it.
    fn said(decision: &Decision) -> Heard {
        Heard {
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
                let heard = Decision::heard(said(&decision));
                assert_eq!(heard, decision, "{}", policy.name());
                assert_eq!(said(&heard), said(&decision), "{}", policy.name());
                refused += u32::from(!decision.is_allowed());
                never += u32::from(decision.retry_after().is_none());
                shadows += u32::from(!decision.shadow_refused_by().is_empty());
                counters += u32::from(decision.counter().is_some());
            }
        }
        assert!([refused, never, shadows, counters].iter().all(|seen| *seen > 0));
    }

    #[test]
    fn the_longest_wait_is_not_never() {
        let policy = Policy::from(Limit::per_second(1));
        let (mut words, mut logs) = (vec![0; policy.words()], Logs::new());
        let decision = policy.check(&mut State::new(&mut words, &mut logs), Timestamp::ZERO, 1);
        let mut heard = said(&decision);
        heard.retry_after = Some(Duration::MAX);
        assert!(Decision::heard(heard).retry_after().is_some());
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
