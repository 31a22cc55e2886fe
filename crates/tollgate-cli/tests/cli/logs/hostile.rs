//! Clients write parts of every log. None of it may stop, fill or fool the reader.

use fastrand::Rng;

use super::{line, replay, told};
use crate::support::Place;

fn place() -> Place {
    Place::with_limits("\"5/s\"")
}

/// Windows line ends, empty lines, a byte order mark, no end of the last line.
#[test]
fn line_ends() {
    let good = line(1, "a", "GET / HTTP/1.1", "200 5");
    let good = good.trim_end();
    let log = format!("\u{feff}{good}\r\n\r\n\n  \n{good}\r\n{good}");
    let run = replay(&place(), &["--input", "combined", "--key", "client_ip"], log);
    assert_eq!(run.code, Some(0));
    assert!(!run.stderr.contains("skipped"), "{}", run.stderr);
    assert!(run.lines().iter().all(|line| line["key"] == "a") && run.lines().len() == 3);
}

#[test]
fn lines_of_endless_length() {
    let good = line(1, "a", "GET / HTTP/1.1", "200 5");
    let long = format!("{}\n", "x".repeat(5 << 20));
    let just = line(2, "a", &format!("GET /{} HTTP/1.1", "y".repeat((1 << 20) - 200)), "200 5");
    for kind in ["combined", "csv"] {
        let header = if kind == "csv" { "time\n" } else { "" };
        let log = if kind == "csv" {
            format!("{header}1\n{long}2\n")
        } else {
            format!("{good}{long}{just}")
        };
        let run = replay(&place(), &["--input", kind, "--key", "'k'"], log);
        assert_eq!(run.code, Some(0));
        let said = format!(
            "the first is <stdin>:{}: this line is longer than 1048576 bytes",
            if kind == "csv" { 3 } else { 2 }
        );
        assert!(run.stderr.contains(&said), "{}", run.stderr);
        assert_eq!(run.lines().len(), 2);
    }
    // And one that never ends at all.
    let run = replay(&place(), &["--input", "jsonl"], "{".repeat(3 << 20));
    assert_eq!(run.code, Some(2));
}

/// Keys of a megabyte each do not add up in memory until lines are in order.
#[test]
fn large_keys() {
    let log: String = (0..60)
        .map(|second| {
            line(second % 9, &format!("{second}{}", "k".repeat(900_000)), "GET / HTTP/1.1", "200 5")
        })
        .collect();
    let run = place().run_with_input(&["replay", "--input", "combined"], &log);
    assert_eq!(run.code, Some(0));
    assert!(run.stdout.contains("events             60"), "{}", run.stdout);
}

/// The first quote begins the request: a user cannot bring a time along. Nor can a client be charged to
/// whose address it asks for as a host.
#[test]
fn forged_fields() {
    let log =
        "203.0.113.5 198.51.100.7 - - [01/Jan/1970:00:00:01 +0000] \"GET / HTTP/1.1\" 200 1\n";
    let run = replay(&place(), &["--input", "combined", "--key", "client_ip + '|' + host"], log);
    assert_eq!(told(&run), [serde_json::json!([1_000_000, "198.51.100.7|203.0.113.5", 1])]);
    let log = "192.0.2.1 - x] [01/Jan/1970:00:00:09 +0000] y [01/Jan/1970:00:00:01 +0000] \"GET / HTTP/1.1\" 200 1 \"-\" \"\\\" 500 9 \\\"\"\n";
    let run = replay(&place(), &["--input", "combined", "--cost", "status"], log);
    assert_eq!(told(&run), [serde_json::json!([1_000_000, "192.0.2.1", 200])]);
}

#[test]
fn bytes_that_are_no_text() {
    let mut log = line(1, "a", "GET / HTTP/1.1", "200 5").into_bytes();
    log.extend_from_slice(b"\xff\xfe - - [01/Jan/1970:00:00:02 +0000] \"\xf0\x28 / HTTP/1.1\" 200 5 \"\0\" \"\x1b[2J\"\n");
    let run =
        replay(&place(), &["--input", "combined", "--key", "client_ip + or_else(agent, '')"], &log);
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""));
    assert_eq!(told(&run)[1][1], "\u{fffd}\u{fffd}\u{1b}[2J");
    // A complaint shows it in a form that no terminal obeys.
    let run = replay(&place(), &["--input", "csv", "--key", "'k'"], "time\n1\n\x1b[2J\n");
    assert!(run.stderr.contains("\"\\u{1b}[2J\" is not a time"), "{:?}", run.stderr);
}

#[test]
fn quotes_that_nothing_closes() {
    let csv = format!("time,who\n1,a\n2,\"b\n{}", "3,c\n".repeat(200));
    let run = replay(&place(), &["--input", "csv", "--key", "who"], csv);
    assert_eq!(run.code, Some(0));
    assert!(
        run.stderr
            .contains("the first is <stdin>:3: a column begins with a quote that nothing closes"),
        "{}",
        run.stderr
    );
    assert!(run.lines().len() > 100, "what follows is read again");
}

#[test]
fn noise() {
    let mut rng = Rng::with_seed(9);
    for kind in ["combined", "jsonl", "csv"] {
        let mut log = match kind {
            "combined" => line(1, "a", "GET / HTTP/1.1", "200 5"),
            "jsonl" => "{\"time\":1}\n".to_owned(),
            _ => "time\n1\n".to_owned(),
        }
        .into_bytes();
        for _ in 0..20_000 {
            let pieces: [&[u8]; 8] = [b"\"", b"\n", b"[", b"{", b"\\", b" ", b",", &[rng.u8(..)]];
            log.extend_from_slice(pieces[rng.usize(0..8)]);
        }
        let run = replay(&place(), &["--input", kind, "--key", "'k'"], &log);
        assert_eq!(run.code, Some(0), "{kind}: {}", run.stderr);
        assert!(run.stderr.contains("lines were skipped"), "{}", run.stderr);
    }
}
