//! Malformed lines are counted, and stop the command only with `--strict`.

use serde_json::json;

use super::{line, replay, told};
use crate::support::Place;

fn place() -> Place {
    let good = |second| line(second, "a", "GET / HTTP/1.1", "200 5");
    let log = [
        good(1),
        "what is this\n".to_owned(),
        good(2),
        "1.2.3.4 - - [yesterday] \"GET / HTTP/1.1\" 200 1\n".to_owned(),
        good(3),
    ];
    Place::with_limits("\"5/s\"").file("access.log", &log.concat())
}

#[test]
fn they_are_counted_and_the_first_is_shown() {
    let run = replay(&place(), &["--input", "combined", "access.log"], "");
    assert_eq!(run.code, Some(0));
    assert_eq!(
        run.stderr,
        "warning: 2 of 5 lines were skipped, the first is access.log:2: there is no request in quotes in this line\n"
    );
    assert_eq!(told(&run), [1, 2, 3].map(|second| json!([second * 1_000_000, "a", 1])));
}

#[test]
fn strict_replays_stop_at_them() {
    let run = replay(&place(), &["--input", "combined", "--strict", "access.log"], "");
    assert_eq!(run.code, Some(2));
    assert_eq!(run.stderr, "access.log:2: there is no request in quotes in this line\n");
    assert_eq!(told(&run), [json!([1_000_000, "a", 1])], "what came before is decided");
}

#[test]
fn a_log_of_another_kind() {
    for (kind, why) in [
        ("jsonl", "access.log:1: this line is not a JSON object: "),
        ("combined", "waterclock.toml:1: there is no request in quotes in this line"),
    ] {
        let file = why.split(':').next().unwrap();
        let run = replay(&place(), &["--input", kind, file], "");
        assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""));
        assert!(run.stderr.starts_with(why), "{}", run.stderr);
        assert!(
            run.stderr.ends_with(&format!("lines can be read: is --input {kind} right?\n")),
            "{}",
            run.stderr
        );
        assert_eq!(run.stderr.lines().count(), 1);
    }
}

#[test]
fn a_field_that_no_line_has() {
    let log = "{\"user\":\"u\",\"time\":1}\n{\"user\":\"v\",\"time\":2}\n";
    let run = replay(&place(), &["--input", "jsonl", "--key", "usr"], log);
    assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""));
    assert_eq!(
        run.stderr,
        "<stdin>:1: there is no `usr` in this line, which --key needs; set a default with or_else(usr, …); \
         none of 2 lines can be read; the fields of the first are \"time, user\"\n"
    );
}

/// Lines that are as they should be are not blamed for an expression that has no value in any of them.
#[test]
fn an_expression_that_no_line_can_answer() {
    let cases = [
        (["--cost", "1 / bytes"], "--cost: a number is divided by zero"),
        (["--cost", "number(path)"], "--cost: \"/\" is not a number"),
        (
            ["--key", "user"],
            "there is no `user` in this line, which --key needs; set a default with or_else(user, …)",
        ),
    ];
    for (flags, why) in cases {
        let log = line(1, "a", "GET / HTTP/1.1", "200 0").repeat(3);
        let flags = [&["--input", "combined"], &flags[..]].concat();
        let run = replay(&Place::with_limits("\"5/s\""), &flags, log);
        let said = format!("<stdin>:1: {why}; none of 3 lines can be read\n");
        assert_eq!((run.code, run.stderr), (Some(2), said));
    }
}

#[test]
fn what_a_line_lacks() {
    let why = |flags: &[&str], log: &str| {
        let good = r#"{"time":1,"user":"u","n":2}"#;
        let flags = [&["--input", "jsonl"], flags].concat();
        let run = replay(&Place::with_limits("\"5/s\""), &flags, format!("{good}\n{log}\n"));
        assert_eq!((run.code, run.lines().len()), (Some(0), 1), "{}", run.stderr);
        let first =
            run.stderr.strip_prefix("warning: 1 of 2 lines were skipped, the first is <stdin>:2: ");
        first.unwrap_or_else(|| panic!("{}", run.stderr)).trim_end().to_owned()
    };
    let user = &["--key", "user", "--cost", "n"];
    let missing =
        "there is no `user` in this line, which --key needs; set a default with or_else(user, …)";
    assert_eq!(why(user, r#"{"time":2,"n":1}"#), missing);
    assert_eq!(
        why(user, r#"{"time":2,"user":"u"}"#),
        "there is no `n` in this line, which --cost needs; set a default with or_else(n, …)"
    );
    assert_eq!(why(user, r#"{"time":2,"user":"u","n":"x"}"#), "--cost: \"x\" is not a number");
    assert_eq!(
        why(user, r#"{"time":2,"user":"u","n":-1}"#),
        "a cost must be from 0 to 18446744073709551615; found -1"
    );
    assert_eq!(
        why(&["--key", "user", "--cost", "1 / n"], r#"{"time":2,"user":"u","n":0}"#),
        "--cost: a number is divided by zero"
    );
    assert_eq!(
        why(user, r#"{"user":"u","n":1}"#),
        "there is no time in this line: `t_us` or `time` or `timestamp` or `ts` or `@timestamp` or `date` is missing; name the field with --time"
    );
    assert!(
        why(user, r#"{"time":"noon","user":"u","n":1}"#)
            .starts_with("\"noon\" is not a time such as ")
    );
    assert_eq!(
        why(user, r#"{"time":-5,"user":"u","n":1}"#),
        "the time -5 is before 1970 or after 2116"
    );
}

#[test]
fn an_empty_log() {
    for kind in ["combined", "jsonl", "csv"] {
        for log in ["", "\n\r\n\n"] {
            let run = replay(&Place::with_limits("\"5/s\""), &["--input", kind], log);
            assert_eq!(
                (run.code, run.stdout.as_str(), run.stderr.as_str()),
                (Some(0), "", "warning: the trace is empty\n")
            );
        }
    }
}

#[test]
fn a_file_that_ends_too_early() {
    let whole = super::traffic::compressed(&line(1, "a", "GET / HTTP/1.1", "200 5").repeat(50));
    let run =
        replay(&Place::with_limits("\"5/s\""), &["--input", "combined"], &whole[..whole.len() - 9]);
    assert_eq!(run.code, Some(2));
    assert!(
        run.stderr.lines().last().unwrap().starts_with("<stdin>: cannot be read: "),
        "{}",
        run.stderr
    );
    assert!(run.lines().len() > 10, "what could be read is decided");
}
