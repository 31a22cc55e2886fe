//! Servers that share a Redis, and what they say when it is gone.

use waterclock_conformance::real::RedisServer;

use crate::at_work::AtWork;
use crate::patience::{LONG, eventually, eventually_within};

fn on(redis: &RedisServer) -> String {
    let policy = |name: &str, rest: &str| {
        format!(
            "[policies.{name}]\n{rest}\nlimits = [{{ algorithm = \"gcra\", limit = 10, per = \"365d\" }}]\n"
        )
    };
    format!(
        "[store]\nurl = \"{}\"\nnodes = 2\nkey_secret = \"the same everywhere\"\n{}{}{}",
        redis.url(),
        policy("here", "on_store_error = \"local\"\nlocal_for = \"1h\""),
        policy("open", "on_store_error = \"allow\""),
        policy("shut", "on_store_error = \"deny\""),
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_servers_share_a_budget() {
    let redis = RedisServer::start();
    let (one, two) = (AtWork::serving(&on(&redis)).await, AtWork::serving(&on(&redis)).await);
    let (mut one, mut two) = (one.http().await, two.http().await);
    for policy in ["here", "open", "shut"] {
        let body = format!(r#"{{"policy":"{policy}","key":"k"}}"#);
        let mut admitted = 0;
        for _ in 0..10 {
            for client in [&mut one, &mut two] {
                let answer = client.post("/v1/check", &body).await;
                assert!([200, 429].contains(&answer.status), "{}", answer.body);
                admitted += u32::from(answer.status == 200);
            }
        }
        assert_eq!(admitted, 10, "{policy}");
    }
}

/// Three servers, although the configuration says two: each knows it, and tells.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_are_counted() {
    let redis = RedisServer::start();
    let (_one, mut client) = AtWork::with_client(&on(&redis)).await;
    let _two = AtWork::serving(&on(&redis)).await;
    let three = AtWork::serving(&on(&redis)).await;
    let mut counted = async |alive: u64| {
        let expected = serde_json::json!({ "configured": 2, "alive": alive });
        // A server that is gone is counted for up to three epochs of ten seconds.
        eventually_within(3 * LONG, "a count", async || {
            client.get("/v1/live").await.json()["store"]["nodes"] == expected
        })
        .await;
        let metrics = client.get("/metrics").await.body;
        assert_eq!(sum(&metrics, "waterclock_store_nodes{state=\"configured\"}"), 2, "{metrics}");
        assert_eq!(sum(&metrics, "waterclock_store_nodes{state=\"alive\"}"), alive, "{metrics}");
    };
    counted(3).await;
    three.running.stop().await;
    counted(2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn how_long_a_share_is_served_is_shown() {
    let redis = RedisServer::start();
    let (_server, mut client) = AtWork::with_client(&on(&redis)).await;
    assert_eq!(client.get("/v1/policies/here").await.json()["local_for_us"], 3_600_000_000_u64);
    assert!(client.get("/v1/policies/shut").await.json().get("local_for_us").is_none());
}

/// The numbers of all lines that begin so.
fn sum(metrics: &str, begin: &str) -> u64 {
    let lines = metrics.lines().filter(|line| line.starts_with(begin));
    lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_redis_each_policy_does_what_it_says() {
    let redis = RedisServer::start();
    let (_server, mut client) = AtWork::with_client(&on(&redis)).await;
    let check = |policy: &str, key: &str| format!(r#"{{"policy":"{policy}","key":"{key}"}}"#);
    let before = client.post("/v1/check", &check("here", "k")).await;
    assert_eq!((before.status, &before.json()["source"]), (200, &"authoritative".into()));
    redis.kill();
    eventually("degraded", async || {
        client.post("/v1/check", &check("here", "x")).await.json()["source"] == "local"
    })
    .await;
    let shut = client.post("/v1/check", &check("shut", "k")).await;
    assert_eq!((shut.status, shut.header("retry-after")), (503, Some("1")), "{}", shut.body);
    assert_eq!(shut.header("content-type"), Some("application/problem+json"));
    let failure = shut.json()["failure"].clone();
    let kinds = waterclock::Failure::ALL.map(waterclock::Failure::name);
    assert!(failure.as_str().is_some_and(|kind| kinds.contains(&kind)), "{}", shut.body);
    assert!(!shut.body.contains("127.0.0.1"), "hosts are not shown: {}", shut.body);
    let open = client.post("/v1/check", &check("open", "k")).await;
    assert_eq!((open.status, &open.json()["source"]), (200, &"policy".into()), "{}", open.body);
    // This server's share of 10 is 5.
    let mut admitted = 0;
    for _ in 0..20 {
        let answer = client.post("/v1/check", &check("here", "another")).await;
        assert!([200, 429].contains(&answer.status), "{}", answer.body);
        assert_eq!(answer.json()["source"], "local");
        admitted += u32::from(answer.status == 200);
    }
    assert_eq!(admitted, 5);
    let metrics = client.get("/metrics").await.body;
    assert!(sum(&metrics, "waterclock_store_errors_total{") >= 1, "{metrics}");
    assert!(
        sum(&metrics, "waterclock_decisions_total{policy=\"shut\",outcome=\"error\"") >= 1,
        "{metrics}"
    );
    assert_eq!(sum(&metrics, "waterclock_degraded{mode=\"local\"}"), 1, "{metrics}");
    assert_eq!(client.get("/readyz").await.json()["degraded"], true);
    redis.restart();
    eventually("authoritative again", async || {
        client.post("/v1/check", &check("shut", "new")).await.status == 200
    })
    .await;
    eventually("not degraded", async || client.get("/readyz").await.json()["degraded"] == false)
        .await;
}

/// A key in shadow never makes a check fail, whatever `on_store_error` says.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_redis_a_key_in_shadow_is_admitted() {
    let redis = RedisServer::start();
    let watched =
        "[policies.watched]\nrollout = \"0%\"\non_store_error = \"deny\"\nlimits = [\"10/d\"]\n";
    let (_server, mut client) = AtWork::with_client(&(on(&redis) + watched)).await;
    redis.kill();
    let alone = client.post("/v1/check", r#"{"policy":"watched","key":"k"}"#).await;
    assert_eq!((alone.status, &alone.json()["source"]), (200, &"policy".into()), "{}", alone.body);
    let both = r#"{"checks":[{"policy":"here","key":"k"},{"policy":"watched","key":"k"}]}"#;
    let both = client.post("/v1/check", both).await;
    assert_eq!(both.status, 200, "{}", both.body);
    let sources = [0, 1].map(|place| both.json()["decisions"][place]["source"].clone());
    assert_eq!(sources, ["local", "policy"], "{}", both.body);
    // What was to be given back was not.
    let refund = client.post("/v1/refund", r#"{"policy":"watched","key":"k"}"#).await;
    assert_eq!(refund.status, 503, "{}", refund.body);
}

/// Two servers, three tiers, one budget; keys outside the rollout are charged in the same place.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tiers_share_a_budget_between_servers() {
    let redis = RedisServer::start();
    let file = |rollout: &str| {
        format!(
            "[store]\nurl = \"{}\"\nkey_secret = \"the same everywhere\"\n[policies.login]\nrollout = \"{rollout}\"\n\
             tiers = {{ pro = {{ factor = 0.5 }}, new = {{ factor = 5 }} }}\n\
             limits = [{{ name = \"a\", algorithm = \"gcra\", limit = 10, per = \"365d\" }}]\n",
            redis.url()
        )
    };
    let (one, two) = (AtWork::serving(&file("100%")).await, AtWork::serving(&file("50%")).await);
    let (mut one, mut two) = (one.http().await, two.http().await);
    let body = |key: &str, tier: &str, cost: u64| {
        let tier = Some(tier).filter(|tier| !tier.is_empty());
        serde_json::json!({ "policy": "login", "key": key, "tier": tier, "cost": cost }).to_string()
    };
    let first = one.post("/v1/check", &body("bob", "pro", 8)).await;
    assert_eq!((first.status, &first.json()["remaining"]), (200, &12.into()), "{}", first.body);
    let second = two.post("/v1/check", &body("bob", "", 1)).await;
    assert_eq!((second.status, &second.json()["remaining"]), (200, &1.into()), "{}", second.body);
    assert_eq!(one.post("/v1/check", &body("bob", "new", 1)).await.status, 429);
    let last = two.post("/v1/check", &body("bob", "pro", 11)).await;
    assert_eq!((last.status, &last.json()["remaining"]), (200, &0.into()), "{}", last.body);
    // alice drew 6 986 of 10 000.
    for _ in 0..3 {
        assert_eq!(two.post("/v1/check", &body("alice", "", 4)).await.status, 200);
    }
    let peek = one.post("/v1/peek", &body("alice", "", 0)).await;
    assert_eq!(peek.json()["remaining"], 2, "{}", peek.body);
}
