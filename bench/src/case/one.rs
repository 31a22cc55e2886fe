//! M1: one limiter that every request asks.

use crate::contestant::{direct, governor, waterclock};
use crate::field::{COLUMNS, Field};
use crate::options::Options;
use crate::report::{Bound, Report};

pub fn run(options: &Options, report: &mut Report) {
    let entrants = direct().iter().map(|c| (c.name, c.kind, (c.build)(1))).collect();
    let field = Field::time(entrants, &[(); 1 << 16], options, true);
    report.table("One limiter", COLUMNS, &field.rows());

    let time = |ours, theirs| field.of(ours).lone / field.of(theirs).lone;
    let default = time(waterclock::DEFAULT, governor::TSC);
    report.target("M1", "time of governor direct, both default", Bound::AtMost(1.0), default);
    let instant = time(waterclock::MONOTONIC, governor::MONOTONIC);
    report.target("M1", "time of governor direct, Instant", Bound::AtMost(1.0), instant);
    let cached = 1.0 / time(waterclock::CACHED, governor::TSC);
    report.target("M1", "cached clock, × governor direct", Bound::AtLeast(3.0), cached);
}
