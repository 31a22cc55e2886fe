//! What becomes of traffic under a policy: who is refused, when, by which limit, and which numbers would
//! have been enough.

mod json;
mod keys;
mod ledger;
mod page;
mod refusals;
mod smallest;
mod table;
mod text;
mod when;

pub(crate) use self::keys::{Keys, Record};
pub(crate) use self::ledger::{Checked, Ledger};
pub(crate) use self::table::{Align, table};
pub(crate) use self::when::{counted, share, times_of};

use tollgate_server::config::PolicySpec;

use self::smallest::{Smallest, smallest};

/// How many keys a report names.
pub(crate) const TOP: usize = 10;

/// A rehearsal that is over.
pub(crate) struct Report<'a> {
    spec: &'a PolicySpec,
    /// What was read.
    source: &'a str,
    ledger: Ledger,
    smallest: Vec<Smallest>,
    /// Whether the smallest limits speak of all keys.
    is_whole: bool,
    /// What the reader of the traffic has to say about it.
    remarks: Vec<String>,
}

impl<'a> Report<'a> {
    pub(crate) fn new(
        spec: &'a PolicySpec,
        source: &'a str,
        mut ledger: Ledger,
        mut remarks: Vec<String>,
    ) -> Report<'a> {
        let sample = ledger.sample.take();
        let is_whole = sample.as_ref().is_some_and(|sample| sample.is_whole());
        if ledger.keys.has_forgotten() {
            remarks.push(
                "there were too many keys to remember them all: those with few checks are counted too low"
                    .to_owned(),
            );
        }
        let smallest = sample.map(|sample| smallest(spec, sample)).unwrap_or_default();
        Report { spec, source, ledger, smallest, is_whole, remarks }
    }
}
