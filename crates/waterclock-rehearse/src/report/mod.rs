//! Reports: which clients a policy refuses, when and by which limit, and what the limits could be.

mod advice;
mod advise;
mod details;
mod headline;
mod html;
mod json;
mod keys;
mod ledger;
mod page;
mod seen;
mod suggestion;
mod text;
mod units;

pub use self::html::page;
pub use self::ledger::Ledger;

pub(crate) use self::html::{list, number, over_time, words};
pub(crate) use self::keys::{Distinct, KeyCount, Keys, Record};
pub(crate) use self::ledger::{Checked, Refusals};
pub(crate) use self::page::by_limit;
pub(crate) use self::units::{Align, LongestWait, Table, counted, share};
pub(crate) use crate::terminal::grouped;

use serde_json::json;
use waterclock_config::PolicyConfig;

use crate::Note;

use self::advice::{Advice, Extent, Sample, advice};
use self::keys::hash_of;

/// How many keys a report names.
pub(crate) const TOP: usize = 10;

/// The note where there were more keys than are counted.
pub(crate) fn evicted() -> Note {
    let message =
        "there were too many keys to count them all: keys with few checks are counted too low";
    Note::new("too-many-keys", json!({}), message)
}

/// The report of a finished rehearsal.
pub struct Report<'a> {
    policy: &'a PolicyConfig,
    /// What was read.
    source: &'a str,
    ledger: Ledger,
    /// What the limits could be.
    advice: Vec<Advice>,
    /// What the advice is based on.
    extent: Extent,
    /// Notes about the traffic.
    notes: Vec<Note>,
}

impl<'a> Report<'a> {
    /// A report about a policy after the traffic of `source`. Plays other limits, which takes longer than all the rest.
    #[must_use]
    pub fn new(
        policy: &'a PolicyConfig,
        source: &'a str,
        mut ledger: Ledger,
        mut notes: Vec<Note>,
    ) -> Report<'a> {
        if ledger.keys.has_evicted() {
            notes.push(evicted());
        }
        if let (Some(reason), true) = (ledger.no_sample, ledger.refused > 0) {
            let message = format!("there is no advice about other limits: {reason}");
            notes.push(Note::new("no-advice", json!({}), message));
        }
        let sample = ledger.sample.take();
        let extent = sample.as_ref().map(Sample::extent).unwrap_or_default();
        let kind = |(key, record): (&str, &keys::KeyRecord)| Some((hash_of(key), record.kind()?));
        let advice = sample.map(|sample| {
            let kinds = ledger.keys.iter().filter_map(kind).collect();
            advice(policy, sample, &kinds)
        });
        Report { policy, source, ledger, advice: advice.unwrap_or_default(), extent, notes }
    }

    /// What the advice is based on, if not on all checks.
    fn extent(&self) -> &'static str {
        match self.extent {
            Extent::Whole => "",
            Extent::SomeKeys => ", by the busiest clients and a sample of the others",
            Extent::Beginning => {
                ", by the beginning: there are too many checks to play all of them again"
            }
        }
    }

    /// The key of a client, if it is still known.
    fn key_of(&self, hash: u64) -> Option<&str> {
        self.ledger.keys.iter().map(|(key, _)| key).find(|key| hash_of(key) == hash)
    }
}
