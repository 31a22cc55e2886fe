//! The configuration of Envoy's reference rate limit service: domains, and trees of descriptors with limits.
//!
//! It comes by xDS from a control plane or from that service's files. Both become [`Domain`]s, which are checked here and
//! put in force beside the rules of the file, decided and counted as the reference service does:
//!
//! | | |
//! |---|---|
//! | matching | at each level the exact value, else the first pattern that fits, else the key alone; never back |
//! | a limit applies | where the descriptor ends, nowhere above or below |
//! | counting | every descriptor alone, refused or not, in windows aligned to the epoch |

mod check;
mod decode;
mod hits;
mod names;
mod pushed;
mod tree;

pub(crate) use self::check::merged;
pub(crate) use self::decode::{MAX_PARTS, TYPE_URL, count_parts, decode};
pub(crate) use self::hits::{Hits, NEAR, hits_text};
pub(crate) use self::pushed::{Pushed, charge_of};

use prost_types::Struct;

pub use crate::face::grpc::proto::reference::RateLimitUnit as Unit;

/// A domain and where its descriptors begin.
#[derive(Clone, Debug, PartialEq)]
pub struct Domain {
    /// The name that requests have.
    pub name: String,
    /// The first entries of its descriptors.
    pub descriptors: Vec<Descriptor>,
}

/// One entry of a descriptor, perhaps with a limit, perhaps with more entries below.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Descriptor {
    /// The entry's key.
    pub key: String,
    /// Its value, with `*` for any text; empty for any value.
    pub value: String,
    /// What happens to descriptors that end here.
    pub limit: Option<Limit>,
    /// The entries that may follow.
    pub below: Vec<Descriptor>,
    /// Decide and report, never refuse.
    pub shadow: bool,
    /// A request is refused only if all descriptors of this kind are over.
    pub quota: bool,
    /// All values that match have one budget.
    pub shares_budget: bool,
    /// For the answer about descriptors that pass.
    pub metadata: Option<Struct>,
}

/// What happens to descriptors that end here.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Limit {
    /// Per which time.
    pub unit: Unit,
    /// How many; 0 refuses everything.
    pub requests: u32,
    /// Nothing is limited.
    pub unlimited: bool,
    /// What others call it; may be empty.
    pub name: String,
    /// Limits of other descriptors of the same request that do not apply where this one does.
    pub replaces: Vec<String>,
}

/// As the reference service has it, a month is 30 days and a year 365. `None` if the unit is unknown.
pub(crate) fn seconds(unit: Unit) -> Option<u64> {
    const DAY: u64 = 86_400;
    match unit {
        Unit::Unknown => None,
        Unit::Second => Some(1),
        Unit::Minute => Some(60),
        Unit::Hour => Some(3_600),
        Unit::Day => Some(DAY),
        Unit::Week => Some(7 * DAY),
        Unit::Month => Some(30 * DAY),
        Unit::Year => Some(365 * DAY),
    }
}
