//! A bad line stops the replay with its place; what was decided before is written.

use std::io::Write;

use crate::support::{Place, cases};

/// Lines of a trace, each with its column and what is wrong there.
const LINES: &str = r#"
{"t_us":-1}
=> 10: `t_us` must be a whole number from 0; found -1
{"t_us":1.5}
=> 11: `t_us` must be a whole number from 0; found 1.5
{"t_us":4611686018427388}
=> 24: `t_us` must be a whole number from 0 to 4611686018427387; found 4611686018427388
{"t_us":99999999999999999999}
=> 28: `t_us` must be a whole number from 0 to 4611686018427387; found 99999999999999999999
{"t_us":1,"cost":-1}
=> 19: `cost` must be a whole number from 0; found -1
{"t_us":1,"cost":0.5}
=> 20: `cost` must be a whole number from 0; found 0.5
{"t_us":1,"cost":"x"}
=> 20: `cost` must be a whole number from 0; found "x"
{"t_us":1,"cost":null}
=> 21: `cost` must be a whole number from 0; found null
{"t_us":1,"cost":[1]}
=> 18: `cost` must be a whole number from 0; found an array
{"t_us":1,"cost":{"tokens":1}}
=> 1: policy `p` counts `requests`, not `tokens`
{"t_us":1,"cost":NaN}
=> 18: `cost` must be a whole number from 0; found NaN
{"t_us":1,"cost" : -Infinity}
=> 21: `cost` must be a whole number from 0; found -Infinity
{"t_us":1,"cost":18446744073709551616}
=> 37: `cost` must be a whole number from 0 to 18446744073709551615; found 18446744073709551616
{"t_us":1,"key":5}
=> 17: `key` must be a string; found 5
{"t_us":1,"op":true}
=> 19: `op` must be a string; found true
{"t_us":1,"kee":5}
=> 15: unknown key `kee` in an event; did you mean `key`?
{"t_us":1,"op":"chek"}
=> 21: unknown op `chek` in an event; did you mean `check`?
{"t_us":1,"op":"report","outcome":"ok"}
=> 1: `report` needs a policy with an error-rate limit
{"t_us":1,"op":"report"}
=> 24: `report` needs an `outcome`, "ok" or "error"
{"t_us":1,"outcome":"ok"}
=> 25: `outcome` belongs to `report` only
{"t_us":1,"t_us":1}
=> 19: `t_us` is there twice in one event
{}
=> 2: an event needs `t_us`
[]
=> 1: a line must be an event such as {"t_us": 0, "key": "alice"}; found an array
{"t_us":1
=> 9: this line is not JSON; write an event such as {"t_us": 0, "key": "alice"}
t_us=1
=> 2: this line is not JSON; write an event such as {"t_us": 0, "key": "alice"}
{"t_us":1,"key":NaN}
=> 17: this line is not JSON; write an event such as {"t_us": 0, "key": "alice"}
{"t_us":1} {}
=> 12: one event per line; nothing may follow it
{"t_us":1},
=> 11: one event per line; nothing may follow it
"#;

#[test]
fn lines() {
    let place = Place::with_limits("\"3/s\"");
    for (line, expected) in cases(LINES) {
        let run = place
            .run_with_input(&["replay", "--format", "jsonl"], &format!("{{\"t_us\":0}}\n{line}\n"));
        assert_eq!(run.code, Some(2), "{line}");
        assert_eq!(run.stderr, format!("<stdin>:2:{expected}\n"), "{line}");
        assert_eq!(run.stdout.lines().count(), 1, "{line}");
    }
}

/// It is not waited for, and does not fill memory.
#[test]
fn a_line_without_an_end() {
    let place = Place::with_limits("\"3/s\"");
    for start in ["", "{\"t_us\":1,\"key\":\""] {
        let mut child = place.command(&["replay", "--format", "jsonl"]).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(b"{\"t_us\":0}\n").unwrap();
        stdin.write_all(start.as_bytes()).unwrap();
        let chunk = vec![b'x'; 1 << 20];
        let taken = (0..256).take_while(|_| stdin.write_all(&chunk).is_ok()).count();
        drop(stdin);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(said, "<stdin>:2:1: this line is longer than 1048576 bytes\n");
        assert!(taken < 16, "{taken} MiB were read");
    }
}

#[test]
fn time_that_goes_back() {
    let place = Place::with_limits("\"3/s\"").file("trace.jsonl", "{\"t_us\":5}\n\n{\"t_us\":4}\n");
    let run = place.run(&["replay", "--format", "jsonl", "trace.jsonl"]);
    assert_eq!(run.code, Some(2));
    assert_eq!(
        run.stderr,
        "trace.jsonl:3:1: time goes back from 5 to 4; `t_us` must not decrease\n"
    );
    assert_eq!(run.lines().len(), 1);
}

#[test]
fn what_cannot_run_is_said() {
    let config = "[policies.login]\nlimits = [\"1/s\"]\n[policies.api]\nlimits = [\"1/s\"]";
    let place = Place::with_config(config);
    let cases: [(&[&str], &str); 5] = [
        (&["replay"], "choose one of the policies `login` and `api` with --policy\n"),
        (
            &["replay", "--policy", "logn"],
            "there is no policy `logn` in waterclock.toml, which has `login` and `api`; did you mean `login`?\n",
        ),
        (
            &["replay", "--policy", "nope"],
            "there is no policy `nope` in waterclock.toml, which has `api` and `login`\n",
        ),
        (&["replay", "--policy", "api", "nope.jsonl"], "nope.jsonl: there is no such file\n"),
        (
            &["replay", "--policy", "api", "--store", "memory"],
            "--store must be \"memory:\", or begin with redis://, rediss://, redis-cluster:// or redis-sentinel://; found \"memory\"\n",
        ),
    ];
    for (arguments, expected) in cases {
        let run = place.run(arguments);
        assert_eq!((run.code, run.stderr.as_str()), (Some(2), expected), "{arguments:?}");
    }
}

#[test]
fn nothing_decided_is_no_summary() {
    let place = Place::with_limits("\"3/s\"");
    let run = place.run_with_input(&["replay"], "{}\n");
    assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""));
    assert_eq!(run.stderr, "<stdin>:1:2: an event needs `t_us`\n");
    for format in ["summary", "jsonl"] {
        let run = place.run_with_input(&["replay", "--format", format], "\n");
        assert_eq!((run.code, run.stderr.as_str()), (Some(0), "warning: the trace is empty\n"));
    }
}
