//! `charge` and `unit` of rules: bills that come afterwards, and counting as the reference service does. On both stores.

use std::time::Duration;

use serde_json::json;
use waterclock_conformance::real::RedisServer;
use waterclock_server::envoy::{Code, DescriptorStatus, RateLimitDescriptor, Unit};

use super::scene::{Client, Scene, about, ask, descriptor, request, seen};

/// Windows so long that no edge falls into a test.
const CONFIG: &str = r#"
[policies.llm]
on_store_error = "deny"
key = ["tenant"]
limits = [
  { name = "requests", algorithm = "fixed-window", limit = 9, per = "100d" },
  { name = "tokens", algorithm = "fixed-window", limit = 20, per = "100d", unit = "tokens" },
]
[policies.calls]
on_store_error = "deny"
limits = [{ algorithm = "fixed-window", limit = 2, per = "100d" }]
[policies.count]
on_store_error = "deny"
mode = "uniform"
headers = "none"
limits = [{ algorithm = "fixed-window", limit = 21, per = "365d", align = "epoch" }]
[policies.trial]
on_store_error = "deny"
mode = "uniform"
headers = "none"
shadow = true
limits = [{ algorithm = "fixed-window", limit = 3, per = "365d", align = "epoch" }]

[[rules]]
domain = "d"
policy = "llm"
charge = "debit"
unit = "tokens"
descriptor = [{ key = "bill" }, { key = "tenant" }]
[[rules]]
domain = "d"
policy = "llm"
unit = "tokens"
descriptor = [{ key = "estimate" }, { key = "tenant" }]
[[rules]]
domain = "d"
policy = "calls"
descriptor = [{ key = "call" }]
[[rules]]
domain = "d"
policy = "count"
charge = "count"
descriptor = [{ key = "count" }]
[[rules]]
domain = "d"
policy = "count"
charge = "count"
name = "yearly"
descriptor = [{ key = "named" }]
[[rules]]
domain = "d"
policy = "trial"
charge = "count"
descriptor = [{ key = "trial" }]
"#;

fn hits(key: &str, value: &str, hits: u64) -> RateLimitDescriptor {
    RateLimitDescriptor { hits_addend: Some(hits), ..descriptor(&[(key, value)]) }
}

/// Tokens of a tenant, by the rule for bills or the one for estimates.
fn tokens(rule: &str, tenant: &str, hits: u64) -> RateLimitDescriptor {
    let entries = [(rule, "x"), ("tenant", tenant)];
    RateLimitDescriptor { hits_addend: Some(hits), ..descriptor(&entries) }
}

fn tokens_back(tenant: &str, hits: u64) -> RateLimitDescriptor {
    RateLimitDescriptor { is_negative_hits: true, ..tokens("bill", tenant, hits) }
}

fn back(key: &str, value: &str, hits: u64) -> RateLimitDescriptor {
    RateLimitDescriptor { is_negative_hits: true, ..self::hits(key, value, hits) }
}

const OK: Code = Code::Ok;
const OVER: Code = Code::OverLimit;

/// One request after the other, each with the statuses expected: the code, and what is left.
type Story = Vec<(Vec<RateLimitDescriptor>, Vec<(Code, u32)>)>;

/// Whether the store answered every request in time. A busy machine may miss Envoy's deadline now and then.
async fn unfolds(client: &mut Client, story: Story) -> bool {
    for (step, (descriptors, expected)) in story.into_iter().enumerate() {
        let Ok(response) = ask(client, request(descriptors)).await else { return false };
        let found: Vec<(Code, u32)> = response.statuses.iter().map(seen).collect();
        assert_eq!(found, expected, "step {step}");
        let refused = expected.iter().any(|(code, _)| *code == OVER);
        assert_eq!(response.overall_code() == OVER, refused, "step {step}");
    }
    true
}

/// Tells a story on both stores. On Redis, again with other keys until every answer came in time.
async fn on_both_stores(story: impl Fn(&str) -> Story) {
    let (_scene, mut client) = Scene::with_client(CONFIG).await;
    assert!(unfolds(&mut client, story("x")).await);
    let redis = RedisServer::start();
    let store = format!("[store]\nurl = \"{}\"\ndeadline = \"30s\"\n", redis.url());
    let (_scene, mut client) = Scene::with_client(&format!("{store}{CONFIG}")).await;
    for attempt in 0..200 {
        if unfolds(&mut client, story(&attempt.to_string())).await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("no attempt was answered in time");
}

/// A gateway peeks before the stream and sends the bill after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bill_is_charged_whatever_is_left() {
    on_both_stores(|key| {
        let (bill, call) = (|n| tokens("bill", key, n), |n| hits("call", key, n));
        vec![
            (vec![bill(0)], vec![(OK, 20)]),
            (vec![bill(15)], vec![(OK, 5)]),
            // Five are left, and the bill is 30: it is counted all the same.
            (vec![bill(0)], vec![(OK, 5)]),
            (vec![bill(30)], vec![(OK, 0)]),
            (vec![bill(0)], vec![(OVER, 0)]),
            (vec![bill(1)], vec![(OK, 0)]),
            // 46 of 20: giving 25 back is not enough, and one more is not either; another one is.
            (vec![tokens_back(key, 25)], vec![(OK, 0)]),
            (vec![tokens_back(key, 1), bill(0)], vec![(OK, 0), (OVER, 0)]),
            (vec![tokens_back(key, 1)], vec![(OK, 1)]),
            // Another descriptor refuses, and the bill is paid; the refund of a bill, too.
            (vec![call(2)], vec![(OK, 0)]),
            (vec![bill(1), call(1)], vec![(OK, 0), (OVER, 0)]),
            (vec![tokens_back(key, 4), call(1)], vec![(OK, 4), (OVER, 0)]),
            // A bill does not refuse the others, however large.
            (vec![hits("call", &format!("{key}-other"), 1), bill(1_000)], vec![(OK, 1), (OK, 0)]),
            // By another rule, the same unit is checked.
            (vec![tokens("estimate", key, 1)], vec![(OVER, 0)]),
        ]
    })
    .await;
}

