//! Random cases: a policy and a trace of calls for one key, from a seed.

use fastrand::Rng;

use crate::Family;
use crate::reference::{PolicySpec, Verb};

/// One call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When, in nanoseconds since the Unix epoch.
    pub at_ns: u64,
    /// What.
    pub verb: Verb,
    /// How much.
    pub cost: u64,
}

/// A policy and a trace.
#[derive(Clone, Debug)]
pub struct Case {
    /// The policy.
    pub spec: PolicySpec,
    /// The calls, times non-decreasing.
    pub trace: Vec<Event>,
    /// More randomness, for properties that choose among the calls.
    pub dice: u64,
}

/// A realistic instant, in nanoseconds.
const TODAY_NS: u64 = 1_794_000_000_000_000_000;

impl Case {
    /// The case of a seed. Times and periods are multiples of `tick_ns`.
    pub fn draw(family: Family, seed: u64, tick_ns: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let starts = [0, rng.u64(0..1 << 32), TODAY_NS + rng.u64(0..1 << 50)];
        let mut at_ns = starts[rng.usize(0..3)] / tick_ns * tick_ns;
        let spec = family.draw(&mut rng, tick_ns, at_ns);
        let (pace, most) = family.measure(&spec);
        let length = rng.usize(1..=14);
        let trace = (0..length)
            .map(|_| {
                at_ns = (at_ns + step(&mut rng, pace, most)) / tick_ns * tick_ns;
                let (verb, cost) = (verb(&mut rng), cost(&mut rng, most));
                let event = Event { at_ns, verb, cost };
                if family == Family::ErrorRate { or_report(&mut rng, event) } else { event }
            })
            .collect();
        Self { spec, trace, dice: rng.u64(..) }
    }
}

/// A pause, mostly of a length at which decisions change: none, a unit's time, a period, and one tick off.
fn step(rng: &mut Rng, period: u64, units: u64) -> u64 {
    let unit = (period / units.max(1)).max(1);
    match rng.u8(0..12) {
        0..4 => 0,
        4 => 1,
        5 => unit,
        6 => rng.u64(0..=unit.saturating_mul(3)),
        7 => unit.saturating_sub(1),
        8 => rng.u64(0..=period),
        9 => period,
        10 => period / 2 + rng.u64(0..3),
        _ => rng.u64(0..=period.saturating_mul(2)),
    }
    .min(1 << 57)
}

fn verb(rng: &mut Rng) -> Verb {
    match rng.u8(0..20) {
        0..15 => Verb::Check,
        15..17 => Verb::Peek,
        17 => Verb::Debit,
        18 => Verb::Refund,
        _ => Verb::Reset,
    }
}

/// Turns some events into reports, mostly of one outcome.
fn or_report(rng: &mut Rng, event: Event) -> Event {
    let verb = match rng.u8(0..6) {
        0 => Verb::ReportOk,
        1 | 2 => Verb::ReportError,
        _ => return event,
    };
    Event { verb, cost: if event.cost > 3 { 1 } else { event.cost }, ..event }
}

fn cost(rng: &mut Rng, most: u64) -> u64 {
    match rng.u8(0..20) {
        0 => 0,
        1..9 => 1,
        9..12 => rng.u64(1..=3),
        12 => most,
        13 => most + 1,
        14 => 1 << 63,
        15 => most / 2 + 1,
        _ => rng.u64(0..=most),
    }
}
