//! The smallest turn of a limit that never refuses a client.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use waterclock::Policy;

use super::demand::{Client, Demand};
use super::knob::Knob;

/// What a client needs whom no number suits: its cost is too large, or a `min_interval` refuses it.
pub(super) const BEYOND: u64 = u64::MAX;

/// How many clients a thread takes at a time.
const CHUNK: usize = 64;
/// How many policies a thread keeps ready.
const MOST_READY: usize = 1_024;

/// What each client needs, in the order of the demand.
pub(super) fn needs(demand: &Demand, knob: &Knob) -> Vec<u64> {
    let chunks: Vec<&[Client]> = demand.clients.chunks(CHUNK).collect();
    let found = on_all_cores(&chunks, |clients| {
        let mut search = Search { demand, knob, ready: HashMap::new() };
        clients.iter().map(|client| search.need(client)).collect::<Vec<u64>>()
    });
    found.into_iter().flatten().collect()
}

/// Does something with each item, on as many threads as there are cores; the results in their order.
pub(super) fn on_all_cores<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from).min(items.len());
    let next = AtomicUsize::new(0);
    let take_turns = || {
        let places = std::iter::repeat_with(|| next.fetch_add(1, Ordering::Relaxed));
        let items = places.map_while(|place| Some((place, items.get(place)?)));
        items.map(|(place, item)| (place, work(item))).collect::<Vec<(usize, R)>>()
    };
    let mut done = std::thread::scope(|scope| {
        let others: Vec<_> = (1..cores).map(|_| scope.spawn(take_turns)).collect();
        let mut done = take_turns();
        for other in others {
            match other.join() {
                Ok(more) => done.extend(more),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        done
    });
    done.sort_by_key(|(place, _)| *place);
    done.into_iter().map(|(_, result)| result).collect()
}

struct Search<'a> {
    demand: &'a Demand,
    knob: &'a Knob,
    /// Policies by their turns, with what they never refuse; none where the limit cannot be turned so far.
    ready: HashMap<u64, Option<(Policy, u64)>>,
}

impl Search<'_> {
    fn need(&mut self, client: &Client) -> u64 {
        // Twice as far until it suffices, then halfway until it is exact.
        let (mut too_little, mut enough) = (0, 1);
        while !self.suits(client, enough) {
            if enough >= self.knob.most {
                return BEYOND;
            }
            (too_little, enough) = (enough, enough.saturating_mul(2).min(self.knob.most));
        }
        while enough - too_little > 1 {
            let middle = too_little + (enough - too_little) / 2;
            if self.suits(client, middle) { enough = middle } else { too_little = middle }
        }
        enough
    }

    fn suits(&mut self, client: &Client, turn: u64) -> bool {
        if self.ready.len() >= MOST_READY {
            self.ready.clear();
        }
        let (demand, knob) = (self.demand, self.knob);
        let policy = self.ready.entry(turn).or_insert_with(|| {
            let fits = knob.turned(turn)?.never_refuses();
            Some((knob.policy(turn)?, fits))
        });
        policy.as_ref().is_some_and(|(policy, fits)| demand.suits(client, policy, *fits))
    }
}
