//! How the slots of a shard lie in memory.
//!
//! A slot is a fingerprint and the words of one key. Slots are grouped into buckets that start on
//! a cache line: first all fingerprints of the bucket, then all states. With one word of state four
//! slots fill one line exactly, and a decision touches just that line.

const LINE_WORDS: usize = 8;
const LINE_BYTES: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// Words of state in a slot.
    pub(super) state: usize,
    /// Slots in a bucket: at least four.
    pub(super) slots: usize,
    /// Words in a bucket, a whole number of lines.
    pub(super) words: usize,
}

impl Layout {
    pub(super) fn new(state: usize) -> Self {
        let words = (4 * (state + 1)).next_multiple_of(LINE_WORDS);
        Self { state, slots: words / (state + 1), words }
    }

    /// Buckets for so many keys and one more, at a load of 0.7: a quarter more may come before the
    /// next rebuild, so that each key is moved a bounded number of times.
    pub(super) fn buckets_for(&self, keys: usize) -> usize {
        ((keys + 1) * 10).div_ceil(7 * self.slots)
    }

    /// How many slots may be used before probes get long: seven eighths.
    pub(super) fn room(&self, buckets: usize) -> usize {
        buckets * self.slots * 7 / 8
    }

    pub(super) fn bucket_bytes(&self) -> usize {
        self.words / LINE_WORDS * LINE_BYTES
    }
}

/// Zeroed buckets that start on a line. Fingerprint 0 marks a free slot.
#[derive(Debug, Default)]
pub(super) struct Buckets {
    memory: Vec<u64>,
    /// Words to skip so that buckets start on a line.
    skip: usize,
    pub(super) count: usize,
}

impl Buckets {
    pub(super) fn new(layout: Layout, count: usize) -> Self {
        let memory = vec![0; count * layout.words + LINE_WORDS - 1];
        let skip = memory.as_ptr().align_offset(LINE_BYTES).min(LINE_WORDS - 1);
        Self { memory, skip, count }
    }

    #[inline]
    pub(super) fn words(&self) -> &[u64] {
        self.memory.get(self.skip..).unwrap_or_default()
    }

    #[inline]
    pub(super) fn words_mut(&mut self) -> &mut [u64] {
        self.memory.get_mut(self.skip..).unwrap_or_default()
    }
}

/// The bucket a fingerprint belongs to: the low half of its bits, scaled to the number of buckets,
/// so that any number of buckets will do.
#[inline]
pub(super) fn home(fingerprint: u64, buckets: usize) -> usize {
    (((fingerprint & 0xffff_ffff) * buckets as u64) >> 32) as usize
}
