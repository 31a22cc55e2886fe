//! Policies whose names have slashes, dots and colons.

use serde_json::json;

use crate::at_work::AtWork;
use crate::client::Client;

/// With the token `root`.
const POLICIES: &str = r#"
[server]
auth = [
  { token = "sha256:4813494d137e1631bba301d5acab6e7bb7aa74ce1185d456565ef51d737677b2", roles = ["admin"] },
]

[policies."api/notes/create"]
headers = "ietf"
limits = [{ name = "hour", algorithm = "gcra", limit = 2, per = "1h" }]

[policies."API:v2.1"]
limits = ["2/h"]

# What the server called its own policies before.
[policies."cl.throttle"]
limits = ["2/h"]
[policies."held.unlimited"]
exempt = ["root"]
limits = ["2/h"]
"#;

const ROOT: [&str; 1] = ["authorization: Bearer root"];

async fn left(client: &mut Client, method: &str, path: &str, body: &str) -> serde_json::Value {
    let answer = client.send(method, path, &ROOT, body).await;
    assert_eq!(answer.status, 200, "{method} {path}: {}", answer.body);
    answer.json()["remaining"].clone()
}

#[tokio::test]
async fn they_are_encoded_in_paths() {
    let (_server, mut client) = AtWork::with_client(POLICIES).await;
    for (name, in_path) in [
        ("api/notes/create", "api%2Fnotes%2Fcreate"),
        ("API:v2.1", "API%3Av2.1"),
        ("API:v2.1", "API:v2.1"),
    ] {
        let path = format!("/v1/policies/{in_path}");
        assert_eq!(client.send("GET", &path, &ROOT, "").await.json()["name"], name);
        let key = format!("{path}/keys/a%2Fb");
        left(&mut client, "DELETE", &key, "").await;
        let body = json!({ "policy": name, "key": "a/b" }).to_string();
        assert_eq!(left(&mut client, "POST", "/v1/check", &body).await, 1);
        assert_eq!(left(&mut client, "GET", &key, "").await, 1);
        assert_eq!(left(&mut client, "POST", &format!("{key}/grant"), r#"{"cost":1}"#).await, 2);
        let own = r#"{"limits":["5/h"]}"#;
        assert_eq!(left(&mut client, "PUT", &format!("{key}/override"), own).await, 5);
        assert_eq!(left(&mut client, "DELETE", &format!("{key}/override"), "").await, 2);
        let purged = client.send("DELETE", &format!("{path}/keys"), &ROOT, "").await;
        assert_eq!(purged.json()["policy"], name);
        let authorize = format!("/v1/authorize?policy={in_path}&key=c");
        let authorized = client.send("GET", &authorize, &ROOT, "").await;
        assert_eq!(authorized.status, 200, "{}", authorized.body);
    }
    // A slash that is not encoded is another path.
    let path = "/v1/policies/api/notes/create";
    assert_eq!(client.send("GET", path, &ROOT, "").await.status, 404);
}

#[tokio::test]
async fn headers_problems_and_metrics_have_them() {
    let (_server, mut client) = AtWork::with_client(POLICIES).await;
    let body = json!({ "policy": "api/notes/create", "key": "k", "cost": 2 }).to_string();
    let answer = client.send("POST", "/v1/check", &ROOT, &body).await;
    let told = answer.header("ratelimit-policy").unwrap();
    assert_eq!(told, r#""api/notes/create.hour";q=2;w=3600"#);
    let accept = [ROOT[0], "accept: application/problem+json"];
    let refused = client.send("POST", "/v1/check", &accept, &body).await.json();
    assert_eq!(refused["violated-policies"], json!(["api/notes/create.hour"]));
    let metrics = client.send("GET", "/metrics", &ROOT, "").await.body;
    let line =
        r#"waterclock_decisions_total{policy="api/notes/create",outcome="deny",face="http"} 1"#;
    assert!(metrics.contains(line), "{metrics}");
    assert!(
        metrics.contains(r#"waterclock_policy_limit{policy="api/notes/create",limit="hour"} 2"#)
    );
}

/// The server's own policies have names that no file can have.
#[tokio::test]
async fn no_name_is_the_servers_own() {
    let (_server, mut client) = AtWork::with_client(POLICIES).await;
    for name in ["cl.throttle", "held.unlimited"] {
        let body = json!({ "policy": name, "key": "x" }).to_string();
        assert_eq!(left(&mut client, "POST", "/v1/check", &body).await, 1);
    }
    // Beside a limited key, an exempt one is held under the server's own policy.
    let held = json!({ "id": "one", "checks": [
        { "policy": "held.unlimited", "key": "root" }, { "policy": "held.unlimited", "key": "x" }] });
    let reserved = client.send("POST", "/v1/reserve", &ROOT, &held.to_string()).await;
    assert_eq!(reserved.status, 201, "{}", reserved.body);
    assert_eq!(reserved.json()["decisions"][1]["remaining"], 0);
}
