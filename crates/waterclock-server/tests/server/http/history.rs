//! `/v1/history`, `/v1/refused` and `/v1/access`.

use serde_json::{Value, json};
use waterclock_server::observe::Face;

use crate::at_work::{AtWork, auth};
use crate::client::Client;
use crate::patience::eventually;
use crate::reload::Scene;

const POLICIES: &str = r#"
[policies.plain]
limits = ["2/h"]
[policies.login]
key = ["client_ip", "user"]
block = ["203.0.113.0/24"]
exempt = ["alice"]
limits = ["1/h"]
[policies.idle]
limits = ["1/h"]
"#;

async fn check(client: &mut Client, policy: &str, key: &str) {
    client.post("/v1/check", &format!(r#"{{"policy":"{policy}","key":"{key}"}}"#)).await;
}

fn sum(points: &Value) -> u64 {
    points.as_array().unwrap().iter().map(|point| point.as_u64().unwrap()).sum()
}

/// Waits until the history has so many refusals.
async fn refusals(client: &mut Client, path: &str, expected: u64) -> Value {
    let mut told = Value::Null;
    eventually("the next sample", async || {
        told = client.get(path).await.json();
        told["decisions"].is_object() && sum(&told["decisions"]["refused"]) >= expected
    })
    .await;
    assert_eq!(sum(&told["decisions"]["refused"]), expected);
    told
}

#[tokio::test]
async fn what_was_decided_is_told_in_total_and_by_policy_and_outlives_a_reload() {
    let scene = Scene::new(POLICIES).await;
    let server = &scene.server;
    let mut client = server.http().await;
    for _ in 0..5 {
        check(&mut client, "plain", "k").await;
    }
    let told = refusals(&mut client, "/v1/history?policy=plain&last=1m", 3).await;
    assert_eq!((&told["policy"], &told["step_us"]), (&json!("plain"), &json!(1_000_000)));
    assert_eq!(sum(&told["decisions"]["allowed"]), 2);
    let live = client.get("/v1/live").await.json();
    let (end, now) = (told["end_us"].as_u64().unwrap(), live["at_us"].as_u64().unwrap());
    assert!(end <= now && now - end < 60_000_000, "{end} {now}");
    let p99 = told["latency"]["http"]["p99_us"].as_array().unwrap();
    assert_eq!(p99.len(), told["decisions"]["allowed"].as_array().unwrap().len());
    assert!(p99.iter().any(|us| us.as_f64().is_some_and(|us| us >= 1.0)), "{p99:?}");
    assert!(told["latency"].get("grpc").is_none(), "{told}");

    scene.write("waterclock.toml", &POLICIES.replace("2/h", "9/h"));
    server.running.reload();
    eventually("the reload", async || {
        client.get("/v1/live").await.json()["config"]["generation"].as_u64() >= Some(2)
    })
    .await;
    check(&mut client, "login", "9:127.0.0.1,3:bob,").await;
    check(&mut client, "login", "9:127.0.0.1,3:bob,").await;
    let told = refusals(&mut client, "/v1/history?by_policy=true&last=2m", 4).await;
    let policies = told["policies"].as_array().unwrap();
    let names: Vec<_> = policies.iter().map(|policy| policy["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["login", "plain"], "one that decided nothing has no series");
    assert_eq!((sum(&policies[0]["refused"]), sum(&policies[1]["refused"])), (1, 3));
    let idle = client.get("/v1/history?policy=idle").await;
    assert_eq!((idle.status, &idle.json()["decisions"]), (200, &Value::Null));
    let day = client.get("/v1/history?last=1d").await.json();
    assert_eq!(day["step_us"], 60_000_000);
}

#[tokio::test]
async fn what_cannot_be_answered_is_named() {
    let (_server, mut client) = AtWork::with_client(POLICIES).await;
    for (query, status, detail) in [
        ("policy=gone", 404, "gone"),
        ("last=2d", 400, "`last` must be from 1s to 1d"),
        ("last=soon", 400, "`last`"),
        ("step=500ms", 400, "whole seconds"),
        ("last=2h&step=90s", 400, "whole minutes"),
        ("last=1m&step=2m", 400, "at most `last`"),
        ("by_policy=true", 400, "that is 3600 points; at most 120"),
        ("by_policy=maybe", 400, "true or false"),
        ("by_policy=true&policy=plain&last=1m", 400, "not for one"),
        ("polciy=plain", 400, "did you mean `policy`"),
    ] {
        let answer = client.get(&format!("/v1/history?{query}")).await;
        assert_eq!(answer.status, status, "{query}: {}", answer.body);
        assert!(answer.body.contains(detail), "{query}: {}", answer.body);
    }
    assert_eq!(client.get("/v1/refused?policy=gone").await.status, 404);
    assert_eq!(client.get("/v1/history?last=1h&step=1s").await.status, 200);
    assert_eq!(client.get("/v1/history?by_policy=true&last=1d&step=12m").await.status, 200);
}

#[tokio::test]
async fn refused_keys_of_one_policy_with_their_fields() {
    let server = AtWork::serving(&format!("[server]\nshow_keys = true\n{POLICIES}")).await;
    let mut client = server.http().await;
    for _ in 0..4 {
        check(&mut client, "plain", "k").await;
        check(&mut client, "login", "9:127.0.0.1,3:bob,").await;
    }
    let told = client.get("/v1/refused?policy=login").await.json();
    let expected = json!([{
        "policy": "login", "key": "9:127.0.0.1,3:bob,", "fields": { "client_ip": "127.0.0.1", "user": "bob" },
        "refusals": 3, "refusals_at_most": 3,
    }]);
    assert_eq!((&told["shown"], &told["keys"]), (&json!("raw"), &expected));
    let live = client.get("/v1/live").await.json();
    let started = live["at_us"].as_u64().unwrap() - live["uptime_us"].as_u64().unwrap();
    assert!(told["since_us"].as_u64().unwrap().abs_diff(started) < 10_000_000, "{told}");
    assert_eq!(client.get("/v1/refused").await.json()["keys"].as_array().unwrap().len(), 2);
    // What the file says about single keys.
    let policy = client.get("/v1/policies/login").await.json();
    assert_eq!(
        (&policy["block"], &policy["exempt"]),
        (&json!(["203.0.113.0/24"]), &json!(["alice"]))
    );
}

#[tokio::test]
async fn roles_are_told_to_those_who_have_them() {
    let text = auth(&[("reader", "read"), ("checker", "check"), ("boss", "admin")]) + POLICIES;
    let server = AtWork::serving(&text).await;
    let mut client = server.http().await;
    let bearer = |token: &str| format!("authorization: Bearer {token}");
    for (token, roles) in [
        ("reader", json!(["read"])),
        ("checker", json!(["check"])),
        ("boss", json!(["check", "read", "admin"])),
    ] {
        let answer = client.send("GET", "/v1/access", &[&bearer(token)], "").await;
        assert_eq!(
            (answer.status, answer.json()),
            (200, json!({ "roles": roles, "tokens": true }))
        );
    }
    let failures = |server: &AtWork| {
        let text = server.running.server().metrics_text();
        let line = text
            .lines()
            .find(|line| line.starts_with("waterclock_auth_failures_total{face=\"http\"}"));
        line.unwrap().rsplit(' ').next().unwrap().to_owned()
    };
    assert_eq!(failures(&server), "0", "asking is no failure");
    let unknown = client.send("GET", "/v1/access", &[&bearer("guess")], "").await;
    assert_eq!(unknown.status, 401);
    assert!(unknown.body.contains("the token is not known"), "{}", unknown.body);
    let none = client.get("/v1/access").await;
    assert_eq!(none.status, 401);
    assert!(none.body.contains("needs a token with the role `read`"), "{}", none.body);
    assert_eq!(failures(&server), "2");
    for path in ["/v1/history", "/v1/refused"] {
        assert_eq!(client.send("GET", path, &[&bearer("reader")], "").await.status, 200);
        assert_eq!(client.send("GET", path, &[&bearer("checker")], "").await.status, 403);
        assert_eq!(client.get(path).await.status, 401);
    }

    let open = AtWork::serving(POLICIES).await;
    let mut client = open.http().await;
    let expected = json!({ "roles": ["check", "read"], "tokens": false });
    assert_eq!(client.get("/v1/access").await.json(), expected);
    assert_eq!(client.send("GET", "/v1/access", &[&bearer("guess")], "").await.status, 401);
    assert_eq!(open.running.server().engine.metrics().connections(Face::Http).get(), 1);
}
