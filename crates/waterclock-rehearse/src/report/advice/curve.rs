//! The trade-off: what a limit refuses at each of a few dozen numbers, and of whom.

use std::collections::HashMap;

use waterclock::Limit;

use super::demand::{Amount, Demand};
use super::knob::Knob;
use super::needs::{BEYOND, on_all_cores};
use crate::report::seen::Kind;

/// What one limit refuses, alone, from its strictest number to the one that refuses nobody.
pub(in crate::report) struct Curve {
    /// The place of the policy's own number among the points.
    pub(in crate::report) current: Option<usize>,
    pub(in crate::report) clients: u64,
    pub(in crate::report) checks: u64,
    pub(in crate::report) units: u64,
    pub(in crate::report) points: Vec<Point>,
}

/// What is refused at one number.
pub(in crate::report) struct Point {
    pub(in crate::report) number: u64,
    pub(in crate::report) limit: Limit,
    pub(in crate::report) clients_refused: u64,
    pub(in crate::report) checks_refused: u64,
    pub(in crate::report) units_refused: u64,
    /// The refused clients by who they seem to be.
    pub(in crate::report) kinds: Kinds,
}

/// Clients by who they seem to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::report) struct Kinds {
    pub(in crate::report) one_agent: u64,
    pub(in crate::report) many_agents: u64,
    pub(in crate::report) unknown: u64,
}

impl Kinds {
    fn add(&mut self, kind: Option<Kind>, clients: u64) {
        let count = match kind {
            Some(Kind::OneAgent) => &mut self.one_agent,
            Some(Kind::ManyAgents) => &mut self.many_agents,
            None => &mut self.unknown,
        };
        *count = count.saturating_add(clients);
    }

    fn all(self) -> u64 {
        self.one_agent.saturating_add(self.many_agents).saturating_add(self.unknown)
    }
}

impl Curve {
    /// By playing the limit at round numbers, at these turns, and at its own. Only clients that need more are played.
    pub(super) fn new(
        demand: &Demand,
        needs: &[u64],
        knob: &Knob,
        (own, others): (Option<u64>, &[u64]),
        kinds: &HashMap<u64, Kind>,
    ) -> Curve {
        let known = || needs.iter().copied().filter(|need| *need != BEYOND);
        let (least, most) = (known().min().unwrap_or(1), known().max().unwrap_or(1));
        let mut turns = knob.round_turns(least, most);
        turns.extend(own.iter().chain(others).chain([&most]));
        turns.sort_unstable();
        turns.dedup();
        let points = on_all_cores(&turns, |turn| {
            let (limit, policy) = (knob.turned(*turn)?, knob.policy(*turn)?);
            let (mut refused, mut by_kind) = (Amount::default(), Kinds::default());
            let clients = demand.clients.iter().zip(needs).filter(|(_, need)| **need > *turn);
            for (client, _) in clients {
                refused = refused.plus(demand.refused(client, &policy), client.weight);
                by_kind.add(kinds.get(&client.key).copied(), client.weight);
            }
            let point = Point {
                number: knob.number(*turn),
                limit,
                clients_refused: by_kind.all(),
                checks_refused: refused.checks,
                units_refused: refused.units,
                kinds: by_kind,
            };
            Some((*turn, point))
        });
        let points: Vec<(u64, Point)> = points.into_iter().flatten().collect();
        let all = demand.all();
        Curve {
            current: points.iter().position(|(turn, _)| Some(*turn) == own),
            clients: demand.number(),
            checks: all.checks,
            units: all.units,
            points: points.into_iter().map(|(_, point)| point).collect(),
        }
    }

    /// A few points for a small table: where some clients are refused, spread evenly, with the current one.
    pub(in crate::report) fn some(&self, count: usize) -> Vec<&Point> {
        let is_middle = |point: &Point| point.clients_refused < self.clients;
        let from = self.points.iter().position(is_middle).unwrap_or(0).saturating_sub(1);
        let end = self.points.iter().position(|point| point.clients_refused == 0);
        let shown = end.map_or(self.points.len(), |end| end + 1).saturating_sub(from).max(1);
        let step = |place: usize| place * (shown - 1) / count.saturating_sub(1).max(1);
        let mut places: Vec<usize> = (0..count).map(|place| from + step(place)).collect();
        places.extend(self.current);
        places.sort_unstable();
        places.dedup();
        places.into_iter().filter_map(|place| self.points.get(place)).collect()
    }
}
