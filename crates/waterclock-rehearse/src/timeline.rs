//! Counts over time, in a bounded number of bins whatever the span.

use serde_json::{Value, json};

/// Widths that people read easily. Each divides the next, so that bins can be merged.
const WIDTHS_US: [u64; 19] = [
    1_000,
    5_000,
    10_000,
    50_000,
    100_000,
    500_000,
    1_000_000,
    5_000_000,
    10_000_000,
    30_000_000,
    60_000_000,
    300_000_000,
    600_000_000,
    1_800_000_000,
    3_600_000_000,
    21_600_000_000,
    86_400_000_000,
    604_800_000_000,
    // Fifty-two weeks: the last one holds a history of centuries.
    31_449_600_000_000,
];

/// What one bin counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bin {
    /// Checks.
    pub(crate) offered: u64,
    /// Checks that were allowed, at least in part.
    pub(crate) allowed: u64,
}

impl Bin {
    fn take(&mut self, other: Bin) {
        self.offered += other.offered;
        self.allowed += other.allowed;
    }
}

/// Bins of one width, from the first event to the last. Times may come in any order.
#[derive(Clone, Debug)]
pub(crate) struct Timeline {
    most: usize,
    /// An index into the widths.
    width: usize,
    /// The number of the first bin, counted from the Unix epoch.
    first: u64,
    bins: Vec<Bin>,
}

impl Timeline {
    /// With at most so many bins.
    pub(crate) fn new(most: usize) -> Timeline {
        Timeline { most: most.max(2), width: 0, first: 0, bins: Vec::new() }
    }

    pub(crate) fn width_us(&self) -> u64 {
        WIDTHS_US[self.width]
    }

    /// Counts a check.
    pub(crate) fn add(&mut self, t_us: u64, is_allowed: bool) {
        let bin = self.bin_at(t_us);
        bin.offered += 1;
        bin.allowed += u64::from(is_allowed);
    }

    /// The same in at most so many bins.
    pub(crate) fn merged(&self, most: usize) -> Timeline {
        let mut merged = self.clone();
        while merged.bins.len() > most && merged.width + 1 < WIDTHS_US.len() {
            merged.widen();
        }
        merged
    }

    /// From the start of the first bin to the end of the last.
    pub(crate) fn span_us(&self) -> (u64, u64) {
        let width = self.width_us();
        (self.first * width, (self.first + self.bins.len() as u64) * width)
    }

    /// Each bin with its start.
    pub(crate) fn bins(&self) -> impl Iterator<Item = (u64, Bin)> {
        let width = self.width_us();
        (self.first..).map(move |number| number * width).zip(self.bins.iter().copied())
    }

    /// The number of bins.
    pub(crate) fn len(&self) -> usize {
        self.bins.len()
    }

    /// For programs.
    pub(crate) fn json(&self) -> Value {
        let bin = |(t_us, bin): (u64, Bin)| json!({ "t_us": t_us, "offered": bin.offered, "allowed": bin.allowed });
        json!({ "bin_us": self.width_us(), "bins": self.bins().map(bin).collect::<Vec<Value>>() })
    }

    pub(crate) fn most_offered(&self) -> u64 {
        self.bins.iter().map(|bin| bin.offered).max().unwrap_or(0)
    }

    fn bin_at(&mut self, t_us: u64) -> &mut Bin {
        loop {
            let number = t_us / self.width_us();
            if self.bins.is_empty() {
                self.first = number;
            }
            let (from, end) = (self.first, self.first + self.bins.len() as u64);
            let spread = number.max(end.saturating_sub(1)) - number.min(from);
            if spread < self.most as u64 || self.width + 1 == WIDTHS_US.len() {
                let before = usize::try_from(from.saturating_sub(number)).unwrap_or(0);
                self.bins.splice(..0, std::iter::repeat_n(Bin::default(), before));
                self.first = number.min(from);
                let place = usize::try_from(number - self.first).unwrap_or(0);
                if place >= self.bins.len() {
                    self.bins.resize(place + 1, Bin::default());
                }
                return &mut self.bins[place];
            }
            self.widen();
        }
    }

    /// Merges bins into the next larger ones.
    fn widen(&mut self) {
        let ratio = WIDTHS_US[self.width + 1] / WIDTHS_US[self.width];
        let mut merged = Vec::new();
        for (number, bin) in (self.first..).zip(&self.bins) {
            let place = usize::try_from(number / ratio - self.first / ratio).unwrap_or(0);
            merged.resize(place + 1, Bin::default());
            merged[place].take(*bin);
        }
        (self.bins, self.first, self.width) = (merged, self.first / ratio, self.width + 1);
    }
}

/// Two counts by the bins of a timeline, only where there are some. Counts stay below those of the timeline.
#[derive(Clone, Debug, Default)]
pub(crate) struct SparseBins {
    /// An index into the widths.
    width: usize,
    /// By the numbers of bins, ascending.
    counts: Vec<(u64, [u32; 2])>,
}

