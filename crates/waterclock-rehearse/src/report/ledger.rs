//! The counts of a rehearsal, in bounded memory.

use fastrand::Rng;
use waterclock::{Action, Decision, LimitSet, Origin, Policy};
use waterclock_config::micros_up;

use super::advice::Sample;
use super::details::{Details, Seen};
use super::keys::{Distinct, KeyCount, KeyRecord, Keys, Verdict, hash_of};
use crate::picture::Refusal;
use crate::stage::Resolved;
use crate::timeline::{SparseBins, Timeline};
use crate::trace::{Event, Op};

/// Enough to zoom in.
const BINS: usize = 1_000;

/// One check and its decision.
pub(crate) struct Checked<'a> {
    pub(crate) resolved: &'a Resolved<'a>,
    pub(crate) t_us: u64,
    pub(crate) key: &'a str,
    pub(crate) decision: &'a Decision,
}

/// Everything that a report needs, counted event by event.
pub struct Ledger {
    pub(super) events: u64,
    pub(super) checks: u64,
    pub(super) allowed: u64,
    pub(super) in_part: u64,
    pub(super) refused: u64,
    /// Shadow limits would have refused, whatever the others decided.
    pub(super) in_shadow: u64,
    /// By the position of the limit in the policy.
    pub(super) refused_by: Vec<u64>,
    pub(super) shadow_refused_by: Vec<u64>,
    /// Refused by no limit of the policy: blocked keys, and keys with custom limits.
    pub(super) blocked: u64,
    pub(super) refused_by_custom: u64,
    pub(super) keys: Keys<KeyRecord>,
    pub(super) timeline: Timeline,
    /// Refused and shadow-refused over time, by the position of the limit in the policy.
    pub(super) bins_by: Vec<SparseBins>,
    pub(super) details: Details,
    /// The times of the first and the last check.
    pub(super) span_us: Option<(u64, u64)>,
    /// The checks, as far as they are needed to search for other numbers. `None` where there is more than checks under
    /// one policy.
    pub(super) sample: Option<Sample>,
    refusals: Refusals,
    refused_keys: Distinct,
    /// Why there is no sample.
    pub(super) no_sample: Option<&'static str>,
}

impl Checked<'_> {
    pub(crate) fn is_refused(&self) -> bool {
        self.resolved.policy().refuses(self.decision)
    }

    /// The refusal, to be drawn and listed.
    pub(crate) fn refusal(&self) -> Refusal {
        let limits: Vec<&str> = self.resolved.policy().names(self.decision.refused_by()).collect();
        Refusal {
            t_us: self.t_us,
            key: self.key.to_owned(),
            by: if self.resolved.resolution().action == Action::Block {
                "the block list".to_owned()
            } else {
                limits.join(" and ")
            },
            wait_us: self.decision.retry_after().map(micros_up),
        }
    }
}

