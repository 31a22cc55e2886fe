//! Reservations of servers that share a Redis: what one holds, another settles.

use serde_json::{Value, json};
use waterclock_conformance::real::RedisServer;

use crate::at_work::AtWork;
use crate::client::Client;

fn on(redis: &RedisServer) -> String {
    format!(
        r#"
[store]
url = "{}"
nodes = 2
deadline = "2s"
key_secret = "the same everywhere"

[policies.tokens]
block = ["mallory"]
exempt = ["root"]
limits = [{{ algorithm = "gcra", limit = 1, per = "1h", capacity = 10 }}]

[policies.slots]
limits = [{{ algorithm = "concurrency", limit = 2, lease = "1m" }}]

[policies.watched]
rollout = "0%"
limits = [{{ algorithm = "gcra", limit = 1, per = "1h", capacity = 10 }}]
"#,
        redis.url()
    )
}

async fn post(client: &mut Client, path: &str, body: Value) -> (u16, Value) {
    let answer = client.post(path, &body.to_string()).await;
    (answer.status, answer.json())
}

fn id_of(held: &(u16, Value)) -> String {
    assert_eq!(held.0, 201, "{held:?}");
    held.1["reservation"]["id"].as_str().expect("an id").to_owned()
}

async fn left(client: &mut Client, policy: &str, key: &str) -> Value {
    let body = json!({"policy": policy, "key": key});
    post(client, "/v1/peek", body).await.1["remaining"].clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_server_holds_another_settles() {
    let redis = RedisServer::start();
    let (one, two) = (AtWork::serving(&on(&redis)).await, AtWork::serving(&on(&redis)).await);
    let (mut one, mut two) = (one.http().await, two.http().await);
    let body = json!({"policy": "tokens", "key": "k", "cost": 8, "id": "order/1", "ttl": "30s"});
    for client in [&mut one, &mut two] {
        let held = post(client, "/v1/reserve", body.clone()).await;
        assert_eq!(
            (id_of(&held).as_str(), &held.1["source"]),
            ("order/1", &json!("authoritative"))
        );
    }
    assert_eq!(left(&mut two, "tokens", "k").await, 2);
    let more = json!({"policy": "tokens", "key": "k", "cost": 3});
    assert_eq!(post(&mut one, "/v1/reserve", more).await.0, 429);
    let path = "/v1/reservations/order%2F1/commit";
    for client in [&mut two, &mut one] {
        let settled = post(client, path, json!({"cost": 5})).await;
        assert_eq!((settled.0, &settled.1["used"]), (200, &json!([5])), "{settled:?}");
    }
    assert_eq!(left(&mut one, "tokens", "k").await, 5);
    let cost = json!({"policy": "tokens", "key": "k", "cost": 9});
    assert_eq!(post(&mut two, "/v1/report", cost).await.1["remaining"], 0);
    let gone = one.send("DELETE", "/v1/reservations/unknown", &[], "").await;
    assert_eq!(gone.status, 404, "{}", gone.body);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn places_are_held_by_all_of_them() {
    let redis = RedisServer::start();
    let (one, two) = (AtWork::serving(&on(&redis)).await, AtWork::serving(&on(&redis)).await);
    let (mut one, mut two) = (one.http().await, two.http().await);
    let body = json!({"policy": "slots", "key": "k"});
    let first = id_of(&post(&mut one, "/v1/reserve", body.clone()).await);
    id_of(&post(&mut two, "/v1/reserve", body.clone()).await);
    assert_eq!(post(&mut one, "/v1/reserve", body.clone()).await.0, 429);
    let freed = two.send("DELETE", &format!("/v1/reservations/{first}"), &[], "").await;
    assert_eq!(freed.status, 200, "{}", freed.body);
    id_of(&post(&mut one, "/v1/reserve", body.clone()).await);
    let check = post(&mut one, "/v1/check", body).await;
    assert_eq!((check.0, &check.1["field"]), (400, &json!("policy")), "{check:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blocked_exempt_and_overridden_keys() {
    let redis = RedisServer::start();
    let (_server, mut client) = AtWork::with_client(&on(&redis)).await;
    let of =
        |policy: &str, key: &str, cost: u64| json!({"policy": policy, "key": key, "cost": cost});
    assert_eq!(post(&mut client, "/v1/reserve", of("tokens", "mallory", 1)).await.0, 429);
    let exempt = id_of(&post(&mut client, "/v1/reserve", of("tokens", "root", 1_000)).await);
    let path = format!("/v1/reservations/{exempt}/commit");
    assert_eq!(post(&mut client, &path, json!({"cost": 7_000})).await.0, 200);
    let both = json!({"checks": [of("tokens", "root", 3), of("tokens", "y", 2)]});
    let both = id_of(&post(&mut client, "/v1/reserve", both).await);
    let path = format!("/v1/reservations/{both}/commit");
    let settled = post(&mut client, &path, json!({"cost": [9, 1]})).await;
    assert_eq!((settled.0, &settled.1["held"]), (200, &json!([3, 2])), "{settled:?}");
    assert_eq!(left(&mut client, "tokens", "y").await, 9);
    // A policy that is not rolled out refuses nothing; it reports what it would have refused.
    id_of(&post(&mut client, "/v1/reserve", of("watched", "k", 8)).await);
    let second = post(&mut client, "/v1/reserve", of("watched", "k", 8)).await;
    assert_eq!((second.0, &second.1["allowed"]), (201, &json!(true)));
    assert_eq!(second.1["shadow_refused_by"], json!(["gcra"]), "{second:?}");
}
