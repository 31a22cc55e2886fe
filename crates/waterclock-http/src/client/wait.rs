//! How long a request may wait before it is sent.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use waterclock::{Clock, MonotonicClock, Timestamp};

#[derive(Clone)]
pub(super) struct WaitBounds {
    pub(super) within: Option<Duration>,
    pub(super) jitter: Duration,
    pub(super) clock: Arc<dyn Clock>,
}

impl Default for WaitBounds {
    fn default() -> Self {
        let clock = Arc::new(MonotonicClock::default());
        Self { within: None, jitter: Duration::ZERO, clock }
    }
}

impl WaitBounds {
    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The deadline of a request that starts to wait now.
    pub(super) fn deadline(&self) -> Option<Timestamp> {
        self.within.map(|within| self.now().after(within))
    }

    /// How long to sleep for a wait: jitter is only ever added, and never goes beyond the deadline. `None`
    /// if the wait alone does.
    pub(super) fn sleep(&self, wait: Duration, deadline: Option<Timestamp>) -> Option<Duration> {
        let Some(deadline) = deadline else { return Some(wait.saturating_add(up_to(self.jitter))) };
        let end = self.now().after(wait);
        (end <= deadline).then(|| wait + up_to(self.jitter.min(deadline.since(end))))
    }
}

fn up_to(most: Duration) -> Duration {
    let most = u64::try_from(most.as_nanos()).unwrap_or(u64::MAX);
    Duration::from_nanos(fastrand::u64(0..=most))
}

impl fmt::Debug for WaitBounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitBounds")
            .field("within", &self.within)
            .field("jitter", &self.jitter)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use waterclock::ManualClock;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn jitter_only_adds_and_stays_before_the_deadline() {
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::default());
        let bounds = WaitBounds { within: Some(100 * MS), jitter: 50 * MS, clock };
        let deadline = bounds.deadline();
        let mut seen = (Duration::MAX, Duration::ZERO);
        for _ in 0..10_000 {
            let sleep = bounds.sleep(70 * MS, deadline).expect("in time");
            seen = (seen.0.min(sleep), seen.1.max(sleep));
        }
        assert!(seen.0 >= 70 * MS && seen.0 < 75 * MS, "{seen:?}");
        assert!(seen.1 <= 100 * MS && seen.1 > 95 * MS, "{seen:?}");
    }

    #[test]
    fn the_deadline_itself_is_in_time() {
        let clock = ManualClock::default();
        let bounds = WaitBounds {
            within: Some(100 * MS),
            jitter: Duration::ZERO,
            clock: Arc::new(clock.clone()),
        };
        let deadline = bounds.deadline();
        clock.advance(40 * MS);
        assert_eq!(bounds.sleep(60 * MS, deadline), Some(60 * MS));
        assert_eq!(bounds.sleep(60 * MS + Duration::from_nanos(1), deadline), None);
        assert_eq!(bounds.sleep(Duration::MAX, None), Some(Duration::MAX));
    }
}
