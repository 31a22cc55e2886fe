//! Servers that share a Redis.

use serde_json::json;
use waterclock_conformance::real::{Cluster, RedisServer};

use super::{check, delete, file, get, left, metrics, of, put};
use crate::at_work::AtWork;
use crate::patience::eventually;

fn on(url: &str) -> String {
    file(&format!(
        "[store]\nurl = \"{url}\"\nnodes = 2\ndeadline = \"2s\"\nkey_secret = \"the same everywhere\"\n"
    ))
}

/// A policy is set on one server; the other serves it at once, and both do after a restart.
async fn servers_share(url: &str) {
    let (one, two) = (AtWork::serving(&on(url)).await, AtWork::serving(&on(url)).await);
    let (mut first, mut second) = (one.http().await, two.http().await);
    for at in 0..3 {
        let name = format!("code{at}");
        assert_eq!(put(&mut first, &name, &of(5)).await.status, 201);
        let checked = check(&mut second, &name, "k", 3).await;
        assert_eq!(checked.status, 200, "at once: {}", checked.body);
        assert_eq!(left(&mut first, &name, "k").await, Ok(2));
        assert_eq!(put(&mut second, &name, &of(5)).await.json()["result"], "unchanged");
    }
    assert_eq!(get(&mut second, "code0").await.json()["definition"], of(5));
    // Several at once, one of which only the other server knows.
    assert_eq!(put(&mut first, "late", &of(5)).await.status, 201);
    let both = json!({ "checks": [
        { "policy": "code0", "key": "both" }, { "policy": "late", "key": "both" }
    ]});
    let both = super::ask(&mut second, "checker", "POST", "/v1/check", &both.to_string()).await;
    assert_eq!(both.status, 200, "{}", both.body);

    // What another server changed or deleted is known soon.
    assert_eq!(put(&mut second, "code1", &of(10)).await.json()["result"], "replaced");
    assert_eq!(delete(&mut second, "code2").await.status, 200);
    eventually("the other server knows", async || {
        left(&mut first, "code1", "k").await == Ok(7)
            && left(&mut first, "code2", "k").await == Err(404)
    })
    .await;
    assert!(!metrics(&mut first).await.contains("policy=\"code2\""));

    one.running.stop().await;
    two.running.stop().await;
    let one = AtWork::serving(&on(url)).await;
    let mut first = one.http().await;
    assert_eq!(get(&mut first, "code0").await.json()["origin"], "store");
    assert_eq!(left(&mut first, "code0", "k").await, Ok(2), "spent stays spent");
    assert_eq!(left(&mut first, "code1", "k").await, Ok(7));
    assert_eq!(left(&mut first, "code2", "k").await, Err(404));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_share_policies() {
    let redis = RedisServer::start();
    servers_share(&redis.url()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_of_a_cluster_share_policies() {
    let cluster = Cluster::start(3, 0);
    servers_share(&cluster.url()).await;
}

/// A file that has the name wins on its server only.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_file_wins_where_it_is() {
    let redis = RedisServer::start();
    let with_code = format!("{}[policies.code]\nlimits = [\"9/d\"]\n", on(&redis.url()));
    let (one, two) = (AtWork::serving(&on(&redis.url())).await, AtWork::serving(&with_code).await);
    let (mut first, mut second) = (one.http().await, two.http().await);
    assert_eq!(put(&mut second, "code", &of(5)).await.status, 409);
    assert_eq!(put(&mut first, "code", &of(5)).await.status, 201);
    eventually("it is known, and hidden", async || {
        get(&mut second, "code").await.json().get("definition").is_some()
    })
    .await;
    assert_eq!(get(&mut second, "code").await.json()["origin"], "file");
    assert_eq!(get(&mut first, "code").await.json()["origin"], "store");
}

/// However many unknown names are asked for, Redis is asked a few times a second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_unknown_names_costs_redis_little() {
    const ASKED: usize = 3_000;
    let redis = RedisServer::start();
    let (_server, mut client) = AtWork::with_client(&on(&redis.url())).await;
    let scripts = || {
        let stats = redis.info("commandstats", "cmdstat_evalsha").unwrap_or_default();
        let calls = stats.split(',').find_map(|part| part.strip_prefix("calls="));
        calls.and_then(|calls| calls.parse::<u64>().ok()).unwrap_or(0)
    };
    let (before, began) = (scripts(), tokio::time::Instant::now());
    for at in 0..ASKED {
        assert_eq!(check(&mut client, &format!("unknown{at}"), "k", 1).await.status, 404);
    }
    let (calls, seconds) = (scripts() - before, began.elapsed().as_secs() + 1);
    // 10 at once, 10 and one poll a second, and nodes that are counted.
    assert!(calls <= 20 + 12 * seconds, "{calls} calls in {seconds} s");
    assert!(!metrics(&mut client).await.contains("unknown1"));
    // And what is new is found soon all the same.
    let two = AtWork::serving(&on(&redis.url())).await;
    assert_eq!(put(&mut two.http().await, "code", &of(5)).await.status, 201);
    eventually("it is found", async || check(&mut client, "code", "k", 1).await.status == 200)
        .await;
}

/// While Redis is down the last known policies stay; nothing can be changed. One that lost its state gets them back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_redis_the_last_known_policies_stay() {
    let redis = RedisServer::start();
    let (one, two) =
        (AtWork::serving(&on(&redis.url())).await, AtWork::serving(&on(&redis.url())).await);
    let (mut first, mut second) = (one.http().await, two.http().await);
    assert_eq!(put(&mut first, "code", &of(5)).await.status, 201);
    assert_eq!(check(&mut second, "code", "k", 1).await.status, 200);
    redis.kill();
    eventually("decided without Redis", async || {
        let checked = check(&mut first, "code", "other", 1).await;
        checked.status == 200 && checked.json()["source"] == "local"
    })
    .await;
    let refused = put(&mut first, "code", &of(9)).await;
    assert_eq!(refused.status, 503, "{}", refused.body);
    assert!(!refused.body.contains("127.0.0.1"), "{}", refused.body);
    assert_eq!(get(&mut first, "code").await.json()["definition"], of(5), "nothing changed");
    assert_eq!(delete(&mut first, "code").await.status, 503);
    assert_eq!(check(&mut first, "unknown", "k", 1).await.status, 404);

    redis.restart();
    redis.command(&["FLUSHALL"]);
    eventually("it is kept again", async || {
        let kept = redis.command(&["HGET", "wc{policies}", "=code"]);
        !kept.is_nil() && serde_json::from_str(&kept.as_text()).ok() == Some(of(5))
    })
    .await;
    eventually("both serve it", async || {
        let answers =
            [check(&mut first, "code", "k", 1).await, check(&mut second, "code", "k", 1).await];
        answers.iter().all(|answer| answer.json()["source"] == "authoritative")
    })
    .await;
}
