//! The circuit breaker: refuses while too many admitted requests failed.
//!
//! Checks consume nothing; reports do. State is two words: the handle of a log of the reports in
//! `(now − per, now]`, the newest 65 536 at most, and the breaker's state with the time of its last change: closed
//! (0), open, or probing. The report that makes them `min_samples` or more, of which errors are
//! `threshold` or more, opens it. It refuses until `cool_down` has passed; the next check after that is the
//! probe, and all others are refused until its report: ok closes the breaker and clears the log, an error
//! opens it again. A probe without a report within another `cool_down` is lost, and the next check is the
//! next probe. Reports that come while there is no probe to report on are late, and ignored.
//!
//! A breaker without probes does not stay open for ever: `per` after its cool-down, or its probe's, it
//! expires, as reports do.
//!
//! Bound: none on what is admitted while it is closed. From the report that opens it, nothing is admitted for
//! `cool_down`, and then one event in each `cool_down` until a probe succeeds or it expires.

use core::time::Duration;

use super::{Meter, period, units};
use crate::arith::mul;
use crate::store::Log;
use crate::store::{State, View};
use crate::{LimitError, MAX_LOG, Timestamp};

/// How an admitted request ended. Exhaustive: an error rate has two kinds of reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// It succeeded.
    Ok,
    /// It failed.
    Error,
}

/// `true` is ok.
impl From<bool> for Outcome {
    fn from(ok: bool) -> Self {
        if ok { Self::Ok } else { Self::Error }
    }
}

/// All of a ratio: hundredths of a percent.
const WHOLE: u64 = 10_000;
/// An entry's size counts reports in its lower half and errors in its upper half. All of an entry are of one
/// kind, so that the kind of the oldest report is known.
const ONE_OK: u64 = 1;
const ONE_ERROR: u64 = 1 << 32 | 1;

/// Refuses while errors are `threshold` or more of the reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorRate {
    threshold: u64,
    per: u64,
    min_samples: u64,
    cool_down: u64,
}

/// The state of a breaker that is not closed, and since when.
#[derive(Clone, Copy)]
struct Tripped {
    since: u64,
    is_probing: bool,
}

impl Tripped {
    fn load(word: u64) -> Option<Self> {
        let since = (word >> 1).checked_sub(1)?;
        Some(Self { since, is_probing: word & 1 == 1 })
    }

    fn save(self) -> u64 {
        (self.since + 1) << 1 | u64::from(self.is_probing)
    }
}

impl ErrorRate {
    /// Opens when errors are `threshold` hundredths of a percent (1 to 10 000) or more of at least
    /// `min_samples` reports within `per`, and stays open for `cool_down`.
    pub fn new(
        threshold: u64,
        per: Duration,
        min_samples: u64,
        cool_down: Duration,
    ) -> Result<Self, LimitError> {
        if !(1..=WHOLE).contains(&threshold) {
            return Err(LimitError::Threshold);
        }
        if min_samples > MAX_LOG {
            return Err(LimitError::ManySamples);
        }
        Ok(Self {
            threshold,
            per: period("per", per)?,
            min_samples: units("min_samples", min_samples)?,
            cool_down: period("cool_down", cool_down)?,
        })
    }

    /// The share of errors that opens it, in hundredths of a percent.
    #[must_use]
    pub fn threshold(&self) -> u64 {
        self.threshold
    }

    /// How long a report counts.
    #[must_use]
    pub fn period(&self) -> Duration {
        Duration::from_nanos(self.per)
    }

    /// How many reports there must be.
    #[must_use]
    pub fn min_samples(&self) -> u64 {
        self.min_samples
    }

    /// How long it stays open before a probe.
    #[must_use]
    pub fn cool_down(&self) -> Duration {
        Duration::from_nanos(self.cool_down)
    }

    /// The word for a breaker that has been open, or probing, since an instant; for stores that keep it
    /// elsewhere.
    #[must_use]
    pub fn tripped_word(tripped: Option<(Timestamp, bool)>) -> u64 {
        let word = |(since, is_probing): (Timestamp, bool)| {
            Tripped { since: since.as_nanos(), is_probing }.save()
        };
        tripped.map_or(0, word)
    }

    /// The reverse of [`ErrorRate::tripped_word`].
    #[must_use]
    pub fn tripped_since(word: u64) -> Option<(Timestamp, bool)> {
        let since = |tripped: Tripped| Timestamp::from_nanos(tripped.since);
        Tripped::load(word).map(|tripped| (since(tripped), tripped.is_probing))
    }

    /// What it does at `now`, unless it is closed or has expired by then.
    fn tripped(&self, words: &[u64], now: u64) -> Option<Tripped> {
        let forgotten_at = |tripped: &Tripped| tripped.since + self.cool_down + self.per;
        Tripped::load(words[1]).filter(|tripped| now < forgotten_at(tripped))
    }

    /// Takes one outcome into account, so many times.
    pub(crate) fn report(&self, mut state: State<'_>, now: u64, outcome: Outcome, times: u64) {
        for _ in 0..times.min(MAX_LOG) {
            match (self.tripped(state.words, now), outcome) {
                (None, _) => self.log(state.reborrow(), now, outcome),
                (Some(Tripped { since, is_probing: true }), outcome)
                    if now < since + self.cool_down =>
                {
                    state.words[1] = match outcome {
                        Outcome::Ok => 0,
                        Outcome::Error => Tripped { since: now, is_probing: false }.save(),
                    };
                    // One report for one probe: the others are of the time before it.
                    return;
                }
                (Some(_), _) => return,
            }
        }
    }

