//! Sites that come from Misskey or Sharkey: their definitions, their headers, their `LimitInfo`.

use serde_json::json;

use crate::at_work::AtWork;

const POLICIES: &str = r#"
[defaults]
headers = "legacy"
tiers = { staff = { factor = 0 } }

[policies."notes/create"]
limits = [{ max = 2, duration = 7200000 }]

[policies.login]
key = ["user"]
limits = [{ type = "bucket", size = 2, dripRate = 3600000 }]

[policies.other]
headers = "ietf"
limits = ["2/h"]
"#;

#[tokio::test]
async fn limit_info() {
    let (_server, mut client) = AtWork::with_client(POLICIES).await;
    let mut check = async |rest: &str| {
        let body = format!(r#"{{"policy":"notes/create","key":"alice"{rest}}}"#);
        let answer = client.post("/v1/check", &body).await;
        (answer.status, answer.json())
    };
    let (status, said) = check("").await;
    let info = &said["limit_info"];
    assert_eq!((status, &info["blocked"], &info["remaining"]), (200, &json!(false), &json!(1)));
    assert_eq!((&info["resetMs"], &info["resetSec"]), (&json!(0), &json!(0)));
    assert_eq!((&info["fullResetMs"], &info["fullResetSec"]), (&json!(3_600_000), &json!(3_600)));
    // The last one: when the next may come.
    let (_, said) = check("").await;
    let info = &said["limit_info"];
    assert_eq!((&info["blocked"], &info["remaining"]), (&json!(false), &json!(0)));
    assert!((3_500_000..=3_600_000).contains(&info["resetMs"].as_u64().unwrap()), "{info}");
    let (status, said) = check("").await;
    let info = &said["limit_info"];
    assert_eq!((status, &info["blocked"], &info["remaining"]), (429, &json!(true), &json!(0)));
    assert!((3_500..=3_600).contains(&info["resetSec"].as_u64().unwrap()), "{info}");
    assert!((7_100..=7_200).contains(&info["fullResetSec"].as_u64().unwrap()), "{info}");
    // Without limits, as much as JavaScript can count.
    let (status, said) = check(r#","tier":"staff""#).await;
    assert_eq!((status, &said["remaining"]), (200, &serde_json::Value::Null));
    let unlimited = json!({ "blocked": false, "remaining": 9_007_199_254_740_991_u64, "resetSec": 0, "resetMs": 0, "fullResetSec": 0, "fullResetMs": 0 });
    assert_eq!(said["limit_info"], unlimited);
    let other = client.post("/v1/check", r#"{"policy":"other","key":"k"}"#).await.json();
    assert_eq!(other.get("limit_info"), None, "{other}");
    let shown = client.get("/v1/policies/notes%2Fcreate/keys/alice").await.json();
    assert_eq!(shown["limit_info"]["remaining"], 0, "{shown}");
}

/// A policy without key fields has one key for all that send none.
#[tokio::test]
async fn a_missing_key() {
    let (_server, mut client) = AtWork::with_client(POLICIES).await;
    let one = client.post("/v1/check", r#"{"policy":"other"}"#).await;
    assert_eq!((one.status, &one.json()["key"]), (200, &json!("")), "{}", one.body);
    let two = client.post("/v1/check", r#"{"policy":"other","key":""}"#).await;
    assert_eq!(two.json()["remaining"], 0);
    let three = client.post("/v1/check", r#"{"checks":[{"policy":"other","key":null}]}"#).await;
    assert_eq!(three.status, 429);
    let named = client.post("/v1/check", r#"{"policy":"login"}"#).await;
    assert_eq!((named.status, &named.json()["field"]), (400, &json!("user")), "{}", named.body);
    assert_eq!(named.json()["detail"], "policy `login` needs the field `user`");
}
