//! `waterclock.v1.RateLimiter`, asked by a real client: the answers of the JSON API, and its bounds.

mod lasting;

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tonic::transport::Channel;
use tonic::{Code, Request, Status};
use waterclock_conformance::real::{Proxy, RedisServer};
use waterclock_server::rate_limiter::{
    CancelRequest, CheckAllRequest, CheckRequest, CommitRequest, Cost, Decision, RateLimiterClient,
    ReportRequest, ReserveRequest, WatchRequest,
};

use super::scene::Scene;
use crate::at_work::auth;
use crate::patience::eventually;

const POLICIES: &str = r#"
[policies.login]
limits = ["3/h"]
[policies.slow]
limits = ["1/s"]
[policies.pair]
key = ["client_ip", "user"]
tiers = { pro = { factor = 0.5 } }
limits = ["4/h"]
[policies.units]
limits = [
  { algorithm = "gcra", limit = 3, per = "1h" },
  { name = "tokens", algorithm = "gcra", limit = 100, per = "1h", unit = "tokens" },
]
[policies.errors]
limits = [{ algorithm = "error-rate", threshold = "50%", per = "1m", min_samples = 2, cool_down = "1m" }]
"#;

type Client = RateLimiterClient<Channel>;

async fn scene() -> (Scene, Client) {
    let scene = Scene::new(POLICIES).await;
    let client = RateLimiterClient::new(scene.channel().await);
    (scene, client)
}

fn charge(policy: &str, key: &str) -> CheckRequest {
    CheckRequest { policy: policy.to_owned(), key: Some(key.to_owned()), ..CheckRequest::default() }
}

fn costing(policy: &str, key: &str, cost: u64) -> CheckRequest {
    CheckRequest { cost: Some(cost), ..charge(policy, key) }
}

async fn check(client: &mut Client, request: CheckRequest) -> Result<Decision, Status> {
    client.check(request).await.map(tonic::Response::into_inner)
}

async fn left(client: &mut Client, policy: &str, key: &str) -> u64 {
    client.peek(charge(policy, key)).await.unwrap().into_inner().remaining.unwrap()
}

fn units(of: &[(&str, u64)]) -> BTreeMap<String, u64> {
    of.iter().map(|(unit, units)| ((*unit).to_owned(), *units)).collect()
}

/// A decision as the JSON API has it, without times, which pass.
fn as_json(decision: &Decision) -> Value {
    let limits = decision.limits.iter().map(|limit| {
        json!({ "name": limit.name, "allowed": limit.allowed, "limit": limit.limit, "remaining": limit.remaining })
    });
    let cost = |cost: u64, costs: &BTreeMap<String, u64>| match costs.is_empty() {
        true => json!(cost),
        false => json!(costs),
    };
    json!({
        "policy": decision.policy,
        "key": decision.key,
        "cost": cost(decision.cost, &decision.costs),
        "allowed": decision.allowed,
        "granted": cost(decision.granted, &decision.granted_costs),
        "limit": decision.limit,
        "remaining": decision.remaining,
        "refused_by": decision.refused_by,
        "source": decision.source,
        "limits": limits.collect::<Vec<_>>(),
    })
}

fn without_times(mut json: Value) -> Value {
    let is_kept = |name: &str| !name.ends_with("_us");
    json.as_object_mut().unwrap().retain(|name, _| is_kept(name));
    for limit in json["limits"].as_array_mut().unwrap() {
        limit.as_object_mut().unwrap().retain(|name, _| is_kept(name));
    }
    json
}

