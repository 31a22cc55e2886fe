//! Callers of several tiers: other numbers, one budget.

use serde_json::Value;

use crate::at_work::AtWork;
use crate::client::Client;

const POLICIES: &str = r#"
[server]
trusted_proxies = ["127.0.0.0/8"]

[policies.p]
headers = "ietf"
tiers = { pro = { factor = 0.5 }, new = { factor = 5 }, staff = { factor = 0 } }
block = ["mallory"]
overrides = { "alice" = ["3/h"] }
limits = [{ name = "yearly", algorithm = "fixed-window", limit = 10, per = "365d" }]

[policies.fields]
key = ["user"]
tiers = { pro = { factor = 0.5 } }
limits = [{ name = "yearly", algorithm = "fixed-window", limit = 10, per = "365d" }]

[policies.plain]
key = ["user"]
limits = ["10/h"]

[policies.named]
key = ["user", "tier"]
tiers = { pro = { factor = 0.5 }, new = { factor = 1 } }
limits = [{ name = "yearly", algorithm = "fixed-window", limit = 10, per = "365d" }]

[policies.halved]
factor = 2
limits = ["10/h"]
"#;

/// Status, limit and what is left of a check of policy `p`.
async fn check(client: &mut Client, key: &str, rest: &str, cost: u64) -> (u16, Value, Value) {
    let body = format!(r#"{{"policy":"p","key":"{key}","cost":{cost}{rest}}}"#);
    let answer = client.post("/v1/check", &body).await;
    let said = answer.json();
    assert_eq!(said["policy"], "p", "{}", answer.body);
    (answer.status, said["limit"].clone(), said["remaining"].clone())
}

const PRO: &str = r#","tier":"pro""#;
const NEW: &str = r#","tier":"new""#;

#[tokio::test]
async fn what_is_spent_stays_spent_when_the_tier_changes() {
    let (_server, mut client) = AtWork::with_client(POLICIES).await;
    assert_eq!(check(&mut client, "k", PRO, 8).await, (200, 20.into(), 12.into()));
    assert_eq!(check(&mut client, "k", "", 1).await, (200, 10.into(), 1.into()));
    assert_eq!(check(&mut client, "k", NEW, 1).await, (429, 2.into(), 0.into()));
    assert_eq!(check(&mut client, "k", PRO, 11).await, (200, 20.into(), 0.into()));
    assert_eq!(check(&mut client, "k", "", 1).await, (429, 10.into(), 0.into()));
    // Some callers have none.
    assert_eq!(check(&mut client, "k", r#","tier":null"#, 1).await, (429, 10.into(), 0.into()));
}

/// Each with what is wrong and the field.
#[tokio::test]
async fn an_unknown_tier_is_an_error() {
    let (_server, mut client) = AtWork::with_client(POLICIES).await;
    let known = "policy `p` has no tier \"gold\"; it has `new`, `pro` and `staff`";
    let none = "policy `halved` has no tiers; found \"gold\"";
    let of_policy = |policy: &str, rest: &str| {
        format!(r#"{{"policy":"{policy}","key":"alice","tier":"gold"{rest}}}"#)
    };
    for path in ["/v1/check", "/v1/peek", "/v1/refund", "/v1/reserve", "/v1/report"] {
        let rest = if path == "/v1/refund" || path == "/v1/report" { r#","cost":1"# } else { "" };
        for (policy, detail) in [("p", known), ("halved", none)] {
            let answer = client.post(path, &of_policy(policy, rest)).await;
            let said = answer.json();
            assert_eq!((answer.status, &said["field"]), (400, &"tier".into()), "{path}");
            assert_eq!(said["detail"], detail, "{path}");
        }
    }
    let several = format!(r#"{{"checks":[{{"policy":"p","key":"k"}},{}]}}"#, of_policy("p", ""));
    let said = client.post("/v1/check", &several).await.json();
    assert_eq!(said["field"], "checks[1].tier");
    let empty = client.post("/v1/check", r#"{"policy":"p","key":"k","tier":""}"#).await;
    assert_eq!(empty.status, 400);
    let untouched = client.get("/v1/policies/p/keys/k").await.json();
    assert_eq!(untouched["remaining"], 10, "nothing was charged: {untouched}");
}

#[tokio::test]
async fn an_unknown_tier_gets_the_default_tier() {
    let policies = POLICIES.replace("block =", "default_tier = \"new\"\nblock =");
    let (_server, mut client) = AtWork::with_client(&policies).await;
    let gold = r#","tier":"gold""#;
    assert_eq!(check(&mut client, "k", gold, 1).await, (200, 2.into(), 1.into()));
    // A request without a tier stays without one.
    assert_eq!(check(&mut client, "k", "", 1).await, (200, 10.into(), 8.into()));
    assert_eq!(check(&mut client, "k", gold, 1).await, (429, 2.into(), 0.into()));
    let several = r#"{"checks":[{"policy":"p","key":"l","tier":"gold"}],"atomic":false}"#;
    let said = client.post("/v1/check", several).await.json();
    assert_eq!(said["decisions"][0]["limit"], 2, "{said}");
    let authorize = async |query: &str| {
        let mut client = _server.http().await;
        client.get(&format!("/v1/authorize?policy=p&key=m&cost=3{query}")).await.status
    };
    assert_eq!(authorize("&tier=gold").await, 429);
    assert_eq!(authorize("").await, 200);
    assert_eq!(client.get("/v1/policies/p").await.json()["default_tier"], "new");
}

/// Neither does a tier without limits forget what others have spent.
#[tokio::test]
async fn a_tier_of_zero_is_not_limited_and_charges_nothing() {
    let (_server, mut client) = AtWork::with_client(POLICIES).await;
    assert_eq!(check(&mut client, "k", "", 9).await, (200, 10.into(), 1.into()));
    let staff = r#","tier":"staff""#;
    assert_eq!(check(&mut client, "k", staff, 1_000).await, (200, Value::Null, Value::Null));
    assert_eq!(check(&mut client, "k", "", 1).await, (200, 10.into(), 0.into()));
    assert_eq!(check(&mut client, "k", staff, 1).await, (200, Value::Null, Value::Null));
    assert_eq!(check(&mut client, "k", "", 1).await.0, 429);
    // Block and override come before.
    assert_eq!(check(&mut client, "mallory", staff, 1).await.0, 429);
    assert_eq!(check(&mut client, "alice", staff, 1).await, (200, 3.into(), 2.into()));
}

#[tokio::test]
async fn a_field_picks_it_too_and_is_no_part_of_the_key() {
    let (_server, mut client) = AtWork::with_client(POLICIES).await;
    let mut remaining = async |policy: &str, fields: &str| {
        let body = format!(r#"{{"policy":"{policy}","fields":{{{fields}}}}}"#);
        let answer = client.post("/v1/check", &body).await;
        answer.json()["remaining"].as_u64().unwrap_or_else(|| panic!("{}", answer.body))
    };
    assert_eq!(remaining("fields", r#""user":"u""#).await, 9);
    assert_eq!(remaining("fields", r#""user":"u","tier":"pro""#).await, 18);
    assert_eq!(remaining("fields", r#""user":"u""#).await, 7);
    // Where the key names it, each tier has a budget.
    assert_eq!(remaining("named", r#""user":"u","tier":"pro""#).await, 19);
    assert_eq!(remaining("named", r#""user":"u","tier":"new""#).await, 9);
    assert_eq!(remaining("named", r#""user":"u","tier":"pro""#).await, 18);
    // To a policy without tiers, it is a field like others.
    assert_eq!(remaining("plain", r#""user":"u","tier":"x""#).await, 9);
    let body = r#"{"policy":"fields","fields":{"user":"u","tier":"x"}}"#;
    let unknown = client.post("/v1/check", body).await;
    assert_eq!((unknown.status, &unknown.json()["field"]), (400, &"tier".into()));
}

#[tokio::test]
async fn several_checks_have_a_tier_each() {
    let (_server, mut client) = AtWork::with_client(POLICIES).await;
    let line = |key: &str, rest: &str| format!(r#"{{"policy":"p","key":"{key}","cost":6{rest}}}"#);
    for atomic in [true, false] {
        let lines = [line("a", PRO), line("b", ""), line("c", NEW)].join(",");
        let body = format!(r#"{{"checks":[{lines}],"atomic":{atomic}}}"#);
        let answer = client.post("/v1/check", &body).await;
        let said = answer.json();
        let allowed = |at: usize| said["decisions"][at]["allowed"].as_bool().unwrap();
        assert_eq!([allowed(0), allowed(1), allowed(2)], [!atomic, !atomic, false], "{said}");
        let limits: Vec<_> = (0..3).map(|at| said["decisions"][at]["limit"].as_u64()).collect();
        assert_eq!(limits, [Some(20), Some(10), Some(2)]);
    }
}

#[tokio::test]
async fn headers_tell_the_numbers_of_the_tier() {
    let (_server, mut client) = AtWork::with_client(POLICIES).await;
    let body = format!(r#"{{"policy":"p","key":"h"{PRO}}}"#);
    let answer = client.post("/v1/check", &body).await;
    let told = answer.header("ratelimit-policy").unwrap();
    assert_eq!(told, r#""p.yearly";q=20;w=31536000"#);
}

/// A proxy says the tier in its question or in a field; an untrusted client cannot.
#[tokio::test]
async fn proxies_pass_tiers_on() {
    let left = async |config: &str, query: &str, lines: &[&str]| {
        let server = AtWork::serving(config).await;
        let mut client = server.http().await;
        let path = format!("/v1/authorize?policy=p&cost=15{query}");
        client.send("GET", &path, lines, "").await.status
    };
    let untrusting = POLICIES.replace("127.0.0.0/8", "192.0.2.0/24");
    let field = ["x-waterclock-tier: pro"];
    assert_eq!(left(POLICIES, "", &[]).await, 429);
    assert_eq!(left(POLICIES, "&tier=pro", &[]).await, 200);
    assert_eq!(left(POLICIES, "", &field).await, 200);
    assert_eq!(left(&untrusting, "", &field).await, 429);
    assert_eq!(left(POLICIES, "&tier=gold", &[]).await, 400);
    assert_eq!(left(POLICIES, "", &["x-waterclock-tier: gold"]).await, 400);
    assert_eq!(left(POLICIES, "", &["x-waterclock-tier: "]).await, 429, "no tier");
}

#[tokio::test]
async fn the_policy_is_shown_with_its_tiers() {
    let (_server, mut client) = AtWork::with_client(POLICIES).await;
    let policy = client.get("/v1/policies/p").await.json();
    assert_eq!(policy["tiers"]["pro"]["limits"][0]["limit"], 20, "{policy}");
    assert_eq!(policy["tiers"]["staff"]["limits"], serde_json::json!([]));
    let halved = client.get("/v1/policies/halved").await.json();
    assert_eq!((&halved["limits"][0]["capacity"], halved.get("tiers")), (&5.into(), None));
}
