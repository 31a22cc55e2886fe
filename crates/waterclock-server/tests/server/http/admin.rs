//! Administration of single keys, with tokens.

use serde_json::{Value, json};

use crate::at_work::AtWork;
use crate::client::{Answer, Client};

const POLICIES: &str = r#"
[server]
auth = [
  { token = "sha256:d2d2328e3359f3de3515871090d1316cbcdc5383204c204f9390788c3ef8618f", roles = ["check"] },
  { token = "sha256:3d0941964aa3ebdcb00ccef58b1bb399f9f898465e9886d5aec7f31090a0fb30", roles = ["read"] },
  { token = "sha256:4813494d137e1631bba301d5acab6e7bb7aa74ce1185d456565ef51d737677b2", roles = ["admin"] },
]

[policies.plain]
headers = "ietf"
limits = [{ algorithm = "gcra", limit = 1, per = "1h", capacity = 3 }]

[policies.usage]
limits = ["5/h", { algorithm = "gcra", limit = 900, per = "1h", unit = "tokens" }]

[policies.login]
key = ["client_ip", "user"]
limits = ["2/h"]
"#;

/// Asks with a token.
async fn ask(client: &mut Client, token: &str, method: &str, path: &str, body: &str) -> Answer {
    client.send(method, path, &[&format!("authorization: Bearer {token}")], body).await
}

async fn check(client: &mut Client, key: &str, cost: u64) -> Answer {
    let body = json!({"policy": "plain", "key": key, "cost": cost}).to_string();
    ask(client, "checker", "POST", "/v1/check", &body).await
}

#[tokio::test]
async fn units_are_given_back_as_they_are_named() {
    let (_server, mut client) = AtWork::with_client(POLICIES).await;
    let body = json!({"policy": "usage", "key": "k", "cost": {"tokens": 900}}).to_string();
    assert_eq!(ask(&mut client, "root", "POST", "/v1/check", &body).await.status, 200);
    let key = "/v1/policies/usage/keys/k";
    let grant = json!({"cost": {"tokens": 300}}).to_string();
    let said = ask(&mut client, "root", "POST", &format!("{key}/grant"), &grant).await.json();
    let left = |at: usize| said["limits"][at]["remaining"].as_u64().unwrap();
    assert_eq!((left(0), left(1) / 100), (4, 3), "{said}");
    let own = json!({"limits": ["100/s"]}).to_string();
    let answer = ask(&mut client, "root", "PUT", &format!("{key}/override"), &own).await;
    assert_eq!((answer.status, &answer.json()["field"]), (400, &json!("limits")), "{answer:?}");
}

/// A reset answers with the limits that apply to the key.
#[tokio::test]
async fn a_reset_answers_as_a_look() {
    let (_server, mut client) = AtWork::with_client(POLICIES).await;
    let key = "/v1/policies/plain/keys/k";
    let own = json!({"limits": [{"name": "gcra", "algorithm": "gcra", "limit": 9, "per": "1h"}]});
    let own = own.to_string();
    let answer = ask(&mut client, "root", "PUT", &format!("{key}/override"), &own).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(check(&mut client, "k", 5).await.status, 200);
    let said = ask(&mut client, "root", "DELETE", key, "").await.json();
    assert_eq!((&said["limit"], &said["remaining"]), (&json!(9), &json!(9)), "{said}");
}

