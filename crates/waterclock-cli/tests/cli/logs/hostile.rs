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
        run.warns(&said);
        assert_eq!(run.lines().len(), 2);
    }
    // And one that never ends at all.
    let run = replay(&place(), &["--input", "jsonl"], "{".repeat(3 << 20));
    assert_eq!(run.code, Some(2));
}

/// No server takes them, and they must not add up in memory until lines are in order.
#[test]
fn large_keys() {
    let of_length = |length: usize| line(1, &"k".repeat(length), "GET / HTTP/1.1", "200 5");
    let log = of_length(1_024) + &of_length(1_025) + &of_length(900_000).repeat(20);
    let run = replay(&place(), &["--input", "combined"], &log);
    assert_eq!(run.code, Some(0));
    assert_eq!(
        run.stderr,
        "warning: 21 of 22 lines were skipped, the first is <stdin>:2: a key must be at most 1024 bytes long; found 1025\n"
    );
    let keys: Vec<usize> =
        run.lines().iter().map(|line| line["key"].as_str().unwrap().len()).collect();
    assert_eq!(keys, [1_024]);
    let run = replay(&place(), &["--input", "combined", "--strict"], of_length(1_025));
    assert_eq!(run.code, Some(2));
}

/// What a file says is shown, but not obeyed, and not at any length.
const TRACE: &[&str] = &["--input", "trace"];

#[test]
fn complaints_that_quote_the_file() {
    let escape = "\u{1b}[31m\u{202e}";
    let long = "n".repeat(100_000);
    let json = |text: &str| serde_json::to_string(text).unwrap();
    let cases: [(&[&str], String, &str); 11] = [
        (TRACE, format!("{{{}:1}}", json("\u{1b}[31mk")), "unknown key `\\u{1b}[31mk` in an event"),
        (TRACE, format!("{{{}:1}}", json(&long)), "unknown key `nnnn"),
        (&[], format!("{{\"op\":{}}}", json(escape)), "unknown op `\\u{1b}[31m\\u{202e}` in"),
        (&[], format!("{{\"t_us\":{}}}", json(escape)), "; found \"\\u{1b}[31m"),
        (&[], format!("{{\"t_us\":{}}}", json(&long)), "; found \"nnnn"),
        (
            &["--input", "csv", "--key", "user"],
            "time,use\u{9b}r\n1,a\n".to_owned(),
            "did you mean `use\\u{9b}r`?",
        ),
        (
            &["--input", "csv", "--time", "nnn"],
            format!("{long},{escape}\n"),
            "there is no column `nnn`",
        ),
        (&["--input", "jsonl"], json(&(escape.to_owned() + &long)), "string \"\\u{1b}[31m"),
        (&["--input", "jsonl"], format!("{{{}:1}}", json(escape)), "the fields of the first are"),
        (
            &["--input", "jsonl"],
            format!("{{\"time\":{}}}", json(&format!("2300-01-01 00:00:00.{}", "0".repeat(9_999)))),
            "the time 2300-01-01 00:00:00.000",
        ),
        (
            &["--input", "jsonl", "--key", "'k'", "--cost", "time"],
            format!("{{\"time\":{}}}", json(&(escape.to_owned() + &long))),
            "is not a time",
        ),
    ];
    for (flags, input, expected) in cases {
        let run = replay(&place(), flags, input);
        let said = &run.stderr;
        assert_eq!(run.code, Some(2), "{flags:?}");
        assert!(said.contains(expected), "{flags:?}: {said:.500}");
        assert!(said.len() < 600 && said.lines().count() == 1, "{flags:?}: {said:.500}");
        let is_plain = |letter: char| !letter.is_control() && letter != '\u{202e}';
        assert!(said.trim_end().chars().all(is_plain), "{flags:?}: {said:?}");
    }
}

/// The first quote begins the request: a user name cannot bring a time along. Nor does a client charge another by asking
/// for its address as a host.
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
        replay(&place(), &["--input", "combined", "--key", "client_ip + or_else(agent, '')"], &log)
            .ok();
    assert_eq!(told(&run)[1][1], "\u{fffd}\u{fffd}\u{1b}[2J");
    // A complaint shows it in a form that no terminal obeys.
    let run = replay(&place(), &["--input", "csv", "--key", "'k'"], "time\n1\n\x1b[2J\n");
    assert!(run.stderr.contains("\"\\u{1b}[2J\" is not a time"), "{:?}", run.stderr);
}

#[test]
fn quotes_that_nothing_closes() {
    let long = "x".repeat(600_000);
    // So many lines are read, however many were looked at for the end of the column.
    for (after, read) in [
        ("3,c\n".repeat(200), 200),
        ("3,c\n".repeat(9), 9),
        ("3,c".to_owned(), 1),
        ("3,c\n4,\"d\"\n5,e\n".to_owned(), 3),
        ("3,c\n\"4\",\"d\ne\"\n5,e\n".to_owned(), 3),
        (format!("3,c,{long}\n3,c,{long}\n3,c,{long}\n"), 3),
    ] {
        let csv = format!("time,who\n1,a\n2,\"b\n{after}");
        let run = replay(&place(), &["--input", "csv", "--key", "who"], csv);
        assert_eq!(run.code, Some(0));
        let said = format!(
            "1 of {} lines were skipped, the first is <stdin>:3: a quote at the start of a column is never closed",
            read + 2
        );
        run.warns(&said);
        assert_eq!(run.lines().len(), read + 1);
    }
    // Each of them looks for its end in vain.
    let csv = format!("time,who\n1,a\n{}2,b\nx\n", "2,\"b\n".repeat(301));
    let run = replay(&place(), &["--input", "csv", "--key", "who"], &csv);
    run.warns("302 of 304 lines were skipped");
}

/// Two numbers that no float tells apart.
#[test]
fn numbers_of_many_digits() {
    let log = "{\"ts\":1,\"id\":18446744073709551617}\n{\"ts\":2,\"id\":18446744073709551618}\n";
    let run = replay(&place(), &["--input", "jsonl", "--key", "id"], log);
    let keys: Vec<serde_json::Value> = told(&run).iter().map(|event| event[1].clone()).collect();
    assert_eq!(keys, ["18446744073709551617", "18446744073709551618"]);
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
        run.warns("lines were skipped");
    }
}
