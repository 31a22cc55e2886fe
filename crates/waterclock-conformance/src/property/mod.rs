//! The properties that every algorithm and every store must have, and the judge that checks them on random cases.
//!
//! A property takes a case and returns whether it held, did not apply, or why it failed. P12 is about parallel callers,
//! which a trace cannot express: it has its own tests in the `waterclock` crate.

mod bound;
pub mod eviction;
mod numbers;
mod same_answers;

use crate::Family;
use crate::case::{Case, Event};
use crate::reference::{Algorithm, Answer, PolicySpec, Verb};
use crate::subject::Subject;

/// `Ok(true)`: it holds. `Ok(false)`: it does not apply to the case. `Err`: why it fails.
pub type PropertyResult = Result<bool, String>;

/// A statement about a subject.
pub struct Property<S> {
    /// Its name.
    pub name: &'static str,
    /// Whether it holds for a case, given the answers to its trace.
    pub holds: fn(&S, &Case, &[Answer]) -> PropertyResult,
}

impl<S> Property<S> {
    /// Whether the property must apply to at least one case of the family. Not P8 where a batch is one event, P11 only
    /// for leaky buckets with drip 1, and not P13 where there is no bound of its own.
    pub(crate) fn applies(&self, family: Family) -> bool {
        match self.name {
            "P8 split" => {
                !matches!(family, Family::EvenSlots | Family::MinInterval | Family::ErrorRate)
            }
            "P10 epoch shift" => family != Family::FixedCalendar,
            "P11 equivalence" => family == Family::LeakyOneByOne,
            "P13 bound" => !matches!(family, Family::Several | Family::ErrorRate),
            _ => true,
        }
    }
}

/// All of them.
pub fn all<S: Subject>() -> Vec<Property<S>> {
    let property = |name, holds| Property { name, holds };
    vec![
        property("P1 honour", numbers::honour as fn(&S, &Case, &[Answer]) -> PropertyResult),
        property("P2 tight", numbers::tight),
        property("next same", numbers::next_same),
        property("P3 remaining", numbers::remaining),
        property("P4 reset", numbers::reset),
        property("P5 expiry invisible", same_answers::sweeps),
        property("P6 peek pure", same_answers::peeks),
        property("P7 refusals free", same_answers::refusals),
        property("P8 split", numbers::split),
        property("P9 clock", same_answers::steps_back),
        property("P10 epoch shift", same_answers::epoch_shift),
        property("P11 equivalence", same_answers::leaky_is_gcra),
        property("P13 bound", bound::stays_within),
        property("reference", same_answers::agrees),
    ]
}

/// Panics with a minimal counterexample if a property fails on any of `cases` cases.
pub fn judge<S: Subject>(subject: &S, family: Family, properties: &[Property<S>], cases: u64) {
    if let Err(counterexample) = verdict(subject, family, properties, cases) {
        panic!("{counterexample}");
    }
}

/// Like [`judge`], but returns the counterexample. Also fails if a property applied to no case at all.
pub fn verdict<S: Subject>(
    subject: &S,
    family: Family,
    properties: &[Property<S>],
    cases: u64,
) -> Result<(), String> {
    let mut applied = vec![0_u64; properties.len()];
    for seed in 0..cases {
        let case = Case::draw(family, seed, S::TICK_NS);
        let answers = subject.run(&case.spec, &case.trace, false);
        for (property, applied) in properties.iter().zip(&mut applied) {
            match (property.holds)(subject, &case, &answers) {
                Ok(held) => *applied += u64::from(held),
                Err(_) => return Err(counterexample(subject, family, property, seed, case)),
            }
        }
    }
    match properties.iter().zip(applied).find(|(property, n)| *n == 0 && property.applies(family)) {
        Some((property, _)) => Err(format!("{} applied to no case of {family:?}", property.name)),
        None => Ok(()),
    }
}

fn counterexample<S: Subject>(
    subject: &S,
    family: Family,
    property: &Property<S>,
    seed: u64,
    mut case: Case,
) -> String {
    let fails = |case: &Case| {
        let answers = subject.run(&case.spec, &case.trace, false);
        (property.holds)(subject, case, &answers).err()
    };
    let mut reason = fails(&case).unwrap_or_default();
    // Drop events for as long as the property still fails.
    let mut i = 0;
    while i < case.trace.len() {
        let mut smaller = case.clone();
        smaller.trace.remove(i);
        match fails(&smaller) {
            Some(why) => (case, reason, i) = (smaller, why, 0),
            None => i += 1,
        }
    }
    format!("{} fails for {family:?}, seed {seed}: {reason}\n{case:#?}", property.name)
}

/// The trace up to and including `i`, then one more call.
fn then(case: &Case, i: usize, event: Event) -> Vec<Event> {
    let mut trace = case.trace[..=i].to_vec();
    trace.push(event);
    trace
}

fn last<S: Subject>(subject: &S, spec: &PolicySpec, trace: &[Event]) -> Answer {
    subject.run(spec, trace, false).pop().expect("as many answers as events")
}

/// One of the calls that match, chosen by the case's dice.
fn pick(case: &Case, matches: impl Fn(usize) -> bool) -> Option<usize> {
    let candidates: Vec<usize> = (0..case.trace.len()).filter(|i| matches(*i)).collect();
    let at = usize::try_from(case.dice % (candidates.len().max(1) as u64)).unwrap_or(0);
    candidates.get(at).copied()
}

fn has_overdraft(spec: &PolicySpec) -> bool {
    use Algorithm::{Gcra, LeakyBucket};
    spec.limits.iter().any(|limit| {
        matches!(
            limit.algorithm,
            Gcra { overdraft: true, .. } | LeakyBucket { overdraft: true, .. }
        )
    })
}

fn has_shadow(spec: &PolicySpec) -> bool {
    spec.shadow || spec.limits.iter().any(|limit| limit.shadow)
}

fn check(at_ns: u64, cost: u64) -> Event {
    Event { at_ns, verb: Verb::Check, cost }
}
