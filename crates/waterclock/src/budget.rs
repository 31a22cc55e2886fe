use crate::sync::{AtomicU64, AtomicUsize, Ordering};

const SHARDS_SWEPT: usize = 8;

/// How many keys may be remembered at once, shared by every table of a store.
#[derive(Debug)]
pub(crate) struct Budget {
    max: usize,
    taken: AtomicUsize,
    /// Charges of keys that found no place.
    overflowed: AtomicU64,
}

impl Budget {
    pub(crate) fn new(max: usize) -> Self {
        Self { max, taken: AtomicUsize::new(0), overflowed: AtomicU64::new(0) }
    }

    pub(crate) fn max(&self) -> usize {
        self.max
    }

    pub(crate) fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    pub(crate) fn overflowed(&self) -> u64 {
        self.overflowed.load(Ordering::Relaxed)
    }

    pub(crate) fn count_overflow(&self) {
        self.overflowed.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn is_full(&self) -> bool {
        self.taken() >= self.max
    }

    /// When all places are taken, sweeps a few shards before a new key is sent to an overflow entry: enough to
    /// find room soon, few enough to wait only briefly.
    pub(crate) fn make_room(&self, sweep_a_shard: impl Fn()) {
        for _ in 0..SHARDS_SWEPT {
            if !self.is_full() {
                return;
            }
            sweep_a_shard();
        }
    }

    /// Takes a place for one more key, if there is one.
    pub(crate) fn take(&self) -> bool {
        let one_more = |taken| (taken < self.max).then_some(taken + 1);
        self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_ok()
    }

    /// Takes a place whether or not there is one.
    pub(crate) fn take_anyway(&self) {
        self.taken.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn give_back(&self, keys: usize) {
        self.taken.fetch_sub(keys, Ordering::Relaxed);
    }
}