    /// Logs a report of a closed breaker, and opens it if that was one too many.
    fn log(&self, state: State<'_>, now: u64, outcome: Outcome) {
        state.words[1] = 0;
        let log = state.logs.open(&mut state.words[0]);
        log.prune(now, self.per);
        push(log, now, if outcome == Outcome::Ok { ONE_OK } else { ONE_ERROR });
        let (total, errors) = counts(log.total);
        if total >= self.min_samples && mul(errors, WHOLE) >= mul(self.threshold, total) {
            state.logs.close(&mut state.words[0]);
            state.words[1] = Tripped { since: now, is_probing: false }.save();
        }
    }

    /// Makes the log take less memory: neighbours of one kind count together, for as long as the later of both. Where kinds
    /// alternate all the way, the older half goes.
    pub(crate) fn coarsen(log: &mut Log) {
        let before = log.entries.len();
        log.join_pairs(|a, b| is_error(a) == is_error(b));
        if log.entries.len() == before {
            log.drop_older_half();
        }
    }

    /// Whether words and reports could have been written by this algorithm.
    pub(crate) fn is_sound(
        mut reports: impl Iterator<Item = (u64, u64)>,
        tripped: u64,
        latest: u64,
    ) -> bool {
        let (mut before, mut total) = (0, 0);
        let logged = reports.all(|(stamp, size)| {
            let (count, errors) = counts(size);
            total += count;
            let in_order = before <= stamp && stamp <= latest;
            before = stamp;
            in_order && count > 0 && (errors == 0 || errors == count) && total <= MAX_LOG
        });
        logged && Tripped::load(tripped).is_none_or(|tripped| tripped.since <= latest)
    }
}

/// How many, and how many of them are errors.
fn counts(size: u64) -> (u64, u64) {
    (size & 0xffff_ffff, size >> 32)
}

fn is_error(size: u64) -> bool {
    counts(size).1 > 0
}

/// Appends one report and drops the oldest beyond what a log may have.
fn push(log: &mut Log, now: u64, one: u64) {
    match log.entries.back_mut() {
        Some((stamp, size)) if *stamp == now && is_error(*size) == is_error(one) => *size += one,
        _ => log.entries.push_back((now, one)),
    }
    log.total += one;
    if counts(log.total).0 > MAX_LOG
        && let Some((_, oldest)) = log.entries.front_mut()
    {
        let one = if is_error(*oldest) { ONE_ERROR } else { ONE_OK };
        *oldest -= one;
        log.total -= one;
        if *oldest == 0 {
            log.entries.pop_front();
        }
    }
}

impl Meter for ErrorRate {
    fn words(&self) -> usize {
        2
    }

    fn max_cost(&self) -> Option<u64> {
        None
    }

    fn used(&self, view: View<'_>, now: u64) -> u64 {
        u64::from(self.wait(view, now, 1) > 0)
    }

    fn wait(&self, view: View<'_>, now: u64, units: u64) -> u64 {
        match self.tripped(view.words, now) {
            Some(tripped) if units > 0 => (tripped.since + self.cool_down).saturating_sub(now),
            _ => 0,
        }
    }

    fn reset(&self, view: View<'_>, now: u64) -> u64 {
        if let Some(tripped) = Tripped::load(view.words[1]) {
            return (tripped.since + self.cool_down + self.per).saturating_sub(now);
        }
        let newest = view.logs.get(view.words[0]).entries.back();
        newest.map_or(0, |(stamp, _)| (stamp + self.per).saturating_sub(now))
    }

    /// The first request after the cool-down is the probe.
    fn charge(&self, state: State<'_>, now: u64, _units: u64) {
        if self.tripped(state.words, now).is_some() {
            state.words[1] = Tripped { since: now, is_probing: true }.save();
        }
    }

    fn debit(&self, _state: State<'_>, _now: u64, _units: u64) {}

    fn refund(&self, _state: State<'_>, _now: u64, _units: u64) {}

    fn redate(&self, state: State<'_>, now: u64) {
        if let Some(tripped) = Tripped::load(state.words[1]) {
            state.words[1] = Tripped { since: tripped.since.min(now), ..tripped }.save();
        }
        if state.words[0] != 0 {
            for (stamp, _) in &mut state.logs.open(&mut state.words[0]).entries {
                *stamp = (*stamp).min(now);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Logs;

    #[test]
    fn the_newest_reports_count_and_no_more() {
        let hour = Duration::from_secs(3_600);
        let breaker = ErrorRate::new(WHOLE, hour, MAX_LOG, hour).unwrap();
        let (mut words, mut logs) = ([0; 2], Logs::new());
        let mut report = |now, outcome, times| {
            breaker.report(State::new(&mut words, &mut logs), now, outcome, times);
            Tripped::load(words[1]).is_some()
        };
        assert!(!report(0, Outcome::Ok, 3));
        assert!(!report(1, Outcome::Error, MAX_LOG - 1), "one that was ok is left among them");
        assert!(report(2, Outcome::Error, 1), "all that count are errors");
    }
}
