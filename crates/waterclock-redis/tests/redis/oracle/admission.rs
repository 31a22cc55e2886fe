//! Over-admission: no window of the log may hold more than the limit's bound.

use std::time::Duration;

use super::Call;

/// The clock of Redis counts whole microseconds: two instants may be so much closer than it tells.
const TICK: Duration = Duration::from_micros(1);

/// What any window of length D may admit: `capacity + limit·D/per + extra`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound {
    pub(crate) capacity: u64,
    pub(crate) limit: u64,
    pub(crate) per: Duration,
    /// What the mode or the fault allows beyond the limit's own bound.
    pub(crate) extra: u64,
}

impl Bound {
    /// Whether so much may be admitted within a time; exact.
    fn allows(&self, cost: u128, time: Duration) -> bool {
        let per = self.per.as_nanos();
        let drained = u128::from(self.limit) * (time + TICK).as_nanos();
        cost * per <= u128::from(self.capacity + self.extra) * per + drained
    }
}

/// Complains about the first window, from a call's start to a call's end, whose calls were granted
/// more than the bound.
pub(crate) fn over_admission(calls: &[Call], bound: &Bound) -> Result<(), String> {
    let mut admitted: Vec<&Call> = calls.iter().filter(|call| call.granted() > 0).collect();
    admitted.sort_by_key(|call| call.returned);
    for first in &admitted {
        let inside = admitted.iter().filter(|call| call.invoked >= first.invoked);
        let mut cost = 0;
        for last in inside {
            cost += u128::from(last.granted());
            let time = last.returned.saturating_sub(first.invoked);
            if !bound.allows(cost, time) {
                let from = first.invoked;
                return Err(format!("{cost} admitted in {time:?} from {from:?} on, {bound:?}"));
            }
        }
    }
    Ok(())
}
