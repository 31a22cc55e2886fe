//! The schema is JSON and knows what the readers know.

use serde_json::Value;

use crate::support::Place;

#[test]
fn sections_policies_and_limits() {
    let run = Place::new().run(&["schema"]);
    assert_eq!(run.code, Some(0));
    let schema = run.json();
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    let policy = &schema["properties"]["policies"]["additionalProperties"];
    assert_eq!(policy["required"], serde_json::json!(["limits"]));
    assert_eq!(policy["additionalProperties"], false);
    assert_eq!(policy["properties"]["mode"]["default"], "binary");
    assert_eq!(schema["properties"]["store"]["properties"]["nodes"]["minimum"], 1);
    assert_eq!(schema["properties"]["store"]["properties"]["replicas"]["default"], 0);
    assert_eq!(schema["properties"]["store"]["properties"]["ca"]["type"], "string");
    let duration = schema["$defs"]["duration"]["pattern"].as_str().unwrap();
    assert!(duration.contains("|h|hour|hours|"), "{duration}");
    let limits = schema["$defs"]["limit"]["oneOf"].as_array().unwrap();
    let named = |word: &str| {
        limits.iter().find(|limit| limit["properties"]["algorithm"]["enum"][0] == word).unwrap()
    };
    let keys = |limit: &Value| {
        limit["properties"].as_object().unwrap().keys().cloned().collect::<Vec<String>>()
    };
    assert_eq!(
        keys(named("leaky-bucket")),
        [
            "algorithm",
            "capacity",
            "drip",
            "every",
            "min_interval",
            "name",
            "overdraft",
            "shadow",
            "unit"
        ]
    );
    assert_eq!(named("min-interval")["required"], serde_json::json!(["algorithm", "every"]));
}
