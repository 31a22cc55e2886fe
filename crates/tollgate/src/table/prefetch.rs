//! A hint to the processor, so that a batch waits for memory once instead of once per key.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::layout::home;

/// Where a shard keeps its buckets, readable without its lock. It may be out of date at any time:
/// it is only ever used to guess.
#[derive(Debug, Default)]
pub(super) struct Hint {
    address: AtomicUsize,
    buckets: AtomicUsize,
    bucket_bytes: AtomicUsize,
}

impl Hint {
    pub(super) fn set(&self, (address, bucket_bytes): (usize, usize), buckets: usize) {
        self.address.store(address, Ordering::Relaxed);
        self.bucket_bytes.store(bucket_bytes, Ordering::Relaxed);
        self.buckets.store(buckets, Ordering::Relaxed);
    }

    /// Starts to fetch the line in which this fingerprint is most likely found.
    #[inline]
    pub(super) fn fetch(&self, fingerprint: u64) {
        let bucket = home(fingerprint, self.buckets.load(Ordering::Relaxed));
        let bytes = bucket.wrapping_mul(self.bucket_bytes.load(Ordering::Relaxed));
        fetch_line(self.address.load(Ordering::Relaxed).wrapping_add(bytes));
    }
}

/// The one unsafe line of the house; `check_batch` at 10 million keys is what it is for (see
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
