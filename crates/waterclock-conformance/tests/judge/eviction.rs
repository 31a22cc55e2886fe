//! Keys that are forgotten, and logs that get coarser, for lack of room.

use waterclock::{Policy, Timestamp};
use waterclock_conformance::property::eviction::{
    Coarsen, MayForget, coarser_admits_no_more, forgetting_costs_half, half_fresh,
};
use waterclock_conformance::{Case, Family};
use waterclock_core::store::{Decide as _, View};

/// How many of so many cases a key was forgotten in; the error names the first that admits too much.
fn forgotten(family: Family, cases: u64, may_forget: MayForget) -> Result<u64, String> {
    let mut forgotten = 0;
    for seed in 0..cases {
        let case = Case::draw(family, seed, 1);
        let held = forgetting_costs_half(&case, may_forget);
        forgotten += u64::from(held.map_err(|why| format!("seed {seed}: {why}\n{case:#?}"))?);
    }
    Ok(forgotten)
}

#[test]
fn a_forgotten_key_is_admitted_half_a_capacity_more() {
    for family in Family::ALL {
        let forgotten = forgotten(family, 20_000, half_fresh).unwrap_or_else(|why| panic!("{why}"));
        let counts_units =
            !matches!(family, Family::EvenSlots | Family::MinInterval | Family::Several);
        assert_eq!(forgotten > 100, counts_units, "{family:?}: {forgotten} cases");
    }
}

#[test]
fn planted_forgetting_at_any_time_is_caught() {
    let any = |_: &Policy, _: View<'_>, _: Timestamp| true;
    assert!(forgotten(Family::Gcra, 20_000, any).is_err());
    assert!(forgotten(Family::RollingExact, 20_000, any).is_err());
    let two_thirds = |policy: &Policy, state: View<'_>, now: Timestamp| {
        policy.half_fresh_in(state, now) < policy.fresh_in(state, now) / 3
    };
    assert!(forgotten(Family::Gcra, 20_000, two_thirds).is_err());
}

/// How many of so many cases made logs coarser; the error names the first that admits too much.
fn coarsened(family: Family, coarsen: Coarsen) -> Result<u64, String> {
    let mut coarsened = 0;
    for seed in 0..20_000 {
        let case = Case::draw(family, seed, 1);
        let held = coarser_admits_no_more(&case, coarsen);
        coarsened += u64::from(held.map_err(|why| format!("seed {seed}: {why}\n{case:#?}"))?);
    }
    Ok(coarsened)
}

#[test]
fn coarser_logs_admit_no_more() {
    for family in [Family::RollingExact, Family::RollingBuckets] {
        let coarsened = coarsened(family, |policy, state| policy.coarsen(state));
        let coarsened = coarsened.unwrap_or_else(|why| panic!("{why}"));
        assert!(coarsened > 1_000, "{family:?}: {coarsened} cases");
    }
}

#[test]
fn planted_logs_that_forget_are_caught() {
    assert!(coarsened(Family::RollingExact, |policy, state| policy.clear(state)).is_err());
}
