//! Lines that are not in the order of time, and times that are not exact.

use fastrand::Rng;
use serde_json::json;

use super::traffic::{as_combined, as_trace, traffic};
use super::{events, line, replay, told};
use crate::support::Place;

const COMBINED: &[&str] = &["--input", "combined"];

#[test]
fn lines_are_put_in_order() {
    let visits = {
        let mut visits = traffic(2_000, 5);
        // Equal times keep the order of lines, so there are none here.
        (0..).zip(&mut visits).for_each(|(place, visit)| visit.t_us += place);
        visits
    };
    let mut shuffled = visits.clone();
    let mut rng = Rng::with_seed(6);
    shuffled.chunks_mut(20).for_each(|neighbours| rng.shuffle(neighbours));
    let place = Place::with_limits("\"5/s\"");
    let flags = ["--input", "combined", "--cost", "bytes"];
    let run = replay(&place, &flags, as_combined(&shuffled)).ok();
    assert!(run.stdout == replay(&place, &[], as_trace(&visits)).stdout);
}

#[test]
fn late_lines_are_reported() {
    let place = Place::with_limits("\"5/s\"");
    let log = [(0, "a"), (50, "b"), (100, "c"), (49, "d"), (20, "e"), (95, "f"), (101, "g")]
        .map(|(second, client)| line(second, client, "GET / HTTP/1.1", "200 1"))
        .concat();
    let run = replay(&place, COMBINED, log);
    assert_eq!(run.code, Some(0));
    assert_eq!(
        run.stderr,
        "warning: 2 of 7 lines are out of order by too much (up to 30 s); \
         they count at the time of the line before\n"
    );
    let expected = [(0, "a"), (50, "b"), (50, "d"), (50, "e"), (95, "f"), (100, "c"), (101, "g")]
        .map(|(second, client)| json!([second * 1_000_000, client, 1]));
    assert_eq!(told(&run), expected);
}

#[test]
fn whole_seconds() {
    let place = Place::with_limits("\"2/s\"");
    let log =
        [7, 7, 7, 7, 8, 9, 9].map(|second| line(second, "a", "GET / HTTP/1.1", "200 1")).concat();
    let run = replay(&place, COMBINED, &log);
    assert_eq!(
        run.stderr,
        "warning: times are whole seconds, so lines of the same second arrive at once; \
         --spread spreads them over it\n"
    );
    assert_eq!(run.lines().iter().filter(|line| line["allowed"] == false).count(), 2);
    let spread = events(&place, &["--input", "combined", "--spread"], &log);
    let times = [7_000_000, 7_250_000, 7_500_000, 7_750_000, 8_000_000, 9_000_000, 9_500_000];
    assert_eq!(spread, times.map(|t_us| json!([t_us, "a", 1])));
    // No note about whole seconds if each has only one line.
    let log = [7, 8, 9].map(|second| line(second, "a", "GET / HTTP/1.1", "200 1")).concat();
    events(&place, COMBINED, log);
}

#[test]
fn times_by_name_size_and_flag() {
    let place = Place::with_limits("\"5/s\"");
    let time = |flags: &[&str], value: &str| {
        let flags = [&["--input", "jsonl", "--key", "'k'"], flags].concat();
        events(&place, &flags, value)[0][0].clone()
    };
    for (line, expected) in [
        (r#"{"time":1700000000}"#, 1_700_000_000_000_000u64),
        (r#"{"time":1700000000.25}"#, 1_700_000_000_250_000),
        (r#"{"ts":"1700000000.25"}"#, 1_700_000_000_250_000),
        (r#"{"ts":1700000000250}"#, 1_700_000_000_250_000),
        (r#"{"date":1700000000250001}"#, 1_700_000_000_250_001),
        (r#"{"@timestamp":1700000000250001999}"#, 1_700_000_000_250_001),
        (r#"{"timestamp":"2023-11-14T22:13:20.25Z"}"#, 1_700_000_000_250_000),
        (r#"{"timestamp":"14/Nov/2023:23:13:20 +0100"}"#, 1_700_000_000_000_000),
        (r#"{"t_us":1500000}"#, 1_500_000),
        (r#"{"t_us":null,"time":3}"#, 3_000_000),
    ] {
        assert_eq!(time(&[], line), expected, "{line}");
    }
    assert_eq!(time(&["--time", "a.b"], r#"{"time":1,"a":{"b":2}}"#), 2_000_000);
    assert_eq!(time(&["--time", "at_ms"], r#"{"at_ms":2}"#), 2_000);
    let combined = line(9, "a", "GET / HTTP/1.1", "200 1 \"-\" \"-\" 1700000000.250");
    for (flags, expected) in [
        (&[][..], 9_000_000u64),
        (&["--time", "extra_1"], 1_700_000_000_250_000),
        (&["--time", "extra_1", "--time-unit", "ms"], 1_700_000_000_250),
    ] {
        let flags = [COMBINED, flags].concat();
        assert_eq!(events(&place, &flags, &combined)[0][0], expected, "{flags:?}");
    }
    assert_eq!(time(&["--time-unit", "us"], r#"{"time":2}"#), 2);
    assert_eq!(time(&["--time-unit", "ns"], r#"{"time":2999}"#), 2);
}
