//! Places for connections: some are kept for each face, and a few are for strangers.
//!
//! A connection is a stranger until a request of it was let in. Strangers never take the places of known clients, and
//! never turn newcomers away: where their places are full, the one that has been silent longest is closed. So silent
//! connections, however many, keep out neither clients with tokens nor health checks. One address has at most half of
//! the places of known clients; its other connections stay strangers.

mod silence;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::sleep;
use waterclock_http::{AddressKey, ClientIp};

use self::silence::{List, Silence};
use crate::lasting::Counts;
use crate::observe::Face;

const FACES: usize = Face::ALL.len();
/// One in so many places is for strangers, in equal parts for each face.
const STRANGERS: usize = 4;
/// One in so many of the other places is kept for each face; all faces share the rest.
const KEPT: usize = 2 * FACES;
/// One address has at most one in so many places of known clients.
const ADDRESS_PART: usize = 2;

/// Why a stranger is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// Its address has too many strangers.
    Address,
    /// Its face has too many strangers.
    Strangers,
    /// It did not authenticate in time.
    Late,
}

impl Reason {
    pub(crate) const ALL: [Reason; 3] = [Reason::Address, Reason::Strangers, Reason::Late];

    /// As a metric's label.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Reason::Address => "address",
            Reason::Strangers => "strangers",
            Reason::Late => "late",
        }
    }
}

/// The connections of all faces.
pub(crate) struct Connections {
    /// Strangers of one face.
    strangers: usize,
    /// Strangers of one address.
    per_address: usize,
    /// Known clients of all faces.
    known: usize,
    /// Numbers arrivals and requests of strangers, to tell which was last.
    events: AtomicU64,
    taken: Mutex<Taken>,
    /// The last connection has ended.
    emptied: Notify,
}

#[derive(Default)]
struct Taken {
    /// Open connections, also those that must close.
    open: usize,
    known: [usize; FACES],
    strangers: [Silence; FACES],
    origins: HashMap<AddressKey, Neighbours>,
}

/// Connections of one address.
#[derive(Default)]
struct Neighbours {
    origin: Arc<Origin>,
    open: usize,
    known: usize,
    strangers: Silence,
}

/// What the connections of one address hold of the pools that all share.
#[derive(Default)]
pub(crate) struct Origin {
    /// Bytes being received by each face: of strangers, and of known clients.
    pub(crate) received: [[AtomicUsize; 2]; FACES],
    /// Health watches, callers in line, and streams of quota.
    pub(crate) lasting: Counts,
}

/// The client of a connection: a stranger, or known.
pub(crate) struct Guest {
    pub(crate) peer: SocketAddr,
    connections: Arc<Connections>,
    face: Face,
    is_known: AtomicBool,
    /// Whether it had a request since that was last asked.
    is_active: AtomicBool,
    /// Its last event as a stranger.
    last: AtomicU64,
    /// The event under which it is in each [`List`]; changed with the table locked.
    listed: [AtomicU64; 2],
    /// Calls of gRPC's health and reflection that are open.
    pub(crate) aside: AtomicUsize,
    /// Health watches, callers in line, and streams of quota.
    pub(crate) lasting: Counts,
    /// `None` for trusted proxies, whose clients are many.
    address: Option<(AddressKey, Arc<Origin>)>,
    closing: Mutex<Option<Reason>>,
    close: Notify,
}

impl Connections {
    pub(crate) fn new(connections: usize, per_address: usize) -> Connections {
        let strangers = (connections / STRANGERS / FACES).max(1);
        Connections {
            strangers,
            per_address,
            known: connections.saturating_sub(strangers * FACES).max(1),
            events: AtomicU64::new(0),
            taken: Mutex::default(),
            emptied: Notify::new(),
        }
    }

    fn next_event(&self) -> u64 {
        self.events.fetch_add(1, Ordering::Relaxed)
    }

    /// A place for a newcomer, who is a stranger. There always is one.
    pub(crate) fn enter(self: &Arc<Self>, face: Face, peer: SocketAddr, is_proxy: bool) -> Place {
        let address = (!is_proxy).then(|| ClientIp::default().group(peer.ip()));
        let mut taken = self.taken.lock();
        let event = self.next_event();
        taken.open += 1;
        let origin = address.map(|address| {
            let neighbours = taken.origins.entry(address).or_default();
            neighbours.open += 1;
            (address, Arc::clone(&neighbours.origin))
        });
        let guest = Arc::new(Guest {
            peer,
            connections: Arc::clone(self),
            face,
            is_known: AtomicBool::new(false),
            is_active: AtomicBool::new(false),
            last: AtomicU64::new(event),
            listed: [AtomicU64::new(event), AtomicU64::new(event)],
            aside: AtomicUsize::new(0),
            lasting: Counts::default(),
            address: origin,
            closing: Mutex::default(),
            close: Notify::new(),
        });
        let neighbours = address.and_then(|address| taken.origins.get_mut(&address));
        let excess = neighbours.and_then(|neighbours| {
            neighbours.strangers.insert(List::Address, event, Arc::clone(&guest));
            neighbours.strangers.excess(List::Address, self.per_address)
        });
        taken.strangers[face as usize].insert(List::Face, event, Arc::clone(&guest));
        if let Some(excess) = excess {
            taken.evict(&excess, Reason::Address);
        }
        if let Some(excess) = taken.strangers[face as usize].excess(List::Face, self.strangers) {
            taken.evict(&excess, Reason::Strangers);
        }
        Place(guest)
    }

