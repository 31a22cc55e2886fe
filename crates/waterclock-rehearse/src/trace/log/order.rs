//! Lines in the order of time, as far as that is possible without reading everything first.
//!
//! Some servers log a request when it began and others when it ended, so neighbours may be exchanged. Most
//! lines are in order all the same: they pass through a queue, and only the others through a heap.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, VecDeque};

use waterclock_config::Micros;

use super::ahead::Entry;

/// How far a line may be out of order without `--reorder`.
const REORDER: Micros = Micros(300_000_000);
/// The most lines that wait for earlier ones,
const MOST_WAITING: usize = 100_000;
/// and the most bytes of their keys. Beyond either, lines are released early.
const MOST_WAITING_BYTES: usize = 32 << 20;

pub(super) struct Order {
    /// How far a line may be out of order.
    reorder: Micros,
    in_order: VecDeque<Placed>,
    others: BinaryHeap<Reverse<Placed>>,
    /// How many lines came.
    count: u64,
    bytes: usize,
    newest_us: u64,
    /// The time of the last line that was released.
    released_us: u64,
    /// Whether a line was released before its time, for want of room.
    is_early: bool,
    pub(super) late: Late,
}

/// The lines that came after a later one was released.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Late {
    pub(super) lines: u64,
    /// The most that one was moved.
    pub(super) moved_us: u64,
    /// The most that one was behind the newest line: a `--reorder` of this much would have been enough,
    pub(super) behind_us: u64,
    /// unless too many lines had to wait for it.
    pub(super) is_bounded: bool,
}

/// A line with its place: equal times keep the order of lines.
struct Placed {
    place: u64,
    entry: Entry,
}

impl Order {
    pub(super) fn new(reorder: Option<Micros>) -> Order {
        Order {
            reorder: reorder.unwrap_or(REORDER),
            in_order: VecDeque::new(),
            others: BinaryHeap::new(),
            count: 0,
            bytes: 0,
            newest_us: 0,
            released_us: 0,
            is_early: false,
            late: Late::default(),
        }
    }

