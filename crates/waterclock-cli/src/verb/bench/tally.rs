//! Counts and latencies of a load so far.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use super::caller::Answers;

/// Latencies are recorded from 1 µs, to three digits, up to more than any can be: no load runs for more than an hour.
const SHORTEST_NS: u64 = 1_000;
const LONGEST_NS: u64 = 4_000_000_000_000;
const DIGITS: u8 = 3;
/// Histograms are large: with more connections than this, some share one.
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

    /// Requests, allowed, refused and errors, for the progress bar.
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

/// How many answers took at most so long, and longer than the line above says.
#[derive(Serialize)]
pub(super) struct Bar {
    pub(super) up_to_us: u64,
    pub(super) count: u64,
}

/// From the shortest to the longest, by steps of 1, 2 and 5.
pub(super) fn bars(latency: &Histogram<u64>) -> Vec<Bar> {
    let mut bars: Vec<Bar> = Vec::new();
    let mut edges = edges().peekable();
    for step in latency.iter_recorded() {
        let micros = step.value_iterated_to().div_ceil(1_000);
        while edges.next_if(|edge| *edge < micros).is_some() {
            // An edge that nothing is below yet is no line; one between others is an empty line.
            if let (Some(last), Some(next)) = (bars.last(), edges.peek())
                && *next > last.up_to_us
            {
                bars.push(Bar { up_to_us: *next, count: 0 });
            }
        }
        let Some(edge) = edges.peek() else { break };
        let count = step.count_at_value();
        match bars.last_mut() {
            Some(last) if last.up_to_us == *edge => last.count += count,
            _ => bars.push(Bar { up_to_us: *edge, count }),
        }
    }
    bars
}

/// 1, 2, 5, 10, 20, 50 … microseconds.
fn edges() -> impl Iterator<Item = u64> {
    (0..10).flat_map(|exponent| [1, 2, 5].map(|digit| digit * 10_u64.pow(exponent)))
}

#[cfg(test)]
mod tests {
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

    #[test]
    fn every_answer_is_in_one_line() {
        let mut latency = Histogram::<u64>::new_with_bounds(1_000, 60_000_000_000, 3).unwrap();
        for micros in [12, 13, 20, 21, 900, 40_000_000] {
            latency.record(micros * 1_000).unwrap();
        }
        let bars = bars(&latency);
        let shown: Vec<(u64, u64)> =
            bars.iter().filter(|bar| bar.count > 0).map(|bar| (bar.up_to_us, bar.count)).collect();
        assert_eq!(shown, [(20, 2), (50, 2), (1_000, 1), (50_000_000, 1)]);
        assert!(bars.is_sorted_by(|one, other| one.up_to_us < other.up_to_us));
    }
}
