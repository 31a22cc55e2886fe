//! The live feeds keep time together: what one event tells is found out once, however many read.

use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;

/// When there is something new to tell, and what was told last.
pub(crate) struct Ticks {
    every: Duration,
    last: Mutex<Option<(u64, Bytes)>>,
}

impl Ticks {
    pub(crate) fn new(every: Duration) -> Ticks {
        Ticks { every: every.max(Duration::from_micros(1)), last: Mutex::default() }
    }

    /// The tick that the server has come to.
    pub(crate) fn at(&self, uptime: Duration) -> u64 {
        u64::try_from(uptime.as_nanos() / self.every.as_nanos()).unwrap_or(u64::MAX)
    }

    /// How long it takes until a tick has begun.
    pub(crate) fn until(&self, tick: u64, uptime: Duration) -> Duration {
        let begins = self.every.as_nanos().saturating_mul(tick.into());
        let wait = begins.saturating_sub(uptime.as_nanos());
        Duration::from_nanos(u64::try_from(wait).unwrap_or(u64::MAX))
    }

    /// The event of a tick, as the first who asked for it has made it; or of a later one, if somebody was
    /// told of that already. Says of which.
    pub(crate) fn event(
        &self,
        tick: u64,
        make: impl FnOnce() -> Option<Bytes>,
    ) -> Option<(u64, Bytes)> {
        let mut last = self.last.lock();
        if last.as_ref().is_none_or(|(made, _)| *made < tick) {
            *last = Some((tick, make()?));
        }
        last.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_event_for_all_who_read() {
        let ticks = Ticks::new(Duration::from_millis(100));
        let never = || -> Option<Bytes> { panic!("it was made already") };
        let (three, four) = ((3, Bytes::from("three")), (4, Bytes::from("four")));
        assert_eq!(ticks.event(3, || Some("three".into())), Some(three.clone()));
        assert_eq!(ticks.event(3, never), Some(three));
        assert_eq!(ticks.event(4, || Some("four".into())), Some(four.clone()));
        assert_eq!(ticks.event(3, never), Some(four));
    }

    #[test]
    fn a_tick_has_begun_when_it_was_waited_for() {
        let ticks = Ticks::new(Duration::from_millis(100));
        let uptime = Duration::from_millis(250);
        assert_eq!(ticks.at(uptime), 2);
        assert_eq!(ticks.until(3, uptime), Duration::from_millis(50));
        assert_eq!(ticks.at(uptime + ticks.until(3, uptime)), 3);
        assert_eq!(ticks.until(1, uptime), Duration::ZERO);
    }
}