    pub(super) fn push(&mut self, mut entry: Entry) {
        if entry.t_us < self.released_us {
            let behind_us = self.newest_us - entry.t_us;
            let late = &mut self.late;
            late.lines += 1;
            late.moved_us = late.moved_us.max(self.released_us - entry.t_us);
            late.behind_us = late.behind_us.max(behind_us);
            late.is_bounded |= self.is_early;
            entry.t_us = self.released_us;
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
        let is_full = self.in_order.len() + self.others.len() > MOST_WAITING
            || self.bytes > MOST_WAITING_BYTES;
        if !(is_end || is_full || waited_us >= self.reorder.0) {
            return None;
        }
        self.is_early |= !is_end && waited_us < self.reorder.0;
        let gone = if is_queued {
            self.in_order.pop_front()
        } else {
            self.others.pop().map(|Reverse(placed)| placed)
        }?;
        self.bytes -= gone.entry.size();
        self.released_us = gone.entry.t_us;
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

const SECOND_US: u64 = 1_000_000;
/// How many lines, and bytes of their keys, are buffered until their second is over.
const MOST_SPREAD: usize = 100_000;
const MOST_SPREAD_BYTES: usize = 16 << 20;

/// Spreads the lines of a second evenly over it, where times are whole seconds.
#[derive(Default)]
pub(super) struct Spread {
    buffered: Vec<Entry>,
    ready: VecDeque<Entry>,
    bytes: usize,
    second: u64,
    /// How much of the second has been released already.
    released_us: u64,
    /// Whether a line has more than whole seconds.
    is_precise: bool,
}

impl Spread {
    /// Takes lines in the order of time.
    pub(super) fn push(&mut self, entry: Entry) {
        let second = entry.t_us / SECOND_US;
        if second != self.second {
            self.release(SECOND_US);
            (self.second, self.released_us, self.is_precise) = (second, 0, false);
        }
        self.is_precise |= !entry.t_us.is_multiple_of(SECOND_US);
        self.bytes += entry.size();
        self.buffered.push(entry);
        if self.buffered.len() >= MOST_SPREAD || self.bytes > MOST_SPREAD_BYTES {
            // How many more there are is not known: they get the other half of what is left.
            self.release(self.released_us + (SECOND_US - self.released_us) / 2);
        }
    }

    pub(super) fn pop(&mut self, is_end: bool) -> Option<Entry> {
        if is_end {
            self.release(SECOND_US);
        }
        self.ready.pop_front()
    }

    /// Releases the buffered lines, between what is released already and here.
    fn release(&mut self, until_us: u64) {
        let (from_us, count) = (self.released_us, self.buffered.len() as u64);
        for (place, mut entry) in (0..).zip(self.buffered.drain(..)) {
            if self.is_precise {
                // Others of its second may have been released before it came.
                entry.t_us = entry.t_us.max(self.second * SECOND_US + from_us);
            } else {
                entry.t_us += from_us + (until_us - from_us) * place / count;
            }
            self.ready.push_back(entry);
        }
        self.bytes = 0;
        if !self.is_precise {
            self.released_us = until_us;
        }
    }
}

#[cfg(test)]
mod order_tests {
    use super::*;

    const TEN_SECONDS: Option<Micros> = Some(Micros(10_000_000));

    fn through(times: &[u64], reorder: Option<Micros>) -> (Vec<(u64, u64)>, Late) {
        let mut order = Order::new(reorder);
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
        (out, order.late)
    }

    #[test]
    fn neighbours_are_exchanged_and_equals_are_not() {
        let (out, late) = through(&[5, 3, 5, 4, 3, 9], None);
        assert_eq!(out, [(3, 1), (3, 4), (4, 3), (5, 0), (5, 2), (9, 5)]);
        assert_eq!(late, Late::default());
    }

    #[test]
    fn late_lines_count_at_the_time_of_the_line_before() {
        let times = [0, 1, 30_000_000, 0, 25_000_000];
        let (out, late) = through(&times, TEN_SECONDS);
        assert_eq!(out, [(0, 0), (1, 1), (1, 3), (25_000_000, 4), (30_000_000, 2)]);
        let expected = Late { lines: 1, moved_us: 1, behind_us: 30_000_000, is_bounded: false };
        assert_eq!(late, expected);
        // Where it says how much would have been enough, that is enough, and less is not.
        let late = |us| through(&times, Some(Micros(us))).1.lines;
        assert_eq!((late(30_000_000), late(29_999_998)), (0, 1));
    }

    #[test]
    fn zero_keeps_the_order_of_lines() {
        let (out, late) = through(&[5, 3, 5, 9, 8], Some(Micros(0)));
        assert_eq!(out, [(5, 0), (5, 1), (5, 2), (9, 3), (9, 4)]);
        assert_eq!((late.lines, late.behind_us), (2, 2));
    }

    /// Each line is earlier than the one before, by so little that none may be released in time.
    #[test]
    fn a_log_in_reverse_stays_within_the_bound() {
        let mut order = Order::new(Some(Micros::MAX));
        let lines = 2 * MOST_WAITING as u64;
        let mut released = 0;
        for t_us in (0..lines).rev() {
            order.push(Entry { t_us, ..Entry::default() });
            while order.pop(false).is_some() {
                released += 1;
            }
            assert!(order.in_order.len() + order.others.len() <= MOST_WAITING);
        }
        assert_eq!(released, lines - MOST_WAITING as u64);
        assert!(order.late.lines > 0 && order.late.is_bounded, "{:?}", order.late);
    }

    #[test]
    fn the_buffer_is_bounded() {
        let mut order = Order::new(None);
        for t_us in 0..=MOST_WAITING as u64 {
            assert!(order.pop(false).is_none());
            order.push(Entry { t_us, ..Entry::default() });
        }
        assert_eq!(order.pop(false).map(|entry| entry.t_us), Some(0));
        assert!(order.pop(false).is_none());
        let mut order = Order::new(None);
        for _ in 0..3 {
            order.push(Entry { key: "k".repeat(MOST_WAITING_BYTES / 2), ..Entry::default() });
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
            assert_eq!(through(&times, None).0, expected);
        }
    }
}

#[cfg(test)]
mod spread_tests {
    use super::*;

    fn through(times: impl IntoIterator<Item = u64>) -> Vec<u64> {
        let mut spread = Spread::default();
        let mut out = Vec::new();
        for t_us in times {
            spread.push(Entry { t_us, ..Entry::default() });
            while let Some(entry) = spread.pop(false) {
                out.push(entry.t_us);
            }
        }
        while let Some(entry) = spread.pop(true) {
            out.push(entry.t_us);
        }
        out
    }

    #[test]
    fn evenly() {
        let second = SECOND_US;
        let out = through([0, 0, 0, 0, second, 3 * second, 3 * second]);
        assert_eq!(out, [0, 250_000, 500_000, 750_000, second, 3 * second, 3_500_000]);
    }

    #[test]
    fn lines_that_know_better_stay() {
        let out = through([0, 0, 700_000, 1_000_000, 1_000_000]);
        assert_eq!(out, [0, 0, 700_000, 1_000_000, 1_500_000]);
    }

    #[test]
    fn however_many_there_are() {
        let out =
            through((0..MOST_SPREAD as u64 * 5 / 2).map(|_| 9 * SECOND_US).chain([10 * SECOND_US]));
        assert_eq!(out.len(), MOST_SPREAD * 5 / 2 + 1);
        assert!(out.is_sorted());
        assert!(out[..MOST_SPREAD * 5 / 2].iter().all(|t_us| t_us / SECOND_US == 9));
        assert!(out[MOST_SPREAD * 2] > 9_740_000, "{}", out[MOST_SPREAD * 2]);
    }
}
