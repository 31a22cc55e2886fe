//! A hint to the processor, so that a batch waits for memory once instead of once per key.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::layout::{LINE_BYTES, home};

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

    /// Starts to fetch the line in which this fingerprint is most likely found, and the next: where shards are well
    /// filled, one key in five to ten did not fit its own, and waiting for its memory then costs more than all of the rest.
    #[inline]
    pub(super) fn fetch(&self, fingerprint: u64) {
        // Where its bucket would be if buckets were single bytes is where it is among real ones.
        let offset = home(fingerprint, self.bytes.load(Ordering::Relaxed));
        let address = self.start.load(Ordering::Relaxed).wrapping_add(offset);
        fetch_line(address);
        fetch_line(address.wrapping_add(LINE_BYTES));
    }
}

/// Starts to fetch the line of a value.
#[inline]
pub(super) fn fetch<T>(value: &T) {
    fetch_line(std::ptr::from_ref(value).addr());
}

/// Fetches a line to write to it: a check writes to every line that it fetches, and one that came for reading only would
/// have to be asked for again where another thread has it too.
///
/// `unsafe`, like reading the counter (`clock/counter.rs`) and nothing else; `check_batch` at 10 million keys, and two
/// threads at 10,000, are what it is for (see `bench/`).
///
/// PREFETCHW is a hint: it returns nothing, changes no memory and no flags, and an address that is not mapped is ignored
/// without a fault. So any address at all, stale ones included, is sound here. Every x86-64 processor since 2006 has it or
/// takes it as a no-op. In assembly, because for `_MM_HINT_ET0` the compiler emits PREFETCHT0 unless it compiles for newer
/// processors only.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
#[allow(unsafe_code)]
fn fetch_line(address: usize) {
    unsafe {
        std::arch::asm!(
            "prefetchw [{}]",
            in(reg) address,
            options(nostack, preserves_flags, readonly)
        );
    }
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
fn fetch_line(_address: usize) {}
