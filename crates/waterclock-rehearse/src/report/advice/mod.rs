//! What a limit could be: what clients need, without those that stand out, and what other numbers would refuse.
//!
//! The core itself is played at other numbers, each limit alone, client by client: they do not depend on each other. A
//! client is a key.

mod curve;
mod demand;
mod knob;
mod needs;
mod outliers;
mod words;

pub(super) use self::curve::{Curve, Point};
pub(super) use self::demand::{Extent, Sample};
pub(super) use self::words::{toml, words};

use std::collections::HashMap;
use std::time::Duration;

use waterclock::{Gcra, Limit};
use waterclock_config::{Micros, PolicyConfig};

use self::demand::{Client, Demand};
use self::knob::Knob;
use self::needs::{BEYOND, needs};
use self::outliers::first_outlier;
use super::seen::Kind;

pub(super) use self::outliers::RULE;

/// The shares of clients that advice is given for, in thousandths: 99 %, 99.9 % and all.
const THOUSANDTHS: [u64; 3] = [990, 999, 1_000];
/// The place among them of the limit to start with.
const START: usize = 1;

/// What clients need of one limit, were it the only one.
pub(super) struct Advice {
    /// The name of the limit.
    pub(super) limit: String,
    /// The number that is varied, as a configuration names it.
    pub(super) field: &'static str,
    /// How many clients are set aside.
    pub(super) outliers: u64,
    /// Of them, those that seem to be many users.
    pub(super) many_agents: u64,
    /// Of them, the one that needs most.
    pub(super) largest: Option<Largest>,
    pub(super) percentiles: Vec<Percentile>,
    /// It refuses whatever the other numbers are.
    min_interval: Option<Micros>,
    pub(super) curve: Curve,
}

/// The client that needs most.
pub(super) struct Largest {
    /// The hash of its key.
    pub(super) key: u64,
    pub(super) kind: Option<Kind>,
    /// What it needs; none if no number suits it.
    pub(super) limit: Option<Limit>,
}

/// What a share of the clients never exceeds.
pub(super) struct Percentile {
    pub(super) percent: f64,
    /// The smallest that suits them, with its number; none if no number does.
    pub(super) limit: Option<(u64, Limit)>,
}

impl Percentile {
    pub(super) fn number(&self) -> Option<u64> {
        self.limit.as_ref().map(|(number, _)| *number)
    }
}

impl Advice {
    /// The words for a limit, or why there is none.
    pub(super) fn words(&self, found: Option<&Limit>) -> String {
        found.map_or_else(|| format!("none: {}", self.no_number()), words)
    }

    /// Why no number is enough.
    pub(super) fn no_number(&self) -> String {
        match self.min_interval {
            Some(gap) => format!("its min_interval of {} alone refuses more", gap.in_words()),
            None => "even the largest refuses more".to_owned(),
        }
    }

    /// The number of the limit to start with.
    pub(super) fn start_number(&self) -> Option<u64> {
        self.percentiles.get(START)?.number()
    }

    /// The limit to start with.
    pub(super) fn start(&self) -> Option<&Limit> {
        self.percentiles.get(START)?.limit.as_ref().map(|(_, limit)| limit)
    }
}

/// For each limit of the policy whose numbers can be varied. For a policy without limits, what they could be.
pub(super) fn advice(
    policy: &PolicyConfig,
    sample: Sample,
    kinds: &HashMap<u64, Kind>,
) -> Vec<Advice> {
    let demand = Demand::new(sample);
    if demand.clients.is_empty() {
        return Vec::new();
    }
    let (mode, span_us) = (policy.policy().mode(), demand.span_us());
    let usual = if policy.limits().is_empty() { usual_limits() } else { Vec::new() };
    let knob = |limit| Knob::of(limit, mode, span_us);
    let own = policy.limits().iter().filter_map(knob).map(|knob| (knob.own(), knob));
    let knobs = own.chain(usual.iter().filter_map(knob).map(|knob| (None, knob)));
    let knobs: Vec<(Option<u64>, Knob)> = knobs.collect();
    let needed: Vec<Vec<u64>> = knobs.iter().map(|(_, knob)| needs(&demand, knob)).collect();
    // Who stands out under one limit is set aside under all: an abuser by the hour sets no limit by the second.
    let mut aside = vec![false; demand.clients.len()];
    for ((_, knob), needs) in knobs.iter().zip(&needed) {
        if let Some(first) = first_that_stands_out(&demand, knob, needs) {
            aside.iter_mut().zip(needs).for_each(|(aside, need)| *aside |= *need >= first);
        }
    }
    let each = knobs.iter().zip(&needed);
    each.map(|((own, knob), needs)| advice_for(&demand, knob, *own, (needs, &aside), kinds))
        .collect()
}

