//! Places for health watches of gRPC, which may last as long as their connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::connections::Guest;

/// One in so many places is for strangers.
const STRANGERS: usize = 4;
/// One address has at most one in so many.
const ADDRESS_PART: usize = 4;

pub(crate) struct Watches {
    known: Arc<Semaphore>,
    strangers: Arc<Semaphore>,
    /// Of strangers, and of known clients.
    per_address: [usize; 2],
}

impl Watches {
    pub(crate) fn new(at_once: usize) -> Watches {
        let strangers = at_once / STRANGERS;
        let known = at_once - strangers;
        let part = |places: usize| (places / ADDRESS_PART).max(1);
        Watches {
            known: Arc::new(Semaphore::new(known)),
            strangers: Arc::new(Semaphore::new(strangers)),
            per_address: [part(strangers), part(known)],
        }
    }

    /// A place for one more watch; `None` if there is none, or the address has its part already.
    pub(crate) fn begin(&self, guest: &Arc<Guest>) -> Option<Watch> {
        let is_known = guest.is_known();
        let places = if is_known { &self.known } else { &self.strangers };
        let place = Arc::clone(places).try_acquire_owned().ok()?;
        let most = self.per_address[usize::from(is_known)];
        if let Some(origin) = guest.origin() {
            let more = |many| (many < most).then_some(many + 1);
            let relaxed = Ordering::Relaxed;
            origin.watches.fetch_update(relaxed, relaxed, more).ok()?;
        }
        guest.watches.fetch_add(1, Ordering::Relaxed);
        Some(Watch { guest: Arc::clone(guest), _place: place })
    }
}

/// One watch, until it is dropped.
pub(crate) struct Watch {
    guest: Arc<Guest>,
    _place: OwnedSemaphorePermit,
}

impl Drop for Watch {
    fn drop(&mut self) {
        let less = |many: &AtomicUsize| many.fetch_sub(1, Ordering::Relaxed);
        less(&self.guest.watches);
        self.guest.origin().map(|origin| less(&origin.watches));
    }
}
