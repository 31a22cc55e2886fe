//! Files that cannot be taken over.

use crate::support::Place;

#[test]
fn mistakes_have_a_place_and_a_sentence() {
    let limit = "rate_limit: { unit: day, requests_per_unit: 1 }";
    let cases = [
        ("", "a.yaml: is empty: nothing to import"),
        ("descriptors: []\n", "a.yaml:1:1: missing field `domain`"),
        ("domain: ''\n", "a.yaml:1:9: `domain` must not be empty"),
        ("domain: d\n", "there are no limits in these files: nothing to import"),
        (
            "domain: d\ndescriptors:\n  - kye: k\n",
            "a.yaml:3:5: unknown field `kye`, expected one of key, value, rate_limit, descriptors, shadow_mode, quota_mode, detailed_metric, value_to_metric, share_threshold",
        ),
        ("domain: d\ndescriptors:\n  - value: k\n", "a.yaml:3:5: a descriptor needs a `key`"),
        (
            "domain: d\ndescriptors:\n  - key: k\n    rate_limit:\n      unit: fortnight\n      requests_per_unit: 1\n",
            "a.yaml:5:7: `unit` must be second, minute, hour, day, week, month or year; found \"fortnight\"",
        ),
        (
            "domain: d\ndescriptors:\n  - key: k\n    rate_limit:\n      unit: day\n      unlimited: true\n",
            "a.yaml:5:7: `unlimited` goes without a `unit`; remove one of them",
        ),
        (
            "domain: d\ndescriptors:\n  - key: k*\n",
            "a.yaml:3:5: a `*` at the end of a `key` has no counterpart here; only values have wildcards",
        ),
        (
            "domain: d\ndescriptors:\n  - key: k\n    share_threshold: true\n",
            "a.yaml:3:5: `share_threshold` needs a `value` that ends with `*`",
        ),
        (
            "domain: d\ndescriptors:\n  - key: k\n    rate_limit: { unit: day, name: a, replaces: [{ name: a }] }\n",
            "a.yaml:4:17: a limit cannot replace itself; `replaces` names others",
        ),
    ];
    for (yaml, expected) in cases {
        let run = Place::new().file("a.yaml", yaml).run(&["import", "a.yaml"]);
        assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""), "{yaml}");
        assert_eq!(run.stderr, format!("{expected}\n"), "{yaml}");
    }
    let twice = format!("domain: d\ndescriptors:\n  - key: k\n    {limit}\n");
    let place = Place::new().file("a.yaml", &twice).file("b.yaml", &twice);
    let run = place.run(&["import", "a.yaml", "b.yaml"]);
    assert_eq!(
        run.stderr,
        "b.yaml:3:5: there is another descriptor with the key `k` and no value beside this one; put them together\n"
    );
    let run = place.run(&["import", "missing.yaml"]);
    assert_eq!(run.stderr, "missing.yaml: there is no such file\n");
    let run = Place::new().file("a.yaml", "a: [").run(&["import", "a.yaml"]);
    assert_eq!(run.code, Some(2));
    assert!(run.stderr.starts_with("a.yaml:"), "{}", run.stderr);
}

#[test]
fn names_of_policies_are_plain_and_unique() {
    let long = "x".repeat(100);
    let yaml = format!(
        "domain: D\ndescriptors:\n\
         \x20 - {{ key: Käse, rate_limit: {{ unit: day, requests_per_unit: 1 }} }}\n\
         \x20 - {{ key: K.se, rate_limit: {{ unit: day, requests_per_unit: 1 }} }}\n\
         \x20 - {{ key: {long}a, rate_limit: {{ unit: day, requests_per_unit: 1 }} }}\n\
         \x20 - {{ key: {long}b, rate_limit: {{ unit: day, requests_per_unit: 1 }} }}\n"
    );
    let place = Place::new().file("a.yaml", &yaml);
    let text = place.run(&["import", "a.yaml"]).stdout;
    let names: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("[policies.")?.split(']').next())
        .collect();
    let cut = format!("d-{}", "x".repeat(62));
    let numbered = format!("d-{}-2", "x".repeat(60));
    assert_eq!(names, ["d-k-se", "d-k-se-2", &cut, &numbered]);
    let place = place.file("waterclock.toml", &text);
    assert_eq!(place.run(&["validate"]).code, Some(0));
}

#[test]
fn texts_are_quoted() {
    let yaml = "domain: \"a\\\"b\\\\c\\nd\"\ndescriptors:\n  - key: \"[x] = 'y' #\"\n    value: \"\\u0007é\"\n    rate_limit: { unit: day, requests_per_unit: 1 }\n";
    let place = Place::new().file("a.yaml", yaml);
    let text = place.run(&["import", "a.yaml"]).stdout;
    let run = place.file("waterclock.toml", &text).run(&["validate"]);
    assert_eq!(run.code, Some(0), "{}\n{text}", run.stderr);
}