/// What the least of the clients needs that stand out; none where none does.
fn first_that_stands_out(demand: &Demand, knob: &Knob, needs: &[u64]) -> Option<u64> {
    let mut ascending: Vec<(u64, u64)> =
        needs.iter().zip(&demand.clients).map(|(need, client)| (*need, client.weight)).collect();
    ascending.sort_unstable();
    let demands: Vec<(u64, u64)> =
        ascending.iter().map(|(need, weight)| (knob.demand(*need), *weight)).collect();
    ascending.get(first_outlier(&demands)).map(|(need, _)| *need)
}

/// The limits to choose from where there are none yet.
fn usual_limits() -> Vec<Limit> {
    let times = [("per-minute", 60), ("per-second", 1), ("per-hour", 3_600)];
    let limit =
        |(name, seconds)| Some(Gcra::new(1, Duration::from_secs(seconds)).ok()?.with_name(name));
    times.into_iter().filter_map(limit).collect()
}

fn advice_for(
    demand: &Demand,
    knob: &Knob,
    own: Option<u64>,
    (needs, aside): (&[u64], &[bool]),
    kinds: &HashMap<u64, Kind>,
) -> Advice {
    let clients = || needs.iter().zip(&demand.clients).zip(aside);
    let weights = |of: &dyn Fn(&Client) -> bool| {
        let set_aside = clients().filter(|((_, client), aside)| **aside && of(client));
        set_aside.fold(0, |sum: u64, ((_, client), _)| sum.saturating_add(client.weight))
    };
    let mut others: Vec<(u64, u64)> = clients()
        .filter(|(_, aside)| !**aside)
        .map(|((need, client), _)| (*need, client.weight))
        .collect();
    others.sort_unstable();
    let all = others.iter().fold(0, |sum: u64, (_, weight)| sum.saturating_add(*weight));
    let turns = THOUSANDTHS.map(|share| need_of(share, &others, all));
    let found = |turn: u64| {
        let limit = knob.turned(turn).filter(|_| turn != BEYOND)?;
        Some((knob.number(turn), limit))
    };
    let percentiles = THOUSANDTHS
        .iter()
        .zip(turns)
        .map(|(share, turn)| Percentile { percent: *share as f64 / 10.0, limit: found(turn) });
    let set_aside = (0..needs.len()).filter(|place| aside[*place]);
    let largest = set_aside.max_by_key(|place| (needs[*place], std::cmp::Reverse(*place)));
    let largest = largest.map(|place| {
        let (need, key) = (needs[place], demand.clients[place].key);
        Largest { key, kind: kinds.get(&key).copied(), limit: found(need).map(|(_, limit)| limit) }
    });
    let played: Vec<u64> = turns.into_iter().filter(|turn| *turn != BEYOND).collect();
    let turned = knob.turned(1);
    Advice {
        limit: turned.as_ref().map(|limit| limit.name().to_owned()).unwrap_or_default(),
        field: knob.field(),
        outliers: weights(&|_| true),
        many_agents: weights(&|client| kinds.get(&client.key) == Some(&Kind::ManyAgents)),
        largest,
        percentiles: percentiles.collect(),
        min_interval: turned.and_then(|limit| limit.min_interval()).map(Micros::from),
        curve: Curve::new(demand, needs, knob, (own, &played), kinds),
    }
}

