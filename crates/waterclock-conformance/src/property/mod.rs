//! The properties every algorithm and every store is tested for.
//!
//! Each takes a case and says whether it held, did not apply, or why it failed. P12 is about
//! parallel callers, which a trace cannot express: it has tests of its own.

mod bound;
mod invisible;
mod numbers;
mod reference;
mod time;
mod waits;

use crate::Family;
use crate::case::{Case, Event};
use crate::reference::{Algorithm, Answer, PolicySpec, Verb};
use crate::subject::Subject;

/// `Ok(false)`: the case has nothing to say about this property.
pub type Held = Result<bool, String>;

/// A statement about a subject.
pub struct Property<S> {
    /// Its name.
    pub name: &'static str,
    /// Whether it holds for a case, given the answers to its trace.
    pub holds: fn(&S, &Case, &[Answer]) -> Held,
}

impl<S> Property<S> {
    /// Whether some case of the family must show it: batches of these are events, which cannot be
    /// split; one family is made of leaky buckets; several limits have no bound of their own, and a
    /// breaker has none while it is closed.
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
        property("P1 honour", waits::honour as fn(&S, &Case, &[Answer]) -> Held),
        property("P2 tight", waits::tight),
        property("P3 remaining", numbers::remaining),
        property("P4 reset", numbers::reset),
        property("P5 expiry invisible", invisible::sweeps),
        property("P6 peek pure", invisible::peeks),
        property("P7 refusals free", invisible::refusals),
        property("P8 split", numbers::split),
        property("P9 clock", time::steps_back),
        property("P10 epoch shift", time::epoch_shift),
        property("P11 equivalence", reference::leaky_is_gcra),
        property("P13 bound", bound::stays_within),
        property("reference", reference::agrees),
    ]
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

/// One of the calls the predicate likes, by the case's dice.
fn pick(case: &Case, likes: impl Fn(usize) -> bool) -> Option<usize> {
    let liked: Vec<usize> = (0..case.trace.len()).filter(|i| likes(*i)).collect();
    let at = usize::try_from(case.dice % (liked.len().max(1) as u64)).unwrap_or(0);
    liked.get(at).copied()
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