#[tokio::test]
async fn every_path_has_its_role() {
    let (_server, mut client) = AtWork::with_client(POLICIES).await;
    let check = r#"{"policy":"plain","key":"k"}"#;
    for (method, path, body, roles) in [
        ("POST", "/v1/check", check, ["checker", "root", "root"]),
        ("POST", "/v1/peek", check, ["checker", "root", "root"]),
        ("POST", "/v1/refund", check, ["checker", "root", "root"]),
        ("POST", "/v1/reset", check, ["checker", "root", "root"]),
        ("GET", "/v1/authorize?policy=plain&key=a", "", ["checker", "root", "root"]),
        ("GET", "/v1/policies", "", ["reader", "root", "root"]),
        ("GET", "/v1/policies/plain", "", ["reader", "root", "root"]),
        ("GET", "/v1/policies/plain/keys/k", "", ["reader", "root", "root"]),
        ("GET", "/v1/config", "", ["reader", "root", "root"]),
        ("GET", "/metrics", "", ["reader", "root", "root"]),
        ("DELETE", "/v1/policies/plain/keys/k", "", ["root"; 3]),
        ("POST", "/v1/policies/plain/keys/k/grant", r#"{"cost":1}"#, ["root"; 3]),
        ("PUT", "/v1/policies/plain/keys/k/override", r#"{"exempt":true}"#, ["root"; 3]),
        ("GET", "/v1/policies/plain/keys/k/override", "", ["reader", "root", "root"]),
        ("GET", "/v1/policies/plain/overrides", "", ["reader", "root", "root"]),
        ("POST", "/v1/policies/plain/overrides", r#"{"key":"a","block":true}"#, ["root"; 3]),
        ("DELETE", "/v1/policies/plain/keys/k/override", "", ["root"; 3]),
    ] {
        for token in ["checker", "reader", "root"] {
            let answer = ask(&mut client, token, method, path, body).await;
            let expected = if roles.contains(&token) { 200 } else { 403 };
            assert_eq!(answer.status, expected, "{token} {method} {path}: {}", answer.body);
        }
        let without = client.send(method, path, &[], body).await;
        assert_eq!(without.status, 401, "{method} {path}");
        assert_eq!(without.header("www-authenticate"), Some("Bearer"));
    }
    for path in ["/healthz", "/readyz", "/openapi.json", "/"] {
        assert_eq!(client.get(path).await.status, 200, "{path} needs no token");
    }
}

#[tokio::test]
async fn an_open_server_has_no_administrators() {
    let (_server, mut client) = AtWork::with_client("[policies.plain]\nlimits = [\"1/h\"]\n").await;
    assert_eq!(client.get("/v1/policies/plain/keys/k").await.status, 200);
    let reset = client.send("DELETE", "/v1/policies/plain/keys/k", &[], "").await;
    assert_eq!(reset.status, 401);
}

/// What is wrong with a path is told to those who may ask.
#[tokio::test]
async fn a_path_that_is_not_utf8() {
    let (_server, mut client) = AtWork::with_client(POLICIES).await;
    for (method, path) in [
        ("GET", "/v1/policies/%ff"),
        ("GET", "/v1/policies/plain/keys/%ff"),
        ("DELETE", "/v1/policies/plain/keys/%ff"),
        ("POST", "/v1/policies/plain/keys/%ff/grant"),
        ("PUT", "/v1/policies/plain/keys/%ff/override"),
        ("GET", "/v1/policies/plain/keys/%ff/override"),
        ("DELETE", "/v1/policies/plain/keys/%ff/override"),
        ("POST", "/v1/reservations/%ff/commit"),
        ("DELETE", "/v1/reservations/%ff"),
    ] {
        let stranger = client.send(method, path, &[], "").await;
        assert_eq!(stranger.status, 401, "{method} {path}");
        let body = if path.ends_with("override") { r#"{"block":true}"# } else { r#"{"cost":1}"# };
        let answer = ask(&mut client, "root", method, path, body).await;
        assert_eq!(answer.status, 400, "{method} {path}: {}", answer.body);
        assert_eq!(answer.header("content-type"), Some("application/problem+json"), "{path}");
        assert_eq!(answer.json()["field"], "path", "{path}");
    }
}

#[tokio::test]
async fn read_reset_grant() {
    let (_server, mut client) = AtWork::with_client(POLICIES).await;
    check(&mut client, "alice/ü", 3).await;
    let path = "/v1/policies/plain/keys/alice%2F%C3%BC";
    let read = ask(&mut client, "reader", "GET", path, "").await;
    assert_eq!(read.json()["remaining"], 0);
    assert_eq!(read.json()["key"], "alice/ü");
    assert_eq!(read.json()["exception"], Value::Null);
    let grant = ask(&mut client, "root", "POST", &format!("{path}/grant"), r#"{"cost":2}"#).await;
    assert_eq!(grant.json()["remaining"], 2);
    let reset = ask(&mut client, "root", "DELETE", path, "").await;
    assert_eq!(reset.json()["remaining"], 3);
    let bad = ask(&mut client, "root", "POST", &format!("{path}/grant"), r#"{"cost":-2}"#).await;
    assert_eq!((bad.status, bad.json()["field"].as_str()), (400, Some("cost")));
    let unknown = ask(&mut client, "root", "GET", "/v1/policies/plan/keys/a", "").await;
    assert_eq!(unknown.status, 404);
}

#[tokio::test]
async fn block_exempt_override_and_back() {
    let (_server, mut client) = AtWork::with_client(POLICIES).await;
    let path = "/v1/policies/plain/keys/k/override";
    check(&mut client, "k", 1).await;

    let blocked = ask(&mut client, "root", "PUT", path, r#"{"block":true}"#).await;
    assert_eq!((blocked.status, blocked.json()["exception"].as_str()), (200, Some("block")));
    let refused = check(&mut client, "k", 1).await;
    assert_eq!((refused.status, refused.json()["source"].as_str()), (429, Some("policy")));
    assert_eq!(check(&mut client, "other", 1).await.status, 200);

    ask(&mut client, "root", "PUT", path, r#"{"exempt":true}"#).await;
    for _ in 0..10 {
        assert_eq!(check(&mut client, "k", 1).await.status, 200);
    }

    let table = r#"{"limits":[{"algorithm":"gcra","limit":1,"per":"1h","capacity":10}]}"#;
    let overridden = ask(&mut client, "root", "PUT", path, table).await;
    assert_eq!(overridden.json()["exception"], "override", "{}", overridden.body);
    assert_eq!(overridden.json()["limit"], 10);
    assert_eq!(overridden.json()["policy"], "plain", "under the name that callers know");
    assert_eq!(overridden.json()["remaining"], 9, "what was spent stays spent");

    let check = r#"{"policy":"plain","key":"k","cost":0}"#;
    let told = ask(&mut client, "checker", "POST", "/v1/check", check).await;
    assert_eq!(told.header("ratelimit-policy"), Some("\"plain.gcra\";q=10;w=36000"));

    let back = ask(&mut client, "root", "DELETE", path, "").await;
    assert_eq!(back.json()["exception"], Value::Null);
    assert_eq!(back.json()["remaining"], 2, "and comes back with it");

    for body in [
        "{}",
        r#"{"block":true,"exempt":true}"#,
        r#"{"limits":[]}"#,
        r#"{"limits":["nonsense"]}"#,
        r#"{"limits":[{"algorithm":"gcra","limt":1}]}"#,
        "[]",
        "x",
    ] {
        let bad = ask(&mut client, "root", "PUT", path, body).await;
        assert_eq!(bad.status, 400, "{body}: {}", bad.body);
    }
}

#[tokio::test]
async fn blocked_in_the_file_is_blocked_and_can_be_reset() {
    let exceptions = "block = [\"mallory\", \"both\"]\nexempt = [\"friend\", \"both\"]\n\
        overrides = { partner = [\"9/h\"] }";
    let policies = POLICIES.replace("[policies.plain]", &format!("[policies.plain]\n{exceptions}"));
    let (_server, mut client) = AtWork::with_client(&policies).await;
    let path = "/v1/policies/plain/keys/mallory/override";
    for body in [r#"{"exempt":true}"#, r#"{"limits":["9/s"]}"#] {
        assert_eq!(ask(&mut client, "root", "PUT", path, body).await.status, 200);
        assert_eq!(check(&mut client, "mallory", 1).await.status, 429, "block comes first");
    }
    for (key, exception) in
        [("mallory", "block"), ("both", "block"), ("friend", "exempt"), ("partner", "override")]
    {
        let path = format!("/v1/policies/plain/keys/{key}");
        let read = ask(&mut client, "reader", "GET", &path, "").await;
        assert_eq!(read.json()["exception"], exception, "{key}");
    }
    check(&mut client, "eve", 3).await;
    let eve = "/v1/policies/plain/keys/eve";
    ask(&mut client, "root", "PUT", &format!("{eve}/override"), r#"{"block":true}"#).await;
    ask(&mut client, "root", "DELETE", eve, "").await;
    ask(&mut client, "root", "DELETE", &format!("{eve}/override"), "").await;
    assert_eq!(check(&mut client, "eve", 3).await.status, 200, "forgotten while it was blocked");
}

#[tokio::test]
async fn composed_keys_by_the_text_that_answers_show() {
    let (_server, mut client) = AtWork::with_client(POLICIES).await;
    let body = r#"{"policy":"login","fields":{"client_ip":"203.0.113.1","user":"a,1:b"}}"#;
    let answer = ask(&mut client, "checker", "POST", "/v1/check", body).await;
    let key = answer.json()["key"].as_str().unwrap().to_owned();
    let path = format!("/v1/policies/login/keys/{key}");
    let read = ask(&mut client, "reader", "GET", &path, "").await;
    assert_eq!(read.json()["remaining"], 1, "{}", read.body);
    let bad = ask(&mut client, "reader", "GET", "/v1/policies/login/keys/alice", "").await;
    assert_eq!(bad.status, 400);
}

#[tokio::test]
async fn the_list_of_policies() {
    let (_server, mut client) = AtWork::with_client(POLICIES).await;
    let list = ask(&mut client, "reader", "GET", "/v1/policies", "").await.json();
    let names: Vec<&str> =
        list["policies"].as_array().unwrap().iter().filter_map(|p| p["name"].as_str()).collect();
    assert_eq!(names, ["login", "plain", "usage"]);
    let one = ask(&mut client, "reader", "GET", "/v1/policies/plain", "").await.json();
    assert_eq!(one, list["policies"][1]);
    assert_eq!(one["limits"][0]["per_us"], 3_600_000_000_u64);
}

#[tokio::test]
async fn no_more_overrides_than_there_is_room_for() {
    let (_server, mut client) =
        AtWork::with_client(&format!("{POLICIES}\n[store]\nmax_overrides = 9\n")).await;
    let block = r#"{"block":true}"#;
    for n in 0..9 {
        let path = format!("/v1/policies/plain/keys/{n}/override");
        assert_eq!(ask(&mut client, "root", "PUT", &path, block).await.status, 200, "{n}");
    }
    let one_more = "/v1/policies/plain/keys/more/override";
    let answer = ask(&mut client, "root", "PUT", one_more, block).await;
    assert_eq!(answer.status, 507, "{answer:?}");
    // One that is there can change, and one that is cleared makes room.
    let known = "/v1/policies/plain/keys/7/override";
    assert_eq!(ask(&mut client, "root", "PUT", known, r#"{"exempt":true}"#).await.status, 200);
    assert_eq!(ask(&mut client, "root", "DELETE", known, "").await.status, 200);
    assert_eq!(ask(&mut client, "root", "PUT", one_more, block).await.status, 200);
}