/// The smallest need that is enough for so many thousandths of the clients.
fn need_of(thousandths: u64, ascending: &[(u64, u64)], clients: u64) -> u64 {
    let wanted = (u128::from(clients) * u128::from(thousandths)).div_ceil(1_000);
    let mut reached = 0_u128;
    for (need, weight) in ascending {
        reached += u128::from(*weight);
        if reached >= wanted {
            return *need;
        }
    }
    BEYOND
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Visitors that ask for 1 to 9 at once, and one that asks for a thousand in a minute.
    fn sample() -> Sample {
        let mut sample = Sample::default();
        for client in 0..1_000 {
            (0..=client % 9).for_each(|n| sample.add(client, n + 1, client * 1_000, 1));
        }
        (0..1_000).for_each(|n| sample.add(u64::MAX, n + 1, n * 60_000, 1));
        sample
    }

    fn numbers(advice: &Advice) -> Vec<Option<u64>> {
        advice.percentiles.iter().map(Percentile::number).collect()
    }

    #[test]
    fn one_bot_does_not_set_the_limit() {
        let policy = PolicyConfig::of_shorthand("example", "5/m").unwrap();
        let kinds = HashMap::from([(u64::MAX, Kind::OneAgent)]);
        let found = advice(&policy, sample(), &kinds);
        assert_eq!(numbers(&found[0]), [Some(9), Some(9), Some(9)]);
        assert_eq!((found[0].outliers, found[0].many_agents), (1, 0));
        let largest = found[0].largest.as_ref().unwrap();
        assert_eq!((largest.key, largest.kind), (u64::MAX, Some(Kind::OneAgent)));
        assert_eq!(found[0].sentence(), "apart from one outlier, no client exceeds 9/min");
        let curve = &found[0].curve;
        assert_eq!((curve.clients, curve.checks, curve.units), (1_001, 5_996, 5_996));
        let own = &curve.points[curve.current.unwrap()];
        assert_eq!((own.number, own.clients_refused, own.kinds.one_agent), (5, 445, 1));
    }

    /// It asks for no more at once than visitors do, and by the hour for a hundred times as much.
    #[test]
    fn who_stands_out_under_one_limit_sets_no_other() {
        let limits = ["5/s", "9/1h rolling-window"].map(str::to_owned);
        let policy = crate::simulate::limits_of_words("example", &limits).unwrap();
        let mut sample = Sample::default();
        for client in 0..500 {
            (0..=client % 5).for_each(|n| sample.add(client, n + 1, client * 1_000, 1));
        }
        let scraper = |n: u64| (n / 12 * 3_000_000, n);
        (0..600).map(scraper).for_each(|(t_us, n)| sample.add(u64::MAX, n + 1, t_us, 1));
        let found = advice(&policy, sample, &HashMap::new());
        assert_eq!(found.iter().map(|advice| advice.outliers).collect::<Vec<u64>>(), [1, 1]);
        assert_eq!(found.iter().map(numbers).collect::<Vec<_>>(), [[Some(5); 3], [Some(5); 3]]);
        assert!(found.iter().all(|advice| advice.largest.as_ref().unwrap().key == u64::MAX));
    }

    #[test]
    fn without_limits_there_are_the_usual_ones() {
        let policy = crate::without_limits("api").unwrap();
        let found = advice(&policy, sample(), &HashMap::new());
        let names: Vec<&str> = found.iter().map(|advice| &*advice.limit).collect();
        assert_eq!(names, ["per-minute", "per-second", "per-hour"]);
        assert!(found.iter().all(|advice| advice.curve.current.is_none()));
        assert_eq!(numbers(&found[2]), [Some(9); 3]);
        assert!(advice(&policy, Sample::default(), &HashMap::new()).is_empty());
    }

    #[test]
    fn shares_of_clients_by_what_they_need() {
        let needs = [(1, 985), (7, 10), (20, 4), (90, 1)];
        assert_eq!(THOUSANDTHS.map(|share| need_of(share, &needs, 1_000)), [7, 20, 90]);
        assert_eq!(THOUSANDTHS.map(|share| need_of(share, &[(3, 1)], 1)), [3; 3]);
    }
}
