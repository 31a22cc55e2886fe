//! Random policies that count several units.

use std::time::Duration;

use fastrand::Rng;
use waterclock::{
    Cost, EvenSlots, FixedWindow, Gcra, LeakyBucket, Limit, MinInterval, Mode, Policy, Quota,
    RollingWindow, SlidingWindow, Verb,
};

const UNITS: [&str; 3] = ["requests", "tokens", "bytes"];

/// A policy `p` that counts `requests`, `tokens` and perhaps `bytes`.
pub fn draw_policy(dice: &mut Rng) -> Policy {
    let mode = if dice.u8(0..4) == 0 { Mode::CountRefusals } else { Mode::Binary };
    let limits: Vec<Limit> = (0..dice.usize(2..5))
        .map(|i| {
            let unit = UNITS[if i < 2 { i } else { dice.usize(0..3) }];
            draw_limit(dice, mode).with_name(&format!("limit{i}")).with_unit(unit)
        })
        .collect();
    let policy = Policy::new("p", limits).and_then(|policy| policy.with_mode(mode));
    policy.expect("every limit fits its mode")
}

/// Mostly checks.
pub fn draw_verb(dice: &mut Rng) -> Verb {
    match dice.u8(0..20) {
        0..15 => Verb::Check,
        15 | 16 => Verb::Peek,
        17 => Verb::Refund,
        18 => Verb::Debit,
        _ => Verb::Reset,
    }
}

/// An amount of each unit; sometimes nothing, or only some of the units.
pub fn draw_cost(dice: &mut Rng, policy: &Policy) -> Cost {
    match dice.u8(0..12) {
        0 => Cost::from(0),
        1 => Cost::of_units([("tokens", dice.u64(0..9))]),
        2 => Cost::of_units([("tokens", u64::MAX)]),
        _ => Cost::of_units(policy.units().map(|unit| (unit, dice.u64(0..5)))),
    }
}

fn draw_limit(dice: &mut Rng, mode: Mode) -> Limit {
    let (n, per) = (dice.u64(1..12), Duration::from_millis([500, 1_000, 7_000][dice.usize(0..3)]));
    let kind = if mode == Mode::CountRefusals { dice.u8(0..3) } else { dice.u8(0..9) };
    let limit: Limit = match kind {
        0 => FixedWindow::new(n, per).expect("its numbers are sound").into(),
        1 => SlidingWindow::new(n, per).expect("its numbers are sound").into(),
        2 => RollingWindow::new(n, per).expect("its numbers are sound").into(),
        3 => LeakyBucket::new(n + 1, 2, per / 4).expect("its numbers are sound").into(),
        4 => Quota::new(n, per).expect("its numbers are sound").into(),
        5 => EvenSlots::new(n, per).expect("its numbers are sound").into(),
        6 => MinInterval::new(per / 4).expect("its numbers are sound").into(),
        7 => Gcra::new(n, per).expect("its numbers are sound").with_overdraft(true).into(),
        _ => {
            Gcra::new(n, per).expect("its numbers are sound").with_capacity(dice.u64(1..12)).into()
        }
    };
    match dice.u8(0..6) {
        0 => limit.with_shadow(true),
        1 if mode == Mode::Binary => {
            limit.with_min_interval(per / 10).expect("its numbers are sound")
        }
        _ => limit,
    }
}
