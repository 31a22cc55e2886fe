//! While callers stand in line, other checks of the key do not overtake them.

use serde_json::json;
use tokio::time::timeout;
use waterclock_server::envoy::Code;

use super::{
    Resp, SLOW, SOON, answered, body, check, eventually_in_line, in_line, in_line_after, seconds,
    spend,
};
use crate::at_work::AtWork;
use crate::grpc::scene::{Scene, lone, user};

/// The first wants more than there is. There would be room for one unit, but not before the first has passed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_check_is_refused_by_the_line_alone() {
    let (server, mut client) = AtWork::with_client(SLOW).await;
    spend(&mut client, "slow", 3).await;
    let mut waiting = in_line_after(&server, 0, 4, "60s").await;
    let refused = client.post("/v1/check", &check("slow", "k", 1)).await;
    let decision = refused.json();
    assert_eq!((refused.status, &decision["refused_by"]), (429, &json!([])), "{decision}");
    assert_eq!((&decision["granted"], &decision["allowed"]), (&0.into(), &false.into()));
    // Two units are left of the three that both want more than there is: 30 s, less what has passed.
    let retry = seconds(&decision, "retry_after_us");
    assert!((20.0..=30.0).contains(&retry), "{retry}");
    let header: f64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((retry..retry + 1.0).contains(&header), "{header}");
    // Others of the same call pass together with it, or not at all; another key passes alone.
    let both =
        json!({ "checks": [{ "policy": "slow", "key": "k" }, { "policy": "other", "key": "k" }] });
    let both = client.post("/v1/check", &both.to_string()).await;
    assert_eq!(both.status, 429, "{}", both.body);
    assert_eq!(both.json()["decisions"][1]["granted"], 0);
    assert!(seconds(&both.json()["decisions"][1], "retry_after_us") > 19.0, "{}", both.body);
    let other = client.post("/v1/check", &check("other", "k", 5)).await;
    assert_eq!((other.status, &other.json()["remaining"]), (200, &0.into()), "{}", other.body);
    let apart = json!({ "atomic": false,
        "checks": [{ "policy": "slow", "key": "k" }, { "policy": "slow", "key": "l" }] });
    let apart = client.post("/v1/check", &apart.to_string()).await.json();
    assert_eq!(apart["decisions"][0]["allowed"], false, "{apart}");
    assert_eq!(apart["decisions"][1]["allowed"], true, "{apart}");
    let reserve = client.post("/v1/reserve", &check("slow", "k", 1)).await;
    assert_eq!((reserve.status, &reserve.json()["refused_by"]), (429, &json!([])));
    let mut resp = Resp::connect(&server).await;
    let numbers = resp.ask("RL.CHECK slow k").await;
    assert_eq!((numbers[0], numbers[1], numbers[5]), (0, 5, 0));
    assert!((20_000..=30_000).contains(&numbers[3]), "{numbers:?}");
    // A peek sees the key as it is, and a report is counted.
    let peek = client.post("/v1/peek", &check("slow", "k", 1)).await.json();
    assert_eq!((&peek["allowed"], &peek["remaining"]), (&true.into(), &2.into()), "{peek}");
    let more = client.post("/v1/report", &check("slow", "k", 1)).await.json();
    assert_eq!(more["remaining"], 1, "{more}");
    assert!(timeout(std::time::Duration::from_millis(50), &mut waiting).await.is_err());
    // What is given back wakes the line.
    assert_eq!(client.post("/v1/refund", &check("slow", "k", 4)).await.status, 200);
    let admitted = timeout(SOON, waiting).await.expect("is woken").unwrap();
    assert_eq!((admitted.status, &admitted.json()["remaining"]), (200, &1.into()));
    assert_eq!(in_line(&server, "slow"), 0);
    assert_eq!(client.post("/v1/check", &check("slow", "k", 1)).await.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reset_wakes_the_line() {
    let (server, mut client) = AtWork::with_client(SLOW).await;
    spend(&mut client, "slow", 5).await;
    let waiting = in_line_after(&server, 0, 5, "60s").await;
    let mut resp = Resp::connect(&server).await;
    assert_eq!(resp.ask("RL.RESET slow k").await[0], 1);
    assert_eq!(timeout(SOON, waiting).await.expect("is woken").unwrap().status, 200);
}

/// A reservation that is cancelled gives back what it held.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_reservation_wakes_the_line() {
    let (server, mut client) = AtWork::with_client(SLOW).await;
    let reserve = json!({ "policy": "slow", "key": "k", "cost": 5, "id": "mine" }).to_string();
    assert_eq!(client.post("/v1/reserve", &reserve).await.status, 201);
    let waiting = in_line_after(&server, 0, 5, "60s").await;
    // The same id has its units already.
    assert_eq!(client.post("/v1/reserve", &reserve).await.status, 201);
    assert_eq!(client.send("DELETE", "/v1/reservations/mine", &[], "").await.status, 200);
    assert_eq!(timeout(SOON, waiting).await.expect("is woken").unwrap().status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn envoy_does_not_overtake_either() {
    let rules = r#"
[policies.slow]
key = ["user"]
limits = [{ name = "units", algorithm = "gcra", limit = 1, per = "10s", capacity = 5 }]
[[rules]]
domain = "d"
policy = "slow"
descriptor = [{ key = "user" }]
"#;
    let (scene, mut envoy) = Scene::with_client(rules).await;
    assert_eq!(lone(&mut envoy, user("k")).await, (Code::Ok, 4));
    let mut http = scene.http().await;
    let waiting =
        tokio::spawn(async move { http.post("/v1/wait", &body("slow", "k", 5, "60s")).await });
    let text = "waterclock_waiting{policy=\"slow\"} 1";
    crate::patience::eventually("in line", async || scene.server().metrics_text().contains(text))
        .await;
    assert_eq!(lone(&mut envoy, user("k")).await.0, Code::OverLimit);
    assert_eq!(lone(&mut envoy, user("l")).await.0, Code::Ok);
    let mut client = scene.http().await;
    assert_eq!(client.post("/v1/refund", &check("slow", "k", 5)).await.status, 200);
    assert_eq!(answered(waiting).await.status, 200);
}

/// The waits of those before it count.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_pass_in_time_is_refused_at_once() {
    let (server, mut client) = AtWork::with_client(SLOW).await;
    let never = client.post("/v1/wait", &body("slow", "k", 6, "60s")).await;
    assert_eq!((never.status, &never.json()["retry_after_us"]), (429, &().into()));
    spend(&mut client, "slow", 5).await;
    let late = client.post("/v1/wait", &body("slow", "k", 5, "30s")).await;
    assert_eq!((late.status, &late.json()["refused_by"]), (429, &json!(["units"])));
    assert!(seconds(&late.json(), "retry_after_us") > 30.0, "{}", late.body);
    let _first = in_line_after(&server, 0, 2, "60s").await;
    // 20 s for the first, and 10 s for this one.
    let behind = timeout(SOON, client.post("/v1/wait", &body("slow", "k", 1, "12s"))).await;
    let behind = behind.expect("at once");
    assert_eq!((behind.status, &behind.json()["refused_by"]), (429, &json!([])));
    assert!(seconds(&behind.json(), "retry_after_us") > 12.0, "{}", behind.body);
    let never = client.post("/v1/wait", &body("slow", "k", 6, "60s")).await;
    assert_eq!((never.status, &never.json()["retry_after_us"]), (429, &().into()));
    let mut resp = Resp::connect(&server).await;
    let numbers = timeout(SOON, resp.ask("RL.WAIT slow k 1 12000")).await.expect("at once");
    assert_eq!((numbers[0], numbers[5]), (0, 0));
    assert_eq!(timeout(SOON, resp.ask("RL.WAIT slow k 6 60000")).await.expect("at once")[3], -1);
    assert_eq!(in_line(&server, "slow"), 1);
    // In time, so it stands in line.
    let _second = in_line_after(&server, 1, 1, "40s").await;
    eventually_in_line(&server, "slow", 2).await;
}
