//! What becomes of traffic under a policy: who is refused, when, by which limit, and which numbers would
//! have been enough.

mod distinct;
mod json;
mod keys;
mod ledger;
mod longest;
mod page;
mod refusals;
mod smallest;
mod table;
mod text;
mod when;

pub use self::distinct::Distinct;
pub use self::json::by_limit;
pub use self::keys::{Keys, Number, Record};
pub use self::ledger::{Checked, Ledger};
pub use self::longest::Longest;
pub use self::page::shown;
pub use self::refusals::Refusals;
pub use self::table::{Align, table};
pub use self::when::{counted, share};

use waterclock_config::PolicyConfig;

use self::smallest::{Extent, Sample, Smallest, smallest};

/// How many keys a report names.
pub const TOP: usize = 10;

/// What is to be known where there were more keys than are remembered.
pub const FORGOTTEN: &str =
    "there were too many keys to remember them all: those with few checks are counted too low";

/// Who reads a report: people are told what to change only where somebody was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    Person,
    Program,
}

/// A rehearsal that is over.
pub struct Report<'a> {
    spec: &'a PolicyConfig,
    /// What was read.
    source: &'a str,
    ledger: Ledger,
    smallest: Vec<Smallest>,
    /// Of what the smallest limits speak.
    extent: Extent,
    /// What the reader of the traffic has to say about it.
    remarks: Vec<String>,
}

impl<'a> Report<'a> {
    pub fn new(
        spec: &'a PolicyConfig,
        source: &'a str,
        mut ledger: Ledger,
        mut remarks: Vec<String>,
        reader: Reader,
    ) -> Report<'a> {
        let has_news = ledger.refused + ledger.in_shadow > 0;
        // Looking for other numbers takes longer than all the rest.
        let shows_smallest = has_news || reader == Reader::Program;
        let sample = ledger.sample.take().filter(|_| shows_smallest);
        let extent = sample.as_ref().map(Sample::extent).unwrap_or_default();
        if ledger.keys.has_forgotten() {
            remarks.push(FORGOTTEN.to_owned());
        }
        if let (Some(reason), true) = (ledger.no_sample, ledger.refused > 0) {
            remarks.push(format!("no smallest limits are looked for: {reason}"));
        }
        let smallest = sample.map(|sample| smallest(spec, sample)).unwrap_or_default();
        Report { spec, source, ledger, smallest, extent, remarks }
    }
}

impl Report<'_> {
    /// Whether there is something to tell beside how many passed.
    fn has_news(&self) -> bool {
        self.ledger.refused + self.ledger.in_shadow > 0
    }

    /// What the smallest limits leave out, if they do.
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
    use crate::stage::{Ruling, Stage};
    use crate::trace::{Event, Op};
    use std::borrow::Cow;

    /// Of how many limits other numbers were looked for, after so many checks at once under five per second.
    fn looked_for(checks: u64, reader: Reader) -> usize {
        let ruling = Ruling::new(PolicyConfig::of_shorthand("5/s").unwrap()).unwrap();
        let stage = Stage::set(&ruling).unwrap();
        let mut ledger = Ledger::new(&ruling.spec().built);
        for t_us in 0..checks {
            let (key, other_keys) = (Cow::Borrowed("k"), Cow::Borrowed(&[][..]));
            let event = Event { t_us, key, cost: None, op: Op::Check, tier: None, other_keys };
            let (turn, decision) = stage.play(&event).unwrap();
            ledger.add(&Checked { turn: &turn, t_us, key: "k", decision: &decision });
        }
        Report::new(ruling.spec(), "a test", ledger, Vec::new(), reader).smallest.len()
    }

    #[test]
    fn nothing_is_looked_for_that_nobody_will_see() {
        assert_eq!((looked_for(4, Reader::Person), looked_for(9, Reader::Person)), (0, 1));
        assert_eq!((looked_for(4, Reader::Program), looked_for(9, Reader::Program)), (1, 1));
    }
}
