//! Latencies as a picture of a few lines.

use hdrhistogram::Histogram;
use serde::Serialize;

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
    use super::*;

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