#[tokio::test]
async fn decisions_are_those_of_the_json_api() {
    let (scene, mut client) = scene().await;
    let mut http = scene.http().await;
    let body = |path: &str, body: Value| (path.to_owned(), body.to_string());
    let cases = [
        (charge("login", "a"), json!({ "policy": "login", "key": "b" })),
        (costing("login", "a", 2), json!({ "policy": "login", "key": "b", "cost": 2 })),
        (costing("login", "a", 1), json!({ "policy": "login", "key": "b", "cost": 1 })),
        (costing("login", "a", 0), json!({ "policy": "login", "key": "b", "cost": 0 })),
        (
            CheckRequest { factor: Some("0.5".into()), ..charge("login", "c") },
            json!({ "policy": "login", "key": "d", "factor": "0.5" }),
        ),
        (
            CheckRequest {
                costs: units(&[("requests", 1), ("tokens", 40)]),
                ..charge("units", "a")
            },
            json!({ "policy": "units", "key": "b", "cost": { "requests": 1, "tokens": 40 } }),
        ),
        (
            CheckRequest {
                policy: "pair".into(),
                fields: [("client_ip", "192.0.2.1"), ("user", "u"), ("tier", "pro")]
                    .map(|(name, value)| (name.to_owned(), value.to_owned()))
                    .into(),
                ..CheckRequest::default()
            },
            json!({ "policy": "pair", "fields": { "client_ip": "192.0.2.2", "user": "u", "tier": "pro" } }),
        ),
    ];
    for (request, over_http) in cases {
        let ours = as_json(&check(&mut client, request).await.unwrap());
        let (path, text) = body("/v1/check", over_http);
        let theirs = without_times(http.post(&path, &text).await.json());
        let blank = |mut json: Value| {
            json["key"] = Value::Null;
            json
        };
        assert_eq!(blank(ours), blank(theirs), "{text}");
    }
    // The times are there, too, and a refusal is no error.
    let refused = check(&mut client, charge("login", "a")).await.unwrap();
    assert!(!refused.allowed && refused.retry_after_us.unwrap() > 0 && refused.reset_after_us > 0);
    assert!(check(&mut client, costing("login", "e", 4)).await.unwrap().retry_after_us.is_none());
}

#[tokio::test]
async fn errors_say_what_is_wrong() {
    let (_scene, mut client) = scene().await;
    for (request, code, says) in [
        (charge("logn", "a"), Code::NotFound, "did you mean `login`"),
        (charge("", "a"), Code::InvalidArgument, "`policy`"),
        (charge("login", &"x".repeat(1_025)), Code::InvalidArgument, "`key`"),
        (charge("pair", "a"), Code::InvalidArgument, "`fields`"),
        (CheckRequest { key: None, ..charge("pair", "") }, Code::InvalidArgument, "`client_ip`"),
        (
            CheckRequest { factor: Some("-1".into()), ..charge("login", "a") },
            Code::InvalidArgument,
            "`factor`",
        ),
        (
            CheckRequest { tier: Some("x".into()), ..charge("pair", "1 1") },
            Code::InvalidArgument,
            "`",
        ),
        (
            CheckRequest { costs: units(&[("tokens", 1)]), ..costing("units", "a", 1) },
            Code::InvalidArgument,
            "`costs`",
        ),
        (costing("units", "a", 1), Code::InvalidArgument, "`tokens`"),
        (
            CheckRequest {
                fields: (0..65).map(|n| (n.to_string(), String::new())).collect(),
                ..charge("login", "a")
            },
            Code::InvalidArgument,
            "`fields` must hold at most 64",
        ),
    ] {
        let status = check(&mut client, request).await.unwrap_err();
        assert_eq!(status.code(), code, "{status}");
        assert!(status.message().contains(says), "{says}: {status}");
    }
    assert!(check(&mut client, charge("login", &"x".repeat(1_024))).await.is_ok());
    let outcome = |outcome: Option<&str>, check| ReportRequest {
        check: Some(check),
        outcome: outcome.map(str::to_owned),
    };
    for (report, says) in [
        (outcome(Some("fine"), charge("errors", "a")), "`outcome` must be"),
        (outcome(Some("ok"), charge("login", "a")), "has no error-rate limit"),
        (outcome(None, charge("login", "a")), "`cost` is missing"),
        (ReportRequest::default(), "`check` is missing"),
    ] {
        let status = client.report(report).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
        assert!(status.message().contains(says), "{says}: {status}");
    }
}

