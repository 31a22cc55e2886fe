//! Waiting for something to become true, but not forever; and how much there is time for.

use std::time::Duration;

use tokio::time::{sleep, timeout};

/// Machines that run many tests at once are slow; nothing that works waits this long.
pub(crate) const LONG: Duration = Duration::from_secs(30);

/// Waits until something holds; panics if it does not for too long.
#[track_caller]
pub(crate) fn eventually<'a>(
    what: &'a str,
    holds: impl AsyncFnMut() -> bool + 'a,
) -> impl Future<Output = ()> + 'a {
    eventually_within(LONG, what, holds)
}

/// The same, for what takes longer by design.
#[track_caller]
pub(crate) fn eventually_within<'a>(
    time: Duration,
    what: &'a str,
    mut holds: impl AsyncFnMut() -> bool + 'a,
) -> impl Future<Output = ()> + 'a {
    let place = std::panic::Location::caller();
    async move {
        let wait = async {
            while !holds().await {
                sleep(Duration::from_millis(10)).await;
            }
        };
        assert!(timeout(time, wait).await.is_ok(), "{place}: waited in vain: {what}");
    }
}

/// How often to do what takes long: less often where `WATERCLOCK_HURRY` is set.
pub(crate) fn times(usually: usize, in_a_hurry: usize) -> usize {
    if std::env::var_os("WATERCLOCK_HURRY").is_some() { in_a_hurry } else { usually }
}
