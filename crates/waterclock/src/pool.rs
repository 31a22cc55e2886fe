//! A pool that tables share: each is guaranteed its part of one half, and may borrow of the rest.

use crate::sync::{AtomicU64, AtomicUsize, Ordering};

/// Places for keys, or memory for logs.
#[derive(Debug)]
pub(crate) struct Pool {
    max: AtomicUsize,
    taken: AtomicUsize,
    /// How much of it is beyond the tables' shares. For a moment it may be off, even below zero.
    borrowed: AtomicUsize,
    /// How much may be; zero while shares are to be computed.
    lendable: AtomicUsize,
}

/// One table's part of a pool: how much it has taken, in the upper half, and how much is guaranteed, in the lower.
#[derive(Debug, Default)]
pub(crate) struct Part(AtomicU64);

impl Part {
    pub(crate) fn taken(&self) -> usize {
        Counts::from(self.0.load(Ordering::Relaxed)).taken as usize
    }

    /// How much of it is guaranteed.
    pub(crate) fn share(&self) -> usize {
        Counts::from(self.0.load(Ordering::Relaxed)).share as usize
    }

    /// Takes so much more; returns how much of it is beyond the share.
    fn take(&self, more: u32) -> isize {
        let added = u64::from(Counts { taken: more, share: 0 });
        let before = Counts::from(self.0.fetch_add(added, Ordering::Relaxed));
        Counts { taken: before.taken + more, ..before }.beyond() - before.beyond()
    }

    /// Gives so much back; returns how much of it was beyond the share.
    fn give_back(&self, less: u32) -> isize {
        let removed = u64::from(Counts { taken: less, share: 0 });
        let before = Counts::from(self.0.fetch_sub(removed, Ordering::Relaxed));
        before.beyond() - Counts { taken: before.taken - less, ..before }.beyond()
    }

    /// Changes the share; returns how much more is beyond it.
    fn set_share(&self, share: u32) -> isize {
        let next = |counts| Some(Counts { share, ..Counts::from(counts) }.into());
        match self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next) {
            Ok(before) | Err(before) => {
                let before = Counts::from(before);
                Counts { share, ..before }.beyond() - before.beyond()
            }
        }
    }

    fn has_own(&self, more: usize) -> bool {
        let Counts { taken, share } = self.0.load(Ordering::Relaxed).into();
        taken as usize + more <= share as usize
    }
}

#[derive(Clone, Copy)]
struct Counts {
    taken: u32,
    share: u32,
}

impl Counts {
    fn beyond(self) -> isize {
        self.taken.saturating_sub(self.share) as isize
    }
}

impl From<u64> for Counts {
    fn from(counts: u64) -> Self {
        Self { taken: (counts >> 32) as u32, share: (counts << 32 >> 32) as u32 }
    }
}

impl From<Counts> for u64 {
    fn from(Counts { taken, share }: Counts) -> Self {
        u64::from(taken) << 32 | u64::from(share)
    }
}

impl Pool {
    pub(crate) fn new(max: usize) -> Self {
        let max = max.clamp(1, u32::MAX as usize);
        Self {
            max: AtomicUsize::new(max),
            taken: AtomicUsize::new(0),
            borrowed: AtomicUsize::new(0),
            lendable: AtomicUsize::new(max),
        }
    }

    pub(crate) fn max(&self) -> usize {
        self.max.load(Ordering::Relaxed)
    }

    /// Changes the bound. Shares are to be computed again, unless there is only one table.
    pub(crate) fn set_max(&self, max: usize, is_shared: bool) {
        let max = max.clamp(1, u32::MAX as usize);
        self.max.store(max, Ordering::Relaxed);
        self.lendable.store(if is_shared { 0 } else { max }, Ordering::Relaxed);
    }

    pub(crate) fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    /// So much more is borrowed; returns how much was before.
    fn lend(&self, more: isize) -> isize {
        self.borrowed.fetch_add(more.cast_unsigned(), Ordering::Relaxed).cast_signed()
    }

    /// Whether so much may be borrowed in all.
    pub(crate) fn can_lend(&self, in_all: isize) -> bool {
        in_all <= self.lendable.load(Ordering::Relaxed).cast_signed()
    }

    pub(crate) fn has_room(&self, part: &Part, more: usize) -> bool {
        let borrowed = || self.borrowed.load(Ordering::Relaxed).cast_signed();
        self.taken() + more <= self.max()
            && (part.has_own(more) || self.can_lend(borrowed() + more.cast_signed()))
    }

    /// Takes so much for a table, if it is there.
    pub(crate) fn take(&self, part: &Part, more: u32) -> bool {
        let in_all = self.taken.fetch_add(more as usize, Ordering::Relaxed) + more as usize;
        let beyond = part.take(more);
        let can_lend = beyond == 0 || self.can_lend(self.lend(beyond) + beyond);
        if in_all <= self.max() && can_lend {
            return true;
        }
        self.give_back(part, more as usize);
        false
    }

    /// Takes so much whether or not it is there.
    pub(crate) fn take_anyway(&self, part: &Part, more: u32) {
        self.taken.fetch_add(more as usize, Ordering::Relaxed);
        self.lend(part.take(more));
    }

    pub(crate) fn give_back(&self, part: &Part, less: usize) {
        self.lend(-part.give_back(u32::try_from(less).unwrap_or(u32::MAX)));
        self.taken.fetch_sub(less, Ordering::Relaxed);
    }

    /// Gives each of these parts its share.
    pub(crate) fn share_out<'a>(&self, parts: impl ExactSizeIterator<Item = &'a Part>) {
        let share = self.max() / (2 * parts.len().max(1));
        self.lendable.store(self.max() - share * parts.len(), Ordering::Relaxed);
        let share = u32::try_from(share).unwrap_or(u32::MAX);
        parts.for_each(|part| _ = self.lend(part.set_share(share)));
    }

    /// Nothing more is lent until shares are computed.
    pub(crate) fn stop_lending(&self) {
        self.lendable.store(0, Ordering::Relaxed);
    }

    /// Panics unless the counts are those of the parts, which no other thread uses meanwhile.
    #[cfg(all(test, shuttle))]
    pub(crate) fn assert_counted<'a>(&self, parts: impl Iterator<Item = &'a Part>) {
        assert!(self.lendable.load(Ordering::Relaxed) >= self.max() / 2);
        let counts: Vec<Counts> =
            parts.map(|part| Counts::from(part.0.load(Ordering::Relaxed))).collect();
        let taken = counts.iter().map(|counts| counts.taken as usize).sum::<usize>();
        let beyond = counts.iter().map(|counts| counts.beyond()).sum::<isize>();
        let borrowed = self.borrowed.load(Ordering::Relaxed).cast_signed();
        assert_eq!((self.taken(), borrowed), (taken, beyond));
    }
}