    /// How many connections are open.
    pub(crate) fn open(&self) -> usize {
        self.taken.lock().open
    }

    /// Waits until no connection is open.
    pub(crate) async fn empty(&self) {
        loop {
            let emptied = self.emptied.notified();
            if self.open() == 0 {
                return;
            }
            emptied.await;
        }
    }
}

impl Taken {
    fn evict(&mut self, guest: &Guest, why: Reason) {
        if self.remove(guest) {
            *guest.closing.lock() = Some(why);
            guest.close.notify_one();
        }
    }

    /// Removes a stranger from both lists. Whether it was there.
    fn remove(&mut self, guest: &Guest) -> bool {
        if let Some(neighbours) = self.neighbours_of(guest) {
            neighbours.strangers.remove(List::Address, guest);
        }
        self.strangers[guest.face as usize].remove(List::Face, guest).is_some()
    }

    fn neighbours_of(&mut self, guest: &Guest) -> Option<&mut Neighbours> {
        self.origins.get_mut(&guest.address.as_ref()?.0)
    }

    /// Whether one more client of a face may be known, of so many in all.
    fn has_room(&mut self, guest: &Guest, known: usize) -> bool {
        let kept = known / KEPT;
        let borrowed: usize = self.known.iter().map(|known| known.saturating_sub(kept)).sum();
        let of_face = self.known[guest.face as usize] < kept || borrowed < known - kept * FACES;
        let most = (known / ADDRESS_PART).max(1);
        of_face && self.neighbours_of(guest).is_none_or(|neighbours| neighbours.known < most)
    }
}

impl Guest {
    /// A request was let in: the client is known from now on, unless there are too many of them. Then it is served like
    /// any other, and stays a stranger.
    #[inline]
    pub(crate) fn confirm(&self) {
        if !self.is_known() {
            self.become_known();
        }
    }

    #[cold]
    fn become_known(&self) {
        self.touch();
        let mut taken = self.connections.taken.lock();
        // An evicted connection is no longer in the lists.
        if taken.has_room(self, self.connections.known) && taken.remove(self) {
            taken.known[self.face as usize] += 1;
            if let Some(neighbours) = taken.neighbours_of(self) {
                neighbours.known += 1;
            }
            self.is_known.store(true, Ordering::Relaxed);
        }
    }

    /// A request that needs no token has arrived, or one whose token is not known.
    #[inline]
    pub(crate) fn touch(&self) {
        if !self.is_known() {
            self.is_active.store(true, Ordering::Relaxed);
            self.last.store(self.connections.next_event(), Ordering::Relaxed);
        }
    }

    #[inline]
    pub(crate) fn is_known(&self) -> bool {
        self.is_known.load(Ordering::Relaxed)
    }

    /// What the address of the client holds; `None` for a trusted proxy.
    #[inline]
    pub(crate) fn origin(&self) -> Option<&Arc<Origin>> {
        self.address.as_ref().map(|(_, origin)| origin)
    }

    /// Waits until the connection must make room, or has sent no request within this time, as a stranger. One that
    /// watches the server's health or waits in line may be silent.
    pub(crate) async fn must_close(&self, within: Duration) -> Reason {
        let late = async {
            loop {
                sleep(within).await;
                if self.is_known() {
                    return std::future::pending().await;
                }
                if !self.is_active.swap(false, Ordering::Relaxed) && !self.lasting.any() {
                    return;
                }
            }
        };
        tokio::select! {
            () = self.close.notified() => {
                self.closing.lock().unwrap_or(Reason::Strangers)
            }
            () = late => Reason::Late,
        }
    }
}

/// The place of one connection, until it is dropped.
pub(crate) struct Place(Arc<Guest>);

impl Place {
    pub(crate) fn guest(&self) -> &Arc<Guest> {
        &self.0
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Place(guest) = self;
        let mut taken = guest.connections.taken.lock();
        taken.open -= 1;
        let is_known = guest.is_known();
        if is_known {
            taken.known[guest.face as usize] -= 1;
        } else {
            taken.remove(guest);
        }
        if let Some((address, _)) = &guest.address
            && let Some(neighbours) = taken.origins.get_mut(address)
        {
            neighbours.open -= 1;
            neighbours.known -= usize::from(is_known);
            if neighbours.open == 0 {
                taken.origins.remove(address);
            }
        }
        if taken.open == 0 {
            guest.connections.emptied.notify_waiters();
        }
    }
}
