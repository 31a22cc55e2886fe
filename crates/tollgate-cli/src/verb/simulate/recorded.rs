//! Requests as a trace or an access log has them.

use std::collections::HashMap;

use super::arrivals::{Arrival, MOST};
use crate::failure::{Failure, say};
use crate::trace::{Op, Trace};

pub(super) struct Recorded {
    /// Of keys.
    pub(super) names: Vec<String>,
    /// At least one, in the order of time.
    pub(super) arrivals: Vec<Arrival>,
}

impl Recorded {
    /// All of it: it is played once for each limit.
    pub(super) fn read(mut trace: Trace) -> Result<Recorded, Failure> {
        let mut places: HashMap<String, usize> = HashMap::new();
        let mut recorded = Recorded { names: Vec::new(), arrivals: Vec::new() };
        while let Some(event) = trace.next_event()? {
            if event.op != Op::Check {
                let sentence =
                    "only checks can be simulated; `tollgate replay` plays all of a trace";
                return Err(sentence.to_owned().into());
            }
            let key = match places.get(&*event.key) {
                Some(place) => *place,
                None => {
                    let name = event.key.clone().into_owned();
                    places.insert(name.clone(), recorded.names.len());
                    recorded.names.push(name);
                    recorded.names.len() - 1
                }
            };
            recorded.arrivals.push(Arrival { t_us: event.t_us, key, cost: event.cost });
            if recorded.arrivals.len() > MOST {
                return Err(format!(
                    "at most {MOST} requests can be simulated; `tollgate replay` takes any number"
                )
                .into());
            }
        }
        trace.remarks().iter().for_each(|remark| say(&format!("warning: {remark}")));
        if recorded.arrivals.is_empty() {
            return Err("there is no request to simulate".to_owned().into());
        }
        Ok(recorded)
    }

    /// From the first request to just after the last.
    pub(super) fn span_us(&self) -> (u64, u64) {
        let first = self.arrivals.first().map_or(0, |first| first.t_us);
        (first, self.arrivals.last().map_or(first, |last| last.t_us) + 1)
    }
}
