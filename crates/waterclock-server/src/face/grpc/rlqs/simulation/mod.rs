//! Proxies that follow the rules of Envoy's filter, against pools and a store in virtual time: what is admitted stays
//! within the published bound, whatever is lost or late, and planted bugs do not.

mod oracle;
mod proxy;
mod schedule;
mod world;

use std::time::Duration;

use self::oracle::Oracle;
use self::schedule::Bug;
use self::world::{Scenario, World};

/// Random schedules: those of the normal test run, or as many as `WATERCLOCK_QUOTA_SCHEDULES` says.
fn schedules() -> u64 {
    std::env::var("WATERCLOCK_QUOTA_SCHEDULES")
        .ok()
        .and_then(|many| many.parse().ok())
        .unwrap_or(4_000)
}

fn run(seed: u64, bug: Option<Bug>) -> Result<World, String> {
    let mut world = World::new(seed, bug);
    world.run()?;
    Ok(world)
}

#[test]
fn never_beyond_the_bound() {
    let (mut leased, mut direct, mut lost, mut restarts) = (0, 0, 0, 0);
    let (mut crashes, mut stalls) = (0, 0);
    for seed in 0..schedules() {
        match run(seed, None) {
            Ok(world) => {
                leased += world.leased;
                direct += world.direct;
                lost += world.streams_lost;
                restarts += world.restarts;
                crashes += world.crashes;
                stalls += world.stalls;
            }
            Err(why) => panic!("schedule {seed}: {why}"),
        }
    }
    assert!(leased > 100_000, "{leased}");
    assert!(direct > 10_000, "{direct}");
    assert!(lost > 1_000 && restarts > 300, "{lost} {restarts}");
    assert!(crashes > 300 && stalls > 1_000, "{crashes} {stalls}");
}

#[test]
fn planted_bugs_go_beyond_it() {
    for bug in Bug::ALL {
        let caught = (0..schedules()).find(|seed| run(*seed, Some(bug)).is_err());
        assert!(caught.is_some(), "{bug:?} was not caught");
    }
}

/// Demand of four proxies in requests a second, the policy's rate, and what each is admitted in a second.
#[test]
fn shares_follow_demand_and_none_is_wasted() {
    for (per_second, capacity, demand, expected) in [
        // One proxy has all of it.
        (100, 100, [1_000, 0, 0, 0], [100, 0, 0, 0]),
        // A small capacity is emptied before it is full.
        (100, 20, [1_000, 0, 0, 0], [100, 0, 0, 0]),
        // Equal parts.
        (100, 100, [500, 500, 500, 500], [25, 25, 25, 25]),
        // Small needs are met, and the rest is divided.
        (100, 100, [10, 500, 500, 0], [10, 45, 45, 0]),
        (100, 100, [5, 10, 20, 500], [5, 10, 20, 65]),
        // Less than the limit: all are admitted.
        (100, 100, [10, 20, 30, 0], [10, 20, 30, 0]),
        (1_000, 1_000, [200, 200, 200, 200], [200, 200, 200, 200]),
    ] {
        let mut world = World::steady(Scenario { per_second, capacity, demand });
        world.run().unwrap();
        let admitted = world.admitted_a_second();
        for (admitted, expected) in admitted.iter().zip(expected) {
            let least = f64::from(expected) * 0.8 - 1.0;
            let most = f64::from(expected) * 1.25 + 1.0;
            assert!(
                (least..=most).contains(admitted),
                "{per_second}/s, capacity {capacity}, {demand:?}: {:?}",
                world.admitted_a_second(),
            );
        }
    }
}

/// While streams last, no assignment lapses: Envoy would admit everything.
#[test]
fn no_assignment_lapses_while_streams_last() {
    let mut seen = 0;
    for seed in 0..schedules() {
        let world = run(seed, None).unwrap();
        if world.streams_lost == 0 && world.restarts == 0 {
            seen += 1;
            assert_eq!(world.lapses, 0, "schedule {seed}");
        }
    }
    assert!(seen > 50, "{seen}");
}

#[test]
fn the_oracle_knows_the_bound() {
    let second = Duration::from_secs(1);
    let mut oracle = Oracle::bucket(2, second, 5);
    assert!((0..29).all(|_| oracle.admit(Duration::ZERO).is_ok()), "5 and 12 s of 2/s");
    assert!(oracle.admit(Duration::ZERO).is_err());
    let mut window = Oracle::window(10, 30 * second);
    assert!((0..20).all(|at| window.admit(second * at / 2).is_ok()));
    assert!(window.admit(10 * second).is_err());
    assert!(window.admit(60 * second).is_ok());
}
