//! Over-admission: no window of the log may hold more than the limit's bound.

use std::time::Duration;

use waterclock::Source;

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
    /// The bound of an outage that all nodes see: twice the capacity, and what refills while calls are still decided
    /// here after the server has begun to decide again.
    pub(crate) fn of_outage(self, calls: &[Call], healed: Duration) -> Self {
        let local = |call: &&Call| call.source() == Some(Source::Local);
        let last_local = calls.iter().filter(local).map(|call| call.returned).max();
        let by_server =
            |call: &&Call| call.source() == Some(Source::Authoritative) && call.invoked >= healed;
        let first_by_server = calls.iter().filter(by_server).map(|call| call.invoked).min();
        let both = last_local.unwrap_or(healed).saturating_sub(first_by_server.unwrap_or(healed));
        let refilled = (u128::from(self.limit) * both.as_nanos()).div_ceil(self.per.as_nanos());
        let extra = 2 * self.capacity + u64::try_from(refilled).unwrap();
        Self { extra, ..self }
    }

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
