//! `/v1/reserve` and `/v1/reservations`.

use serde_json::{Value, json};

use crate::at_work::AtWork;
use crate::client::{Answer, Client};
use crate::patience::eventually;

const POLICIES: &str = r#"
[policies.tokens]
headers = "ietf"
block = ["mallory"]
exempt = ["root"]
overrides = { "alice" = [{ name = "gcra", algorithm = "gcra", limit = 1, per = "1h", capacity = 20 }] }
tiers = { pro = { factor = 0.5 }, staff = { factor = 0 } }
limits = [{ algorithm = "gcra", limit = 1, per = "1h", capacity = 10, unit = "tokens" }]

[policies.some]
mode = "nary"
limits = [{ algorithm = "gcra", limit = 1, per = "1h", capacity = 3 }]

[policies.slots]
limits = [{ algorithm = "concurrency", limit = 2, lease = "1m" }]

[policies.watched]
rollout = "0%"
limits = [{ algorithm = "gcra", limit = 1, per = "1h", capacity = 10 }]
"#;

async fn reserve(client: &mut Client, body: Value) -> Answer {
    client.post("/v1/reserve", &body.to_string()).await
}

/// What a key has left, which charges nothing.
async fn left(client: &mut Client, policy: &str, key: &str) -> Value {
    let body = json!({"policy": policy, "key": key}).to_string();
    client.post("/v1/peek", &body).await.json()["remaining"].clone()
}

fn id_of(answer: &Answer) -> String {
    answer.json()["reservation"]["id"].as_str().unwrap_or_else(|| panic!("{answer:?}")).to_owned()
}

async fn commit(client: &mut Client, id: &str, cost: Value) -> Answer {
    let body = json!({ "cost": cost }).to_string();
    client.post(&format!("/v1/reservations/{id}/commit"), &body).await
}

async fn cancel(client: &mut Client, id: &str) -> Answer {
    client.send("DELETE", &format!("/v1/reservations/{id}"), &[], "").await
}

