//! A policy that applies to some keys and runs in shadow for the others.

use serde_json::{Value, json};
use waterclock::Store;

use crate::at_work::AtWork;
use crate::client::{Answer, Client};

/// Of `login`, alice drew 6 986 of 10 000, and bob 3 740.
fn rolled_out(share: &str, rest: &str) -> String {
    format!(
        r#"
[policies.login]
rollout = "{share}"
headers = "ietf"
{rest}
limits = [{{ name = "yearly", algorithm = "fixed-window", limit = 3, per = "365d" }}]

[policies.other]
limits = [{{ name = "yearly", algorithm = "fixed-window", limit = 3, per = "365d" }}]
"#
    )
}

async fn check(client: &mut Client, key: &str, cost: u64) -> Answer {
    let body = json!({ "policy": "login", "key": key, "cost": cost }).to_string();
    client.post("/v1/check", &body).await
}

#[tokio::test]
async fn keys_that_are_not_enrolled_are_watched() {
    let (_server, mut client) = AtWork::with_client(&rolled_out("50%", "")).await;
    assert_eq!(check(&mut client, "bob", 2).await.status, 200);
    assert_eq!(check(&mut client, "bob", 2).await.status, 429);
    let within = check(&mut client, "alice", 2).await;
    assert_eq!((within.status, within.header("ratelimit")), (200, None));
    assert_eq!(within.json()["remaining"], 1);
    let beyond = check(&mut client, "alice", 2).await;
    let said = beyond.json();
    assert_eq!((beyond.status, beyond.header("ratelimit")), (200, None), "{said}");
    assert_eq!((&said["allowed"], &said["granted"]), (&json!(true), &json!(2)));
    assert_eq!((&said["refused_by"], &said["retry_after_us"]), (&json!([]), &json!(0)));
    assert_eq!(said["shadow_refused_by"], json!(["yearly"]));
    // Charged is only what would have been admitted.
    assert_eq!(said["remaining"], 1);
    let metrics = client.get("/metrics").await.body;
    let count = |outcome: &str| {
        let begin = format!("waterclock_decisions_total{{policy=\"login\",outcome=\"{outcome}\"");
        let line = metrics.lines().find(|line| line.starts_with(&begin) && line.contains("http"));
        line.and_then(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).unwrap_or(0)
    };
    assert_eq!((count("allow"), count("deny"), count("shadow_deny")), (2, 1, 1), "{metrics}");
}

#[tokio::test]
async fn the_ends_are_no_keys_and_all_keys() {
    for (share, status) in [("0%", 200), ("100%", 429)] {
        let server = AtWork::serving(&rolled_out(share, "")).await;
        let mut client = server.http().await;
        for key in ["a", "b", "c", "d", "e", "alice", "bob"] {
            assert_eq!(check(&mut client, key, 4).await.status, status, "{share} {key}");
        }
    }
}

/// Keys in shadow take no part in all-or-nothing: they are charged, and refuse nothing.
#[tokio::test]
async fn they_stand_beside_the_others() {
    let (_server, mut client) = AtWork::with_client(&rolled_out("50%", "")).await;
    let mut together = async |lines: &[(&str, &str, u64)]| {
        let lines: Vec<Value> = lines
            .iter()
            .map(|(policy, key, cost)| json!({ "policy": policy, "key": key, "cost": cost }))
            .collect();
        let answer = client.post("/v1/check", &json!({ "checks": lines }).to_string()).await;
        let said = answer.json();
        let left: Vec<u64> = said["decisions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|decision| decision["remaining"].as_u64().unwrap())
            .collect();
        (answer.status, left, said)
    };
    // Refused in shadow, alice does not keep the other from being charged.
    let (status, left, said) = together(&[("login", "alice", 9), ("other", "x", 1)]).await;
    assert_eq!((status, left), (200, vec![3, 2]), "{said}");
    assert_eq!(said["decisions"][0]["shadow_refused_by"], json!(["yearly"]));
    // Refused for good, the other does not keep her from being charged.
    let (status, left, said) = together(&[("login", "alice", 1), ("other", "x", 9)]).await;
    assert_eq!((status, left), (429, vec![2, 2]), "{said}");
    // Twice the same key is one sum: two and one are too much for two.
    let twice = [("login", "alice", 2), ("login", "alice", 1)];
    let (status, left, said) = together(&twice).await;
    assert_eq!((status, left), (200, vec![2, 2]), "{said}");
    assert_eq!(said["decisions"][1]["shadow_refused_by"], json!(["yearly"]));
}

#[tokio::test]
async fn block_exempt_and_override_come_before() {
    let rest = "block = [\"alice\"]\nexempt = [\"carol\"]\noverrides = { \"dave\" = [\"1/h\"] }";
    let (_server, mut client) = AtWork::with_client(&rolled_out("0%", rest)).await;
    assert_eq!(check(&mut client, "alice", 1).await.status, 429);
    assert_eq!(check(&mut client, "carol", 99).await.json()["source"], "policy");
    assert_eq!(check(&mut client, "dave", 2).await.status, 429);
    assert_eq!(check(&mut client, "bob", 99).await.status, 200);
}

#[tokio::test]
async fn a_tier_is_watched_by_its_own_numbers() {
    let rest = "tiers = { pro = { factor = 0.5 } }";
    let (_server, mut client) = AtWork::with_client(&rolled_out("50%", rest)).await;
    let mut pro = async |key: &str, cost: u64| {
        let body = json!({ "policy": "login", "key": key, "cost": cost, "tier": "pro" });
        let answer = client.post("/v1/check", &body.to_string()).await;
        (answer.status, answer.json()["shadow_refused_by"].clone())
    };
    assert_eq!(pro("alice", 6).await, (200, Value::Null));
    assert_eq!(pro("alice", 1).await, (200, json!(["yearly"])));
    assert_eq!(pro("bob", 7).await, (429, Value::Null));
}

/// A reload may leave a tier out between the moment it is looked up and the moment it is asked. What was
/// charged before that shows is not charged again.
#[tokio::test]
async fn a_tier_that_has_just_gone_charges_nothing_twice() {
    let rest = "tiers = { pro = { factor = 0.5 } }";
    let server = AtWork::serving(&rolled_out("50%", rest)).await;
    let engine = &server.running.server().engine;
    let tier = engine.plan().policy("login").unwrap().config().tiers[0].policy.name().to_owned();
    let store = engine.memory().expect("in memory");
    store.remove_policy(&tier).await.unwrap();
    let lines = json!([
        { "policy": "other", "key": "x" },
        { "policy": "login", "key": "alice", "tier": "pro" },
        { "policy": "login", "key": "alice again" },
    ]);
    let mut client = server.http().await;
    let answer = client.post("/v1/check", &json!({ "checks": lines }).to_string()).await;
    let said = answer.json();
    assert_eq!(answer.status, 200, "{said}");
    let left = [0, 1, 2].map(|place| said["decisions"][place]["remaining"].clone());
    assert_eq!(left, [2, 2, 2], "{said}");
    let peeked = client.post("/v1/peek", r#"{"policy":"other","key":"x"}"#).await;
    assert_eq!(peeked.json()["remaining"], 2);
}
