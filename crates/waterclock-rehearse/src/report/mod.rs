//! Reports: which keys a policy refuses, when and by which limit, and which numbers would have been enough.

mod html;
mod keys;
mod ledger;
mod page;
mod smallest;
mod text;
mod units;

pub use self::html::page;
pub use self::ledger::Ledger;

pub(crate) use self::html::{list, number, words};
pub(crate) use self::keys::{Distinct, KeyCount, Keys, Record};
pub(crate) use self::ledger::{Checked, Refusals};
pub(crate) use self::page::by_limit;
pub(crate) use self::units::{Align, LongestWait, Table, counted, share};
pub(crate) use crate::terminal::grouped;

use serde_json::json;
use waterclock_config::PolicyConfig;

use crate::Note;

use self::smallest::{Extent, Sample, Smallest, smallest};

/// How many keys a report names.
pub(crate) const TOP: usize = 10;

/// The note where there were more keys than are counted.
pub(crate) fn evicted() -> Note {
    let message =
        "there were too many keys to count them all: keys with few checks are counted too low";
    Note::new("too-many-keys", json!({}), message)
}

/// The reader of a report. For people, other limits are searched for only if a check was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// A person: text, a page or a picture.
    Person,
    /// A program: JSON.
    Program,
}

/// The report of a finished rehearsal.
pub struct Report<'a> {
    policy: &'a PolicyConfig,
    /// What was read.
    source: &'a str,
    ledger: Ledger,
    smallest: Vec<Smallest>,
    /// What the smallest limits are based on.
    extent: Extent,
    /// Notes about the traffic.
    notes: Vec<Note>,
}

impl<'a> Report<'a> {
    /// A report about a policy after the traffic of `source`. Searches for the smallest limits, which takes longer than
    /// all the rest.
    #[must_use]
    pub fn new(
        policy: &'a PolicyConfig,
        source: &'a str,
        mut ledger: Ledger,
        mut notes: Vec<Note>,
        reader: Reader,
    ) -> Report<'a> {
        let has_news = ledger.refused + ledger.in_shadow > 0;
        let shows_smallest = has_news || reader == Reader::Program;
        let sample = ledger.sample.take().filter(|_| shows_smallest);
        let extent = sample.as_ref().map(Sample::extent).unwrap_or_default();
        if ledger.keys.has_evicted() {
            notes.push(evicted());
        }
        if let (Some(reason), true) = (ledger.no_sample, ledger.refused > 0) {
            let message = format!("the smallest limits are not searched for: {reason}");
            notes.push(Note::new("no-smallest-limits", json!({}), message));
        }
        let smallest = sample.map(|sample| smallest(policy, sample)).unwrap_or_default();
        Report { policy, source, ledger, smallest, extent, notes }
    }
}

impl Report<'_> {
    /// Whether a check was refused, at least in shadow.
    fn has_news(&self) -> bool {
        self.ledger.refused + self.ledger.in_shadow > 0
    }

    /// What the smallest limits are based on, if not on all checks.
    fn extent(&self) -> &'static str {
        match self.extent {
            Extent::Whole => "",
            Extent::SomeKeys => ", by the busiest keys and some of the others",
            Extent::Beginning => {
                ", by the beginning: there are too many checks to play all of them again"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::Stage;
    use crate::trace::Event;

    /// How many limits other numbers were searched for, after so many checks at once under 5/s.
    fn searched(checks: u64, reader: Reader) -> usize {
        let policy = PolicyConfig::of_shorthand("example", "5/s").unwrap();
        let stage = Stage::new(&policy).unwrap();
        let mut ledger = Ledger::new(policy.policy());
        for t_us in 0..checks {
            let event = Event::check(t_us, "k");
            let (resolved, answer) = stage.play(&event).unwrap();
            ledger.count(&event, &resolved, &answer.decision);
        }
        Report::new(&policy, "a test", ledger, Vec::new(), reader).smallest.len()
    }

    #[test]
    fn no_search_without_a_reader() {
        assert_eq!((searched(4, Reader::Person), searched(9, Reader::Person)), (0, 1));
        assert_eq!((searched(4, Reader::Program), searched(9, Reader::Program)), (1, 1));
    }
}