#[tokio::test]
async fn a_bill_is_of_its_unit() {
    let (scene, mut client) = Scene::with_client(CONFIG).await;
    about(&mut client, vec![tokens("bill", "alice", 25)]).await;
    about(&mut client, vec![tokens_back("alice", 8), tokens("estimate", "alice", 2)]).await;
    let mut http = scene.http().await;
    let body = json!({"policy": "llm", "key": "alice", "cost": {"requests": 0}}).to_string();
    let answer = http.post("/v1/peek", &body).await.json();
    let left = |limit: usize| answer["limits"][limit]["remaining"].as_u64();
    assert_eq!((left(0), left(1)), (Some(9), Some(1)), "{answer}");
}

/// The tests of a gateway for models, and what happens around them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counting_is_what_the_reference_service_does() {
    on_both_stores(|key| {
        let count = |n| hits("count", key, n);
        let other = format!("{key}-other");
        let other = |n| hits("count", &other, n);
        vec![
            // 21, bills of 10: three requests pass, the fourth does not.
            (vec![count(0)], vec![(OK, 21)]),
            (vec![count(10)], vec![(OK, 11)]),
            (vec![count(10)], vec![(OK, 1)]),
            (vec![count(0)], vec![(OK, 1)]),
            (vec![count(10)], vec![(OVER, 0)]),
            (vec![count(0)], vec![(OVER, 0)]),
            (vec![count(1)], vec![(OVER, 0)]),
            // Each alone: one that refuses keeps nothing from the others, nor do they from it.
            (vec![count(1), other(5)], vec![(OVER, 0), (OK, 16)]),
            (
                vec![other(5), count(1), other(10), other(1), other(1)],
                vec![(OK, 11), (OVER, 0), (OK, 1), (OK, 0), (OVER, 0)],
            ),
            // A rule that checks waits for the others.
            (vec![count(1), hits("call", key, 1)], vec![(OVER, 0), (OK, 2)]),
            (vec![hits("call", key, 1)], vec![(OK, 1)]),
            // What is too much in one go was counted, up to twice the limit.
            (vec![hits("named", key, 10_000)], vec![(OVER, 0)]),
            (vec![hits("named", key, 1)], vec![(OVER, 0)]),
            (vec![back("named", key, 22), count(1)], vec![(OK, 1), (OVER, 0)]),
            // In shadow it is OK, and the numbers are shown.
            (vec![hits("trial", key, 2)], vec![(OK, 1)]),
            (vec![hits("trial", key, 2)], vec![(OK, 0)]),
        ]
    })
    .await;
}

#[tokio::test]
async fn the_fields_of_a_status_are_those_of_the_reference_service() {
    let (_scene, mut client) = Scene::with_client(CONFIG).await;
    let year = 365 * 86_400;
    let check = |status: &DescriptorStatus, requests: u32, name: &str| {
        let limit = status.current_limit.as_ref().unwrap();
        let found = (limit.requests_per_unit, limit.unit(), limit.name.as_str());
        assert_eq!(found, (requests, Unit::Year, name));
        let reset = status.duration_until_reset.as_ref().unwrap();
        assert!((1..=year).contains(&reset.seconds) && reset.nanos == 0, "{reset:?}");
    };
    // A key that nothing was used of has a window, too.
    let descriptors = vec![
        hits("count", "a", 0),
        hits("count", "b", 22),
        hits("named", "a", 1),
        hits("trial", "a", 9),
    ];
    let response = about(&mut client, descriptors).await;
    let statuses = &response.statuses;
    check(&statuses[0], 21, "");
    check(&statuses[1], 21, "");
    check(&statuses[2], 21, "yearly");
    check(&statuses[3], 3, "");
    assert!(response.response_headers_to_add.is_empty());
    // The others are named, and answer as before.
    about(&mut client, vec![hits("call", "a", 2)]).await;
    let response = about(&mut client, vec![hits("call", "a", 1)]).await;
    let limit = response.statuses[0].current_limit.as_ref().unwrap();
    assert_eq!(limit.name, "calls.fixed-window");
    assert!(!response.response_headers_to_add.is_empty());
}

/// Where descriptors have no addend of their own, the request's is the bill.
#[tokio::test]
async fn the_addend_of_the_request_is_a_bill_too() {
    let (_scene, mut client) = Scene::with_client(CONFIG).await;
    let mut bill = request(vec![descriptor(&[("bill", "x"), ("tenant", "alice")])]);
    bill.hits_addend = 50;
    let response = ask(&mut client, bill).await.unwrap();
    assert_eq!(seen(&response.statuses[0]), (OK, 0));
    assert!(response.response_headers_to_add.is_empty(), "no client waits for this answer");
}
