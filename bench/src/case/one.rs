//! M1: one limiter that every request asks.

use crate::contestant::{direct, governor, waterclock};
use crate::field::{COLUMNS, Field};
use crate::goal::in_process::{ONE, ONE_CACHED, ONE_INSTANT};
use crate::options::Options;
use crate::report::Report;

pub fn run(options: &Options, report: &mut Report<'_>) {
    let entrants = direct().iter().map(|c| (c.name, c.kind, (c.build)(1))).collect();
    let field = Field::time(entrants, &[(); 1 << 16], options, true);
    report.table("One limiter", COLUMNS, &field.rows());

    let times = |ours, theirs| field.of(theirs).lone / field.of(ours).lone;
    report.goal(ONE, times(waterclock::DEFAULT, governor::TSC));
    report.goal(ONE_INSTANT, times(waterclock::MONOTONIC, governor::MONOTONIC));
    report.goal(ONE_CACHED, times(waterclock::CACHED, governor::TSC));
}
