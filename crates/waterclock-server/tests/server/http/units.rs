//! Policies that count several units, asked over HTTP.

use serde_json::{Value, json};

use crate::at_work::AtWork;
use crate::client::Client;
use crate::reload::Scene;

const POLICIES: &str = r#"
[policies.llm]
headers = "ietf"
exempt = ["root"]
block = ["mallory"]
tiers = { pro = { factor = 0.5 }, staff = { factor = 0 } }
limits = [
  { name = "requests", algorithm = "fixed-window", limit = 5, per = "365d", align = "epoch" },
  { name = "tokens", algorithm = "fixed-window", limit = 1000, per = "365d", align = "epoch", unit = "tokens" },
]
[policies.plain]
limits = ["5/h"]
"#;

async fn ask(client: &mut Client, path: &str, body: Value) -> (u16, Value) {
    let answer = client.post(path, &body.to_string()).await;
    (answer.status, answer.json())
}

/// What is left of each limit.
async fn left(client: &mut Client, key: &str) -> (Value, Value) {
    let body = json!({"policy": "llm", "key": key, "cost": 0});
    let (_, said) = ask(client, "/v1/peek", body).await;
    let remaining = |at: usize| said["limits"][at]["remaining"].clone();
    (remaining(0), remaining(1))
}

#[tokio::test]
async fn a_cost_is_a_map_of_units() {
    let (_server, mut client) = AtWork::with_client(POLICIES).await;
    let body = json!({"policy": "llm", "key": "k", "cost": {"requests": 1, "tokens": 800}});
    let answer = client.post("/v1/check", &body.to_string()).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let fields = answer.header("ratelimit-policy").unwrap();
    assert!(
        fields.contains(r#""llm.tokens";q=1000"#) && fields.contains(r#"qu="tokens""#),
        "{fields}"
    );
    let said = answer.json();
    assert_eq!(said["cost"], json!({"requests": 1, "tokens": 800}));
    assert_eq!(said["granted"], json!({"requests": 1, "tokens": 800}));
    assert_eq!((&said["limit"], &said["remaining"]), (&json!(5), &json!(4)));
    // By default one request, and nothing of any other unit.
    let body = json!({"policy": "llm", "key": "k", "cost": {"tokens": 300}});
    let (status, said) = ask(&mut client, "/v1/check", body).await;
    assert_eq!((status, &said["refused_by"]), (429, &json!(["tokens"])));
    assert_eq!(said["cost"], json!({"requests": 1, "tokens": 300}));
    assert_eq!(said["granted"], json!({"requests": 0, "tokens": 0}));
    assert_eq!(left(&mut client, "k").await, (json!(4), json!(200)));
    let (status, said) = ask(&mut client, "/v1/check", json!({"policy": "llm", "key": "k"})).await;
    assert_eq!((status, &said["cost"]), (200, &json!({"requests": 1, "tokens": 0})));
    assert_eq!(left(&mut client, "k").await, (json!(3), json!(200)));
    // A tier without limits takes any cost.
    let body = json!({"policy": "llm", "key": "k", "tier": "staff", "cost": {"tokens": 5000}});
    assert_eq!(ask(&mut client, "/v1/check", body).await.0, 200);
    // What is given back is what is named.
    let body = json!({"policy": "llm", "key": "k", "cost": {"tokens": 500}});
    assert_eq!(ask(&mut client, "/v1/refund", body.clone()).await.0, 200);
    assert_eq!(left(&mut client, "k").await, (json!(3), json!(700)));
    assert_eq!(ask(&mut client, "/v1/report", body).await.0, 200);
    assert_eq!(left(&mut client, "k").await, (json!(3), json!(200)));
    // Twice the numbers, and the same budget.
    let body = json!({"policy": "llm", "key": "k", "tier": "pro", "cost": {"tokens": 1_000}});
    assert_eq!(ask(&mut client, "/v1/check", body).await.0, 200);
}

#[tokio::test]
async fn what_is_no_cost_of_the_policy_is_told() {
    let (_server, mut client) = AtWork::with_client(POLICIES).await;
    let several = "policy `llm` counts `requests` and `tokens`";
    for (policy, cost, expected) in [
        ("llm", json!(5), format!("{several}; name them in the cost")),
        ("llm", json!({"token": 5}), format!("{several}, not `token`")),
        (
            "plain",
            json!({"tokens": 5}),
            "policy `plain` counts `requests`, not `tokens`".to_owned(),
        ),
    ] {
        let check = json!({"policy": policy, "key": "k", "cost": cost});
        let (status, said) = ask(&mut client, "/v1/check", check.clone()).await;
        assert_eq!((status, &said["field"]), (400, &json!("cost")), "{said}");
        assert_eq!(said["detail"], json!(expected));
        let (status, said) = ask(&mut client, "/v1/check", json!({"checks": [check]})).await;
        assert_eq!((status, &said["field"]), (400, &json!("checks[0].cost")), "{said}");
    }
    let answer = client.get("/v1/authorize?policy=llm&key=k&cost=7").await;
    assert_eq!(answer.status, 400, "{answer:?}");
    let answer = client.get("/v1/authorize?policy=llm&key=k&cost=tokens%3D700").await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(left(&mut client, "k").await, (json!(4), json!(300)));
}

#[tokio::test]
async fn an_estimate_is_settled_unit_by_unit() {
    let (_server, mut client) = AtWork::with_client(POLICIES).await;
    for key in ["k", "root"] {
        let body = json!({"policy": "llm", "key": key, "id": key, "cost": {"tokens": 600}});
        let (status, said) = ask(&mut client, "/v1/reserve", body).await;
        assert_eq!(status, 201, "{said}");
    }
    assert_eq!(left(&mut client, "k").await, (json!(4), json!(400)));
    let (status, said) = ask(&mut client, "/v1/reservations/k/commit", json!({"cost": 5})).await;
    assert_eq!((status, &said["field"]), (400, &json!("cost")), "{said}");
    let used = json!({"cost": {"tokens": 150}});
    let (status, said) = ask(&mut client, "/v1/reservations/k/commit", used.clone()).await;
    assert_eq!(status, 200, "{said}");
    assert_eq!(said["held"], json!([{"requests": 1, "tokens": 600}]));
    assert_eq!(said["used"], json!([{"requests": 1, "tokens": 150}]));
    assert_eq!(left(&mut client, "k").await, (json!(4), json!(850)));
    // An exempt key reserves nothing, and is answered in the same units.
    let (status, said) = ask(&mut client, "/v1/reservations/root/commit", used).await;
    assert_eq!((status, &said["used"]), (200, &json!([{"requests": 1, "tokens": 150}])), "{said}");
    // Requests that are not named were as many as are held.
    let three = json!({"policy": "llm", "key": "k", "id": "three", "cost": {"requests": 3}});
    assert_eq!(ask(&mut client, "/v1/reserve", three).await.0, 201);
    let used = json!({"cost": {"tokens": 50}});
    assert_eq!(ask(&mut client, "/v1/reservations/three/commit", used).await.0, 200);
    assert_eq!(left(&mut client, "k").await, (json!(1), json!(800)));
    let blocked = json!({"policy": "llm", "key": "mallory", "cost": {"tokens": 6}});
    assert_eq!(ask(&mut client, "/v1/check", blocked).await.0, 429);
}

/// A question of very many units is refused, and before it has cost anything.
#[tokio::test]
async fn a_cost_is_of_a_few_units() {
    let (_server, mut client) = AtWork::with_client(POLICIES).await;
    let many: serde_json::Map<String, Value> =
        (0..4_000).map(|n| (format!("u{n}"), json!(1))).collect();
    let (status, said) =
        ask(&mut client, "/v1/check", json!({"policy": "llm", "key": "k", "cost": many})).await;
    assert_eq!((status, &said["field"]), (400, &json!("cost")), "{said}");
    let many: Vec<String> = (0..500).map(|n| format!("u{n}%3D1")).collect();
    let answer =
        client.get(&format!("/v1/authorize?policy=llm&key=k&cost={}", many.join(","))).await;
    assert_eq!(answer.status, 400, "{answer:?}");
}

/// What is held under one definition is settled under the next, in the terms of either.
#[tokio::test]
async fn a_unit_is_added_while_something_is_held() {
    let requests = r#"{ name = "requests", algorithm = "fixed-window", limit = 9, per = "365d", align = "epoch" }"#;
    let tokens = r#"{ name = "tokens", algorithm = "fixed-window", limit = 1000, per = "365d", align = "epoch", unit = "tokens" }"#;
    let scene = Scene::new(&format!("[policies.llm]\nlimits = [{requests}]\n")).await;
    let mut client = scene.server.http().await;
    for id in ["a", "b"] {
        let body = json!({"policy": "llm", "key": "k", "id": id, "cost": 3});
        assert_eq!(ask(&mut client, "/v1/reserve", body).await.0, 201);
    }
    scene.write("waterclock.toml", &format!("[policies.llm]\nlimits = [{requests}, {tokens}]\n"));
    scene.generation(2).await;
    assert_eq!(left(&mut client, "k").await, (json!(3), json!(1_000)));
    let (status, said) = ask(&mut client, "/v1/reservations/a/commit", json!({"cost": 1})).await;
    assert_eq!((status, &said["used"]), (200, &json!([1])), "{said}");
    assert_eq!(left(&mut client, "k").await, (json!(5), json!(1_000)));
    let used = json!({"cost": {"requests": 2, "tokens": 100}});
    let (status, said) = ask(&mut client, "/v1/reservations/b/commit", used).await;
    assert_eq!(status, 200, "{said}");
    // Of the new limit nothing was held, and so nothing is settled.
    assert_eq!(left(&mut client, "k").await, (json!(6), json!(1_000)));
}

/// Where nothing is asked for, or was used, that is nothing of each unit.
#[tokio::test]
async fn nothing_is_nothing_of_each_unit() {
    let (_server, mut client) = AtWork::with_client(POLICIES).await;
    let body = json!({"policy": "llm", "key": "k", "id": "r", "cost": {"tokens": 600}});
    assert_eq!(ask(&mut client, "/v1/reserve", body).await.0, 201);
    let said = client.send("DELETE", "/v1/reservations/r", &[], "").await.json();
    assert_eq!(said["used"], json!([{"requests": 0, "tokens": 0}]));
    let said = client.get("/v1/policies/llm/keys/k").await.json();
    assert_eq!(said["cost"], json!({"requests": 1, "tokens": 0}));
}

/// A refund answers with the limits that apply to the key.
#[tokio::test]
async fn a_refund_answers_as_a_peek() {
    let config =
        "[policies.p]\nlimits = [\"5/h\"]\noverrides = { own = [\"100/h\"] }\nblock = [\"b\"]\n";
    let (_server, mut client) = AtWork::with_client(config).await;
    let about = |key: &str, cost: u64| json!({"policy": "p", "key": key, "cost": cost});
    assert_eq!(ask(&mut client, "/v1/check", about("own", 20)).await.0, 200);
    for key in ["own", "b"] {
        let (_, refunded) = ask(&mut client, "/v1/refund", about(key, 1)).await;
        let (_, peeked) = ask(&mut client, "/v1/peek", about(key, 1)).await;
        for field in ["allowed", "limit", "remaining", "source"] {
            assert_eq!(refunded[field], peeked[field], "{key} {field}");
        }
    }
    let (_, peeked) = ask(&mut client, "/v1/peek", about("own", 1)).await;
    assert_eq!(peeked["remaining"], 81);
}
