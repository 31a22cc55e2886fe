//! The same traffic gives the same decisions in every log format.

use waterclock_conformance::real::RedisServer;

use super::replay;
use super::traffic::{as_combined, as_csv, as_jsonl, as_trace, compressed, traffic};
use crate::support::Place;

const COMBINED: &[&str] = &["--input", "combined", "--cost", "bytes"];
const JSONL: &[&str] = &["--input", "jsonl", "--key", "from.ip", "--cost", "sizes.1"];
const CSV: &[&str] = &["--input", "csv", "--delimiter", ";", "--key", "address", "--cost", "cost"];

const LIMITS: [&str; 3] = [
    "\"5/s\"",
    "\"5/s\", \"20/10s rolling-window\"",
    "{ algorithm = \"sliding-window\", limit = 9, per = \"2s\" }",
];

#[test]
fn in_every_format() {
    let visits = traffic(3_000, 1);
    let logs = [
        (COMBINED, as_combined(&visits)),
        (JSONL, as_jsonl(&visits)),
        (CSV, as_csv(&visits)),
        (&[], as_trace(&visits)),
    ];
    for limits in LIMITS {
        let place = Place::with_limits(limits);
        let expected = replay(&place, &[], as_trace(&visits)).ok();
        let refused = expected.lines().iter().filter(|line| line["allowed"] == false).count();
        assert!((300..2_700).contains(&refused), "{refused}");
        for (flags, log) in &logs {
            for input in [log.clone().into_bytes(), compressed(log)] {
                let run = replay(&place, flags, &input).ok();
                assert!(run.stdout == expected.stdout, "{flags:?} from standard input");
            }
        }
    }
}

#[test]
fn from_files() {
    let visits = traffic(1_000, 2);
    // Rotated logs are often put together as they are.
    let (first, second) = visits.split_at(300);
    let parts = [compressed(&as_combined(first)), compressed(&as_combined(second))].concat();
    let place = Place::with_limits(LIMITS[0])
        .file("access.log", &as_combined(&visits))
        .file_of_bytes("access.log.gz", &parts)
        .file("access.csv", &as_csv(&visits))
        .file("access.jsonl", &as_jsonl(&visits));
    let expected = replay(&place, &[], as_trace(&visits)).stdout;
    assert_eq!(expected.lines().count(), 1_000);
    for (flags, file) in [
        (COMBINED, "access.log"),
        (COMBINED, "access.log.gz"),
        (CSV, "access.csv"),
        (JSONL, "access.jsonl"),
    ] {
        let run = replay(&place, &[flags, &[file]].concat(), "").ok();
        assert!(run.stdout == expected, "{file}");
    }
}

#[test]
fn through_redis_too() {
    let visits = traffic(600, 3);
    let place = Place::with_limits(LIMITS[1]);
    let server = RedisServer::start();
    let url = server.url();
    let log = "not a line\n".to_owned() + &as_combined(&visits);
    let expected = replay(&place, COMBINED, &log);
    let run = replay(&place, &[COMBINED, &["--store", &url]].concat(), &log);
    run.warns("1 of 601 lines were skipped");
    assert_eq!((run.code, run.stderr), (Some(0), expected.stderr));
    assert!(run.stdout == expected.stdout && run.stdout.lines().count() == 600);
}

/// Many batches and a full buffer of lines to put in order.
#[test]
fn many_lines() {
    let visits = traffic(30_000, 4);
    let place = Place::with_limits(LIMITS[0]);
    let log = as_combined(&visits);
    let run = place.run_with_input(&[&["replay"], COMBINED].concat(), &log);
    let expected = place.run_with_input(&["replay"], &as_trace(&visits));
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""));
    // A log tells the programs of clients too, which advice shows.
    let counts = |text: &str| text.split_once("what the limit could be").unwrap().0.to_owned();
    assert_eq!(counts(&run.stdout), counts(&expected.stdout));
    run.says(&["events               30,000"]);
}
