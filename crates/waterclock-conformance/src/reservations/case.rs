use fastrand::Rng;

use crate::Family;
use crate::reference::PolicySpec;

/// One action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Reserve under a name.
    Reserve {
        /// Its name; the same name twice is the same reservation.
        name: u8,
        /// How much.
        cost: u64,
        /// For how long.
        ttl_ns: u64,
        /// Give it back at expiry if it was not settled.
        releases: bool,
    },
    /// Settle it.
    Commit {
        /// Its name.
        name: u8,
        /// How much was used.
        used: u64,
    },
    /// Cancel it.
    Cancel {
        /// Its name.
        name: u8,
    },
    /// Check.
    Check(u64),
    /// Peek.
    Peek(u64),
    /// Charge what was used already.
    Debit(u64),
}

/// An action and its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// In nanoseconds since the Unix epoch, never decreasing.
    pub at_ns: u64,
    /// The action.
    pub action: Action,
}

/// A policy and the steps for one of its keys.
#[derive(Clone, Debug)]
pub struct ReservationCase {
    /// The policy.
    pub spec: PolicySpec,
    /// The steps.
    pub steps: Vec<Step>,
}

const MS: u64 = 1_000_000;
const DAY: u64 = 86_400_000 * MS;
/// Few names, so that they repeat.
const NAMES: u8 = 4;

impl ReservationCase {
    /// The case of a seed. Times are multiples of `tick_ns`.
    pub fn draw(family: Family, seed: u64, tick_ns: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let mut at_ns = rng.u64(0..1 << 50) / tick_ns * tick_ns;
        let spec = family.draw(&mut rng, tick_ns, at_ns);
        let (pace, most) = family.measure(&spec);
        // A reservation never outlives its lease.
        let longest = if family == Family::Concurrency { pace } else { pace.saturating_mul(2) };
        let ttls = [MS, pace / 3, pace / 2, pace, longest].map(|ttl| ttl.clamp(MS, DAY));
        let ttls = ttls.map(|ttl| ttl / tick_ns * tick_ns);
        let ttl_ns = pick(&mut rng, ttls);
        let steps = (0..rng.usize(1..=20))
            .map(|_| {
                let pauses = [0, 0, 1, ttl_ns / 2, ttl_ns, pace / 5, pace, rng.u64(0..=pace)];
                at_ns += pick(&mut rng, pauses) / tick_ns * tick_ns;
                let either = [ttl_ns, pick(&mut rng, ttls)];
                Step { at_ns, action: action(&mut rng, most, either) }
            })
            .collect();
        Self { spec, steps }
    }
}

fn pick<const N: usize>(rng: &mut Rng, from: [u64; N]) -> u64 {
    from[rng.usize(0..N)]
}

fn action(rng: &mut Rng, most: u64, ttls: [u64; 2]) -> Action {
    let name = rng.u8(0..NAMES);
    let any = [0, 1, rng.u64(0..=most), most / 2 + 1, most, most + 1];
    let cost = pick(rng, any);
    match rng.u8(0..16) {
        // Mostly one cost per name.
        0..5 => {
            let own = [1, most / 2 + 1, most / 3 + 1, 2][usize::from(name)];
            let cost = if rng.u8(0..10) == 0 { cost } else { own };
            let ttl_ns = pick(rng, ttls);
            Action::Reserve { name, cost, ttl_ns, releases: name % 2 == 1 }
        }
        5..9 => Action::Commit { name, used: cost },
        9..11 => Action::Cancel { name },
        11..13 => Action::Check(cost),
        13..15 => Action::Peek(cost),
        _ => Action::Debit(cost),
    }
}
