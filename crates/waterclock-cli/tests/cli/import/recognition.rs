//! Which format a file is in.

use crate::support::Place;

/// The result says so in its comments.
#[test]
fn formats_are_recognised_from_the_content() {
    for (file, about) in [
        (
            "domain: d\ndescriptors:\n  - { key: k, rate_limit: { unit: day, requests_per_unit: 1 } }\n",
            "as Envoy's",
        ),
        (
            r#"{"domain":"d","descriptors":[{"key":"k","rate_limit":{"unit":"day","requests_per_unit":1}}]}"#,
            "as Envoy's",
        ),
        ("- { namespace: n, max_value: 1, seconds: 1 }\n", "as in Limitador"),
        (r#"[{"namespace":"n","max_value":1,"seconds":1}]"#, "as in Limitador"),
        (r#"{"a": {"type": "bucket", "size": 3}}"#, "as in Sharkey"),
        (r#"{"a": {"max": 3, "duration": 5}, "b": {"size": 3}}"#, "as in Sharkey"),
        (r#"{"points": 3, "duration": 5}"#, "as in rate-limiter-flexible"),
        (r#"[{"points": 3, "duration": 5, "keyPrefix": "a"}]"#, "as in rate-limiter-flexible"),
        (r#"{"windowMs": 3000, "max": 5}"#, "as in express-rate-limit"),
        (r#"{"api": {"legacyHeaders": false}}"#, "as in express-rate-limit"),
    ] {
        let run = Place::new().file("f", file).run(&["import", "f"]);
        assert_eq!(run.code, Some(0), "{file}: {}", run.stderr);
        assert!(run.stdout.replace("\n# ", " ").contains(about), "{file}\n{}", run.stdout);
    }
}

#[test]
fn what_is_not_clear_is_asked_for() {
    const ALL: &str = "f: is in no format that is recognised; name it with --from, one of envoy, limitador, sharkey, misskey, rate-limiter-flexible, express-rate-limit";
    for (file, expected) in [
        (
            r#"{"a": {"max": 3, "duration": 5}}"#,
            "f: may be sharkey or misskey; say which with --from",
        ),
        (
            r#"[{"key": "a", "minInterval": 5}]"#,
            "f: may be sharkey or misskey; say which with --from",
        ),
        (
            r#"{"a": {"points": 3}, "b": {"windowMs": 5}}"#,
            "f: may be rate-limiter-flexible or express-rate-limit; say which with --from",
        ),
        (r#"{"max": 3}"#, ALL),
        ("a: 1\n", ALL),
        (r#"{"points": 3,}"#, "f:1:14: trailing comma"),
        ("{}", "f: holds no limits: nothing to import"),
        ("[]", "f: holds no limits: nothing to import"),
        ("7", ALL),
        (" \n", "f: is empty: nothing to import"),
    ] {
        let run = Place::new().file("f", file).run(&["import", "f"]);
        assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""), "{file}");
        assert_eq!(run.stderr, format!("{expected}\n"), "{file}");
    }
}

#[test]
fn files_are_of_one_format() {
    let place = Place::new()
        .file("a.json", r#"{"login": {"points": 3, "duration": 5}}"#)
        .file(
            "b.json",
            r#"{"api": {"points": 4, "duration": 5}, "login": {"points": 5, "duration": 5}}"#,
        )
        .file("c.json", r#"{"windowMs": 1}"#);
    let both = place.run(&["import", "a.json", "b.json"]);
    both.warns("login: its policy is called login-2, because");
    both.says(&[
        "# Imported from a.json, b.json.",
        "[policies.login] # a.json",
        "[policies.api] # b.json",
        "[policies.login-2] # b.json",
    ]);
    place.run(&["import", "a.json", "c.json"]).fails(
        "a.json is rate-limiter-flexible and c.json is express-rate-limit; import them one after the other",
    );
}

#[test]
fn mistakes_in_json_have_a_place() {
    for (file, expected) in [
        ("{\"a\": {\"points\": 1}, \"a\": {\"points\": 1}}", "f:1:40: `a` is here twice"),
        ("{\"a\": [\"points\"]}", "f: limiter 1: `points` is needed"),
        ("[1]", "f: limiter 1 must be an object of options"),
        ("{", "f:1:1: EOF while parsing an object"),
    ] {
        let run =
            Place::new().file("f", file).run(&["import", "f", "--from", "rate-limiter-flexible"]);
        assert_eq!((run.code, run.stderr.as_str()), (Some(2), &*format!("{expected}\n")), "{file}");
    }
    Place::new().run(&["import", "gone.json"]).fails("gone.json: there is no such file");
    let place = Place::new().file("f", r#"{"max": 3, "duration": 5}"#);
    place.run(&["import", "f", "--from", "valve"]).warns("rate-limiter-flexible");
}
