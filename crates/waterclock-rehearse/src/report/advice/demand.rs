//! What clients asked for: the checks that other limits are played on.

use std::collections::HashSet;
use std::ops::Range;

use waterclock::{Policy, Timestamp};
use waterclock_core::store::{Decide as _, Logs, State};

/// The most checks that are kept.
const MOST: usize = 1_250_000;
/// Keys are kept in any case from so many checks on.
const BUSY: u64 = 1_000;

/// One check.
#[derive(Clone, Copy)]
struct Asked {
    t_us: u64,
    /// A hash of the key.
    key: u64,
    cost: u64,
}

/// How much of the traffic a sample holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::report) enum Extent {
    /// All of it.
    #[default]
    Whole,
    /// All of the busiest keys and of some others.
    SomeKeys,
    /// The same, up to some instant: even the busiest keys were too many checks.
    Beginning,
}

/// Checks in the order of time. When there are too many, every other key that is not busy is dropped, again and again;
/// the others stay whole. A dropped key that becomes busy is taken from then on.
#[derive(Default)]
pub(in crate::report) struct Sample {
    asked: Vec<Asked>,
    /// Keys that stand only for themselves.
    busy: HashSet<u64>,
    halvings: u32,
    extent: Extent,
}

impl Sample {
    /// Adds a check, by the hash of its key, with how many checks that key has had, this one included.
    pub(in crate::report) fn add(&mut self, key: u64, checks: u64, t_us: u64, cost: u64) {
        if self.extent == Extent::Beginning {
            return;
        }
        if checks >= BUSY {
            self.busy.insert(key);
        }
        if !self.takes(key) {
            return;
        }
        self.asked.push(Asked { t_us, key, cost });
        if self.asked.len() >= MOST {
            self.make_room();
        }
    }

    pub(in crate::report) fn extent(&self) -> Extent {
        self.extent
    }

    fn make_room(&mut self) {
        let of_busy = self.asked.iter().filter(|asked| self.busy.contains(&asked.key)).count();
        if of_busy > MOST / 2 {
            self.extent = Extent::Beginning;
            return;
        }
        while self.asked.len() > MOST / 2 && self.halvings < u64::BITS {
            self.halvings += 1;
            self.extent = Extent::SomeKeys;
            let mut asked = std::mem::take(&mut self.asked);
            asked.retain(|asked| self.takes(asked.key));
            self.asked = asked;
        }
    }

    fn takes(&self, key: u64) -> bool {
        key.leading_zeros() >= self.halvings || self.busy.contains(&key)
    }

    /// How many keys this one stands for: those like it that were dropped, and itself.
    fn weight(&self, key: u64) -> u64 {
        let halvings = if self.busy.contains(&key) { 0 } else { self.halvings };
        1_u64.checked_shl(halvings).unwrap_or(u64::MAX)
    }
}

/// One client and what it asks for in all.
pub(super) struct Client {
    places: Range<u32>,
    /// The hash of its key.
    pub(super) key: u64,
    /// The sum of its costs.
    total: u64,
    /// How many clients it stands for.
    pub(super) weight: u64,
}

/// A sample, sorted by client.
pub(super) struct Demand {
    asked: Vec<Asked>,
    /// The busiest first: playing them takes longest.
    pub(super) clients: Vec<Client>,
}

/// How much of something a limit refuses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Amount {
    pub(super) checks: u64,
    pub(super) units: u64,
}

impl Amount {
    /// With more, as often as the client stands for others.
    pub(super) fn plus(self, more: Amount, weight: u64) -> Amount {
        Amount {
            checks: self.checks.saturating_add(more.checks.saturating_mul(weight)),
            units: self.units.saturating_add(more.units.saturating_mul(weight)),
        }
    }
}

impl Demand {
    pub(super) fn new(mut sample: Sample) -> Demand {
        let mut asked = std::mem::take(&mut sample.asked);
        // Stable: the checks of a key stay in their order.
        asked.sort_by_key(|asked| asked.key);
        let mut clients: Vec<Client> = Vec::new();
        let mut end = 0;
        for same in asked.chunk_by(|one, other| one.key == other.key) {
            let (start, key) = (end, same[0].key);
            end += u32::try_from(same.len()).unwrap_or(u32::MAX);
            let total = same.iter().fold(0, |sum: u64, asked| sum.saturating_add(asked.cost));
            clients.push(Client { places: start..end, key, total, weight: sample.weight(key) });
        }
        clients.sort_by_key(|client| (std::cmp::Reverse(client.places.len()), client.key));
        Demand { asked, clients }
    }

    /// How much is asked for, with what was dropped.
    pub(super) fn all(&self) -> Amount {
        self.clients.iter().fold(Amount::default(), |sum, client| {
            sum.plus(
                Amount { checks: client.places.len() as u64, units: client.total },
                client.weight,
            )
        })
    }