#[tokio::test]
async fn an_estimate_is_held_and_the_truth_settled() {
    let (_server, mut client) = AtWork::with_client(POLICIES).await;
    let held =
        reserve(&mut client, json!({"policy": "tokens", "key": "k", "cost": 8, "ttl": "30s"}))
            .await;
    assert_eq!(held.status, 201, "{}", held.body);
    assert_eq!(held.header("ratelimit"), Some(r#""tokens.gcra";r=2;t=7200"#));
    let decision = held.json();
    for (name, value) in [
        ("policy", json!("tokens")),
        ("allowed", json!(true)),
        ("granted", json!(8)),
        ("remaining", json!(2)),
        ("source", json!("authoritative")),
    ] {
        assert_eq!(decision[name], value, "{name}");
    }
    assert_eq!(decision["reservation"]["expires_in_us"], 30_000_000);
    let id = id_of(&held);

    let refused = reserve(&mut client, json!({"policy": "tokens", "key": "k", "cost": 3})).await;
    assert_eq!(refused.status, 429);
    assert!(refused.header("retry-after").is_some());
    assert_eq!(refused.json()["refused_by"], json!(["gcra"]));
    assert_eq!(refused.json().get("reservation"), None);

    let settled = commit(&mut client, &id, json!(5)).await;
    assert_eq!(settled.status, 200, "{}", settled.body);
    let said = json!({"id": id, "cancelled": false, "held": [8], "used": [5]});
    assert_eq!(settled.json(), said);
    assert_eq!(left(&mut client, "tokens", "k").await, 5);
    // Once: whatever is asked after that answers the same and changes nothing.
    assert_eq!(commit(&mut client, &id, json!([7])).await.json(), said);
    assert_eq!(cancel(&mut client, &id).await.json(), said);
    assert_eq!(left(&mut client, "tokens", "k").await, 5);

    // More was used than was held: the key owes the rest.
    let held = reserve(&mut client, json!({"policy": "tokens", "key": "k", "cost": 1})).await;
    assert_eq!(commit(&mut client, &id_of(&held), json!(9)).await.json()["used"], json!([9]));
    let owed = client.post("/v1/peek", r#"{"policy":"tokens","key":"k"}"#).await.json();
    assert_eq!(owed["remaining"], 0);
    assert!(owed["retry_after_us"].as_u64().unwrap() > 4 * 3_600_000_000 - 60_000_000, "{owed}");
}

#[tokio::test]
async fn what_is_cancelled_is_given_back() {
    let (_server, mut client) = AtWork::with_client(POLICIES).await;
    let held = reserve(&mut client, json!({"policy": "tokens", "key": "k", "cost": 10})).await;
    assert_eq!(held.json()["reservation"]["expires_in_us"], 60_000_000, "a minute by default");
    assert_eq!(left(&mut client, "tokens", "k").await, 0);
    let id = id_of(&held);
    let settled = cancel(&mut client, &id).await;
    assert_eq!((settled.status, &settled.json()["cancelled"]), (200, &json!(true)));
    assert_eq!(settled.json()["used"], json!([0]));
    assert_eq!(left(&mut client, "tokens", "k").await, 10);
    assert_eq!(cancel(&mut client, &id).await.json(), settled.json());
}

#[tokio::test]
async fn ids_of_the_caller_make_it_once() {
    let (_server, mut client) = AtWork::with_client(POLICIES).await;
    let body = json!({"policy": "tokens", "key": "k", "cost": 4, "id": "order/4711?#"});
    for _ in 0..3 {
        let held = reserve(&mut client, body.clone()).await;
        assert_eq!((held.status, id_of(&held)), (201, "order/4711?#".to_owned()));
        assert_eq!(held.json()["granted"], 4);
    }
    assert_eq!(left(&mut client, "tokens", "k").await, 6);
    let other = json!({"policy": "tokens", "key": "k", "cost": 5, "id": "order/4711?#"});
    let other = reserve(&mut client, other).await;
    assert_eq!((other.status, &other.json()["field"]), (400, &json!("id")));
    let settled = commit(&mut client, "order%2F4711%3F%23", json!(1)).await;
    assert_eq!((settled.status, &settled.json()["held"]), (200, &json!([4])));
    assert_eq!(left(&mut client, "tokens", "k").await, 9);
}

#[tokio::test]
async fn it_is_not_settled_in_time() {
    let (_server, mut client) = AtWork::with_client(POLICIES).await;
    for (key, on_expiry, back) in [("a", "keep", 4), ("b", "release", 10)] {
        let body = json!({
            "policy": "tokens", "key": key, "cost": 6, "ttl": "50ms", "on_expiry": on_expiry
        });
        let id = id_of(&reserve(&mut client, body).await);
        eventually("its time is over", async || {
            // The first call settles it, so none may come before.
            tokio::time::sleep(std::time::Duration::from_millis(60)).await;
            cancel(&mut client, &id).await.status == 404
        })
        .await;
        assert_eq!(left(&mut client, "tokens", key).await, back, "{on_expiry}");
    }
}

#[tokio::test]
async fn several_charges_are_held_together() {
    let (_server, mut client) = AtWork::with_client(POLICIES).await;
    let both = |a: u64, b: u64| {
        json!({"checks": [
            {"policy": "tokens", "key": "k", "cost": a},
            {"policy": "some", "key": "k", "cost": b},
        ], "ttl": "1m"})
    };
    let held = reserve(&mut client, both(4, 2)).await;
    assert_eq!((held.status, &held.json()["allowed"]), (201, &json!(true)));
    assert_eq!(held.json()["decisions"][1]["remaining"], 1);
    let refused = reserve(&mut client, both(7, 1)).await;
    assert_eq!((refused.status, &refused.json()["allowed"]), (429, &json!(false)));
    assert_eq!(left(&mut client, "some", "k").await, 1, "nothing is held");
    let id = id_of(&held);
    let one = commit(&mut client, &id, json!(4)).await;
    assert_eq!((one.status, &one.json()["field"]), (400, &json!("cost")), "{}", one.body);
    let settled = commit(&mut client, &id, json!([1, 0])).await;
    assert_eq!(settled.json()["held"], json!([4, 2]));
    assert_eq!(left(&mut client, "tokens", "k").await, 9);
    assert_eq!(left(&mut client, "some", "k").await, 3);
    // In part is better than nothing where the policy says so.
    let part = reserve(&mut client, json!({"policy": "some", "key": "p", "cost": 5})).await;
    assert_eq!((part.status, &part.json()["granted"]), (201, &json!(3)));
    assert_eq!(cancel(&mut client, &id_of(&part)).await.json()["held"], json!([3]));
}

#[tokio::test]
async fn blocked_exempt_and_overridden_keys() {
    let (_server, mut client) = AtWork::with_client(POLICIES).await;
    let of = |key: &str, cost: u64| json!({"policy": "tokens", "key": key, "cost": cost});
    let blocked = reserve(&mut client, of("mallory", 1)).await;
    assert_eq!((blocked.status, &blocked.json()["retry_after_us"]), (429, &Value::Null));
    // An exempt key holds nothing, and has an id to settle all the same.
    for _ in 0..3 {
        let exempt = reserve(&mut client, of("root", 1_000)).await;
        assert_eq!((exempt.status, &exempt.json()["source"]), (201, &json!("policy")));
        let settled = commit(&mut client, &id_of(&exempt), json!(5_000)).await;
        assert_eq!((settled.status, &settled.json()["used"]), (200, &json!([5_000])));
    }
    // Limits of its own, and those of a tier.
    let own = reserve(&mut client, of("alice", 15)).await;
    assert_eq!((own.status, &own.json()["limit"]), (201, &json!(20)));
    assert_eq!(cancel(&mut client, &id_of(&own)).await.status, 200);
    assert_eq!(left(&mut client, "tokens", "alice").await, 20);
    let tier = json!({"policy": "tokens", "key": "t", "cost": 15, "tier": "pro"});
    let tier = reserve(&mut client, tier).await;
    assert_eq!((tier.status, &tier.json()["limit"]), (201, &json!(20)), "{}", tier.body);
    let staff = json!({"policy": "tokens", "key": "t", "cost": 999, "tier": "staff"});
    assert_eq!(reserve(&mut client, staff).await.status, 201);
    // If one key is blocked, nothing is reserved for the others.
    let with = json!({"checks": [of("x", 1), of("mallory", 1)]});
    assert_eq!(reserve(&mut client, with).await.status, 429);
    assert_eq!(left(&mut client, "tokens", "x").await, 10);
    // Beside an exempt key, others are held, and each has its cost to commit.
    let with = reserve(&mut client, json!({"checks": [of("root", 3), of("y", 2)]})).await;
    let settled = commit(&mut client, &id_of(&with), json!([9, 1])).await;
    assert_eq!(settled.json()["held"], json!([3, 2]));
    assert_eq!(left(&mut client, "tokens", "y").await, 9);
}

#[tokio::test]
async fn keys_that_a_policy_is_not_rolled_out_to_are_not_refused() {
    let (_server, mut client) = AtWork::with_client(POLICIES).await;
    let body = json!({"policy": "watched", "key": "k", "cost": 8});
    let first = reserve(&mut client, body.clone()).await;
    assert_eq!((first.status, first.json().get("shadow_refused_by")), (201, None));
    let second = reserve(&mut client, body.clone()).await;
    assert_eq!((second.status, &second.json()["allowed"]), (201, &json!(true)));
    assert_eq!(second.json()["shadow_refused_by"], json!(["gcra"]), "{}", second.body);
    assert_eq!(cancel(&mut client, &id_of(&first)).await.status, 200);
    let third = reserve(&mut client, body).await;
    assert_eq!(third.json().get("shadow_refused_by"), None, "{}", third.body);
}

#[tokio::test]
async fn what_cannot_be_understood() {
    let (_server, mut client) = AtWork::with_client(POLICIES).await;
    let long = "x".repeat(129);
    for (more, field) in [
        (json!({"id": ""}), "id"),
        (json!({"id": "with space"}), "id"),
        (json!({"id": "ä"}), "id"),
        (json!({"id": long}), "id"),
        (json!({"id": 7}), "id"),
        (json!({"ttl": "0s"}), "ttl"),
        (json!({"ttl": "500us"}), "ttl"),
        (json!({"ttl": "25h"}), "ttl"),
        (json!({"ttl": "30"}), "ttl"),
        (json!({"ttl": 30}), "ttl"),
        (json!({"on_expiry": "forget"}), "on_expiry"),
        (json!({"cost": -1}), "cost"),
        (json!({"outcome": "ok"}), "outcome"),
    ] {
        let mut body = json!({"policy": "tokens", "key": "k"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let answer = reserve(&mut client, body).await;
        assert_eq!((answer.status, &answer.json()["field"]), (400, &json!(field)), "{more}");
    }
    let each = json!({"checks": [{"policy": "tokens", "key": "k"}], "atomic": false});
    assert_eq!(reserve(&mut client, each).await.json()["field"], "atomic");
    let nowhere = reserve(&mut client, json!({"policy": "token", "key": "k"})).await;
    assert_eq!(nowhere.status, 404);
    assert_eq!(left(&mut client, "tokens", "k").await, 10, "nothing was held");

    assert_eq!(commit(&mut client, "unknown", json!(1)).await.status, 404);
    assert_eq!(cancel(&mut client, "unknown").await.status, 404);
    for id in ["with%20space", "%C3%A4", &long] {
        let answer = cancel(&mut client, id).await;
        assert_eq!((answer.status, &answer.json()["field"]), (400, &json!("id")), "{id}");
    }
    let id = id_of(&reserve(&mut client, json!({"policy": "tokens", "key": "k"})).await);
    for cost in [json!(-1), json!("1"), json!(null), json!([1, 2]), json!([])] {
        let answer = commit(&mut client, &id, cost.clone()).await;
        assert_eq!((answer.status, &answer.json()["field"]), (400, &json!("cost")), "{cost}");
    }
    let path = format!("/v1/reservations/{id}/commit");
    assert_eq!(client.post(&path, "{}").await.json()["field"], "cost");
    assert_eq!(commit(&mut client, &id, json!([1])).await.status, 200);
}

#[tokio::test]
async fn reservations_are_counted() {
    let (_server, mut client) = AtWork::with_client(POLICIES).await;
    let mut ids = Vec::new();
    for key in ["k", "alice", "k"] {
        let body = json!({"policy": "tokens", "key": key, "cost": 4});
        ids.push(id_of(&reserve(&mut client, body).await));
    }
    reserve(&mut client, json!({"policy": "tokens", "key": "k", "cost": 4})).await;
    cancel(&mut client, &ids[0]).await;
    let text = client.get("/metrics").await.body;
    for line in [
        "waterclock_reservations{policy=\"tokens\"} 2",
        "waterclock_reservations{policy=\"some\"} 0",
        "waterclock_decisions_total{policy=\"tokens\",outcome=\"allow\",face=\"http\"} 3",
        "waterclock_decisions_total{policy=\"tokens\",outcome=\"deny\",face=\"http\"} 1",
    ] {
        assert!(text.contains(&format!("{line}\n")), "{line} is not in {text}");
    }
}

#[tokio::test]
async fn places_that_are_held_at_once() {
    let (_server, mut client) = AtWork::with_client(POLICIES).await;
    let body = json!({"policy": "slots", "key": "k"});
    let first = reserve(&mut client, body.clone()).await;
    assert_eq!((first.status, &first.json()["remaining"]), (201, &json!(1)));
    assert_eq!(first.json()["reservation"]["expires_in_us"], 60_000_000, "its lease");
    assert_eq!(reserve(&mut client, body.clone()).await.status, 201);
    let full = reserve(&mut client, body.clone()).await;
    assert_eq!((full.status, &full.json()["refused_by"]), (429, &json!(["concurrency"])));
    // Whatever was used, the place is free again.
    assert_eq!(commit(&mut client, &id_of(&first), json!(1)).await.status, 200);
    let short = json!({"policy": "slots", "key": "k", "ttl": "50ms"});
    assert_eq!(reserve(&mut client, short).await.status, 201);
    eventually("a lease ends by itself", async || {
        reserve(&mut client, body.clone()).await.status == 201
    })
    .await;
    let long = reserve(&mut client, json!({"policy": "slots", "key": "l", "ttl": "61s"})).await;
    assert_eq!((long.status, &long.json()["field"]), (400, &json!("ttl")), "{}", long.body);
    // A check has nothing to give back, so it holds nothing.
    let check = client.post("/v1/check", &body.to_string()).await;
    assert_eq!((check.status, &check.json()["field"]), (400, &json!("policy")));
    assert!(check.body.contains("only a reservation can hold"), "{}", check.body);
    assert_eq!(client.post("/v1/peek", &body.to_string()).await.json()["limit"], 2);
    let authorize = client.get("/v1/authorize?policy=slots&key=k").await;
    assert_eq!(authorize.status, 400, "{}", authorize.body);
}
