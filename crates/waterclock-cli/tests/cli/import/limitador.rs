//! Limits of Limitador: every limit whose conditions hold counts a request, as there.

use std::collections::BTreeMap;
use std::sync::Arc;

use fastrand::Rng;
use waterclock_config::Config;
use waterclock_server::engine::Engine;
use waterclock_server::observe::Metrics;
use waterclock_server::rules::{Effect, Entry};

use super::{Imported, failed};

/// A limit, told by its number.
struct Limit {
    max_value: u64,
    conditions: Vec<(String, Condition)>,
    variables: Vec<String>,
}

enum Condition {
    Equals(String),
    StartsWith(String),
    /// Rules cannot tell this one.
    Differs(String),
}

impl Condition {
    fn holds(&self, value: &str) -> bool {
        match self {
            Condition::Equals(text) => value == text,
            Condition::StartsWith(prefix) => value.starts_with(prefix),
            Condition::Differs(text) => value != text,
        }
    }

    fn write(&self, key: &str) -> String {
        let key = format!("descriptors[0]['{key}']");
        match self {
            Condition::Equals(text) => format!("{key} == '{text}'"),
            Condition::StartsWith(prefix) => format!("{key}.startsWith('{prefix}')"),
            Condition::Differs(text) => format!("{key} != '{text}'"),
        }
    }
}

impl Limit {
    fn random(rng: &mut Rng, max_value: u64) -> Limit {
        let mut conditions: Vec<(String, Condition)> = Vec::new();
        let mut variables = Vec::new();
        for key in KEYS {
            let value = rng.choice(VALUES).unwrap().to_owned();
            let condition = match rng.u8(0..12) {
                0..3 => Condition::Equals(value),
                3 => Condition::StartsWith(value),
                4 => Condition::Differs(value),
                5..8 => {
                    variables.push(key.to_owned());
                    continue;
                }
                _ => continue,
            };
            conditions.push((key.to_owned(), condition));
        }
        rng.shuffle(&mut conditions);
        rng.shuffle(&mut variables);
        Limit { max_value, conditions, variables }
    }

    fn applies(&self, request: &BTreeMap<&str, &str>) -> bool {
        let holds = |(key, condition): &(String, Condition)| {
            request.get(&**key).is_some_and(|value| condition.holds(value))
        };
        self.conditions.iter().all(holds)
            && self.variables.iter().all(|name| request.contains_key(&**name))
    }

    /// Whether the conditions hold that only Envoy can tell.
    fn is_sent(&self, request: &BTreeMap<&str, &str>) -> bool {
        let is_other =
            |(_, condition): &&(String, Condition)| matches!(condition, Condition::Differs(_));
        self.conditions
            .iter()
            .filter(is_other)
            .all(|(key, condition)| request.get(&**key).is_some_and(|value| condition.holds(value)))
    }

    fn write(&self) -> String {
        let conditions: Vec<String> =
            self.conditions.iter().map(|(key, condition)| condition.write(key)).collect();
        let variables: Vec<String> =
            self.variables.iter().map(|name| format!("descriptors[0].{name}")).collect();
        format!(
            "- namespace: n\n  max_value: {}\n  seconds: 60\n  name: l{}\n  conditions: {}\n  variables: {}\n",
            self.max_value,
            self.max_value,
            serde_json::to_string(&conditions).unwrap(),
            serde_json::to_string(&variables).unwrap(),
        )
    }
}

const KEYS: [&str; 3] = ["a", "b", "c"];
const VALUES: [&str; 3] = ["x", "xy", "z"];
const GENERIC: &str = "generic_key";

/// Envoy sends one descriptor with all that a request has, and an entry `generic_key` for what only Envoy can tell. The
/// limits that then count the request, each as often as it does.
fn counted(engine: &Engine, limits: &[Limit], request: &BTreeMap<&str, &str>) -> Vec<u64> {
    let names: Vec<String> = limits
        .iter()
        .filter(|limit| limit.is_sent(request))
        .map(|limit| format!("l{}", limit.max_value))
        .collect();
    let generic = names.iter().map(|name| (GENERIC, name.as_bytes()));
    let mut descriptor: Vec<Entry<'_>> =
        request.iter().map(|(key, value)| (*key, value.as_bytes())).chain(generic).collect();
    descriptor.push(("other", b"x"));
    let mut found = Vec::new();
    let plan = engine.plan();
    let Some(rules) = plan.rules().contained("n") else { return found };
    for contained in rules.find(std::iter::once(&*descriptor)) {
        if let Effect::Limit(served) = &contained.rule.effect {
            found.extend(served.config().limits().iter().map(|limit| limit.limit().unwrap()));
        }
    }
    found.sort_unstable();
    found
}

