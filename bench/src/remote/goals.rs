//! How the goals of this family are measured.

use super::contestant::waterclock::{LEASE, STRICT};
use super::contestant::{HYBRID, LIMITADOR, cell, get, lua, node};
use super::field::Field;
use super::turn::Turn;
use crate::goal::{self, redis::*};
use crate::report::Report;

/// Of the keys spread evenly: R1, R2, R3.
pub fn spread(field: &Field, report: &mut Report<'_>) {
    let Some(ours) = field.of(STRICT) else { return };
    // NaN if the other one did not run.
    let against =
        |id, number: fn(&Turn) -> f64| number(ours) / field.of(id).map_or(f64::NAN, number);
    report.goal(LUA, against(lua::ID, |turn| turn.rate));
    report.goal(CELL, against(cell::ID, |turn| turn.rate));
    report.goal(goal::redis::LIMITADOR, against(LIMITADOR, |turn| turn.rate));
    report.goal(FLEXIBLE, against(node::FLEXIBLE, |turn| turn.rate));
    report.goal(TAIL, against(lua::ID, |turn| turn.p99));
    report.goal(CPU, against(lua::ID, |turn| turn.cpu));
    report.goal(BYTES, ours.bytes);
    report.goal(LONE, against(get::ID, |turn| turn.lone_p50));
    report.goal(TRIPS, ours.trips);
    report.goal(EXACT, ours.crowd);
}

/// Of the few hot keys: R4.
pub fn hot(field: &Field, report: &mut Report<'_>) {
    let Some(ours) = field.of(LEASE) else { return };
    report.goal(HOT_CPU, ours.client * 1e3);
    report.goal(HOT, ours.rate / field.of(HYBRID).map_or(f64::NAN, |turn| turn.rate));
}

/// Of keys that never come again: R4.
pub fn cold(field: &Field, report: &mut Report<'_>) {
    let Some(ours) = field.of(LEASE) else { return };
    report.goal(COLD_TRIPS, ours.trips);
}