impl Ledger {
    /// Empty counts for a policy.
    #[must_use]
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
            refused_by_custom: 0,
            keys: Keys::default(),
            timeline: Timeline::new(BINS),
            bins_by: vec![SparseBins::default(); limits],
            details: Details::default(),
            span_us: None,
            sample: Some(Sample::default()),
            refusals: Refusals::default(),
            refused_keys: Distinct::default(),
            no_sample: None,
        }
    }

    /// Counts an event. What is not a check changes what is left, so the sample cannot be played again.
    pub fn count(&mut self, event: &Event<'_>, resolved: &Resolved<'_>, decision: &Decision) {
        if event.op == Op::Check {
            self.add(event, &Checked { resolved, t_us: event.t_us, key: &event.key, decision });
        } else {
            self.events += 1;
            self.give_up_sample("the trace has more than checks");
        }
    }

    fn give_up_sample(&mut self, reason: &'static str) {
        (self.sample, self.no_sample) = (None, Some(reason));
    }

    fn add(&mut self, event: &Event<'_>, checked: &Checked<'_>) {
        let Checked { resolved, t_us, key, decision } = *checked;
        let resolution = resolved.resolution();
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
        let is_listed = matches!(resolution.action, Action::Block | Action::Exempt);
        let is_in_shadow = !is_listed && !decision.shadow_refused_by().is_empty();
        let verdict = match is_refused {
            true => Verdict::Refused { wait_us: decision.retry_after().map(micros_up) },
            false => Verdict::Allowed,
        };
        self.in_shadow += u64::from(is_in_shadow);
        let checks = self.keys.note(key, |record| {
            record.add(t_us, verdict, is_in_shadow);
            event.request.agent().iter().for_each(|agent| record.agents.add(agent));
            record.checks
        });
        let hash = hash_of(key);
        if is_refused {
            self.refused_keys.add(key);
        }
        match &mut self.sample {
            // The policy's numbers do not apply to it.
            Some(_) if resolved.is_by_key() => {}
            Some(_) if resolution.origin == Origin::Tier => {
                self.give_up_sample("tiers have other numbers of the same limits");
            }
            Some(_) if resolution.factor.is_some() => {
                self.give_up_sample("factors give the same limits other numbers");
            }
            Some(sample) => match resolved.cost().plain() {
                Some(units) => sample.add(hash, checks, t_us, units),
                None => self.give_up_sample("the policy counts several units"),
            },
            None => {}
        }
        let mut refused_by = Vec::new();
        match resolution.action {
            Action::Block => self.blocked += u64::from(is_refused),
            Action::Exempt => {}
            _ if resolved.is_by_key() => self.refused_by_custom += u64::from(is_refused),
            _ => {
                refused_by.extend(decision.refused_by().iter());
                count(&mut self.refused_by, decision.refused_by().iter());
                count(&mut self.shadow_refused_by, decision.shadow_refused_by().iter());
                let limits = self.bins_by.iter_mut().enumerate();
                for (place, bins) in limits {
                    let is = |set: LimitSet| u32::from(set.iter().any(|limit| limit == place));
                    let more = [is(decision.refused_by()), is(decision.shadow_refused_by())];
                    if more != [0, 0] {
                        bins.add(&self.timeline, t_us, more);
                    }
                }
            }
        }
        self.details.add(hash, &self.timeline, &Seen { event, is_refused, refused_by });
        if is_refused {
            self.refused += 1;
            self.refusals.add(|| checked.refusal());
        }
    }

    /// How many keys were refused at least once.
    pub(crate) fn keys_refused(&self) -> KeyCount {
        self.keys.number_matching(&self.refused_keys, |record| record.refused > 0)
    }

    /// Some of the refusals, enough to draw them.
    pub(crate) fn some_refusals(&self) -> Vec<Refusal> {
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

const MOST_REFUSALS: usize = 4_000;

/// Some of the refusals, each as likely to be kept as any other: enough to draw them.
pub(crate) struct Refusals {
    kept: Vec<Refusal>,
    seen: u64,
    random: Rng,
}

impl Default for Refusals {
    fn default() -> Refusals {
        // The same traffic gives the same picture.
        Refusals { kept: Vec::new(), seen: 0, random: Rng::with_seed(0) }
    }
}

impl Refusals {
    /// The refusal is built only if it is kept.
    pub(crate) fn add(&mut self, refusal: impl FnOnce() -> Refusal) {
        self.seen += 1;
        if self.kept.len() < MOST_REFUSALS {
            self.kept.push(refusal());
            return;
        }
        let place = usize::try_from(self.random.u64(..self.seen)).unwrap_or(usize::MAX);
        if let Some(kept) = self.kept.get_mut(place) {
            *kept = refusal();
        }
    }

    /// Those that are kept, in the order of time.
    pub(crate) fn kept(&self) -> Vec<Refusal> {
        let mut kept = self.kept.clone();
        kept.sort_by_key(|refusal| refusal.t_us);
        kept
    }
}
