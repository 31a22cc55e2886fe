//! The account of a rehearsal, in bounded memory.

use waterclock::{Decision, Policy};
use waterclock_server::decision_line::micros_up;
use waterclock_server::engine::Standing;

use super::distinct::Distinct;
use super::keys::{Fate, KeyRecord, Keys, Number};
use super::refusals::Refusals;
use super::smallest::Sample;
use crate::picture::Refusal;
use crate::stage::Turn;
use crate::timeline::Timeline;

const BINS: usize = 200;

/// One check, and what it met.
pub struct Checked<'a> {
    pub turn: &'a Turn<'a>,
    pub t_us: u64,
    pub key: &'a str,
    pub decision: &'a Decision,
}

/// Everything that is counted.
pub struct Ledger {
    pub events: u64,
    pub checks: u64,
    pub allowed: u64,
    pub in_part: u64,
    pub refused: u64,
    /// Limits in shadow would have refused, whatever the others said.
    pub in_shadow: u64,
    /// By the place of the limit in the policy.
    pub refused_by: Vec<u64>,
    pub shadow_refused_by: Vec<u64>,
    /// Refused by no limit of the policy: keys that are blocked, and those with limits of their own.
    pub blocked: u64,
    pub refused_by_own: u64,
    pub keys: Keys<KeyRecord>,
    pub timeline: Timeline,
    /// The times of the first and the last check.
    pub span_us: Option<(u64, u64)>,
    /// What was asked for, as far as it is needed to look for other numbers. `None` where what came is more
    /// than checks under the one policy.
    pub sample: Option<Sample>,
    refusals: Refusals,
    refused_keys: Distinct,
    /// Why no other numbers are looked for.
    pub no_sample: Option<&'static str>,
    policy: String,
}

impl Checked<'_> {
    pub fn is_refused(&self) -> bool {
        self.turn.policy().refuses(self.decision)
    }

    /// A refusal as it is drawn and told.
    pub fn refusal(&self) -> Refusal {
        let limits: Vec<&str> = self.turn.policy().names(self.decision.refused_by()).collect();
        Refusal {
            t_us: self.t_us,
            key: self.key.to_owned(),
            // No limit refuses who is on the list.
            by: if matches!(self.turn.standing(), Standing::Blocked) {
                "the block list".to_owned()
            } else {
                limits.join(" and ")
            },
            wait_us: self.decision.retry_after().map(micros_up),
        }
    }
}

impl Ledger {
    pub fn new(policy: &Policy) -> Ledger {
        let limits = policy.limits().len();
        Ledger {
            events: 0,
            checks: 0,
            allowed: 0,
            in_part: 0,
            refused: 0,
            in_shadow: 0,
            refused_by: vec![0; limits],
            shadow_refused_by: vec![0; limits],
            blocked: 0,
            refused_by_own: 0,
            keys: Keys::default(),
            timeline: Timeline::new(BINS),
            span_us: None,
            sample: Some(Sample::default()),
            refusals: Refusals::default(),
            refused_keys: Distinct::default(),
            no_sample: None,
            policy: policy.name().to_owned(),
        }
    }

    /// Something that is no check: it changes what is left, and so what other numbers would do.
    pub fn add_other(&mut self) {
        self.events += 1;
        self.give_up_sample("the trace has more than checks");
    }

    fn give_up_sample(&mut self, reason: &'static str) {
        (self.sample, self.no_sample) = (None, Some(reason));
    }

    pub fn add(&mut self, checked: &Checked<'_>) {
        let Checked { turn, t_us, key, decision } = *checked;
        let is_refused = checked.is_refused();
        self.events += 1;
        self.checks += 1;
        if decision.is_allowed() {
            self.allowed += 1;
        } else if !is_refused {
            self.in_part += 1;
        }
        self.timeline.add(t_us, !is_refused);
        self.span_us = Some((self.span_us.map_or(t_us, |(from, _)| from), t_us));
        // Whoever is on a list meets no limits.
        let meets_limits = matches!(turn.standing(), Standing::Limited | Standing::Override(_));
        let is_in_shadow = meets_limits && !decision.shadow_refused_by().is_empty();
        let fate = match is_refused {
            true => Fate::Refused { wait_us: decision.retry_after().map(micros_up) },
            false => Fate::Admitted,
        };
        self.in_shadow += u64::from(is_in_shadow);
        self.keys.note(key, |record| record.add(t_us, fate, is_in_shadow));
        if is_refused {
            self.refused_keys.add(key);
        }
        match &mut self.sample {
            // Whoever has rules of their own does not care for these numbers.
            Some(_) if turn.is_particular() => {}
            Some(_) if turn.policy().name() != self.policy => {
                self.give_up_sample("tiers have other numbers of the same limits");
            }
            Some(sample) => match turn.cost().plain() {
                Some(units) => sample.add(key, t_us, units),
                None => self.give_up_sample("the policy counts several units"),
            },
            None => {}
        }
        match turn.standing() {
            Standing::Limited => {
                count(&mut self.refused_by, decision.refused_by().iter());
                count(&mut self.shadow_refused_by, decision.shadow_refused_by().iter());
            }
            Standing::Blocked => self.blocked += u64::from(is_refused),
            Standing::Override(_) => self.refused_by_own += u64::from(is_refused),
            Standing::Exempt => {}
        }
        if is_refused {
            self.refused += 1;
            self.refusals.add(|| checked.refusal());
        }
    }

    /// How many keys were refused at least once.
    pub fn keys_refused(&self) -> Number {
        self.keys.number_such(&self.refused_keys, |record| record.refused > 0)
    }

    /// Some of the refusals, enough to draw them.
    pub fn some_refusals(&self) -> Vec<Refusal> {
        self.refusals.kept()
    }
}

fn count(counts: &mut [u64], places: impl Iterator<Item = usize>) {
    for place in places {
        if let Some(count) = counts.get_mut(place) {
            *count += 1;
        }
    }
}
