//! Reservations by the thousand: they take their policy's share of the memory, and no other's.

use serde_json::{Value, json};

use crate::at_work::AtWork;
use crate::client::{Answer, Client};

/// So many KiB are for reservations.
const ROOM: usize = 1_024;

const POLICIES: &str = r#"
[store]
max_keys = 10000

[policies.flood]
exempt = ["root"]
limits = [{ algorithm = "gcra", limit = 1000000, per = "1h" }]

[policies.calm]
limits = [{ algorithm = "gcra", limit = 1, per = "1h", capacity = 10 }]
"#;

fn bytes(server: &AtWork) -> usize {
    server.running.server().engine.memory().expect("in memory").reservation_bytes()
}

/// A reservation of as many charges as a body may have.
fn many(key: impl Fn(usize) -> String, cost: impl Fn(usize) -> u64, id: Option<&str>) -> Value {
    let check = |i| json!({"policy": "flood", "key": key(i), "cost": cost(i)});
    let mut body = json!({"checks": (0..1_024).map(check).collect::<Vec<_>>(), "ttl": "24h"});
    if let Some(id) = id {
        body["id"] = json!(id);
    }
    body
}

async fn reserve(client: &mut Client, body: &Value) -> Answer {
    client.post("/v1/reserve", &body.to_string()).await
}

/// A client of another policy reserves and commits, and every answer is right.
async fn calm_is_served(client: &mut Client, key: &str) {
    let body = json!({"policy": "calm", "key": key, "cost": 4, "ttl": "24h"});
    let held = reserve(client, &body).await;
    assert_eq!((held.status, &held.json()["remaining"]), (201, &json!(6)), "{}", held.body);
    let id = held.json()["reservation"]["id"].as_str().expect("an id").to_owned();
    let path = format!("/v1/reservations/{id}/commit");
    for _ in 0..2 {
        let settled = client.post(&path, r#"{"cost":1}"#).await.json();
        assert_eq!((&settled["held"], &settled["used"]), (&json!([4]), &json!([1])), "{settled}");
    }
    let peek = json!({"policy": "calm", "key": key}).to_string();
    assert_eq!(client.post("/v1/peek", &peek).await.json()["remaining"], 9);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exempt_charges_take_no_memory() {
    let (server, mut client) = AtWork::with_client(POLICIES).await;
    let body = many(|_| "root".to_owned(), |_| 1, None);
    let mut last = String::new();
    for _ in 0..300 {
        let held = reserve(&mut client, &body).await;
        assert_eq!(held.status, 201, "{}", held.body);
        let id = held.json()["reservation"]["id"].as_str().expect("an id").to_owned();
        assert_ne!(id, last);
        last = id;
    }
    assert_eq!(bytes(&server), 0);
    calm_is_served(&mut client, "k").await;
    // The id says how many costs it takes, and is settled as often as one likes.
    let path = format!("/v1/reservations/{last}");
    let wrong = client.post(&format!("{path}/commit"), r#"{"cost":[1,2]}"#).await;
    assert_eq!((wrong.status, &wrong.json()["field"]), (400, &json!("cost")), "{}", wrong.body);
    let costs = vec![3; 1_024];
    let body = json!({ "cost": costs }).to_string();
    for _ in 0..2 {
        let settled = client.post(&format!("{path}/commit"), &body).await;
        assert_eq!((settled.status, &settled.json()["used"]), (200, &json!(costs)));
    }
    let cancelled = client.send("DELETE", &path, &[], "").await;
    assert_eq!((cancelled.status, &cancelled.json()["cancelled"]), (200, &json!(true)));
    // Ids like it are the server's, and none stands for more charges than a body has.
    let mine = json!({"policy": "calm", "key": "k", "id": "exempt:1:x"});
    let mine = reserve(&mut client, &mine).await;
    assert_eq!((mine.status, &mine.json()["field"]), (400, &json!("id")), "{}", mine.body);
    let forged = client.send("DELETE", "/v1/reservations/exempt:1025:x", &[], "").await;
    assert_eq!(forged.status, 404, "{}", forged.body);
}

/// An id that the caller chose is remembered, so that the caller can settle by it; that counts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exempt_charges_under_ids_of_the_caller() {
    let (server, mut client) = AtWork::with_client(POLICIES).await;
    let body = json!({"policy": "flood", "key": "root", "cost": 3, "id": "mine"});
    for _ in 0..2 {
        let held = reserve(&mut client, &body).await;
        assert_eq!(held.json()["reservation"]["id"], "mine", "{}", held.body);
    }
    for _ in 0..2 {
        let settled = client.post("/v1/reservations/mine/commit", r#"{"cost":2}"#).await;
        assert_eq!((settled.status, &settled.json()["used"]), (200, &json!([2])));
    }
    flood(&server, &mut client, |n| many(|_| "root".to_owned(), |_| 1, Some(&format!("id-{n}"))))
        .await;
}

/// Sends bodies until one finds no room; beside them, another policy has its share.
async fn flood(server: &AtWork, client: &mut Client, body: impl Fn(usize) -> Value) {
    let mut refused = 0;
    for n in 0..60 {
        let answer = reserve(client, &body(n)).await;
        match answer.status {
            201 => assert_eq!(refused, 0, "{n}"),
            503 => refused += 1,
            _ => panic!("{}", answer.body),
        }
        if refused > 0 {
            assert!(answer.body.contains(&format!("{ROOM} KiB")), "{}", answer.body);
            calm_is_served(client, &format!("k{n}")).await;
        }
        if refused == 10 {
            break;
        }
    }
    assert_eq!(refused, 10, "there is no bound");
    assert!((ROOM * 256..=ROOM * 1_024).contains(&bytes(server)), "{}", bytes(server));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_charges_at_once() {
    let (server, mut client) = AtWork::with_client(POLICIES).await;
    flood(&server, &mut client, |_| many(|i| format!("k{i}"), |_| 1, None)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_charges_of_nothing_beside_one() {
    let (server, mut client) = AtWork::with_client(POLICIES).await;
    let cost = |i| u64::from(i == 0);
    flood(&server, &mut client, |_| many(|i| format!("k{i}"), cost, None)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cost_of_nothing() {
    let (server, mut client) = AtWork::with_client(POLICIES).await;
    for key in ["k", "root"] {
        let one = json!({"policy": "flood", "key": key, "cost": 0});
        for body in [one.clone(), json!({"checks": [one.clone(), one]})] {
            let answer = reserve(&mut client, &body).await;
            assert_eq!((answer.status, &answer.json()["field"]), (400, &json!("cost")));
            assert!(answer.body.contains("`report`"), "{}", answer.body);
        }
    }
    assert_eq!(bytes(&server), 0);
}
