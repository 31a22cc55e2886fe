//! R1 to R4, as far as those they speak of ran.

use super::contestant::waterclock::{LEASE, STRICT};
use super::contestant::{HYBRID, LIMITADOR, cell, get, lua, node};
use super::field::Field;
use super::turn::Turn;
use crate::report::{Bound, Report};

/// Of the keys spread evenly: R1, R2, R3.
pub fn spread(field: &Field, report: &mut Report) {
    let Some(ours) = field.of(STRICT) else { return };
    let mut against =
        |id, peer: &str, target: (&'static str, &str, Bound), ratio: fn(&Turn, &Turn) -> f64| {
            let (number, what, bound) = target;
            match field.of(id) {
                Some(theirs) => {
                    report.target(number, &format!("{what} {peer}"), bound, ratio(ours, theirs))
                }
                None => println!("\nNot compared: {number}, {what} {peer}, which did not run."),
            }
        };
    let rate = |ours: &Turn, theirs: &Turn| ours.rate / theirs.rate;
    let faster = |times| ("R1", "64 callers, decisions/s ×", Bound::AtLeast(times));
    against(lua::ID, "plain Lua", faster(2.0), rate);
    against(cell::ID, "redis-cell", faster(0.95), rate);
    against(LIMITADOR, "limitador", faster(4.0), rate);
    against(node::FLEXIBLE, "rate-limiter-flexible", faster(4.5), rate);
    let slow = ("R1", "64 callers, p99 ×", Bound::AtMost(1.0));
    against(lua::ID, "plain Lua", slow, |ours, theirs| ours.p99 / theirs.p99);
    let cpu = ("R2", "Redis CPU per decision ×", Bound::AtMost(0.45));
    against(lua::ID, "plain Lua", cpu, |ours, theirs| ours.cpu / theirs.cpu);
    let lone = ("R3", "1 caller, p50 ×", Bound::AtMost(1.1));
    against(get::ID, "GET", lone, |ours, theirs| ours.lone_p50 / theirs.lone_p50);
    report.target("R2", "bytes per key", Bound::AtMost(80.0), ours.bytes);
    report.target("R3", "round trips of 1 caller", Bound::AtMost(1.0), ours.trips);
    report.target("exact", "passed of 200 where 10 may", Bound::AtMost(10.0), ours.crowd);
}

/// Of the few hot keys: R4.
pub fn hot(field: &Field, report: &mut Report) {
    if let (Some(ours), Some(theirs)) = (field.of(LEASE), field.of(HYBRID)) {
        let ratio = ours.rate / theirs.rate;
        report.target("R4", "hot keys, decisions/s × trypema hybrid", Bound::AtLeast(3.0), ratio);
    }
}

/// Of keys that never come again: R4.
pub fn cold(field: &Field, report: &mut Report) {
    if let Some(ours) = field.of(LEASE) {
        report.target("R4", "cold keys, round trips of 1 caller", Bound::AtMost(1.0), ours.trips);
    }
}
