//! Reservations of a limiter: hold an estimate now, settle later what was used.

use std::fmt;
use std::time::Duration;

use waterclock_core::store::ReservedUnits;
use waterclock_core::{Decision, Policy, Timestamp};

use crate::sync::Arc;

/// A limiter, as its reservations see it.
pub(crate) trait Settle: Sync {
    fn now(&self) -> Timestamp;
    /// Makes what was held for this key what was used.
    fn settle(&self, key: u64, held: &HeldUnder, used: u64);
    /// Frees the units of concurrency limits, and nothing else.
    fn release(&self, key: u64, held: &HeldUnder);
}

/// What is held, and under which policy.
#[derive(Clone, Debug)]
pub(crate) struct HeldUnder {
    pub(crate) policy: Option<Arc<Policy>>,
    pub(crate) held: ReservedUnits,
}

/// Units that are charged and not yet used: [`commit`](Self::commit) what was used, or
/// [`cancel`](Self::cancel).
///
/// Dropped without either, it stays charged at its estimate: it may have been used. Units of a
/// [`Concurrency`](crate::Concurrency) limit are free again, however it ends.
///
/// ```
/// use waterclock::{Limit, Limiter};
///
/// let tokens = Limiter::new(Limit::per_minute(1_000));
/// let answer = tokens.reserve_n(800).expect("there is room");
/// answer.commit(663);
/// assert_eq!(tokens.peek().remaining(), Some(337));
/// ```
#[must_use = "a reservation that is dropped stays charged at its estimate"]
pub struct Reservation<'a> {
    limiter: &'a dyn Settle,
    key: u64,
    decision: Decision,
    held: HeldUnder,
    is_settled: bool,
}

impl fmt::Debug for Reservation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reservation").field("decision", &self.decision).finish_non_exhaustive()
    }
}

impl<'a> Reservation<'a> {
    pub(crate) fn new(
        limiter: &'a dyn Settle,
        key: u64,
        decision: Decision,
        held: HeldUnder,
    ) -> Self {
        Self { limiter, key, decision, held, is_settled: false }
    }

    /// The decision by which it is held; `granted` is how much.
    pub fn decision(&self) -> Decision {
        self.decision
    }

    /// How long it has been held.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.limiter.now().since(self.held.held.at())
    }

    /// So much was used: the rest is given back as far as it still counts, or what is missing is debited,
    /// into debt if need be.
    pub fn commit(mut self, used: u64) {
        self.is_settled = true;
        self.limiter.settle(self.key, &self.held, used);
    }

    /// Commits as many milliseconds as it was held for, rounded up: for limits that count time.
    pub fn commit_elapsed(self) {
        let used = self.elapsed().as_nanos().div_ceil(1_000_000);
        self.commit(u64::try_from(used).unwrap_or(u64::MAX));
    }

    /// Nothing was used.
    pub fn cancel(self) {
        self.commit(0);
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        if !self.is_settled && self.held.held.has_lease() {
            self.limiter.release(self.key, &self.held);
        }
    }
}
