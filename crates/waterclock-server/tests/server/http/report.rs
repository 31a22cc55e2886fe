//! `/v1/report`.

use serde_json::json;

use crate::at_work::AtWork;
use crate::patience::eventually;

const POLICIES: &str = r#"
[policies.tokens]
exempt = ["root"]
limits = [{ algorithm = "gcra", limit = 1, per = "1h", capacity = 10, unit = "tokens" }]

[policies.backend]
exempt = ["root"]
limits = [{ algorithm = "error-rate", threshold = "50%", per = "1h", min_samples = 4, cool_down = "200ms" }]
"#;

#[tokio::test]
async fn a_cost_that_is_known_only_afterwards() {
    let (_server, mut client) = AtWork::with_client(POLICIES).await;
    let report = |key: &str, cost: u64| json!({"policy": "tokens", "key": key, "cost": cost});
    let first = client.post("/v1/report", &report("k", 7).to_string()).await;
    assert_eq!((first.status, &first.json()["remaining"]), (200, &json!(3)), "{}", first.body);
    // Whatever there is room for: the key owes it.
    let owing = client.post("/v1/report", &report("k", 7).to_string()).await;
    assert_eq!((owing.status, &owing.json()["remaining"]), (200, &json!(0)));
    assert_eq!(owing.header("retry-after"), None);
    let refused = client.post("/v1/check", r#"{"policy":"tokens","key":"k"}"#).await;
    assert_eq!(refused.status, 429);
    assert!(refused.json()["retry_after_us"].as_u64().unwrap() > 4 * 3_600_000_000);
    // An exempt key is charged nothing.
    let exempt = client.post("/v1/report", &report("root", 99).to_string()).await;
    assert_eq!((exempt.status, &exempt.json()["source"]), (200, &json!("policy")));
    let both = json!({"checks": [report("a", 4), report("b", 12)]}).to_string();
    let both = client.post("/v1/report", &both).await.json();
    assert_eq!(both["decisions"][0]["remaining"], 6);
    assert_eq!(both["decisions"][1]["remaining"], 0);
}

#[tokio::test]
async fn what_cannot_be_understood() {
    let (_server, mut client) = AtWork::with_client(POLICIES).await;
    for (body, status, field) in [
        (json!({"policy": "tokens", "key": "k"}), 400, json!("cost")),
        (json!({"policy": "tokens", "key": "k", "cost": -1}), 400, json!("cost")),
        (json!({"policy": "tokens", "key": "k", "ttl": "1s"}), 400, json!("ttl")),
        (json!({"policy": "tokens", "key": "k", "outcome": "fine"}), 400, json!("outcome")),
        // No limit of the policy cares how something ended.
        (json!({"policy": "tokens", "key": "k", "outcome": "ok"}), 400, json!("outcome")),
        (json!({"policy": "token", "key": "k", "cost": 1}), 404, json!(null)),
    ] {
        let answer = client.post("/v1/report", &body.to_string()).await;
        assert_eq!((answer.status, &answer.json()["field"]), (status, &field), "{body}");
    }
}

#[tokio::test]
async fn a_breaker_opens_probes_and_closes() {
    let (_server, mut client) = AtWork::with_client(POLICIES).await;
    let of = |outcome: &str, times: u64| {
        json!({"policy": "backend", "key": "k", "outcome": outcome, "cost": times}).to_string()
    };
    let check = json!({"policy": "backend", "key": "k"}).to_string();
    let fine = client.post("/v1/report", &of("ok", 2)).await;
    assert_eq!((fine.status, &fine.json()["allowed"]), (200, &json!(true)), "{}", fine.body);
    assert_eq!(fine.json()["limit"], json!(null));
    let one = json!({"policy": "backend", "key": "k", "outcome": "error"}).to_string();
    client.post("/v1/report", &one).await;
    assert_eq!(client.post("/v1/check", &check).await.status, 200);
    let opened = client.post("/v1/report", &one).await.json();
    assert_eq!(opened["refused_by"], json!(["error-rate"]));
    assert!(opened["retry_after_us"].as_u64().unwrap() <= 200_000);
    // Whether it is still open when it is asked is a matter of how fast the machine is.
    eventually("a probe passes", async || client.post("/v1/check", &check).await.status == 200)
        .await;
    client.post("/v1/report", &of("ok", 1)).await;
    for _ in 0..5 {
        assert_eq!(client.post("/v1/check", &check).await.status, 200, "it is closed");
    }
    // Outcomes of exempt keys are ignored; several can be reported at once.
    let several = json!({"checks": [
        {"policy": "backend", "key": "root", "cost": 9},
        {"policy": "backend", "key": "x", "cost": 9},
    ], "outcome": "error"});
    let several = client.post("/v1/report", &several.to_string()).await.json();
    assert_eq!(several["decisions"][0]["allowed"], true);
    assert_eq!(several["decisions"][1]["allowed"], false);
}
