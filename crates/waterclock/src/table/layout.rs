//! How the slots of a shard lie in memory.
//!
//! A slot is a fingerprint and the words of one key. Slots are grouped into buckets that start on
//! a cache line: first all fingerprints of the bucket, then all states. With one word of state four
//! slots fill one line exactly, and a decision touches just that line.

use std::ops::Range;

use super::family::Family;

const LINE_WORDS: usize = 8;
pub(super) const LINE_BYTES: usize = 64;
const MIN_BUCKETS: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    state: u16,
    slots: u16,
    words: u16,
    /// Whether a state's first word says by which member of a family it was written.
    tagged: bool,
    /// Four slots of two words: one line.
    one_word: bool,
}

impl Layout {
    pub(super) fn new(family: &Family) -> Self {
        let (state, tagged) = (family.state_words(), family.is_tagged());
        let words = (4 * (state + 1)).next_multiple_of(LINE_WORDS);
        // A policy has at most 16 limits of a few words each.
        let small = |n: usize| u16::try_from(n).unwrap_or(u16::MAX);
        let slots = small(words / (state + 1));
        let one_word = state == 1 && !tagged;
        Self { state: small(state), slots, words: small(words), tagged, one_word }
    }

    /// Whether a bucket is a line of four keys and their four words.
    #[inline(always)]
    pub(super) fn is_one_word(self) -> bool {
        self.one_word
    }

    #[inline]
    pub(super) fn tagged(self) -> bool {
        self.tagged
    }

    /// Words of state in a slot.
    #[inline]
    pub(super) fn state(self) -> usize {
        self.state.into()
    }

    /// Slots in a bucket: at least four.
    #[inline]
    pub(super) fn slots(self) -> usize {
        self.slots.into()
    }

    /// Where the words of the `i`th key of the bucket that starts there start.
    #[inline]
    pub(super) fn state_of(self, bucket: usize, i: usize) -> usize {
        bucket + self.slots() + i * self.state()
    }

    /// The words of the key whose words start there.
    #[inline]
    pub(super) fn key(self, start: usize) -> Range<usize> {
        start..start + self.state()
    }

    /// Words in a bucket, a whole number of lines.
    #[inline]
    pub(super) fn words(self) -> usize {
        self.words.into()
    }

    /// Buckets for so many keys and one more, at a load of 0.76: a sixth more may come before the
    /// next rebuild, so that each key is moved a bounded number of times. Not too few for keys that
    /// are fresh again soon and so count for nothing here.
    pub(super) fn buckets_for(self, keys: usize) -> usize {
        ((keys + 1) * 100).div_ceil(76 * self.slots()).max(MIN_BUCKETS)
    }

    /// How many slots may be used before probes get long.
    pub(super) fn room(self, buckets: usize) -> usize {
        buckets * self.slots() * 9 / 10
    }
}

/// Zeroed buckets that start on a line. Fingerprint 0 marks a free slot.
#[derive(Debug, Default)]
pub(super) struct Buckets {
    memory: Box<[u64]>,
    /// Words to skip so that buckets start on a line.
    skip: u16,
    count: u32,
}

impl Buckets {
    pub(super) fn new(layout: Layout, count: usize) -> Self {
        let memory = vec![0; count * layout.words() + LINE_WORDS - 1].into_boxed_slice();
        let skip = memory.as_ptr().align_offset(LINE_BYTES).min(LINE_WORDS - 1);
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        Self { memory, skip: u16::try_from(skip).unwrap_or(0), count }
    }

    #[inline]
    pub(super) fn count(&self) -> usize {
        self.count as usize
    }

    #[inline]
    pub(super) fn words(&self) -> &[u64] {
        self.memory.get(usize::from(self.skip)..).unwrap_or_default()
    }

    /// Some of the words.
    #[inline(always)]
    pub(super) fn get(&self, words: Range<usize>) -> Option<&[u64]> {
        let skip = usize::from(self.skip);
        self.memory.get(skip + words.start..skip + words.end)
    }

    /// The words of a key that was found.
    #[inline(always)]
    pub(super) fn key_mut(&mut self, words: Range<usize>) -> &mut [u64] {
        let skip = usize::from(self.skip);
        &mut self.memory[skip + words.start..skip + words.end]
    }

    /// The line with this number. Where a bucket is one line, also its number.
    #[inline(always)]
    pub(super) fn line_mut(&mut self, number: usize) -> Option<&mut [u64; LINE_WORDS]> {
        let start = usize::from(self.skip) + number * LINE_WORDS;
        self.memory.get_mut(start..start + LINE_WORDS)?.try_into().ok()
    }

    #[inline]
    pub(super) fn words_mut(&mut self) -> &mut [u64] {
        self.memory.get_mut(usize::from(self.skip)..).unwrap_or_default()
    }
}

/// The bucket a fingerprint belongs to: the low half of its bits, scaled to the number of buckets,
/// so that any number of buckets will do.
#[inline]
pub(super) fn home(fingerprint: u64, buckets: usize) -> usize {
    (((fingerprint & 0xffff_ffff) * buckets as u64) >> 32) as usize
}