    /// How many clients there are, with those that were dropped.
    pub(super) fn number(&self) -> u64 {
        self.clients.iter().fold(0, |sum: u64, client| sum.saturating_add(client.weight))
    }

    pub(super) fn span_us(&self) -> u64 {
        let times = || self.asked.iter().map(|asked| asked.t_us);
        times().max().unwrap_or(0) - times().min().unwrap_or(0)
    }

    /// Whether the policy never refuses this client. A client that asks for no more than `fits` in all is never refused.
    pub(super) fn suits(&self, client: &Client, policy: &Policy, fits: u64) -> bool {
        client.total <= fits || !self.play(client, policy, |_| true)
    }

    /// What the policy refuses of this client.
    pub(super) fn refused(&self, client: &Client, policy: &Policy) -> Amount {
        let mut refused = Amount::default();
        self.play(client, policy, |cost| {
            refused = refused.plus(Amount { checks: 1, units: cost }, 1);
            false
        });
        refused
    }

    /// Plays the checks of a client, and tells the cost of each that is refused, until `is_enough`; whether it was.
    fn play(
        &self,
        client: &Client,
        policy: &Policy,
        mut is_enough: impl FnMut(u64) -> bool,
    ) -> bool {
        let (mut words, mut logs, mut word) = (vec![0; policy.words()], Logs::new(), 0);
        let one_word = policy.one_word();
        for asked in &self.asked[client.places.start as usize..client.places.end as usize] {
            let (now, cost) = (Timestamp::from_micros(asked.t_us), asked.cost);
            let decision = match &one_word {
                Some(one) => one.check(&mut word, now, cost),
                None => policy.check(&mut State::new(&mut words, &mut logs), now, cost),
            };
            if policy.refuses(&decision) && is_enough(cost) {
                return true;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::keys::hash_of;
    use std::collections::HashMap;

    /// Adds checks of keys, counted as the ledger does.
    fn add_all(sample: &mut Sample, keys: impl Iterator<Item = (u64, String)>) {
        let mut counts: HashMap<u64, u64> = HashMap::new();
        for (t_us, key) in keys {
            let key = hash_of(&key);
            let checks = counts.entry(key).or_default();
            *checks += 1;
            sample.add(key, *checks, t_us, 1);
        }
    }

    #[test]
    fn too_many_checks_leave_the_busiest_and_whole_keys() {
        let mut sample = Sample::default();
        let key = |t_us: u64| match t_us % 20 {
            0 => "busy".to_owned(),
            _ => (t_us % 9_973).to_string(),
        };
        add_all(&mut sample, (0..4_000_000).map(|t_us| (t_us, key(t_us))));
        assert_eq!(sample.extent(), Extent::SomeKeys);
        assert!(sample.asked.len() < MOST);
        let demand = Demand::new(sample);
        let counts: Vec<usize> = demand.clients.iter().map(|client| client.places.len()).collect();
        assert_eq!((counts[0], demand.clients[0].weight), (200_000, 1), "the busy one is whole");
        assert!(counts.len() > 100 && counts.len() < 9_000, "{}", counts.len());
        assert!(counts.iter().all(|count| *count > 300), "and so are the others");
        // Those that are kept stand for the others.
        let (number, all) = (demand.number(), demand.all());
        assert!(number.abs_diff(9_974) < 1_000, "{number}");
        assert!(all.checks.abs_diff(4_000_000) < 400_000 && all.units == all.checks, "{all:?}");
    }

    /// Whether their hashes are in the sample or not, from the moment when they are known to be busy.
    #[test]
    fn bots_that_start_late_are_there_and_stand_for_themselves() {
        let mut sample = Sample::default();
        let visitors = (0..1_600_000_u64).map(|t_us| (t_us, (t_us % 9_973).to_string()));
        let bots = (1_600_000..1_700_000_u64).map(|t_us| (t_us, format!("bot-{}", t_us % 10)));
        add_all(&mut sample, visitors.chain(bots));
        assert_eq!(sample.extent(), Extent::SomeKeys);
        let bots: Vec<u64> = (0..10).map(|bot| hash_of(&format!("bot-{bot}"))).collect();
        let is_dropped = |key: &u64| key.leading_zeros() < sample.halvings;
        let dropped = bots.iter().filter(|key| is_dropped(key)).count();
        assert!((1..10).contains(&dropped), "some are and some are not: {dropped}");
        let demand = Demand::new(sample);
        let busiest: Vec<&Client> = demand.clients.iter().take(10).collect();
        for client in busiest {
            assert!(bots.contains(&client.key) && client.weight == 1);
            assert!([10_000, 10_001 - BUSY].contains(&(client.places.len() as u64)));
        }
    }

    #[test]
    fn one_key_that_is_too_much_is_cut_and_said_to_be() {
        let mut sample = Sample::default();
        (0..2_000_000).for_each(|t_us| sample.add(7, t_us + 1, t_us, 5_000_000_000));
        assert_eq!((sample.extent(), sample.asked.len()), (Extent::Beginning, MOST));
    }
}
