//! A hint to the processor, so that a batch waits for memory once instead of once per key.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::layout::home;

/// Where a shard keeps its buckets, readable without its lock. It may be out of date at any time:
/// it is only ever used to guess.
#[derive(Debug, Default)]
pub(super) struct Hint {
    start: AtomicUsize,
    bytes: AtomicUsize,
}

impl Hint {
    pub(super) fn set(&self, (start, bytes): (usize, usize)) {
        self.start.store(start, Ordering::Relaxed);
        self.bytes.store(bytes, Ordering::Relaxed);
    }

    /// Starts to fetch the line in which this fingerprint is most likely found.
    #[inline]
    pub(super) fn fetch(&self, fingerprint: u64) {
        // Where its bucket would be if buckets were single bytes is where it is among real ones.
        let offset = home(fingerprint, self.bytes.load(Ordering::Relaxed));
        fetch_line(self.start.load(Ordering::Relaxed).wrapping_add(offset));
    }
}

/// Starts to fetch the line of a value.
#[inline]
pub(super) fn fetch<T>(value: &T) {
    fetch_line(std::ptr::from_ref(value).addr());
}

/// `unsafe`, like reading the counter (`clock/counter.rs`) and nothing else; `check_batch` at 10 million keys is what it is for (see
/// `bench/`).
///
/// PREFETCHT0 is a hint: it returns nothing, changes no memory, and an address that is not mapped
/// is ignored without a fault. So any address at all, stale ones included, is sound here.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
#[allow(unsafe_code)]
fn fetch_line(address: usize) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::without_provenance(address)) }
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
fn fetch_line(_address: usize) {}