#[tokio::test]
async fn random_requests_are_counted_by_the_same_limits() {
    let mut rng = Rng::with_seed(0x011a_17ad);
    let (mut counts, mut generic) = (0, 0);
    for _ in 0..150 {
        let limits: Vec<Limit> =
            (1..rng.u64(2..9)).map(|number| Limit::random(&mut rng, number)).collect();
        let text: String = limits.iter().map(Limit::write).collect();
        let imported = Imported::new("limitador", &text);
        generic += imported.text.matches(GENERIC).count();
        let config = Config::load(imported.place.path("waterclock.toml")).unwrap();
        let engine = Engine::new(&config, Arc::new(Metrics::default())).await.unwrap();
        for _ in 0..60 {
            let mut request = BTreeMap::new();
            for key in KEYS {
                if rng.u8(0..4) > 0 {
                    request.insert(key, rng.choice(["x", "xy", "xyz", "z", "w"]).unwrap());
                }
            }
            let expected: Vec<u64> = limits
                .iter()
                .filter(|limit| limit.applies(&request))
                .map(|limit| limit.max_value)
                .collect();
            let found = counted(&engine, &limits, &request);
            assert_eq!(found, expected, "{request:?}\n{text}\n{}", imported.text);
            counts += expected.len();
        }
    }
    assert!(counts > 3_000 && generic > 50, "{counts} counts, {generic} generic keys");
}

#[test]
fn what_is_left_to_envoy_is_said() {
    let imported = Imported::new(
        "limitador",
        "
- { namespace: api, max_value: 100, seconds: 1 }
- namespace: api
  max_value: 10
  seconds: 60
  name: Writes
  id: w
  conditions: [\"descriptors[0].method != 'GET'\", \"descriptors[0].plan == 'free'\"]
  variables: [\"descriptors[0].user\", \"size(descriptors[0].x)\"]
- { namespace: api, max_value: 5, seconds: 60, conditions: [\"a == '1' && a == '2'\"], unit: x }
- { namespace: api, max_value: 5, seconds: 60, conditions: [\"path.startsWith('/a')\"] }
- { namespace: api, max_value: 6, seconds: 60, conditions: [\"path == '/ab'\"] }
- { namespace: api, max_value: 0, seconds: 60, conditions: [\"ip == '192.0.2.7'\"] }
",
    );
    imported.warns(&[
        "limits:3: the condition `descriptors[0].method != 'GET'` has no counterpart in rules; let Envoy decide it, and send this limit's entry `generic_key` when it holds",
        "limits:3: the variable `size(descriptors[0].x)` has no counterpart; let Envoy send its value as an entry of that name",
        "limits:10: `unit` has no counterpart and is left out",
        "limits:10: two conditions about `a` cannot be one entry; let Envoy decide them, and send this limit's entry `generic_key` when both hold",
    ]);
    imported.has(&[
        "[policies.api-Writes] # limits:3",
        "descriptor = []",
        "match = \"contains\"",
        "descriptor = [{ key = \"generic_key\", value = \"Writes\" }, { key = \"plan\", value = \"free\" }, { key = \"size(descriptors[0].x)\" }, { key = \"user\" }]",
        "descriptor = [{ key = \"generic_key\", value = \"5-per-60s\" }, { key = \"a\", value = \"1\" }]",
        "descriptor = [{ key = \"path\", value = \"/a*\" }]",
        "descriptor = [{ key = \"path\", value = \"/ab\" }]",
        "descriptor = [{ key = \"ip\", value = \"192.0.2.7\" }]",
        "refuse = true",
    ]);
}

/// Limits of the same entries are one policy.
#[test]
fn all_limits_count_from_the_first_request() {
    let imported = Imported::new(
        "limitador",
        "
- { namespace: api, max_value: 2, seconds: 1, conditions: [\"m == 'GET'\"], variables: [user] }
- { namespace: api, max_value: 3, seconds: 10, conditions: [\"m == GET\"], variables: [user] }
",
    );
    imported.warns(&[]);
    let ms = |times: &[u64]| times.iter().map(|ms| (ms * 1_000, 1)).collect::<Vec<(u64, u64)>>();
    // Refused requests cost nothing, and no window starts before its first request.
    let checks = ms(&[500, 600, 700, 1_499, 1_500, 1_600, 10_499, 10_500, 10_600]);
    assert_eq!(
        imported.admits("api-m-get-user", &checks),
        [true, true, false, false, true, false, false, true, true]
    );
}

#[test]
fn mistakes_have_a_place() {
    for (file, expected) in [
        ("- { namespace: n, max_value: 1 }\n", "limits:1:19: missing field `seconds`"),
        (
            "- { namespace: n, max_value: 1, seconds: 0 }\n",
            "limits:1:3: `seconds` must be at least 1",
        ),
        (
            "- { namespace: '', max_value: 1, seconds: 1 }\n",
            "limits:1:3: `namespace` must not be empty",
        ),
        ("[]\n", "there are no limits in these files: nothing to import"),
    ] {
        assert_eq!(failed("limitador", file).stderr, format!("{expected}\n"), "{file}");
    }
    let same: String = (1..18)
        .map(|max| format!("- {{ namespace: n, max_value: {max}, seconds: 1, variables: [u] }}\n"))
        .collect();
    assert_eq!(
        failed("limitador", &same).stderr,
        "limits:1: 17 limits count the same descriptor, and a policy has 16 at most; remove some\n"
    );
}
