//! Why a configuration change refuses or allows a client: the limit that does it, or the calls before.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::support::Place;

/// The reasons for the changes of all keys, and those of each key, most of them first.
fn reasons(old: &str, new: &str, trace: &str) -> (Vec<Value>, Vec<Value>) {
    let of = |text: &str| format!("[policies.p]\n{text}\n");
    let place = Place::new().file("old.toml", &of(old)).file("new.toml", &of(new)).file("t", trace);
    let arguments = ["diff", "old.toml", "new.toml", "--trace", "t", "-p", "p", "--json"];
    let mut tried = place.run(&arguments).json()["trace"].take();
    let list = |value: Value| value.as_array().cloned().unwrap_or_default();
    (list(tried["reasons"].take()), list(tried["most_changed_keys"].take()))
}

/// Checks of one key, each at its second.
fn at_seconds(seconds: &[u64]) -> String {
    seconds
        .iter()
        .map(|second| format!("{{\"t_us\":{},\"key\":\"k\"}}\n", second * 1_000_000))
        .collect()
}

/// Codes, directions and checks.
type Found<'a> = &'a [(&'a str, &'a str, u64)];

/// Each as old limits, new limits, the seconds of checks, and the reasons with the checks that each explains.
#[test]
fn the_reason_is_the_true_one() {
    const FIVE: &str =
        "{ name = \"five\", algorithm = \"rolling-window\", limit = 5, per = \"1h\" }";
    const TWO: &str =
        "{ name = \"five\", algorithm = \"rolling-window\", limit = 2, per = \"1h\" }";
    const GAP: &str = "{ name = \"gap\", algorithm = \"min-interval\", every = \"10s\" }";
    let limits = |limits: &[&str]| format!("limits = [{}]", limits.join(", "));
    let shadow = |limit: &str| limit.replace(" }", ", shadow = true }");
    let seconds: Vec<u64> = (0..8).collect();
    let far: Vec<u64> = [0, 1, 2, 3, 20, 40, 60, 80].to_vec();
    let cases: [(String, String, &[u64], Found<'_>); 12] = [
        // Rules.
        (limits(&[FIVE]), limits(&[TWO]), &seconds, &[("limit-changed", "newly_refused", 3)]),
        (limits(&[TWO]), limits(&[FIVE]), &seconds, &[("limit-changed", "newly_allowed", 3)]),
        (limits(&[FIVE]), limits(&[FIVE, GAP]), &seconds, &[("limit-added", "newly_refused", 4)]),
        (limits(&[FIVE, GAP]), limits(&[FIVE]), &seconds, &[("limit-removed", "newly_allowed", 4)]),
        (limits(&[&shadow(TWO)]), limits(&[TWO]), &seconds, &[("limit-enforced", "newly_refused", 6)]),
        (limits(&[TWO]), limits(&[&shadow(TWO)]), &seconds, &[("limit-in-shadow", "newly_allowed", 6)]),
        (
            format!("{}\nblock = [\"k\"]", limits(&[FIVE])),
            limits(&[FIVE]),
            &seconds,
            &[("no-longer-blocked", "newly_allowed", 5)],
        ),
        (
            format!("shadow = true\n{}", limits(&[TWO])),
            limits(&[TWO]),
            &seconds,
            &[("policy-enforced", "newly_refused", 6)],
        ),
        (
            limits(&[TWO]),
            format!("{}\nexempt = [\"k\"]", limits(&[TWO])),
            &seconds,
            &[("exempt", "newly_allowed", 6)],
        ),
        // The calls before: three that the gap refuses no longer count, so three later ones pass.
        (
            limits(&[FIVE]),
            limits(&[FIVE, GAP]),
            &far,
            &[("fewer-allowed-before", "newly_allowed", 3), ("limit-added", "newly_refused", 3)],
        ),
        // And the other way round.
        (
            limits(&[FIVE, GAP]),
            limits(&[FIVE]),
            &far,
            &[("limit-removed", "newly_allowed", 3), ("more-allowed-before", "newly_refused", 3)],
        ),
        // Refused calls counted, and no longer do: after five seconds without, the same limit lets it pass.
        (
            "mode = \"uniform\"\nlimits = [{ name = \"two\", algorithm = \"rolling-window\", limit = 2, per = \"10s\" }]".to_owned(),
            "limits = [{ name = \"two\", algorithm = \"rolling-window\", limit = 2, per = \"10s\" }]".to_owned(),
            &[0, 1, 5, 6, 12],
            &[("refusals-no-longer-count", "newly_allowed", 1)],
        ),
    ];
    for (old, new, seconds, expected) in cases {
        let (all, keys) = reasons(&old, &new, &at_seconds(seconds));
        let mut found: Vec<Value> = all
            .iter()
            .map(|reason| json!([reason["code"], reason["change"], reason["checks"]]))
            .collect();
        found.sort_by_key(Value::to_string);
        assert_eq!(
            found,
            expected.iter().map(|case| json!(case)).collect::<Vec<Value>>(),
            "{old} → {new}"
        );
        assert_eq!(keys[0]["reasons"], json!(all), "one key has them all");
    }
}

#[test]
fn sentences_name_the_limit_and_its_numbers() {
    let (all, _) = reasons("limits = [\"5/m\"]", "limits = [\"2/m\"]", &at_seconds(&[0, 0, 0, 0]));
    let sentence = "refused by `gcra`, which was 5 per 1 min and is 2 per 1 min";
    assert_eq!((&all[0]["sentence"], &all[0]["limit"]), (&json!(sentence), &json!("gcra")));
    assert_eq!((&all[0]["old"], &all[0]["new"]), (&json!("5 per 1 min"), &json!("2 per 1 min")));
    let of = |more: &str| format!("[policies.p]\nlimits = [\"5/m\"{more}]\n");
    let hourly = ", { name = \"hourly\", algorithm = \"fixed-window\", limit = 2, per = \"1h\" }";
    let place = Place::new()
        .file("old.toml", &of(""))
        .file("new.toml", &of(hourly))
        .file("t", &at_seconds(&[0, 1, 2, 3]));
    let run = place.run(&["diff", "old.toml", "new.toml", "--trace", "t"]);
    run.says(&["why\n             2  refused by `hourly`, which is new"]);
}

/// Up to three limits with different names.
fn random_limits(random: &mut fastrand::Rng) -> String {
    let names = &["a", "b", "c"][random.usize(..3)..];
    let mut limit = |name: &&str| {
        let algorithms = ["gcra", "rolling-window", "fixed-window", "sliding-window"];
        let (algorithm, limit) = (algorithms[random.usize(..4)], random.u32(2..12));
        let per = random.u32(2..20);
        format!(
            "{{ name = \"{name}\", algorithm = \"{algorithm}\", limit = {limit}, per = \"{per}s\" }}"
        )
    };
    let limits: Vec<String> = names.iter().map(&mut limit).collect();
    format!("limits = [{}]", limits.join(", "))
}

/// For every change and every client: a client's first change has no calls before it that explain it, so there is a rule
/// for each, and every change is explained.
#[test]
fn every_change_has_a_reason() {
    let mut random = fastrand::Rng::with_seed(5);
    for _ in 0..12 {
        let (old, new) = (random_limits(&mut random), random_limits(&mut random));
        let (mut t_us, mut trace) = (0, String::new());
        for _ in 0..600 {
            t_us += random.u64(..700_000);
            writeln!(trace, "{{\"t_us\":{t_us},\"key\":\"k{}\"}}", random.u32(..5)).unwrap();
        }
        let (_, keys) = reasons(&old, &new, &trace);
        for key in keys {
            let list = key["reasons"].as_array().unwrap();
            let is_rule = |reason: &&Value| !reason["code"].as_str().unwrap().ends_with("-before");
            assert!(list.iter().any(|reason| is_rule(&reason)), "{old} → {new}: {key}");
            for change in ["newly_refused", "newly_allowed"] {
                let of_change = list.iter().filter(|reason| reason["change"] == change);
                let explained: u64 =
                    of_change.map(|reason| reason["checks"].as_u64().unwrap()).sum();
                let is_cut = list.len() == 4;
                assert!(is_cut || explained >= key[change].as_u64().unwrap(), "{key}");
            }
        }
    }
}