impl SparseBins {
    /// Adds to the bin of an instant that the timeline has counted already.
    pub(crate) fn add(&mut self, timeline: &Timeline, t_us: u64, more: [u32; 2]) {
        self.widen_to(timeline.width);
        let number = t_us / WIDTHS_US[self.width];
        let place = match self.counts.last() {
            // Nearly always in the order of time.
            Some((last, _)) if *last == number => Ok(self.counts.len() - 1),
            Some((last, _)) if *last < number => Err(self.counts.len()),
            _ => self.counts.binary_search_by_key(&number, |(number, _)| *number),
        };
        match place {
            Ok(place) => take(&mut self.counts[place].1, more),
            Err(place) => self.counts.insert(place, (number, more)),
        }
    }

    /// Each bin that has counts, by its place in the timeline.
    pub(crate) fn places(mut self, timeline: &Timeline) -> impl Iterator<Item = (usize, [u32; 2])> {
        self.widen_to(timeline.width);
        let first = timeline.first;
        let place = move |number: u64| usize::try_from(number.saturating_sub(first)).unwrap_or(0);
        self.counts.into_iter().map(move |(number, counts)| (place(number), counts))
    }

    fn widen_to(&mut self, width: usize) {
        if self.width >= width {
            return;
        }
        let ratio = WIDTHS_US[width] / WIDTHS_US[self.width];
        self.counts.iter_mut().for_each(|(number, _)| *number /= ratio);
        self.counts.dedup_by(|later, kept| {
            let is_same = later.0 == kept.0;
            if is_same {
                take(&mut kept.1, later.1);
            }
            is_same
        });
        self.width = width;
    }
}

fn take(counts: &mut [u32; 2], more: [u32; 2]) {
    counts.iter_mut().zip(more).for_each(|(count, more)| *count = count.saturating_add(more));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sparse_bins_follow_the_timeline() {
        let mut random = fastrand::Rng::with_seed(2);
        for span in [10_000, 1 << 30, 1 << 50] {
            let (mut timeline, mut sparse) = (Timeline::new(20), SparseBins::default());
            for _ in 0..500 {
                let t_us = random.u64(..span);
                timeline.add(t_us, !t_us.is_multiple_of(3));
                sparse.add(&timeline, t_us, [1, u32::from(t_us.is_multiple_of(3))]);
            }
            let bins: Vec<(usize, [u32; 2])> = timeline
                .bins()
                .map(|(_, bin)| {
                    [bin.offered, bin.offered - bin.allowed].map(|n| u32::try_from(n).unwrap())
                })
                .enumerate()
                .filter(|(_, counts)| counts[0] > 0)
                .collect();
            assert_eq!(sparse.places(&timeline).collect::<Vec<_>>(), bins, "{span}");
        }
    }

    #[test]
    fn every_width_divides_the_next() {
        for pair in WIDTHS_US.windows(2) {
            assert_eq!(pair[1] % pair[0], 0, "{pair:?}");
        }
    }

    #[test]
    fn nothing_is_lost_in_whatever_order_it_comes() {
        let mut random = fastrand::Rng::with_seed(1);
        for most in [2, 7, 100] {
            for span in [1, 10_000, 1 << 30, 1 << 50, 1 << 52] {
                let mut timeline = Timeline::new(most);
                let mut times = Vec::new();
                for _ in 0..500 {
                    let t_us = random.u64(..span);
                    times.push(t_us);
                    timeline.add(t_us, t_us.is_multiple_of(2));
                }
                let bins: Vec<(u64, Bin)> = timeline.bins().collect();
                assert!(bins.len() <= most.max(200), "{most} {span} {}", bins.len());
                for (start, bin) in bins {
                    let within = |t: &&u64| (start..start + timeline.width_us()).contains(*t);
                    let offered = times.iter().filter(within).count();
                    let allowed = times.iter().filter(within).filter(|t| *t % 2 == 0).count();
                    assert_eq!((bin.offered, bin.allowed), (offered as u64, allowed as u64));
                }
            }
        }
    }

    #[test]
    fn merged_bins_lose_nothing() {
        let mut timeline = Timeline::new(1_000);
        (0..900).for_each(|second| timeline.add(second * 1_000_000, second % 3 > 0));
        let merged = timeline.merged(200);
        assert!(merged.bins.len() <= 200 && merged.bins.len() > 20, "{}", merged.bins.len());
        let sum =
            merged.bins().fold((0, 0), |sum, (_, bin)| (sum.0 + bin.offered, sum.1 + bin.allowed));
        assert_eq!(sum, (900, 600));
    }

    #[test]
    fn bins_are_as_fine_as_there_is_room_for() {
        let mut timeline = Timeline::new(100);
        (0..100).for_each(|second| timeline.add(second * 1_000_000, true));
        assert_eq!((timeline.width_us(), timeline.span_us()), (1_000_000, (0, 100_000_000)));
        timeline.add(100_000_000, true);
        assert_eq!(timeline.width_us(), 5_000_000);
    }
}