#[tokio::test]
async fn reports_charge_or_open_the_breaker() {
    let (_scene, mut client) = scene().await;
    let bill = ReportRequest { check: Some(costing("login", "a", 5)), outcome: None };
    assert!(!client.report(bill).await.unwrap().into_inner().allowed);
    assert!(!check(&mut client, charge("login", "a")).await.unwrap().allowed);
    for _ in 0..2 {
        let error =
            ReportRequest { check: Some(charge("errors", "a")), outcome: Some("error".to_owned()) };
        client.report(error).await.unwrap();
    }
    assert!(!check(&mut client, charge("errors", "a")).await.unwrap().allowed);
    client.refund(costing("login", "b", 1)).await.unwrap();
    check(&mut client, costing("login", "b", 3)).await.unwrap();
    client.refund(costing("login", "b", 2)).await.unwrap();
    assert_eq!(left(&mut client, "login", "b").await, 2);
}

#[tokio::test]
async fn several_checks_are_all_or_none_unless_told_otherwise() {
    let (_scene, mut client) = scene().await;
    let both = |atomic| CheckAllRequest {
        checks: vec![charge("login", "a"), costing("login", "b", 4)],
        atomic,
    };
    let answer = client.check_all(both(None)).await.unwrap().into_inner();
    assert!(!answer.allowed && answer.decisions.len() == 2);
    assert_eq!(left(&mut client, "login", "a").await, 3, "nothing was charged");
    let answer = client.check_all(both(Some(false))).await.unwrap().into_inner();
    assert!(!answer.allowed && answer.decisions[0].allowed && !answer.decisions[1].allowed);
    assert_eq!(left(&mut client, "login", "a").await, 2);
    let status = client
        .check_all(CheckAllRequest {
            checks: vec![charge("login", "a"), charge("x", "")],
            atomic: None,
        })
        .await
        .unwrap_err();
    assert!(status.code() == Code::NotFound && status.message().starts_with("checks[1]: "));
}

/// 1,024 checks, not one more; 64 KiB, not one byte more.
#[tokio::test]
async fn lists_and_messages_are_bounded() {
    let (_scene, mut client) = scene().await;
    let many = |count| CheckAllRequest {
        checks: (0..count).map(|at| charge("login", &format!("{at}"))).collect(),
        atomic: None,
    };
    assert!(client.check_all(many(1_024)).await.unwrap().into_inner().allowed);
    for request in [
        many(1_025),
        CheckAllRequest { checks: vec![CheckRequest::default(); 32_000], atomic: None },
        CheckAllRequest::default(),
    ] {
        let status = client.check_all(request).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{status}");
        assert!(status.message().contains("`checks`"), "{status}");
    }
    // Tag and length of the key are four bytes; policy and its tag are seven.
    let sized = |bytes: usize| charge("login", &"x".repeat(bytes - 11));
    let status = check(&mut client, sized(64 * 1_024)).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument, "read, and the key is too long: {status}");
    let status = check(&mut client, sized(64 * 1_024 + 1)).await.unwrap_err();
    assert_eq!(status.code(), Code::OutOfRange, "{status}");
}

#[tokio::test]
async fn reservations_are_settled() {
    let (_scene, mut client) = scene().await;
    let hold = |cost, id: &str| ReserveRequest {
        checks: vec![costing("login", "a", cost)],
        ttl_us: Some(30_000_000),
        id: Some(id.to_owned()),
        on_expiry: None,
    };
    let held = client.reserve(hold(3, "r1")).await.unwrap().into_inner();
    let reservation = held.reservation.unwrap();
    assert!(held.allowed && reservation.id == "r1" && reservation.expires_in_us <= 30_000_000);
    let refused = client.reserve(hold(1, "r2")).await.unwrap().into_inner();
    assert!(!refused.allowed && refused.reservation.is_none() && !refused.decisions[0].allowed);
    let used =
        |cost| CommitRequest { id: "r1".to_owned(), cost: vec![Cost { cost, ..Cost::default() }] };
    let settled = client.commit(used(1)).await.unwrap().into_inner();
    assert!(!settled.cancelled && settled.held[0].cost == 3 && settled.used[0].cost == 1);
    assert_eq!(left(&mut client, "login", "a").await, 2);
    client.reserve(hold(2, "r3")).await.unwrap();
    let cancel = || CancelRequest { id: "r3".to_owned() };
    assert!(client.cancel(cancel()).await.unwrap().into_inner().cancelled);
    assert!(client.cancel(cancel()).await.unwrap().into_inner().cancelled, "again");
    assert_eq!(left(&mut client, "login", "a").await, 2);
    let unknown = client.cancel(CancelRequest { id: "r9".to_owned() }).await.unwrap_err();
    assert_eq!(unknown.code(), Code::NotFound);
    for (request, says) in [
        (ReserveRequest { ttl_us: Some(999), ..hold(1, "x") }, "`ttl_us`"),
        (ReserveRequest { ttl_us: Some(86_400_000_001), ..hold(1, "x") }, "`ttl_us`"),
        (hold(0, "x"), "`cost`"),
        (hold(1, &"x".repeat(129)), "`id`"),
        (ReserveRequest { on_expiry: Some("lose".into()), ..hold(1, "x") }, "`on_expiry`"),
    ] {
        let status = client.reserve(request).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{status}");
        assert!(status.message().contains(says), "{says}: {status}");
    }
    assert!(client.reserve(hold(1, &"x".repeat(128))).await.is_ok());
}

