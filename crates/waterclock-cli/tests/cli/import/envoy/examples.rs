//! The kinds of file that the reference service's manual shows.

use super::{Fate, Imported};
use crate::support::Place;

const SECOND: u64 = 1_000_000;
const DAY: u64 = 86_400 * SECOND;

#[tokio::test]
async fn plain_values() {
    let imported = Imported::new(&["
domain: databases
descriptors:
  - key: database
    value: accounts
    rate_limit: { unit: second, requests_per_unit: 500 }
  - key: database
    value: reports
    rate_limit:
      unit: MINUTE
      requests_per_unit: 7
"])
    .await;
    let fate = |value| imported.fate("databases", &[("database", value)]);
    assert_eq!(fate("accounts"), Fate::Limited(500, SECOND));
    assert_eq!(fate("reports"), Fate::Limited(7, 60 * SECOND));
    assert_eq!(fate("others"), Fate::Free);
    assert_eq!(imported.fate("elsewhere", &[("database", "accounts")]), Fate::Free);
}

#[tokio::test]
async fn nested_and_blocked() {
    let imported = Imported::new(&[
        "
domain: mail
descriptors:
  - key: kind
    value: advertisement
    descriptors:
      - key: to
        rate_limit: { unit: day, requests_per_unit: 5 }
  - key: to
    rate_limit: { unit: day, requests_per_unit: 100 }
",
        "
domain: edge
descriptors:
  - key: remote_address
    rate_limit: { unit: second, requests_per_unit: 10 }
  - key: remote_address
    value: 192.0.2.7
    rate_limit: { unit: second, requests_per_unit: 0 }
  - key: partner
    rate_limit: { unlimited: true }
",
    ])
    .await;
    let mail = |descriptor: &[(&str, &str)]| imported.fate("mail", descriptor);
    assert_eq!(mail(&[("kind", "advertisement"), ("to", "1")]), Fate::Limited(5, DAY));
    assert_eq!(mail(&[("to", "1")]), Fate::Limited(100, DAY));
    // An inner node matches nothing by itself, and the depth must be the same.
    assert_eq!(mail(&[("kind", "advertisement")]), Fate::Free);
    assert_eq!(mail(&[("to", "1"), ("kind", "x")]), Fate::Free);
    let edge = |key, value| imported.fate("edge", &[(key, value)]);
    assert_eq!(edge("remote_address", "192.0.2.8"), Fate::Limited(10, SECOND));
    assert_eq!(edge("remote_address", "192.0.2.7"), Fate::Refused);
    assert_eq!(edge("partner", "x"), Fate::Free);
}

#[tokio::test]
async fn wildcards_shadows_names_and_statistics() {
    let imported = Imported::new(&["
domain: api
descriptors:
  - key: path
    value: /files*
    detailed_metric: true
    rate_limit: { unit: month, requests_per_unit: 20, name: files }
  - key: path
    value: /shared*
    share_threshold: true
    value_to_metric: true
    rate_limit: { unit: year, requests_per_unit: 30 }
  - key: path
    value: /trial
    shadow_mode: true
    rate_limit: { unit: week, requests_per_unit: 1 }
  - key: user
    rate_limit:
      unit: hour
      requests_per_unit: 9
      replaces:
        - name: files
"])
    .await;
    let fate = |value| imported.fate("api", &[("path", value)]);
    assert_eq!(fate("/files/1"), Fate::Limited(20, 30 * DAY));
    assert_eq!(fate("/shared/1"), Fate::Limited(30, 365 * DAY));
    assert_eq!(fate("/trial"), Fate::Limited(1, 7 * DAY));
    let text = imported.text();
    for line in [
        "shadow = true",
        "mode = \"uniform\"",
        "headers = \"none\"",
        "charge = \"count\"",
        "key = []",
        "name = \"files\"",
        "replaces = [\"files\"]",
        "# 0.yaml:4: `detailed_metric` and `value_to_metric` have no counterpart; metrics are by policy.",
        "[policies.api-path-files] # 0.yaml:4",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
}

/// The reference service goes down its tree and never back.
#[tokio::test]
async fn a_dead_end_stays_one() {
    let imported = Imported::new(&["
domain: d
descriptors:
  - key: a
    descriptors:
      - key: b
        rate_limit: { unit: day, requests_per_unit: 1 }
  - key: a
    value: x
    descriptors:
      - key: b
        value: y
        rate_limit: { unit: day, requests_per_unit: 2 }
  - key: p
    value: f*
    rate_limit: { unit: day, requests_per_unit: 3 }
  - key: p
    value: fo*
    rate_limit: { unit: day, requests_per_unit: 4 }
"])
    .await;
    let fate = |a, b| imported.fate("d", &[("a", a), ("b", b)]);
    assert_eq!(fate("w", "y"), Fate::Limited(1, DAY));
    assert_eq!(fate("x", "y"), Fate::Limited(2, DAY));
    assert_eq!(fate("x", "z"), Fate::Free);
    // Its first wildcard wins, not its longest.
    assert_eq!(imported.fate("d", &[("p", "fox")]), Fate::Limited(3, DAY));
    assert!(imported.text().contains("left out, because \"f*\" of 0.yaml:14 comes first"));
}

#[test]
fn what_it_writes_runs() {
    let yaml = "domain: d\ndescriptors:\n  - key: user\n    rate_limit: { unit: year, requests_per_unit: 2 }\n";
    let place = Place::new().file("a.yaml", yaml);
    let config = place.run(&["import", "a.yaml"]).stdout;
    let place = place.file("waterclock.toml", &config);
    let trace =
        "{\"t_us\":1,\"key\":\"a\"}\n{\"t_us\":2,\"key\":\"a\"}\n{\"t_us\":3,\"key\":\"a\"}\n";
    let run = place.run_with_input(&["replay", "--policy", "d-user", "--format", "jsonl"], trace);
    let allowed: Vec<bool> =
        run.lines().iter().map(|line| line["allowed"].as_bool().unwrap()).collect();
    assert_eq!(allowed, [true, true, false]);
}
