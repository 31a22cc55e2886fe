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

[policies.named]
key = ["user", "tier"]
tiers = { pro = { factor = 0.5 } }
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
    // Roles come and go, and some callers have none.
    for rest in [r#","tier":"unknown""#, r#","tier":null"#, r#","tier":"""#] {
        assert_eq!(check(&mut client, "k", rest, 1).await, (429, 10.into(), 0.into()), "{rest}");
    }
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
    assert_eq!(remaining("fields", r#""user":"u","tier":"x""#).await, 7);
    // Where the key names it, each tier has a budget.
    assert_eq!(remaining("named", r#""user":"u","tier":"pro""#).await, 19);
    assert_eq!(remaining("named", r#""user":"u","tier":"x""#).await, 9);
    assert_eq!(remaining("named", r#""user":"u","tier":"pro""#).await, 18);
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
