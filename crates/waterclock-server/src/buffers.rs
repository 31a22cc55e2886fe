//! One budget in bytes for what all clients have sent and the server has not answered yet.
//!
//! Each face keeps a part of it, and one address has at most an eighth on each: a client can only use up its
//! own part.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::connections::Origin;
use crate::observe::Face;

const FACES: usize = Face::ALL.len();
/// One in so many bytes is for clients that have not authenticated.
const STRANGERS: usize = 16;
/// One in so many of the other bytes is kept for each face; all faces share the rest.
const KEPT: usize = 8;
/// One address has at most one in so many bytes of a share, on each face: less on all faces than they share.
const ADDRESS_PART: usize = 8;
/// One in so many bytes of a share is for small requests: large ones, however many, do not keep them out.
const SMALL_ONES: usize = 4;
/// The longest request that is small.
pub(crate) const SMALL: usize = 4 * 1_024;
/// An address has at least so much, or half of a smaller share: the longest request, and a few small ones beside it.
const LEAST_OF_ADDRESS: usize = 1_536 * 1_024;

/// Bytes left for receive buffers that are larger than usual, and for bodies.
pub(crate) struct Buffers {
    /// Of known clients, taken first.
    shared: Share,
    kept: [Share; FACES],
    strangers: Share,
    /// Of one address on one face: its strangers, and its known clients.
    per_address: [usize; 2],
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
        let kept = self.size - part_for(in_all, self.size);
        let less = |left: usize| left.checked_sub(bytes).filter(|rest| *rest >= kept);
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }

    fn give(&self, bytes: usize) {
        if bytes > 0 {
            self.left.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    fn used(&self) -> usize {
        self.size - self.left.load(Ordering::Relaxed)
    }
}

/// How much of a share requests of this size may use.
fn part_for(request: usize, share: usize) -> usize {
    if request > SMALL { share - share / SMALL_ONES } else { share }
}

impl Buffers {
    pub(crate) fn new(bytes: usize) -> Buffers {
        let strangers = bytes / STRANGERS;
        let known = bytes - strangers;
        let kept = known / KEPT;
        Buffers {
            shared: Share::new(known - kept * FACES),
            kept: Face::ALL.map(|_| Share::new(kept)),
            strangers: Share::new(strangers),
            per_address: [strangers, known]
                .map(|share| (share / ADDRESS_PART).max(LEAST_OF_ADDRESS).min(share / 2)),
        }
    }

    /// Bytes in use.
    pub(crate) fn used(&self) -> usize {
        let kept: usize = self.kept.iter().map(Share::used).sum();
        self.shared.used() + kept + self.strangers.used()
    }

    /// Nothing yet, to be grown.
    pub(crate) fn hold(self: &Arc<Self>, face: Face, origin: Option<&Arc<Origin>>) -> Hold {
        let (buffers, origin) = (Arc::clone(self), origin.cloned());
        Hold { buffers, face, origin, first: 0, kept: 0, is_known: false }
    }
}

/// Bytes of the budget, until this is dropped.
pub(crate) struct Hold {
    buffers: Arc<Buffers>,
    face: Face,
    /// Whose they are; `None` for trusted proxies.
    origin: Option<Arc<Origin>>,
    /// Bytes of the share of strangers, or of the one that known clients take first.
    first: usize,
    /// Bytes of those kept for the face.
    kept: usize,
    /// Whose share they are of.
    is_known: bool,
}

impl Hold {
    /// Takes so many bytes more, of the share of known clients or of strangers. `false` if they are not there, or the
    /// address holds its part already.
    #[must_use]
    pub(crate) fn grow(&mut self, bytes: usize, is_known: bool) -> bool {
        let held = self.bytes();
        if self.is_known != is_known && held > 0 {
            // A stranger has authenticated: what it holds comes out of the other share now.
            let mut all = self.buffers.hold(self.face, self.origin.as_ref());
            let has_room = all.grow(held + bytes, is_known);
            if has_room {
                *self = all;
            }
            return has_room;
        }
        self.is_known = is_known;
        let in_all = held + bytes;
        if let Some(received) = self.received() {
            let most = part_for(in_all, self.buffers.per_address[usize::from(is_known)]);
            let more = |held: usize| held.checked_add(bytes).filter(|all| *all <= most);
            if received.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_err() {
                return false;
            }
        }
        if self.first_share().take(bytes, in_all) {
            self.first += bytes;
        } else if is_known && self.buffers.kept[self.face as usize].take(bytes, in_all) {
            self.kept += bytes;
        } else {
            if let Some(received) = self.received() {
                received.fetch_sub(bytes, Ordering::Relaxed);
            }
            return false;
        }
        true
    }

    /// How many bytes are held.
    pub(crate) fn bytes(&self) -> usize {
        self.first + self.kept
    }

    fn first_share(&self) -> &Share {
        if self.is_known { &self.buffers.shared } else { &self.buffers.strangers }
    }

    /// What the address holds of the same share, on the same face.
    fn received(&self) -> Option<&AtomicUsize> {
        let origin = self.origin.as_ref()?;
        Some(&origin.received[self.face as usize][usize::from(self.is_known)])
    }

    pub(crate) fn release(&mut self) {
        let (first, kept) = (self.first, self.kept);
        if first + kept == 0 {
            return;
        }
        self.first_share().give(first);
        self.buffers.kept[self.face as usize].give(kept);
        if let Some(received) = self.received() {
            received.fetch_sub(first + kept, Ordering::Relaxed);
        }
        (self.first, self.kept) = (0, 0);
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
        let hold = || buffers.hold(Face::Http, None);
        let (mut stranger, mut known) = (hold(), hold());
        assert!(stranger.grow(100, false));
        assert!(!stranger.grow(1, false), "not one byte of the others");
        // 1,500 without the 187 that each other face keeps.
        assert!(known.grow(939, true));
        assert!(known.grow(187, true), "those of its own face");
        assert!(!known.grow(1, true));
        assert_eq!(buffers.used(), 1_226);
        assert!(!stranger.grow(1, true), "authenticated, and still no room");
        let mut of_envoy = buffers.hold(Face::Grpc, None);
        assert!(of_envoy.grow(187, true), "another face keeps its own");
        assert!(!of_envoy.grow(1, true));
        known.release();
        assert!(stranger.grow(1, true));
        assert_eq!(buffers.used(), 187 + 101, "all of it in one share");
        drop((stranger, known, of_envoy));
        assert_eq!(buffers.used(), 0);
    }

    #[test]
    fn an_address_has_a_part() {
        let buffers = Arc::new(Buffers::new(64 << 20));
        let (one, other) = (Arc::new(Origin::default()), Arc::new(Origin::default()));
        let hold = |bytes: usize, origin| {
            let mut hold = buffers.hold(Face::Http, Some(origin));
            hold.grow(bytes, true).then_some(hold)
        };
        let large: Vec<Hold> = std::iter::from_fn(|| hold(64 << 10, &one)).collect();
        assert_eq!(large.len(), 90, "three quarters of an eighth of 60 MiB");
        let small: Vec<Hold> = std::iter::from_fn(|| hold(SMALL, &one)).collect();
        assert_eq!(large.len() * (64 << 10) + small.len() * SMALL, 7_680 << 10);
        assert!(hold(1 << 20, &other).is_some(), "others find room");
        drop((large, small));
        assert_eq!(one.received[0][1].load(Ordering::Relaxed), 0);
        assert_eq!(buffers.used(), 0);
    }

    #[test]
    fn large_requests_leave_room_for_small_ones() {
        let buffers = Arc::new(Buffers::new(1 << 20));
        let hold = |bytes: usize| {
            let mut hold = buffers.hold(Face::Resp, None);
            hold.grow(bytes, true).then_some(hold)
        };
        let large: Vec<Hold> = std::iter::from_fn(|| hold(SMALL + 1)).collect();
        let known = 15 << 16;
        let of = |share: usize| share / SMALL_ONES * (SMALL_ONES - 1) / (SMALL + 1);
        assert_eq!(large.len(), of(known / KEPT * (KEPT - FACES)) + of(known / KEPT));
        let mut growing = hold(SMALL).expect("small, so far");
        assert!(!growing.grow(SMALL, true), "large now");
        let small: Vec<Hold> = std::iter::from_fn(|| hold(SMALL)).collect();
        assert!(small.len() >= 40, "{}", small.len());
    }
}
