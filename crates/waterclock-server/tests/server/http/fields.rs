//! `?fields=…`: answers with the fields that a caller names.

use serde_json::{Value, json};

use crate::at_work::AtWork;

const POLICIES: &str = r#"
[policies.p]
headers = "ietf"
limits = [{ name = "one", algorithm = "gcra", limit = 2, per = "1h" }]
[policies.legacy]
headers = "legacy"
limits = ["2/h"]
"#;

const CHECK: &str = r#"{"policy":"p","key":"k"}"#;

#[tokio::test]
async fn only_these_in_the_order_of_a_decision() {
    let (_server, mut client) = AtWork::with_client(POLICIES).await;
    let path = "/v1/check?fields=retry_after_us,allowed";
    let answer = client.post(path, CHECK).await;
    assert_eq!((answer.status, &*answer.body), (200, r#"{"allowed":true,"retry_after_us":0}"#));
    assert_eq!(answer.header("ratelimit-policy"), Some(r#""p.one";q=2;w=3600"#), "as ever");
    client.post(path, CHECK).await;
    let refused = client.post(path, CHECK).await;
    assert_eq!(refused.status, 429);
    assert!(refused.body.starts_with(r#"{"allowed":false,"retry_after_us":1"#), "{}", refused.body);
    let peek = client.post("/v1/peek?fields=key,key,policy", CHECK).await;
    assert_eq!(peek.body, r#"{"key":"k","policy":"p"}"#);
    let encoded = client.post("/v1/peek?a=b&fields=key%2Climit", CHECK).await;
    assert_eq!(encoded.body, r#"{"key":"k","limit":2}"#);
    // Some answers only have it.
    let sometimes = client.post("/v1/peek?fields=counter,shadow_refused_by", CHECK).await;
    assert_eq!(sometimes.body, "{}");
    let problem = ["accept: application/problem+json"];
    let refused = client.send("POST", "/v1/check?fields=remaining", &problem, CHECK).await.json();
    assert_eq!((&refused["remaining"], &refused["status"]), (&json!(0), &json!(429)));
    assert_eq!(
        (refused["violated-policies"][0].as_str(), &refused["key"]),
        (Some("p.one"), &Value::Null)
    );
}

#[tokio::test]
async fn each_decision_of_several() {
    let (_server, mut client) = AtWork::with_client(POLICIES).await;
    let checks = r#"{"policy":"p","key":"a"},{"policy":"p","key":"b"}"#;
    let both = r#"{"allowed":true,"decisions":[{"remaining":1},{"remaining":1}]}"#;
    let path = "/v1/check?fields=remaining";
    let answer = client.post(path, &format!(r#"{{"checks":[{checks}]}}"#)).await;
    assert_eq!(answer.body, both);
    let none = both.replace('1', "0");
    let answer = client.post(path, &format!(r#"{{"checks":[{checks}],"atomic":false}}"#)).await;
    assert_eq!(answer.body, none);
}

#[tokio::test]
async fn unknown_fields_are_named() {
    let (_server, mut client) = AtWork::with_client(POLICIES).await;
    for (query, says) in [
        ("fields=allowed,retry", "`fields` has no field `retry`; there are key, cost, allowed, "),
        ("fields=", "`fields` has no field ``; "),
        ("fields=t_us", "no field `t_us`"),
        ("fields=key&fields=key", "`fields` is given twice"),
    ] {
        let answer = client.post(&format!("/v1/check?{query}"), CHECK).await;
        assert_eq!((answer.status, &answer.json()["field"]), (400, &json!("fields")), "{query}");
        let detail = answer.json()["detail"].as_str().unwrap().to_owned();
        assert!(detail.contains(says), "{query}: {detail}");
    }
    let peek = client.post("/v1/peek", CHECK).await.json();
    assert_eq!(peek["remaining"], 2, "a wrong field charges nothing");
    // A refund has no fields to choose.
    assert_eq!(client.post("/v1/refund?fields=x", CHECK).await.status, 200);
}

/// Whatever an answer has can be asked for.
#[tokio::test]
async fn every_field_can_be_named() {
    let (_server, mut client) = AtWork::with_client(POLICIES).await;
    let legacy = CHECK.replace("\"p\"", "\"legacy\"");
    let description = client.get("/openapi.json").await.json();
    let known = &description["components"]["parameters"]["Fields"]["schema"]["items"]["enum"];
    let names: Vec<&str> = known.as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert_eq!(names.len(), 17);
    let all = names.join(",");
    for body in [CHECK, &legacy] {
        let whole = client.post("/v1/peek", body).await;
        let named = client.post(&format!("/v1/peek?fields={all}"), body).await;
        assert_eq!(whole.body, named.body);
    }
}
