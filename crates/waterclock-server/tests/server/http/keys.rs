//! How many keys there are, and forgetting them.

use serde_json::json;

use crate::at_work::AtWork;

/// With the token `root`.
const POLICIES: &str = r#"
[server]
auth = [
  { token = "sha256:d2d2328e3359f3de3515871090d1316cbcdc5383204c204f9390788c3ef8618f", roles = ["check"] },
  { token = "sha256:4813494d137e1631bba301d5acab6e7bb7aa74ce1185d456565ef51d737677b2", roles = ["admin"] },
]

[store]
max_keys = 1_000
max_bytes = "1MiB"

[policies.plain]
limits = ["1/h"]

[policies.log]
on_full = "refuse"
limits = [{ algorithm = "rolling-window", limit = 10, per = "1h" }]
"#;

const ROOT: &[&str] = &["authorization: Bearer root"];
const CHECKER: &[&str] = &["authorization: Bearer checker"];

#[tokio::test]
async fn keys_are_counted_and_purged() {
    let (_server, mut client) = AtWork::with_client(POLICIES).await;
    for (policy, keys) in [("plain", 3), ("log", 5)] {
        for key in 0..keys {
            let body = json!({ "policy": policy, "key": key.to_string() }).to_string();
            assert_eq!(client.send("POST", "/v1/check", ROOT, &body).await.status, 200);
        }
    }
    let keys = client.send("GET", "/v1/keys", ROOT, "").await.json();
    assert_eq!((&keys["keys"], &keys["max_keys"]), (&json!(8), &json!(1_000)), "{keys}");
    assert_eq!(keys["max_bytes"], 1 << 20);
    let names: Vec<&str> =
        keys["policies"].as_array().unwrap().iter().map(|p| p["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["log", "plain"], "{keys}");
    let log = &keys["policies"][0];
    assert_eq!((&log["keys"], &log["on_full"]), (&json!(5), &json!("refuse")));
    assert_eq!(log["log_bytes"], keys["log_bytes"]);
    assert!(log["log_bytes"].as_u64().unwrap() > 5 * 64, "{keys}");
    assert_eq!(log["guaranteed_keys"], 1_000 / 4, "{keys}");
    // Reading and purging need their roles.
    for (method, path) in [("GET", "/v1/keys"), ("DELETE", "/v1/policies/log/keys")] {
        assert_eq!(client.send(method, path, CHECKER, "").await.status, 403, "{method} {path}");
        assert_eq!(client.send(method, path, &[], "").await.status, 401, "{method} {path}");
    }
    let refused = json!({ "policy": "plain", "key": "0" }).to_string();
    assert_eq!(client.send("POST", "/v1/check", ROOT, &refused).await.status, 429);
    let purged = client.send("DELETE", "/v1/policies/plain/keys", ROOT, "").await;
    assert_eq!(purged.json(), json!({ "policy": "plain", "purged": 3 }));
    assert_eq!(client.send("POST", "/v1/check", ROOT, &refused).await.status, 200);
    let keys = client.send("GET", "/v1/keys", ROOT, "").await.json();
    assert_eq!(keys["keys"], 6);
    let unused = client.send("DELETE", "/v1/policies/@throttle/keys", ROOT, "").await;
    assert_eq!(unused.status, 404, "it was not used yet");
    let unknown = client.send("DELETE", "/v1/policies/plan/keys", ROOT, "").await;
    assert_eq!(unknown.status, 404);
    assert!(unknown.json()["detail"].as_str().unwrap().contains("did you mean `plain`"));
}
