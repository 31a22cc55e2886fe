//! Lines that are not in the order of time, and times that are not exact.

use fastrand::Rng;
use serde_json::{Value, json};

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
    let run = replay(&place, &["--input", "combined", "--reorder", "10s"], &log);
    assert_eq!(run.code, Some(0));
    assert_eq!(
        run.stderr,
        "warning: 2 of 7 lines are out of order by too much (up to 1 min 20 s); \
         they count at the time of the line before; --reorder 1m20s puts them in order\n"
    );
    let expected = [(0, "a"), (50, "b"), (50, "d"), (50, "e"), (95, "f"), (100, "c"), (101, "g")]
        .map(|(second, client)| json!([second * 1_000_000, client, 1]));
    assert_eq!(told(&run), expected);
    // As it says, and so does the default.
    let all = events(&place, &["--input", "combined", "--reorder", "1m20s"], &log);
    assert_eq!(all[1..3], [(20, "e"), (49, "d")].map(|(s, key)| json!([s * 1_000_000, key, 1])));
    assert_eq!(events(&place, COMBINED, &log), all);
}

/// As real servers write them: whole seconds, and requests that took up to a minute.
#[test]
fn a_log_shuffled_within_a_minute_gives_the_report_of_the_sorted_one() {
    let mut rng = Rng::with_seed(9);
    let mut lines: Vec<(u32, String)> = (0..5_000_u32)
        .map(|number| {
            let second = number / 10;
            let client = format!("10.0.0.{}", rng.u8(1..20));
            (second, line(second, &client, "GET / HTTP/1.1", "200 1"))
        })
        .collect();
    let log = |lines: &[(u32, String)]| -> String {
        lines.iter().map(|(_, line)| line.as_str()).collect()
    };
    let sort_key = |second: u32, rng: &mut Rng| second * 1_000 + rng.u32(0..60_000);
    let mut shuffled = lines.clone();
    shuffled.sort_by_cached_key(|(second, _)| sort_key(*second, &mut rng));
    assert_ne!(log(&shuffled), log(&lines));
    // Equal times keep the order of lines, so the sorted one has that order too.
    lines.clone_from(&shuffled);
    lines.sort_by_key(|(second, _)| *second);
    let place = Place::with_limits("\"30/min\"");
    let report = |flags: &[&str], log: String| {
        let run = place.run_with_bytes(&[&["replay", "--json"], flags].concat(), log.as_bytes());
        let report: Value = serde_json::from_str(&run.ok().stdout).unwrap();
        report
    };
    let sorted = report(COMBINED, log(&lines));
    assert!(sorted["refused"].as_u64() > Some(0), "{sorted}");
    assert_eq!(report(COMBINED, log(&shuffled)), sorted);
    let unsorted = report(&["--input", "combined", "--reorder", "0"], log(&shuffled));
    let is_late = |remark: &&Value| remark["code"] == "late-lines";
    let late = unsorted["remarks"].as_array().unwrap().iter().find(is_late).unwrap();
    assert!(late["reorder_us"].as_u64() > Some(30_000_000), "{late}");
}

#[test]
fn reorder_is_a_duration() {
    let place = Place::with_limits("\"5/s\"");
    let log = line(0, "a", "GET / HTTP/1.1", "200 1");
    for good in ["0", "0s", "250ms", "1h30m"] {
        events(&place, &["--input", "combined", "--reorder", good], &log);
    }
    for (bad, why) in [("10", "needs a unit"), ("-1s", "must not be negative"), ("soon", "soon")] {
        let flag = format!("--reorder={bad}");
        let run = replay(&place, &["--input", "combined", &flag], &log);
        assert_eq!(run.code, Some(2), "{bad}");
        assert!(run.stderr.contains(why), "{bad}: {}", run.stderr);
    }
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
