//! Places for what may last as long as its connection: health watches of gRPC, callers in line, streams of quota.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::connections::Guest;

/// One in so many places is for strangers.
const STRANGERS: usize = 4;
/// One address has at most one in so many.
const ADDRESS_PART: usize = 4;

/// What lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Watch,
    Wait,
    Quota,
}

/// How many of each kind a connection or an address has.
#[derive(Default)]
pub(crate) struct Counts([AtomicUsize; 3]);

impl Counts {
    /// Whether there is any, of whatever kind.
    pub(crate) fn any(&self) -> bool {
        self.0.iter().any(|many| many.load(Ordering::Relaxed) > 0)
    }

    /// One more, unless there are so many already.
    fn take(&self, kind: Kind, most: usize) -> bool {
        let more = |many| (many < most).then_some(many + 1);
        self.0[kind as usize].fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    fn give(&self, kind: Kind) {
        self.0[kind as usize].fetch_sub(1, Ordering::Relaxed);
    }
}

/// The places of one kind.
pub(crate) struct Lasting {
    kind: Kind,
    known: Arc<Semaphore>,
    strangers: Arc<Semaphore>,
    /// Of strangers, and of known clients.
    per_address: [usize; 2],
    per_connection: usize,
}

impl Lasting {
    pub(crate) fn new(kind: Kind, at_once: usize, per_connection: usize) -> Lasting {
        let strangers = at_once / STRANGERS;
        let known = at_once - strangers;
        let part = |places: usize| (places / ADDRESS_PART).max(1);
        Lasting {
            kind,
            known: Arc::new(Semaphore::new(known)),
            strangers: Arc::new(Semaphore::new(strangers)),
            per_address: [part(strangers), part(known)],
            per_connection,
        }
    }

    /// One more place; `None` if there is none, or the connection or its address has its part already.
    pub(crate) fn begin(&self, guest: &Arc<Guest>) -> Option<LastingPlace> {
        let is_known = guest.is_known();
        let places = if is_known { &self.known } else { &self.strangers };
        let place = Arc::clone(places).try_acquire_owned().ok()?;
        if !guest.lasting.take(self.kind, self.per_connection) {
            return None;
        }
        let most = self.per_address[usize::from(is_known)];
        if !guest.origin().is_none_or(|origin| origin.lasting.take(self.kind, most)) {
            guest.lasting.give(self.kind);
            return None;
        }
        Some(LastingPlace { kind: self.kind, guest: Arc::clone(guest), _place: place })
    }
}

/// One place, until it is dropped.
pub(crate) struct LastingPlace {
    kind: Kind,
    guest: Arc<Guest>,
    _place: OwnedSemaphorePermit,
}

impl Drop for LastingPlace {
    fn drop(&mut self) {
        self.guest.lasting.give(self.kind);
        if let Some(origin) = self.guest.origin() {
            origin.lasting.give(self.kind);
        }
    }
}
