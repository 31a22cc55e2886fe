//! What is advised holds when it is played, for every algorithm.

use serde_json::{Value, json};

use super::{list, number, trace};
use crate::support::Place;

fn report(limits: &str, trace: &str) -> Value {
    let place = Place::with_limits(limits);
    place.run_with_input(&["replay", "-p", "p", "--json"], trace).ok().json()
}

const LIMITS: [&str; 8] = [
    "\"3/s\"",
    "{ algorithm = \"gcra\", limit = 30, per = \"10s\", capacity = 7 }",
    "{ algorithm = \"fixed-window\", limit = 3, per = \"10s\", align = \"epoch\" }",
    "\"3/10s sliding-window\"",
    "\"3/10s rolling-window\"",
    "{ algorithm = \"rolling-window\", limit = 3, per = \"10s\", buckets = 10 }",
    "\"3/10s quota\"",
    "{ algorithm = \"min-interval\", every = \"1s\" }",
];

/// The advised limit refuses at most its share of the clients that are not set aside, and one smaller refuses more.
#[test]
fn advised_limits_are_enough_and_the_smallest() {
    let trace = trace(5, 250, 3);
    for limit in LIMITS {
        let first = report(limit, &trace);
        let advice = &first["advice"][0];
        let aside = number(&advice["outliers"]["clients"]);
        let others = number(&first["clients"]) - aside;
        for found in list(&advice["percentiles"]) {
            let share = found["clients_percent"].as_f64().unwrap();
            let refused = |limit: &str| {
                let refused = number(&report(limit, &trace)["clients_refused"]);
                refused.saturating_sub(aside) as f64
            };
            let most = others as f64 * (100.0 - share) / 100.0;
            let toml = found["toml"].as_str().unwrap_or_else(|| panic!("{limit}: {advice}"));
            assert!(refused(toml) <= most + 1e-9, "{limit}: {found}");
            // One smaller, as the curve's own numbers are: found by playing every number below it.
            let value = number(&found["limit"]);
            let less = match advice["field"].as_str() {
                Some("every") => {
                    toml.replace(&format!("\"{}\"", every(toml)), &format!("\"{}us\"", value + 1))
                }
                _ if value == 1 || limit.contains("capacity") => continue,
                _ => toml.replace(&format!("limit = {value}"), &format!("limit = {}", value - 1)),
            };
            assert_ne!(less, toml);
            assert!(refused(&less) > most + 1e-9, "{limit}: {found} and {less}");
        }
    }
}

/// The interval as a limit's TOML has it.
fn every(toml: &str) -> &str {
    toml.split_once("every = \"").unwrap().1.split('"').next().unwrap()
}

/// A larger number never refuses more, the last refuses nobody, and the policy's own refuses what the replay refused.
#[test]
fn curves_fall_and_meet_the_replay() {
    for cost in [1, 4] {
        let trace = trace(7, 120, cost);
        for limit in LIMITS {
            let report = report(limit, &trace);
            let curve = &report["curves"][0];
            let points = list(&curve["points"]);
            assert!((5..60).contains(&points.len()), "{limit}: {}", points.len());
            assert_eq!(
                (&curve["clients"], &curve["checks"]),
                (&report["clients"], &report["checks"])
            );
            for pair in points.windows(2) {
                assert!(
                    number(&pair[0]["clients_refused"]) >= number(&pair[1]["clients_refused"]),
                    "{limit}: {pair:?}"
                );
                if cost == 1 {
                    assert!(
                        number(&pair[0]["checks_refused"]) >= number(&pair[1]["checks_refused"]),
                        "{limit}: {pair:?}"
                    );
                }
            }
            let last = points.last().unwrap();
            assert_eq!(
                (&last["clients_refused"], &last["checks_refused"]),
                (&json!(0), &json!(0)),
                "{limit}"
            );
            let own = &points[usize::try_from(number(&curve["current"])).unwrap()];
            assert_eq!(
                (&own["checks_refused"], &own["clients_refused"]),
                (&report["refused"], &report["clients_refused"]),
                "{limit}: {own}"
            );
            assert_eq!(own["words"], report["limits"][0]["words"]);
        }
    }
}

/// Where no number would have been enough it is said why, and what has no such number is left out.
#[test]
fn what_no_number_mends_is_said_in_words() {
    let place = Place::with_limits(
        "{ name = \"gap\", algorithm = \"gcra\", limit = 9, per = \"1s\", min_interval = \"2s\" }, \"1/s even-slots\", \"5/s quota\"",
    );
    let trace: String = (0..9).map(|n| format!("{{\"t_us\":{n}}}\n")).collect();
    let place = place.file("t", &trace);
    let run = place.run(&["replay", "t"]);
    run.says(&[
        "gap: no number suits 99 % of clients, its min_interval of 2 s alone refuses more.",
    ]);
    let report = place.run(&["replay", "t", "--json"]).json();
    let names: Vec<&Value> = list(&report["advice"]).iter().map(|limit| &limit["limit"]).collect();
    assert_eq!(names, ["gap", "quota"]);
    let found = &report["advice"][0]["percentiles"][0];
    assert_eq!((&found["limit"], &found["toml"]), (&Value::Null, &Value::Null));
    assert_eq!(found["words"], "none: its min_interval of 2 s alone refuses more");
    // What cannot be turned stays as it is.
    let toml = report["toml"].as_str().unwrap();
    assert!(
        toml.contains("name = \"gap\", algorithm = \"gcra\", limit = 9")
            && toml.contains("even-slots"),
        "{toml}"
    );
    assert_eq!(toml.matches(" }, # unchanged: no number was found\n").count(), 2, "{toml}");
    run.says(&["to start with, so that 99.9 % of clients never notice (each limit alone)"]);
}

#[test]
fn nothing_is_advised_where_other_numbers_would_mean_something_else() {
    let place = Place::with_limits("\"1/s\"");
    let trace = "{\"t_us\":0}\n{\"t_us\":0}\n{\"t_us\":1,\"op\":\"reset\"}\n";
    assert_eq!(report("\"1/s\"", trace)["advice"], json!([]));
    let run = place.run_with_input(&["replay"], trace);
    run.says(&["there is no advice about other limits: the trace has more than checks"]);
}

/// More checks of one key than are remembered: what is advised says so, and is there.
#[test]
fn one_key_that_asks_a_million_times() {
    let trace: String = (0..1_300_000).map(|n| format!("{{\"t_us\":{}}}\n", n * 1_000)).collect();
    let place = Place::with_limits("\"5/s\"").file("t", &trace);
    let run = place.run(&["replay", "t"]);
    run.says(&["what the limit could be, by clients, by the beginning", "no client exceeds "]);
    let exact = ["999/s", "1,000/s", "1,001/s"];
    assert!(exact.iter().any(|limit| run.stdout.contains(limit)), "{}", run.stdout);
}
