//! Reservations of a store: hold an estimate now, settle later what was used.

use std::collections::hash_map::RandomState;
use std::error::Error;
use std::fmt;
use std::hash::BuildHasher;
use std::time::Duration;

use waterclock_core::{Cost, Policy};

use super::{Answer, Charge, Detail};
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
#[non_exhaustive]
pub enum OnExpiry {
    /// It stays charged at its estimate: the caller may have used it.
    #[default]
    Keep,
    /// It is given back, as of the instant at which its time is over.
    Release,
}

impl OnExpiry {
    /// The one that configuration spells like this.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Keep, Self::Release].into_iter().find(|choice| choice.name() == name)
    }

    /// As protocols spell it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Keep => "keep",
            Self::Release => "release",
        }
    }
}

/// The answer to a [`Hold`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Reserved {
    /// By what it is settled; `None` if it was refused, and nothing is held.
    pub id: Option<String>,
    /// How long it can still be settled.
    pub expires_in: Duration,
    /// The decisions, in the order of the charges; `granted` is what is held. Asked for again, their other
    /// numbers are those of the present.
    pub answers: Vec<Answer>,
}

impl Reserved {
    /// It is held for so long.
    #[must_use]
    pub fn held(id: String, expires_in: Duration, answers: Vec<Answer>) -> Self {
        Self { id: Some(id), expires_in, answers }
    }

    /// It was refused, and nothing is held.
    #[must_use]
    pub fn refused(answers: Vec<Answer>) -> Self {
        Self { id: None, expires_in: Duration::ZERO, answers }
    }
}

/// How a reservation ends. Exhaustive: it was used, or it was not.
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
#[non_exhaustive]
pub struct Settled {
    /// Whether it was cancelled; else it was committed.
    pub is_cancelled: bool,
    /// What was held, in the order of the charges; charges for the same key are held together, and each
    /// says so much.
    pub held: Vec<Cost>,
    /// What was used, in the order of the charges; nothing if it was cancelled.
    pub used: Vec<Cost>,
}

impl Settled {
    /// It was cancelled or committed; so much was held, and so much used.
    #[must_use]
    pub fn new(is_cancelled: bool, held: Vec<Cost>, used: Vec<Cost>) -> Self {
        Self { is_cancelled, held, used }
    }
}

impl Hold<'_> {
    /// For stores: how long to hold it under these policies, if the reservation is valid.
    pub fn checked_ttl(&self, policies: &[&Policy]) -> Result<Duration, BadReservation> {
        if let Some(id) = self.id {
            check_reservation_id(id)?;
        }
        if self.charges.is_empty() {
            return Err(BadReservation::Empty);
        }
        let leased = policies.iter().filter_map(|policy| Some((policy.shortest_lease()?, policy)));
        let shortest = leased.min_by_key(|(lease, _)| *lease);
        let by_default = shortest.map_or(DEFAULT_TTL, |(lease, _)| lease.min(MAX_RESERVATION_TTL));
        let ttl = self.ttl.unwrap_or(by_default);
        if let Some((lease, policy)) = shortest
            && ttl > lease
        {
            let policy = policy.name().to_owned();
            return Err(BadReservation::Lease { policy, lease, ttl });
        }
        if (MIN_RESERVATION_TTL..=MAX_RESERVATION_TTL).contains(&ttl) {
            Ok(ttl)
        } else {
            Err(BadReservation::Ttl(ttl))
        }
    }
}

/// For stores: whether there is something to hold among the costs, as the policies count them.
pub fn check_reserved_costs<'c>(
    costs: impl IntoIterator<Item = &'c Cost>,
) -> Result<(), BadReservation> {
    if costs.into_iter().all(Cost::is_zero) { Err(BadReservation::NoCost) } else { Ok(()) }
}

/// Whether an id is 1 to 128 printable ASCII characters without spaces.
pub fn check_reservation_id(id: &str) -> Result<(), BadReservation> {
    let fits = (1..=MAX_RESERVATION_ID).contains(&id.len());
    if fits && id.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Ok(());
    }
    Err(BadReservation::Id)
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

/// Why a reservation cannot be made or settled.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BadReservation {
    /// The id is not 1 to 128 printable ASCII characters without spaces.
    Id,
    /// It has no charges.
    Empty,
    /// All of its costs are 0: there is nothing to hold.
    NoCost,
    /// It would be held for less than 1 ms, or for more than 24 h.
    Ttl(Duration),
    /// It would be held for longer than a concurrency limit of the policy leases.
    Lease {
        /// The policy's name.
        policy: String,
        /// For how long the policy leases.
        lease: Duration,
        /// For how long it would be held.
        ttl: Duration,
    },
    /// The reservation with this id holds other charges.
    Taken(String),
    /// Not one cost for each charge is committed.
    Costs {
        /// The id.
        id: String,
        /// How many charges it holds.
        charges: usize,
        /// How many costs are committed.
        costs: usize,
    },
    /// Something else, which the store explains.
    Other(Detail),
}

impl fmt::Display for BadReservation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id => f.write_str(
                "the id of a reservation is 1 to 128 printable ASCII characters without spaces",
            ),
            Self::Empty => f.write_str("a reservation holds nothing; give it at least one charge"),
            Self::NoCost => f.write_str(
                "the cost of a reservation must be at least 1; use `report` for a cost that is known only afterwards",
            ),
            Self::Ttl(ttl) => write!(f, "a reservation is held for 1ms to 24h, not for {ttl:?}"),
            Self::Lease { policy, lease, ttl } => {
                write!(f, "policy `{policy}` leases for {lease:?} at most, not for {ttl:?}")
            }
            Self::Taken(id) => {
                write!(f, "reservation `{id}` holds other charges; give this one its own id")
            }
            Self::Costs { id, charges, costs } => write!(
                f,
                "reservation `{id}` holds {charges} charges, but {costs} costs are committed; give one for each"
            ),
            Self::Other(detail) => detail.fmt(f),
        }
    }
}

impl Error for BadReservation {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        if let Self::Other(detail) = self { detail.source() } else { None }
    }
}
