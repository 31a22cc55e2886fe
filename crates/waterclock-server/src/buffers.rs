//! One budget in bytes for what all clients have sent and the server has not answered yet.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// One in so many bytes is for clients that have not authenticated.
const STRANGERS: usize = 16;
/// One in so many bytes of a share is for small requests: large ones, however many, do not keep them out.
const SMALL_ONES: usize = 4;
/// The longest request that is small.
const SMALL: usize = 4 * 1_024;

/// Bytes left for receive buffers that are larger than usual, and for bodies.
pub(crate) struct Buffers {
    known: Share,
    strangers: Share,
}

struct Share {
    size: usize,
    left: AtomicUsize,
}

impl Share {
    fn new(size: usize) -> Share {
        Share { size, left: AtomicUsize::new(size) }
    }

    /// Takes bytes for a request that has so many in all.
    fn take(&self, bytes: usize, in_all: usize) -> bool {
        let kept = if in_all > SMALL { self.size / SMALL_ONES } else { 0 };
        let less = |left: usize| left.checked_sub(bytes).filter(|rest| *rest >= kept);
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }

    fn used(&self) -> usize {
        self.size - self.left.load(Ordering::Relaxed)
    }
}

impl Buffers {
    pub(crate) fn new(bytes: usize) -> Buffers {
        let strangers = bytes / STRANGERS;
        Buffers { known: Share::new(bytes - strangers), strangers: Share::new(strangers) }
    }

    /// Bytes in use.
    pub(crate) fn used(&self) -> usize {
        self.known.used() + self.strangers.used()
    }

    fn share(&self, is_known: bool) -> &Share {
        if is_known { &self.known } else { &self.strangers }
    }

    /// Nothing yet, to be grown.
    pub(crate) fn hold(self: &Arc<Self>) -> Hold {
        Hold { buffers: Arc::clone(self), bytes: 0, is_known: false }
    }
}

/// Bytes of the budget, until this is dropped.
pub(crate) struct Hold {
    buffers: Arc<Buffers>,
    bytes: usize,
    /// Whose share they are of.
    is_known: bool,
}

impl Hold {
    /// Takes so many bytes more, of the share of known clients or of strangers. `false` if they are not there.
    #[must_use]
    pub(crate) fn grow(&mut self, bytes: usize, is_known: bool) -> bool {
        let in_all = self.bytes + bytes;
        // A stranger has authenticated: what it holds comes out of the other share now.
        let moves = self.is_known != is_known && self.bytes > 0;
        if !self.buffers.share(is_known).take(if moves { in_all } else { bytes }, in_all) {
            return false;
        }
        if moves {
            self.release();
        }
        (self.bytes, self.is_known) = (in_all, is_known);
        true
    }

    pub(crate) fn release(&mut self) {
        if self.bytes > 0 {
            self.buffers.share(self.is_known).left.fetch_add(self.bytes, Ordering::Relaxed);
            self.bytes = 0;
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.release();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_have_a_share() {
        let buffers = Arc::new(Buffers::new(1_600));
        let (mut stranger, mut known) = (buffers.hold(), buffers.hold());
        assert!(stranger.grow(100, false));
        assert!(!stranger.grow(1, false), "not one byte of the others");
        assert!(known.grow(1_400, true));
        assert!(!known.grow(101, true));
        assert!(known.grow(100, true));
        assert_eq!(buffers.used(), 1_600);
        assert!(!stranger.grow(1, true), "authenticated, and still no room");
        known.release();
        assert!(stranger.grow(1, true));
        assert_eq!(buffers.used(), 101, "all of it in one share");
        drop((stranger, known));
        assert_eq!(buffers.used(), 0);
    }

    #[test]
    fn large_requests_leave_room_for_small_ones() {
        let buffers = Arc::new(Buffers::new(1 << 20));
        let hold = |bytes: usize| {
            let mut hold = buffers.hold();
            hold.grow(bytes, true).then_some(hold)
        };
        let large: Vec<Hold> = std::iter::from_fn(|| hold(SMALL + 1)).collect();
        assert_eq!(large.len(), (15 << 16) / SMALL_ONES * (SMALL_ONES - 1) / (SMALL + 1));
        let mut growing = hold(SMALL).expect("small, so far");
        assert!(!growing.grow(1, true), "large by one byte");
        let small: Vec<Hold> = std::iter::from_fn(|| hold(SMALL)).collect();
        assert!(small.len() >= 50, "{}", small.len());
    }
}
