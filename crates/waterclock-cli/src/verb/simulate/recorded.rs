//! Requests as a trace or an access log has them.

use std::collections::HashMap;

use super::arrivals::{Arrival, MOST};
use super::callers::Callers;
use crate::failure::{Failure, say};
use crate::trace::{Op, Trace};

#[derive(Default)]
pub(super) struct Recorded {
    /// As each kind of key tells them apart.
    pub(super) callers: Vec<Callers>,
    pub(super) tiers: Names,
    /// At least one, in the order of time.
    pub(super) arrivals: Vec<Arrival>,
}

impl Recorded {
    /// All of it, with so many kinds of keys: it is played once for each limit.
    pub(super) fn read(mut trace: Trace, kinds: usize) -> Result<Recorded, Failure> {
        let mut recorded = Recorded::default();
        let mut keys: Vec<(Names, Vec<usize>)> = Vec::new();
        keys.resize_with(kinds, Default::default);
        while let Some(event) = trace.next_event()? {
            if event.op != Op::Check {
                let sentence =
                    "only checks can be simulated; `waterclock replay` plays all of a trace";
                return Err(sentence.to_owned().into());
            }
            for (kind, (names, places)) in keys.iter_mut().enumerate() {
                places.push(names.place(&event.under(kind).key));
            }
            let tier = event.tier.as_deref().map(|tier| recorded.tiers.place(tier));
            recorded.arrivals.push(Arrival { t_us: event.t_us, cost: event.cost.clone(), tier });
            if recorded.arrivals.len() > MOST {
                return Err(format!(
                    "at most {MOST} requests can be simulated; `waterclock replay` takes any number"
                )
                .into());
            }
        }
        trace.remarks().iter().for_each(|remark| say(&format!("warning: {remark}")));
        if recorded.arrivals.is_empty() {
            return Err("there is no request to simulate".to_owned().into());
        }
        recorded.callers =
            keys.into_iter().map(|(names, places)| Callers::recorded(names, places)).collect();
        Ok(recorded)
    }

    /// From the first request to just after the last.
    pub(super) fn span_us(&self) -> (u64, u64) {
        let first = self.arrivals.first().map_or(0, |first| first.t_us);
        (first, self.arrivals.last().map_or(first, |last| last.t_us) + 1)
    }
}

/// Names that are written once.
#[derive(Default)]
pub(super) struct Names {
    pub(super) names: Vec<String>,
    places: HashMap<String, usize>,
}

impl Names {
    fn place(&mut self, name: &str) -> usize {
        if let Some(place) = self.places.get(name) {
            return *place;
        }
        self.places.insert(name.to_owned(), self.names.len());
        self.names.push(name.to_owned());
        self.names.len() - 1
    }
}
