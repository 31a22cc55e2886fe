//! The format of an input, told from its first lines.

use super::{Place, line, replay, told};

fn place() -> Place {
    Place::with_limits("\"3/m\"")
}

fn log() -> String {
    (0..3).map(|second| line(second, "192.0.2.1", "GET / HTTP/1.1", "200 9")).collect()
}

fn note(format: &str) -> String {
    format!("note: <stdin> is read as --input {format}, by the look of its first lines\n")
}

#[test]
fn every_format_is_recognised() {
    let json = "{\"time\":0,\"key\":\"a\"}\n{\"time\":1,\"key\":\"a\"}\n";
    let csv = "key,time\na,0\na,1\n";
    let no_time = "{\"at\":0,\"key\":\"a\"}\n";
    let cases: [(&str, &[&str], &str); 8] = [
        (&log(), &[], "combined"),
        (json, &[], "jsonl"),
        (csv, &[], "csv"),
        (no_time, &["--time", "at"], "jsonl"),
        ("key,at,other\na,0,1\n", &["--time", "at"], "csv"),
        // Fields and flags of logs: then this is no trace.
        (
            "{\"t_us\":0,\"key\":\"a\",\"status\":200}\n",
            &["--key", "lower(key)", "--time", "t_us"],
            "jsonl",
        ),
        // Lines of no format may come first.
        (&format!("\u{feff}\n# rotated\nagain\n{}", log()), &[], "combined"),
        (&format!("newsyslog: turned over\n{json}"), &[], "jsonl"),
    ];
    for (input, flags, format) in cases {
        let (guessed, named) = (
            replay(&place(), flags, input),
            replay(&place(), &[flags, &["--input", format]].concat(), input),
        );
        assert_eq!(guessed.code, Some(0), "{input}: {}", guessed.stderr);
        assert_eq!(guessed.stdout, named.stdout, "{input}");
        assert_eq!(guessed.stderr, note(format) + &named.stderr, "{input}");
        assert!(!told(&guessed).is_empty(), "{input}");
    }
}

/// Waterclock's own traces are read as ever, without a word.
#[test]
fn traces_are_not_announced() {
    let trace = "\n{\"t_us\":0}\n{\"t_us\":1,\"key\":\"b\",\"cost\":2,\"op\":\"peek\"}\n";
    let named = replay(&place(), &["--input", "trace"], trace).ok();
    assert_eq!(replay(&place(), &[], trace).ok().stdout, named.stdout);
    // As lines of a log, its events would lose their cost and their verb.
    let strict = replay(&place(), &["--strict"], trace);
    strict.fails(
        "--strict is for access logs; name their format with --input combined, jsonl or csv",
    );
    let broken = replay(&place(), &[], "{\"t_us\":\n");
    assert_eq!(broken.stderr, replay(&place(), &["--input", "trace"], "{\"t_us\":\n").stderr);
    let compressed = {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut gzip, trace.as_bytes()).unwrap();
        gzip.finish().unwrap()
    };
    assert_eq!(replay(&place(), &[], compressed).ok().stdout, named.stdout);
}

#[test]
fn columns_need_no_name_of_the_format() {
    let run = replay(&place(), &["--delimiter", ";", "--time", "t"], "key;t\na;1\n").ok();
    assert_eq!(told(&run)[0][1], "a");
}

#[test]
fn what_is_of_no_format() {
    for input in [
        "nginx started, version 1.2, pid 33\n",
        "hello\nworld\n",
        "GET /\n",
        "a,b\n1,2\n",
        "[1]\n",
        "\0\u{1}\u{2}",
    ] {
        let run = replay(&place(), &[], input);
        run.fails(
            "<stdin>: its first lines are neither a trace nor an access log of a known format",
        );
        run.fails("name the format with --input trace, combined, jsonl or csv");
    }
}

/// `diff` and `simulate` look too.
#[test]
fn other_commands() {
    let place =
        place().file("access.log", &log()).file("new.toml", "[policies.p]\nlimits = [\"1/m\"]\n");
    let run = place.run(&["diff", "waterclock.toml", "new.toml", "--trace", "access.log"]);
    assert_eq!(run.code, Some(1), "{}", run.stderr);
    let note = "note: access.log is read as --input combined, by the look of its first lines\n";
    assert_eq!(run.stderr, note);
    run.says(&["newly refused            2  of one key"]);
    let run = place.run(&["simulate", "1/m", "--arrivals", "access.log", "--json"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(run.stderr.starts_with(note), "{}", run.stderr);
}

/// A limit of the command line needs no file.
#[test]
fn a_limit_without_a_file() {
    let place = Place::new();
    let run = place.run_with_input(&["replay", "--limit", "1/m"], &log());
    assert_eq!((run.code, run.stderr), (Some(0), note("combined")));
    assert!(run.stdout.contains("refused                   2   66.7 %"), "{}", run.stdout);
    assert!(run.stdout.contains("\"192.0.2.1\""), "the key is the address: {}", run.stdout);
    let both = ["--limit", "1/m", "--limit", "2/h rolling-window", "--key", "'all'"];
    let run = replay(&place, &both, log());
    assert_eq!(run.lines()[1]["refused_by"], serde_json::json!(["gcra"]));
    assert_eq!(run.lines()[1]["key"], "all");
    let with_file = Place::with_limits("\"1/m\"");
    assert_eq!(with_file.run(&["replay", "--limit", "1/m", "--policy", "p"]).code, Some(2));
    place.run(&["replay", "--limit", "often"]).fails("--limit: \"often\" is not a limit");
}

/// The key of a log is the client's address, whatever the format calls it.
#[test]
fn the_address_is_the_key() {
    let json = "{\"time\":0,\"remote_addr\":\"192.0.2.1\"}\n";
    let run = replay(&Place::new(), &["--limit", "1/m"], json);
    assert_eq!(told(&run)[0][1], "192.0.2.1");
    assert!(
        run.stderr.contains("the key is `remote_addr`; choose another with --key"),
        "{}",
        run.stderr
    );
}