#[tokio::test]
async fn tokens_have_roles() {
    let auth = auth(&[("checker", "check"), ("reader", "read")]);
    let scene = Scene::new(&format!("{auth}{POLICIES}")).await;
    let mut client = RateLimiterClient::new(scene.channel().await);
    fn with<T>(token: &str, message: T) -> Request<T> {
        let mut request = Request::new(message);
        if !token.is_empty() {
            let token = format!("Bearer {token}").parse().unwrap();
            request.metadata_mut().insert("authorization", token);
        }
        request
    }
    for (token, may_check, may_watch) in [
        ("checker", Code::Ok, Code::PermissionDenied),
        ("reader", Code::PermissionDenied, Code::Ok),
        ("", Code::Unauthenticated, Code::Unauthenticated),
        ("guess", Code::Unauthenticated, Code::Unauthenticated),
    ] {
        let code = |status: Option<Status>| status.map_or(Code::Ok, |status| status.code());
        let checked = client.check(with(token, charge("login", "a"))).await;
        let watched = client.watch(with(token, WatchRequest::default())).await;
        assert_eq!((code(checked.err()), code(watched.err())), (may_check, may_watch), "{token}");
    }
}

#[tokio::test]
async fn an_overloaded_server_refuses_with_an_error() {
    let (scene, mut client) = scene().await;
    let face = waterclock_server::observe::Face::Grpc;
    let all: Vec<_> = std::iter::from_fn(|| scene.server().admit(face)).collect();
    let status = check(&mut client, charge("login", "a")).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted);
    drop(all);
    assert!(check(&mut client, charge("login", "a")).await.is_ok());
}

/// A store that fails is an error where the policy says so, and never a refusal.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_fails_is_unavailable() {
    let redis = RedisServer::start();
    let proxy = Proxy::start(redis.port());
    let config = format!(
        "[store]\nurl = \"{}\"\n[policies.login]\non_store_error = \"deny\"\nlimits = [\"100/h\"]\n",
        proxy.url()
    );
    let scene = Scene::new(&config).await;
    let client = RateLimiterClient::new(scene.channel().await);
    eventually("the store answers", async || {
        check(&mut client.clone(), charge("login", "a")).await.is_ok()
    })
    .await;
    proxy.swallow_replies();
    let mut client = client;
    for _ in 0..3 {
        let status = check(&mut client, charge("login", "a")).await.unwrap_err();
        assert_eq!(status.code(), Code::Unavailable, "{status}");
        let host = proxy.url().replace("redis://", "");
        assert!(!status.message().contains(&host), "no hosts in messages: {status}");
    }
    let each = CheckAllRequest { checks: vec![charge("login", "a")], atomic: Some(false) };
    let answer = client.check_all(each).await.unwrap().into_inner();
    assert!(!answer.allowed && answer.decisions[0].error.contains("the store failed"));
}

/// The file that clients generate code from.
#[tokio::test]
async fn the_protocol_file_is_served() {
    let (scene, _client) = scene().await;
    let answer = scene.http().await.get("/waterclock.proto").await;
    assert_eq!(answer.status, 200);
    assert!(answer.text().contains("service RateLimiter {"));
}
