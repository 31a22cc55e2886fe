//! A bad line stops the replay with its place; what was decided before is written.

use crate::support::Place;

#[test]
fn lines() {
    let place = Place::with_limits("\"3/s\"");
    let cases = [
        (
            "{\"t_us\":-1}",
            "10: invalid value: integer `-1`, expected `t_us` to be a whole number from 0 to 4611686018427387",
        ),
        (
            "{\"t_us\":1.5}",
            "11: invalid type: floating point `1.5`, expected `t_us` to be a whole number from 0 to 4611686018427387",
        ),
        (
            "{\"t_us\":4611686018427388}",
            "24: invalid value: integer `4611686018427388`, expected `t_us` to be a whole number from 0 to 4611686018427387",
        ),
        (
            "{\"t_us\":1,\"cost\":-1}",
            "19: invalid value: integer `-1`, expected `cost` to be a whole number from 0 to 18446744073709551615",
        ),
        (
            "{\"t_us\":1,\"cost\":0.5}",
            "20: invalid type: floating point `0.5`, expected `cost` to be a whole number from 0 to 18446744073709551615",
        ),
        ("{\"t_us\":1,\"cost\":NaN}", "18: this is not JSON: expected value"),
        (
            "{\"t_us\":1,\"cost\":18446744073709551616}",
            "37: invalid type: floating point `1.8446744073709552e+19`, expected `cost` to be a whole number from 0 to 18446744073709551615",
        ),
        ("{\"t_us\":1,\"key\":5}", "17: invalid type: integer `5`, expected `key` to be a string"),
        ("{\"t_us\":1,\"kee\":5}", "15: unknown key `kee` in an event; did you mean `key`?"),
        (
            "{\"t_us\":1,\"op\":\"chek\"}",
            "21: unknown op `chek` in an event; did you mean `check`?",
        ),
        (
            "{\"t_us\":1,\"op\":\"report\",\"outcome\":\"ok\"}",
            "39: `report` needs a policy with an error-rate limit",
        ),
        ("{\"t_us\":1,\"outcome\":\"ok\"}", "25: `outcome` belongs to `report` only"),
        ("{\"t_us\":1,\"t_us\":1}", "19: `t_us` stands twice in one event"),
        ("{}", "2: an event needs `t_us`"),
        (
            "[]",
            "1: invalid type: sequence, expected an event such as {\"t_us\": 1500000, \"key\": \"alice\", \"cost\": 1}",
        ),
        ("{\"t_us\":1", "9: this is not JSON: EOF while parsing an object"),
        ("{\"t_us\":1} {}", "12: this is not JSON: trailing characters"),
    ];
    for (line, expected) in cases {
        let run = place
            .run_with_input(&["replay", "--format", "jsonl"], &format!("{{\"t_us\":0}}\n{line}\n"));
        assert_eq!(run.code, Some(2), "{line}");
        assert_eq!(run.stderr, format!("<stdin>:2:{expected}\n"), "{line}");
        assert_eq!(run.stdout.lines().count(), 1, "{line}");
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
    let config = "[policies.login]\nlimits = [\"1/s\"]\nblock = [\"eve\"]\n[policies.api]\nlimits = [\"1/s\"]";
    let place = Place::with_config(config);
    let cases: [(&[&str], &str); 5] = [
        (&["replay"], "choose one of the policies `login` and `api` with --policy\n"),
        (
            &["replay", "--policy", "logn"],
            "there is no policy `logn` among `login` and `api`; did you mean `login`?\n",
        ),
        (
            &["replay", "--policy", "login"],
            "policy `login` sets `block`, which cannot be applied yet; remove that to run it\n",
        ),
        (
            &["check", "login", "eve"],
            "policy `login` sets `block`, which cannot be applied yet; remove that to run it\n",
        ),
        (
            &["replay", "--policy", "api", "--store", "redis://h"],
            "store \"redis://h\" is not available yet; use memory:\n",
        ),
    ];
    for (arguments, expected) in cases {
        let run = place.run(arguments);
        assert_eq!((run.code, run.stderr.as_str()), (Some(2), expected), "{arguments:?}");
    }
}
