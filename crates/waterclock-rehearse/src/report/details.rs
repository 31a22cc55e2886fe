//! What is reported about single clients beside their counts: when they came, what they asked for and with which program.

use std::collections::HashMap;

use super::keys::evict_the_lighter_half;
use super::seen::{Different, Frequent};
use crate::timeline::{SparseBins, Timeline};
use crate::trace::Event;

/// How many clients have details at a time, of up to 21 KiB each: 16 KiB are 1,000 bins of a timeline, the rest are mostly
/// paths and agents. Before there are more, the lighter half loses them: a
/// client that matters only later misses what it did before that.
const MOST: usize = 4_096;

/// The details of one client.
#[derive(Default)]
pub(super) struct Detail {
    checks: u64,
    refused: u64,
    /// Offered and refused.
    pub(super) bins: SparseBins,
    /// By the position of the limit in the policy.
    pub(super) refused_by: Vec<u64>,
    pub(super) paths: Frequent,
    pub(super) agents: Frequent,
    pub(super) different_paths: Different<32>,
    pub(super) different_agents: Different<32>,
}

/// The clients that have details, by the hashes of their keys.
#[derive(Default)]
pub(super) struct Details {
    clients: HashMap<u64, Detail>,
}

/// One check, as far as details need it.
pub(super) struct Seen<'a> {
    pub(super) event: &'a Event<'a>,
    pub(super) is_refused: bool,
    /// The positions of the limits that refused.
    pub(super) refused_by: Vec<usize>,
}

impl Details {
    /// Adds a check that the timeline has counted already.
    pub(super) fn add(&mut self, key: u64, timeline: &Timeline, seen: &Seen<'_>) {
        if self.clients.len() >= MOST && !self.clients.contains_key(&key) {
            let weight = |detail: &Detail| (detail.refused, detail.checks);
            evict_the_lighter_half(&mut self.clients, weight);
        }
        let detail = self.clients.entry(key).or_default();
        detail.checks += 1;
        detail.refused += u64::from(seen.is_refused);
        detail.bins.add(timeline, seen.event.t_us, [1, u32::from(seen.is_refused)]);
        for place in &seen.refused_by {
            detail.refused_by.resize(detail.refused_by.len().max(place + 1), 0);
            detail.refused_by[*place] += 1;
        }
        if let Some(path) = seen.event.request.path() {
            detail.paths.add(path);
            detail.different_paths.add(path);
        }
        if let Some(agent) = seen.event.request.agent() {
            detail.agents.add(agent);
            detail.different_agents.add(agent);
        }
    }

    pub(super) fn of(&self, key: u64) -> Option<&Detail> {
        self.clients.get(&key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_that_matter_keep_their_details() {
        let (mut details, mut timeline) = (Details::default(), Timeline::new(50));
        let mut add = |details: &mut Details, key: u64, is_refused: bool| {
            let event = Event::check(key, "");
            timeline.add(key, !is_refused);
            let refused_by = if is_refused { vec![1] } else { Vec::new() };
            details.add(key, &timeline, &Seen { event: &event, is_refused, refused_by });
        };
        (0..50).for_each(|_| add(&mut details, 7, true));
        for key in 0..MOST as u64 * 5 {
            add(&mut details, 1_000 + key, false);
        }
        assert!(details.clients.len() <= MOST, "{}", details.clients.len());
        assert_eq!(details.of(7).unwrap().refused_by, [0, 50]);
    }
}
