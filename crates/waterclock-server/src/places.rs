//! Places for connections: some are kept for each face, and a few are for strangers.
//!
//! A connection is a stranger until a request of it was let in. Strangers never take the places of known clients, and
//! never turn newcomers away: where their places are full, the one that has waited longest is closed. So silent
//! connections, however many, keep out neither clients with tokens nor health checks.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::sleep;
use waterclock_http::{AddressKey, ClientIp};

use crate::observe::Face;

const FACES: usize = Face::ALL.len();
/// One in so many places is for strangers, in equal parts for each face.
const STRANGERS: usize = 4;
/// One in so many of the other places is kept for each face; all faces share the rest.
const KEPT: usize = 2 * FACES;

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

/// The places of all faces.
pub(crate) struct Places {
    /// Strangers of one face.
    strangers: usize,
    /// Strangers of one address.
    per_address: usize,
    /// Known clients of all faces.
    known: usize,
    taken: Mutex<Taken>,
    /// The last connection has ended.
    emptied: Notify,
}

#[derive(Default)]
struct Taken {
    /// Open connections, also those that are told to close.
    open: usize,
    known: [usize; FACES],
    /// In the order in which they came.
    strangers: [BTreeMap<u64, Arc<Guest>>; FACES],
    by_address: HashMap<AddressKey, BTreeMap<u64, Face>>,
    next: u64,
}

/// The client of a connection: a stranger, or known.
pub(crate) struct Guest {
    pub(crate) peer: SocketAddr,
    places: Arc<Places>,
    face: Face,
    id: u64,
    is_known: AtomicBool,
    /// Whether it had a request since that was last asked.
    is_active: AtomicBool,
    /// `None` for trusted proxies, whose clients are many.
    address: Option<AddressKey>,
    closing: Mutex<Option<Reason>>,
    close: Notify,
}

impl Places {
    pub(crate) fn new(connections: usize, per_address: usize) -> Places {
        let strangers = (connections / STRANGERS / FACES).max(1);
        Places {
            strangers,
            per_address,
            known: connections.saturating_sub(strangers * FACES).max(1),
            taken: Mutex::default(),
            emptied: Notify::new(),
        }
    }

