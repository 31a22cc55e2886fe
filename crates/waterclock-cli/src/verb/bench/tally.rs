//! What has come of the load so far.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use hdrhistogram::Histogram;

use super::caller::Answers;

/// Latencies are told apart from a microsecond on, to three digits, up to more than any can be: no load goes
/// on for longer than an hour, and no answer is waited for much longer than that.
const SHORTEST_NS: u64 = 1_000;
const LONGEST_NS: u64 = 4_000_000_000_000;
const DIGITS: u8 = 3;
/// Histograms are large, and more connections than this share them.
const MOST_HISTOGRAMS: u64 = 8;

/// Counts and latencies of some connections.
#[derive(Clone)]
pub(super) struct Tally {
    pub(super) requests: u64,
    pub(super) allowed: u64,
    pub(super) refused: u64,
    pub(super) unlimited: u64,
    /// Checks without a decision.
    pub(super) errors: u64,
    /// What the first of them was.
    pub(super) first_error: Option<String>,
    /// In nanoseconds, of requests that were answered.
    pub(super) latency: Histogram<u64>,
}

impl Tally {
    fn new() -> Option<Tally> {
        let latency = Histogram::new_with_bounds(SHORTEST_NS, LONGEST_NS, DIGITS).ok()?;
        Some(Tally {
            requests: 0,
            allowed: 0,
            refused: 0,
            unlimited: 0,
            errors: 0,
            first_error: None,
            latency,
        })
    }

    pub(super) fn decisions(&self) -> u64 {
        self.allowed + self.refused
    }

    fn add(&mut self, other: &Tally) {
        self.requests += other.requests;
        self.allowed += other.allowed;
        self.refused += other.refused;
        self.unlimited += other.unlimited;
        self.errors += other.errors;
        self.first_error = self.first_error.take().or_else(|| other.first_error.clone());
        // Both have the same bounds.
        let _ = self.latency.add(&other.latency);
    }
}

/// The tallies of all connections.
pub(super) struct Tallies(Vec<Mutex<Tally>>);

impl Tallies {
    pub(super) fn new(connections: u64) -> Tallies {
        let of_some = |_| Tally::new().map(Mutex::new);
        Tallies((0..connections.min(MOST_HISTOGRAMS)).filter_map(of_some).collect())
    }

    /// Counts a call of requests that were answered together, each after its time.
    pub(super) fn answered(
        &self,
        connection: u64,
        answers: Answers,
        latencies: impl Iterator<Item = Duration>,
    ) {
        self.change(connection, |tally| {
            tally.allowed += answers.allowed;
            tally.refused += answers.refused;
            tally.unlimited += answers.unlimited;
            tally.errors += answers.failed;
            if answers.failed > 0 && tally.first_error.is_none() {
                tally.first_error = Some("the server could not decide".to_owned());
            }
            for latency in latencies {
                tally.requests += 1;
                let nanos = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
                tally.latency.saturating_record(nanos);
            }
        });
    }

    /// Counts a call of so many requests with so many checks that was not answered.
    pub(super) fn failed(&self, connection: u64, requests: u64, checks: u64, why: String) {
        self.change(connection, |tally| {
            tally.requests += requests;
            tally.errors += checks;
            tally.first_error.get_or_insert(why);
        });
    }

    fn change(&self, connection: u64, change: impl FnOnce(&mut Tally)) {
        let place = usize::try_from(connection).unwrap_or(0) % self.0.len().max(1);
        if let Some(tally) = self.0.get(place) {
            change(&mut tally.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// All of them together.
    pub(super) fn sum(&self) -> Option<Tally> {
        let mut sum = Tally::new()?;
        for tally in &self.0 {
            sum.add(&tally.lock().unwrap_or_else(PoisonError::into_inner));
        }
        Some(sum)
    }

    /// Requests, decisions that allow, those that refuse, and errors: for those who look often.
    pub(super) fn counts(&self) -> [u64; 4] {
        let mut counts = [0; 4];
        for tally in &self.0 {
            let tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
            let these = [tally.requests, tally.allowed, tally.refused, tally.errors];
            counts.iter_mut().zip(these).for_each(|(sum, this)| *sum += this);
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::super::bars::bars;
    use super::super::load::LONGEST;
    use super::*;

    #[test]
    fn the_longest_latency_is_told_as_it_was() {
        let tallies = Tallies::new(1);
        let latencies = [Duration::from_millis(1), LONGEST + Duration::from_secs(10)];
        tallies.answered(0, Answers { allowed: 2, ..Answers::default() }, latencies.into_iter());
        let sum = tallies.sum().unwrap();
        assert_eq!((sum.requests, sum.latency.max() / 10_000_000_000), (2, 361));
        assert_eq!(bars(&sum.latency).iter().map(|bar| bar.count).sum::<u64>(), 2);
    }
}
