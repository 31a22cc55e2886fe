//! Reservations of a store: hold an estimate now, settle later what was used.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::time::Duration;

use waterclock_core::{Cost, Policy};

use super::{Answer, Charge, StoreError};
use crate::sync::{AtomicU64, Ordering};

/// The longest id of a reservation, in bytes.
pub const MAX_RESERVATION_ID: usize = 128;
/// The shortest time a reservation may be held for.
pub const MIN_RESERVATION_TTL: Duration = Duration::from_millis(1);
/// The longest time a reservation may be held for.
pub const MAX_RESERVATION_TTL: Duration = Duration::from_secs(86_400);
/// How long a reservation is held for by default.
const DEFAULT_TTL: Duration = Duration::from_secs(60);

/// A reservation that is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Hold<'a> {
    /// 1 to 128 printable ASCII characters without spaces, chosen by the caller: the same reservation
    /// asked for twice is made once. `None`: the store makes one of 128 random bits.
    pub id: Option<&'a str>,
    /// How long it may take to settle it, 1 ms to 24 h; after that the id is unknown. `None`: one minute,
    /// or the shortest lease of the policies' concurrency limits, which is also the longest it may be.
    pub ttl: Option<Duration>,
    /// What to hold: all of it or nothing.
    pub charges: &'a [Charge<'a>],
    /// What becomes of it if it is not settled in time.
    pub on_expiry: OnExpiry,
}

/// What becomes of a reservation that is not settled in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnExpiry {
    /// It stays charged at its estimate: the caller may have used it.
    #[default]
    Keep,
    /// It is given back, as of the instant at which its time is over.
    Release,
}

/// The answer to a [`Hold`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reserved {
    /// By what it is settled; `None` if it was refused, and nothing is held.
    pub id: Option<String>,
    /// How long it can still be settled.
    pub expires_in: Duration,
    /// The decisions, in the order of the charges; `granted` is what is held. Asked for again, their other
    /// numbers are those of the present.
    pub answers: Vec<Answer>,
}

/// How a reservation ends.
#[derive(Clone, Copy, Debug)]
pub enum Settlement<'a> {
    /// So much was used, one cost for each charge in their order: the rest is given back, or what is
    /// missing is debited.
    Commit(&'a [Cost]),
    /// Nothing was used.
    Cancel,
}

/// How a reservation was settled. Settled again, it answers the same and changes nothing, however it is
/// settled again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settled {
    /// Whether it was cancelled; else it was committed.
    pub is_cancelled: bool,
    /// What was held, in the order of the charges; charges for the same key are held together, and each
    /// says so much.
    pub held: Vec<Cost>,
    /// What was used, in the order of the charges; nothing if it was cancelled.
    pub used: Vec<Cost>,
}

impl Hold<'_> {
    /// For stores: how long to hold it under these policies, if the reservation is valid.
    pub fn checked_ttl(&self, policies: &[&Policy]) -> Result<Duration, StoreError> {
        if let Some(id) = self.id {
            check_reservation_id(id)?;
        }
        if self.charges.is_empty() {
            return Err(bad("a reservation holds nothing; give it at least one charge"));
        }
        let leased = policies.iter().filter_map(|policy| Some((policy.shortest_lease()?, policy)));
        let shortest = leased.min_by_key(|(lease, _)| *lease);
        let by_default = shortest.map_or(DEFAULT_TTL, |(lease, _)| lease.min(MAX_RESERVATION_TTL));
        let ttl = self.ttl.unwrap_or(by_default);
        if let Some((lease, policy)) = shortest
            && ttl > lease
        {
            return Err(bad(format!(
                "policy `{}` leases for {lease:?} at most, not for {ttl:?}",
                policy.name()
            )));
        }
        if (MIN_RESERVATION_TTL..=MAX_RESERVATION_TTL).contains(&ttl) {
            Ok(ttl)
        } else {
            Err(bad(format!("a reservation is held for 1ms to 24h, not for {ttl:?}")))
        }
    }
}

/// Whether an id is 1 to 128 printable ASCII characters without spaces.
pub fn check_reservation_id(id: &str) -> Result<(), StoreError> {
    let fits = (1..=MAX_RESERVATION_ID).contains(&id.len());
    if fits && id.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Ok(());
    }
    Err(bad("the id of a reservation is 1 to 128 printable ASCII characters without spaces"))
}

/// Makes reservation ids of 128 bits for callers that bring none. They cannot be guessed, and two nodes never
/// make the same: they are hashes under a key that the system chose at random.
#[derive(Debug)]
pub struct ReservationIds {
    hash: RandomState,
    made: AtomicU64,
}

impl Default for ReservationIds {
    fn default() -> Self {
        Self { hash: RandomState::new(), made: AtomicU64::new(0) }
    }
}

impl ReservationIds {
    /// An id that was not made before.
    #[must_use]
    pub fn next(&self) -> String {
        let made = self.made.fetch_add(1, Ordering::Relaxed);
        let half = |which: u64| self.hash.hash_one((made, which));
        format!("{:016x}{:016x}", half(0), half(1))
    }
}

pub(crate) fn bad(reason: impl Into<String>) -> StoreError {
    StoreError::BadReservation(reason.into())
}

/// A store that cannot hold anything says so.
pub(crate) fn not_here() -> StoreError {
    StoreError::Unfit("this store cannot hold reservations".to_owned())
}