    /// A place for a newcomer, who is a stranger. There always is one.
    pub(crate) fn enter(self: &Arc<Self>, face: Face, peer: SocketAddr, is_proxy: bool) -> Place {
        let address = (!is_proxy).then(|| ClientIp::default().group(peer.ip()));
        let mut taken = self.taken.lock();
        let id = taken.next;
        taken.next += 1;
        taken.open += 1;
        let guest = Arc::new(Guest {
            peer,
            places: Arc::clone(self),
            face,
            id,
            is_known: AtomicBool::new(false),
            is_active: AtomicBool::new(false),
            address,
            closing: Mutex::default(),
            close: Notify::new(),
        });
        if let Some(address) = address {
            let neighbours = taken.by_address.entry(address).or_default();
            neighbours.insert(id, face);
            let oldest = neighbours.first_key_value().map(|(id, face)| (*id, *face));
            if neighbours.len() > self.per_address
                && let Some((oldest, face)) = oldest
            {
                taken.evict(face, oldest, Reason::Address);
            }
        }
        let strangers = &mut taken.strangers[face as usize];
        strangers.insert(id, Arc::clone(&guest));
        if strangers.len() > self.strangers
            && let Some((&oldest, _)) = strangers.first_key_value()
        {
            taken.evict(face, oldest, Reason::Strangers);
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
    fn evict(&mut self, face: Face, id: u64, why: Reason) {
        if let Some(guest) = self.remove(face, id) {
            *guest.closing.lock() = Some(why);
            guest.close.notify_one();
        }
    }

    /// Removes a stranger from the table.
    fn remove(&mut self, face: Face, id: u64) -> Option<Arc<Guest>> {
        let guest = self.strangers[face as usize].remove(&id)?;
        if let Some(address) = guest.address
            && let Some(neighbours) = self.by_address.get_mut(&address)
        {
            neighbours.remove(&id);
            if neighbours.is_empty() {
                self.by_address.remove(&address);
            }
        }
        Some(guest)
    }

    /// Whether one more client of a face may be known, of so many in all.
    fn has_room(&self, face: Face, known: usize) -> bool {
        let kept = known / KEPT;
        let borrowed: usize = self.known.iter().map(|known| known.saturating_sub(kept)).sum();
        self.known[face as usize] < kept || borrowed < known - kept * FACES
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
        self.is_active.store(true, Ordering::Relaxed);
        let mut taken = self.places.taken.lock();
        // One that is told to close is in the table no more.
        if taken.has_room(self.face, self.places.known)
            && taken.remove(self.face, self.id).is_some()
        {
            taken.known[self.face as usize] += 1;
            self.is_known.store(true, Ordering::Relaxed);
        }
    }

    /// A request that needs no token has arrived.
    #[inline]
    pub(crate) fn touch(&self) {
        if !self.is_known() {
            self.is_active.store(true, Ordering::Relaxed);
        }
    }

    #[inline]
    pub(crate) fn is_known(&self) -> bool {
        self.is_known.load(Ordering::Relaxed)
    }

    /// Waits until the connection must make room, or has sent no request within this time, as a stranger.
    pub(crate) async fn must_close(&self, within: Duration) -> Reason {
        let late = async {
            loop {
                sleep(within).await;
                if self.is_known() {
                    return std::future::pending().await;
                }
                if !self.is_active.swap(false, Ordering::Relaxed) {
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
        let mut taken = guest.places.taken.lock();
        taken.open -= 1;
        if guest.is_known() {
            taken.known[guest.face as usize] -= 1;
        } else {
            taken.remove(guest.face, guest.id);
        }
        if taken.open == 0 {
            guest.places.emptied.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(n: u32) -> SocketAddr {
        (std::net::Ipv4Addr::from_bits(n), 1).into()
    }

    fn is_told(place: &Place) -> Option<Reason> {
        *place.guest().closing.lock()
    }

    #[test]
    fn the_oldest_stranger_of_a_face_makes_room() {
        // 24 places: 2 for strangers of each face, 18 for others, 3 of them kept for each face.
        let places = Arc::new(Places::new(24, 100));
        let strangers: Vec<Place> =
            (0..3).map(|n| places.enter(Face::Resp, address(n), false)).collect();
        let told: Vec<_> = strangers.iter().map(is_told).collect();
        assert_eq!(told, [Some(Reason::Strangers), None, None]);
        let of_http = places.enter(Face::Http, address(9), false);
        assert_eq!(is_told(&of_http), None, "another face has places of its own");
        assert_eq!(places.open(), 4);
        drop((strangers, of_http));
        assert_eq!(places.open(), 0);
        assert!(places.taken.lock().by_address.is_empty());
    }

    #[test]
    fn an_address_makes_room_for_itself() {
        let places = Arc::new(Places::new(1_000, 2));
        let mut of_one: Vec<Place> = [Face::Http, Face::Grpc, Face::Resp]
            .map(|face| places.enter(face, address(1), false))
            .into();
        let other = places.enter(Face::Http, address(2), false);
        let proxies: Vec<Place> =
            (0..5).map(|_| places.enter(Face::Http, address(3), true)).collect();
        assert!(proxies.iter().chain([&other]).all(|place| is_told(place).is_none()));
        let told: Vec<_> = of_one.iter().map(is_told).collect();
        assert_eq!(told, [Some(Reason::Address), None, None]);
        // Known clients do not count.
        of_one.iter().for_each(|place| place.guest().confirm());
        assert!(!of_one[0].guest().is_known(), "it is told to close already");
        of_one.extend((0..2).map(|_| places.enter(Face::Http, address(1), false)));
        assert_eq!(of_one[1..].iter().filter_map(is_told).count(), 0);
    }

    #[test]
    fn a_face_keeps_its_places_from_the_others() {
        let places = Arc::new(Places::new(24, 100));
        let known = |face, many: u32| -> Vec<Place> {
            let enter = |n| {
                let place = places.enter(face, address(n), false);
                place.guest().confirm();
                place
            };
            (0..many).map(enter).collect()
        };
        let is_known =
            |places: &[Place]| places.iter().filter(|place| place.guest().is_known()).count();
        let greedy = known(Face::Resp, 13);
        assert_eq!(is_known(&greedy), 12, "18 without the 3 of each other face");
        assert_eq!(is_told(&greedy[12]), None, "served all the same, as a stranger");
        assert_eq!(is_known(&known(Face::Http, 4)), 3);
        assert_eq!(is_known(&known(Face::Grpc, 4)), 3);
        drop(greedy);
        assert_eq!(is_known(&known(Face::Grpc, 13)), 12);
    }
}
