//! Lines in the order of time, as far as that can be had without reading everything first.
//!
//! Some servers log a request when it began and others when it ended, so neighbours may be exchanged. Most
//! lines are in order all the same: they pass through a queue, and only those that are not through a heap.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, VecDeque};

use super::entry::Entry;

/// Nobody waits for a line that is later than by so much,
const PATIENCE_US: u64 = 10_000_000;
/// or so many lines,
const MOST: usize = 10_000;
/// or so many bytes of keys.
const MOST_BYTES: usize = 16 << 20;

#[derive(Default)]
pub(super) struct Order {
    in_order: VecDeque<Placed>,
    others: BinaryHeap<Reverse<Placed>>,
    /// How many have come.
    count: u64,
    bytes: usize,
    newest_us: u64,
    /// The time of the last that was let go.
    gone_us: u64,
    pub(super) late: u64,
    pub(super) latest_by_us: u64,
}

/// Equal times keep the order of lines.
struct Placed {
    place: u64,
    entry: Entry,
}

impl Order {
    pub(super) fn push(&mut self, mut entry: Entry) {
        if entry.t_us < self.gone_us {
            self.late += 1;
            self.latest_by_us = self.latest_by_us.max(self.gone_us - entry.t_us);
            entry.t_us = self.gone_us;
        }
        self.newest_us = self.newest_us.max(entry.t_us);
        self.bytes += entry.size();
        self.count += 1;
        let placed = Placed { place: self.count, entry };
        match self.in_order.back() {
            Some(last) if placed < *last => self.others.push(Reverse(placed)),
            _ => self.in_order.push_back(placed),
        }
    }

    /// The earliest, if nothing earlier is expected any more.
    pub(super) fn pop(&mut self, is_end: bool) -> Option<Entry> {
        let is_queued = match (self.in_order.front(), self.others.peek()) {
            (Some(queued), Some(Reverse(other))) => queued < other,
            (queued, _) => queued.is_some(),
        };
        let first =
            if is_queued { self.in_order.front() } else { self.others.peek().map(|r| &r.0) };
        let waited_us = self.newest_us - first?.entry.t_us;
        let is_full = self.in_order.len() + self.others.len() > MOST || self.bytes > MOST_BYTES;
        if !(is_end || is_full || waited_us > PATIENCE_US) {
            return None;
        }
        let gone = if is_queued {
            self.in_order.pop_front()
        } else {
            self.others.pop().map(|Reverse(placed)| placed)
        }?;
        self.bytes -= gone.entry.size();
        self.gone_us = gone.entry.t_us;
        Some(gone.entry)
    }
}

impl Placed {
    fn rank(&self) -> (u64, u64) {
        (self.entry.t_us, self.place)
    }
}

impl PartialEq for Placed {
    fn eq(&self, other: &Placed) -> bool {
        self.rank() == other.rank()
    }
}

impl Eq for Placed {}

impl PartialOrd for Placed {
    fn partial_cmp(&self, other: &Placed) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Placed {
    fn cmp(&self, other: &Placed) -> Ordering {
        self.rank().cmp(&other.rank())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn through(times: &[u64]) -> (Vec<(u64, u64)>, Order) {
        let mut order = Order::default();
        let mut out = Vec::new();
        for (number, t_us) in (0_u64..).zip(times) {
            let cost = Some(number.into());
            order.push(Entry { t_us: *t_us, cost, ..Entry::default() });
            while let Some(entry) = order.pop(false) {
                out.push((entry.t_us, entry.cost.unwrap().most()));
            }
        }
        while let Some(entry) = order.pop(true) {
            out.push((entry.t_us, entry.cost.unwrap().most()));
        }
        (out, order)
    }

    #[test]
    fn neighbours_are_exchanged_and_equals_are_not() {
        let (out, order) = through(&[5, 3, 5, 4, 3, 9]);
        assert_eq!(out, [(3, 1), (3, 4), (4, 3), (5, 0), (5, 2), (9, 5)]);
        assert_eq!(order.late, 0);
    }

    #[test]
    fn who_is_too_late_comes_when_it_is_its_turn() {
        let (out, order) = through(&[0, 1, 30_000_000, 0, 25_000_000]);
        assert_eq!(out, [(0, 0), (1, 1), (1, 3), (25_000_000, 4), (30_000_000, 2)]);
        assert_eq!((order.late, order.latest_by_us), (1, 1));
    }

    #[test]
    fn what_is_held_is_bounded() {
        let mut order = Order::default();
        for t_us in 0..=MOST as u64 {
            assert!(order.pop(false).is_none());
            order.push(Entry { t_us, ..Entry::default() });
        }
        assert_eq!(order.pop(false).map(|entry| entry.t_us), Some(0));
        assert!(order.pop(false).is_none());
        let mut order = Order::default();
        for _ in 0..3 {
            order.push(Entry { key: "k".repeat(MOST_BYTES / 2), ..Entry::default() });
        }
        assert!(order.pop(false).is_some() && order.pop(false).is_none());
    }

    #[test]
    fn as_a_stable_sort_would() {
        let mut rng = fastrand::Rng::with_seed(3);
        for _ in 0..200 {
            let times: Vec<u64> = (0..300).map(|n| n * 1_000 + rng.u64(0..100_000)).collect();
            let mut expected: Vec<(u64, u64)> = times.iter().copied().zip(0..).collect();
            expected.sort();
            assert_eq!(through(&times).0, expected);
        }
    }
}
