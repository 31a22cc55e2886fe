//! Lines in front of a store elsewhere.

use std::time::Duration;

use tokio::time::{sleep, timeout};
use waterclock_conformance::real::RedisServer;

use super::{Resp, SLOW, SOON, body, check, in_line, in_line_after, seconds, spend, wait};
use crate::at_work::AtWork;
use crate::patience::eventually;

async fn on(redis: &RedisServer) -> AtWork {
    let store = format!("[store]\nurl = \"{}\"\ndeadline = \"10s\"\n", redis.url());
    // Nothing returns by itself while a test runs.
    let hourly = "[policies.hourly]\nlimits = [{ algorithm = \"gcra\", limit = 1, per = \"1h\", capacity = 5 }]\n";
    AtWork::serving(&(store + SLOW + hourly)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lines_as_in_memory() {
    let redis = RedisServer::start();
    let server = on(&redis).await;
    let mut client = server.http().await;
    spend(&mut client, "slow", 3).await;
    let first = in_line_after(&server, 0, 4, "60s").await;
    let refused = client.post("/v1/check", &check("slow", "k", 1)).await;
    assert_eq!((refused.status, &refused.json()["refused_by"]), (429, &serde_json::json!([])));
    assert!(seconds(&refused.json(), "retry_after_us") > 12.0, "{}", refused.body);
    let late = client.post("/v1/wait", &body("slow", "k", 1, "12s")).await;
    assert_eq!((late.status, &late.json()["refused_by"]), (429, &serde_json::json!([])));
    let never = client.post("/v1/wait", &body("slow", "k", 6, "60s")).await;
    assert_eq!((never.status, &never.json()["retry_after_us"]), (429, &().into()));
    let mut resp = Resp::connect(&server).await;
    let refused = resp.ask("RL.CHECK slow k").await;
    assert_eq!((refused[0], refused[5]), (0, 0));
    let next = in_line_after(&server, 1, 1, "60s").await;
    first.abort();
    let next = timeout(SOON, next).await.expect("has its turn").unwrap();
    assert_eq!((next.status, &next.json()["remaining"]), (200, &1.into()), "{}", next.body);
    let woken = in_line_after(&server, 0, 5, "60s").await;
    assert_eq!(resp.ask("RL.RESET slow k").await[..3], [1, 5, 5]);
    assert_eq!(timeout(SOON, woken).await.expect("is woken").unwrap().status, 200);
    assert_eq!(in_line(&server, "slow"), 0);
}

/// The client goes away while Redis is charging it: the units are given back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_client_that_is_gone_was_charged_is_given_back() {
    let redis = RedisServer::start();
    let server = on(&redis).await;
    let mut client = server.http().await;
    // So that the script is known.
    spend(&mut client, "other", 1).await;
    redis.pause();
    let waiting = wait(&server, "hourly", 2, "60s").await;
    sleep(Duration::from_secs(1)).await;
    assert!(!waiting.is_finished() && in_line(&server, "hourly") == 0, "it is being charged");
    waiting.abort();
    _ = waiting.await;
    sleep(Duration::from_millis(300)).await;
    redis.resume();
    // Charged and given back, in whatever order this sees it: in the end, nothing is used.
    for _ in 0..3 {
        eventually("all is given back", async || {
            client.post("/v1/peek", &check("hourly", "k", 1)).await.json()["remaining"] == 5
        })
        .await;
        sleep(Duration::from_millis(100)).await;
    }
}

/// A store that fails ends the wait with an error, if the policy says so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_fails_is_no_refusal() {
    let redis = RedisServer::start();
    let text = format!(
        "[store]\nurl = \"{}\"\n[policies.strict]\non_store_error = \"deny\"\nlimits = [\"5/h\"]\n",
        redis.url()
    );
    let server = AtWork::serving(&text).await;
    redis.kill();
    let mut client = server.http().await;
    let failed = client.post("/v1/wait", &body("strict", "k", 1, "60s")).await;
    assert_eq!(failed.status, 503, "{}", failed.body);
    let mut resp = Resp::connect(&server).await;
    resp.send("RL.WAIT strict k 1 60000").await;
    assert!(resp.lines(1).await[0].starts_with("-UNAVAILABLE "));
    assert_eq!(in_line(&server, "strict"), 0);
}
