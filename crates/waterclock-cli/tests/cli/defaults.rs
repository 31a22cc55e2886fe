//! `[defaults]`: what policies inherit, and the names they may have.

use serde_json::json;

use crate::support::Place;

const CONFIG: &str = r#"
[defaults]
mode = "nary"
headers = "ietf"
jitter = "10%"
on_store_error = "deny"
on_full = "refuse"
tiers = { free = { factor = 2 }, pro = { factor = 0.5 } }
default_tier = "free"

[policies.inherits]
limits = ["10/s"]

[policies.differs]
mode = "binary"
headers = "none"
on_store_error = "allow"
on_full = "evict"
tiers = { staff = { factor = 0 } }
limits = ["10/s"]

[policies.renames]
tiers = { free = { factor = 4 } }
limits = ["10/s"]

[policies.none]
tiers = {}
limits = ["10/s"]
"#;

#[test]
fn policies_inherit_unless_they_say_otherwise() {
    let place = Place::with_config(CONFIG);
    let run = place.run(&["validate", "--json"]).ok();
    let policies = &run.json()["policies"];
    let inherits = &policies["inherits"];
    for (key, value) in [
        ("mode", "nary"),
        ("headers", "ietf"),
        ("jitter", "10%"),
        ("on_store_error", "deny"),
        ("on_full", "refuse"),
    ] {
        assert_eq!(inherits[key], value);
    }
    assert_eq!(inherits["default_tier"], "free");
    assert_eq!(inherits["tiers"]["free"]["limits"][0]["capacity"], 5);
    assert_eq!(inherits["tiers"]["pro"]["limits"][0]["capacity"], 20);
    // Its own tiers replace the inherited ones, and the default tier with them.
    let differs = &policies["differs"];
    assert_eq!((&differs["mode"], &differs["headers"]), (&json!("binary"), &json!("none")));
    assert_eq!(differs["on_store_error"], "allow");
    assert_eq!((differs.get("on_full"), differs.get("default_tier")), (None, None));
    let tiers: Vec<&String> = differs["tiers"].as_object().unwrap().keys().collect();
    assert_eq!(tiers, ["staff"]);
    // Unless one of its own tiers has that name.
    assert_eq!(policies["renames"]["default_tier"], "free");
    assert_eq!(policies["renames"]["tiers"]["free"]["limits"][0]["capacity"], 3);
    assert_eq!(policies["none"].get("tiers"), None);
}

#[test]
fn english_has_what_was_inherited() {
    let run = Place::with_config(CONFIG).run(&["validate"]).ok();
    run.says(&[
        "policy inherits: admits as much of a cost as fits. Responses carry IETF RateLimit headers. Retry-After is \
         spread upwards by up to 10%. While the store is unreachable, every check is an error.",
        "  unknown tiers: as tier free.",
        "  tier staff: no limits",
    ]);
}

#[test]
fn names_of_policies() {
    let names = ["api/notes/create", "API:v2", "a.b_c-d", "/", ":"];
    let text: String =
        names.iter().map(|name| format!("[policies.\"{name}\"]\nlimits = [\"10/s\"]\n")).collect();
    let place = Place::with_config(&text);
    let run = place.run(&["validate", "--json"]).ok();
    for name in names {
        assert!(run.json()["policies"].get(name).is_some(), "{name}");
        let check = place.run(&["check", name, "alice", "--json"]).ok();
        assert_eq!(check.json()["policy"], name);
        let replay = ["replay", "--policy", name, "--format", "jsonl"];
        assert_eq!(place.run_with_input(&replay, "{\"t_us\":0}\n").ok().lines().len(), 1);
    }
}

#[test]
fn the_schema_knows_them() {
    let schema = Place::new().run(&["schema"]).json();
    let defaults = &schema["properties"]["defaults"];
    assert_eq!(defaults["additionalProperties"], false);
    let policy = &schema["properties"]["policies"]["additionalProperties"]["properties"];
    let keys: Vec<&String> = defaults["properties"].as_object().unwrap().keys().collect();
    assert_eq!(
        keys,
        ["default_tier", "headers", "jitter", "mode", "on_full", "on_store_error", "tiers"]
    );
    for key in keys {
        assert_eq!(defaults["properties"][key], policy[key], "{key}");
    }
}
