//! Limits of single keys as data, and factors of single calls.

use serde_json::{Value, json};

use crate::at_work::{AtWork, auth};
use crate::client::{Answer, Client};
use crate::patience::eventually;

fn policies() -> String {
    let auth = auth(&[("root", "admin")]);
    format!(
        r#"{auth}
[policies.p]
headers = "ietf"
tiers = {{ pro = {{ factor = 0.5 }} }}
exempt = ["friend"]
limits = [{{ name = "yearly", algorithm = "fixed-window", limit = 10, per = "365d" }}]

[policies.new]
rollout = "0%"
limits = ["2/h"]

[policies.usage]
limits = ["5/h", {{ algorithm = "gcra", limit = 900, per = "1h", unit = "tokens" }}]

[policies.login]
key = ["client_ip", "user"]
limits = ["2/h"]
"#
    )
}

async fn ask(client: &mut Client, method: &str, path: &str, body: &str) -> Answer {
    client.send(method, path, &["authorization: Bearer root"], body).await
}

/// Sets the override of a key of `p`.
async fn put(client: &mut Client, key: &str, body: Value) -> Answer {
    let path = format!("/v1/policies/p/keys/{key}/override");
    ask(client, "PUT", &path, &body.to_string()).await
}

/// Status, limit and what is left.
async fn check(client: &mut Client, body: Value) -> (u16, Value, Value) {
    let answer = ask(client, "POST", "/v1/check", &body.to_string()).await;
    let said = answer.json();
    (answer.status, said["limit"].clone(), said["remaining"].clone())
}

#[tokio::test]
async fn what_is_set_is_read_back_exactly() {
    let (_server, mut client) = AtWork::with_client(&policies()).await;
    let path = "/v1/policies/p/keys/k/override";
    assert_eq!(ask(&mut client, "GET", path, "").await.status, 404);
    for (body, shown) in [
        (r#"{"block":true}"#, r#"{"block":true}"#),
        (r#"{"exempt":true}"#, r#"{"exempt":true}"#),
        // More digits than a floating-point number has.
        (r#"{"factor":0.123456789012345678}"#, r#"{"factor":0.123456789012345678}"#),
        (r#"{"factor":"1.50"}"#, r#"{"factor":1.5}"#),
        (r#"{"tier":"pro"}"#, r#"{"tier":"pro"}"#),
        (
            r#"{"limits":["100/s",{"algorithm":"fixed-window","limit":9,"per":"day","align":"calendar","timezone":"Europe/Berlin"}]}"#,
            r#"{"limits":[{"algorithm":"gcra","capacity":100,"limit":100,"name":"gcra","per":"1s"},{"algorithm":"fixed-window","align":"calendar","limit":9,"name":"fixed-window","per":"day","timezone":"Europe/Berlin"}]}"#,
        ),
    ] {
        let set = ask(&mut client, "PUT", path, body).await;
        assert_eq!(set.status, 200, "{body}: {}", set.body);
        let read = ask(&mut client, "GET", path, "").await;
        assert_eq!((read.status, &*read.body), (200, shown));
        // And what is read can be sent.
        assert_eq!(ask(&mut client, "PUT", path, shown).await.status, 200, "{shown}");
        assert_eq!(ask(&mut client, "GET", path, "").await.body, shown);
    }
    assert_eq!(ask(&mut client, "DELETE", path, "").await.status, 200);
    assert_eq!(ask(&mut client, "GET", path, "").await.status, 404);
    for (body, field) in [
        (r#"{"factor":-1}"#, "factor"),
        (r#"{"factor":0.1234567890123456789}"#, "factor"),
        // Limits cannot be made that large.
        (r#"{"factor":"0.000000000000000001"}"#, "factor"),
        (r#"{"tier":"gold"}"#, "tier"),
        (r#"{"block":true,"expires_in":"soon"}"#, "expires_in"),
        (r#"{"block":true,"expires_in":"0s"}"#, "expires_in"),
        (r#"{"block":true,"factor":2}"#, "body"),
        (r#"{"limits":["1/x"]}"#, "limits"),
        (r#"{"key":"k","block":true}"#, "body"),
    ] {
        let bad = ask(&mut client, "PUT", path, body).await;
        assert_eq!((bad.status, bad.json()["field"].as_str()), (400, Some(field)), "{body}");
    }
}

#[tokio::test]
async fn every_kind_of_override_decides() {
    let (_server, mut client) = AtWork::with_client(&policies()).await;
    let body = |key: &str, cost: u64| json!({"policy": "p", "key": key, "cost": cost});
    assert_eq!(check(&mut client, body("k", 4)).await, (200, 10.into(), 6.into()));
    put(&mut client, "k", json!({"factor": 0.5})).await;
    assert_eq!(check(&mut client, body("k", 1)).await, (200, 20.into(), 15.into()));
    // The factor of the override and the call's are multiplied.
    let by_two = json!({"policy": "p", "key": "k", "cost": 0, "factor": 2});
    assert_eq!(check(&mut client, by_two).await, (200, 10.into(), 5.into()));
    put(&mut client, "k", json!({"tier": "pro"})).await;
    assert_eq!(check(&mut client, body("k", 1)).await, (200, 20.into(), 14.into()));
    let own = json!({"limits": [{"name": "yearly", "algorithm": "fixed-window", "limit": 7, "per": "365d"}]});
    put(&mut client, "k", own).await;
    assert_eq!(check(&mut client, body("k", 1)).await, (200, 7.into(), 0.into()));
    // Limits of a key are absolute: neither a tier nor a factor changes them.
    for more in [json!({"tier": "pro"}), json!({"factor": 0.5}), json!({"factor": 0})] {
        let mut asked = body("k", 1);
        asked.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        assert_eq!(check(&mut client, asked).await.0, 429, "{more}");
    }
    put(&mut client, "k", json!({"exempt": true})).await;
    assert_eq!(check(&mut client, body("k", 1_000)).await.0, 200);
    // Block goes before what the file says.
    assert_eq!(check(&mut client, body("friend", 1_000)).await.0, 200);
    put(&mut client, "friend", json!({"block": true})).await;
    assert_eq!(check(&mut client, body("friend", 1)).await.0, 429);
}

#[tokio::test]
async fn an_override_goes_before_the_rollout() {
    let (_server, mut client) = AtWork::with_client(&policies()).await;
    let body = |key: &str| json!({"policy": "new", "key": key});
    for _ in 0..3 {
        assert_eq!(check(&mut client, body("k")).await.0, 200, "the policy limits no key yet");
    }
    let path = "/v1/policies/new/keys/own/override";
    let set = ask(&mut client, "PUT", path, r#"{"limits":["1/h"]}"#).await;
    assert_eq!(set.status, 200, "{}", set.body);
    assert_eq!(check(&mut client, body("own")).await.0, 200);
    assert_eq!(check(&mut client, body("own")).await.0, 429);
}

#[tokio::test]
async fn limits_of_several_units() {
    let (_server, mut client) = AtWork::with_client(&policies()).await;
    let path = "/v1/policies/usage/keys/k/override";
    let own = r#"{"limits":["50/h",{"algorithm":"gcra","limit":9000,"per":"1h","unit":"tokens"}]}"#;
    let set = ask(&mut client, "PUT", path, own).await;
    assert_eq!(set.status, 200, "{}", set.body);
    let body = json!({"policy": "usage", "key": "k", "cost": {"tokens": 5_000}});
    let answer = ask(&mut client, "POST", "/v1/check", &body.to_string()).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    let read = ask(&mut client, "GET", path, "").await.json();
    assert_eq!(read["limits"][1]["unit"], "tokens", "{read}");
}

/// Double until Sunday.
#[tokio::test]
async fn an_override_expires() {
    let (_server, mut client) = AtWork::with_client(&policies()).await;
    let body = || json!({"policy": "p", "key": "k", "cost": 4});
    assert_eq!(check(&mut client, body()).await, (200, 10.into(), 6.into()));
    let set = put(&mut client, "k", json!({"factor": 0.5, "expires_in": "2d"})).await;
    assert_eq!((set.status, &set.json()["limit"]), (200, &json!(20)));
    let path = "/v1/policies/p/keys/k/override";
    let left = ask(&mut client, "GET", path, "").await.json()["expires_in_us"].as_u64().unwrap();
    let two_days = 2 * 86_400_000_000;
    assert!((two_days - 600_000_000..=two_days).contains(&left), "{left}");
    put(&mut client, "k", json!({"factor": 0.5, "expires_in": "100ms"})).await;
    let server = &_server;
    eventually("it expires", async || {
        let mut client = server.http().await;
        ask(&mut client, "GET", path, "").await.status == 404
    })
    .await;
    assert_eq!(check(&mut client, body()).await, (200, 10.into(), 2.into()), "spent stays spent");
    let list = ask(&mut client, "GET", "/v1/policies/p/overrides", "").await.json();
    assert_eq!(list, json!({"overrides": [], "next": null}));
}

#[tokio::test]
async fn a_restart_keeps_overrides() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("waterclock.toml");
    let text = format!("{}\n[store]\nsnapshot = \"state\"\n", policies());
    std::fs::write(&path, text).expect("written");
    let server = AtWork::serving_file(&path).await;
    let mut client = server.http().await;
    put(&mut client, "k", json!({"limits": ["3/h"], "expires_in": "2d"})).await;
    put(&mut client, "m", json!({"block": true})).await;
    server.running.stop().await;
    let server = AtWork::serving_file(&path).await;
    let mut client = server.http().await;
    assert_eq!(check(&mut client, json!({"policy": "p", "key": "k"})).await.1, 3);
    assert_eq!(check(&mut client, json!({"policy": "p", "key": "m"})).await.0, 429);
    let read = ask(&mut client, "GET", "/v1/policies/p/keys/k/override", "").await.json();
    assert!(read["expires_in_us"].as_u64().is_some_and(|left| left > 86_400_000_000), "{read}");
}

#[tokio::test]
async fn lists_are_loaded_line_by_line_and_read_page_by_page() {
    let (_server, mut client) = AtWork::with_client(&policies()).await;
    let path = "/v1/policies/p/overrides";
    let mut lines: String =
        (0..250).map(|n| format!("{{\"key\":\"k{n}\",\"limits\":[\"{}/h\"]}}\n", n + 1)).collect();
    // A key of any bytes, and two lines for one key.
    lines += "{\"key_hex\":\"ff00\",\"block\":true}\r\n\n";
    lines +=
        "{\"key\":\"k7\",\"factor\":0.5,\"expires_in\":\"2d\"}\n{\"key\":\"k8\",\"clear\":true}";
    let loaded = ask(&mut client, "POST", path, &lines).await;
    assert_eq!(
        (loaded.status, loaded.json()),
        (200, json!({"set": 252, "cleared": 1, "errors": []}))
    );
    assert_eq!(check(&mut client, json!({"policy": "p", "key": "k41"})).await.1, 42);
    assert_eq!(check(&mut client, json!({"policy": "p", "key": "k7"})).await.1, 20);
    assert_eq!(check(&mut client, json!({"policy": "p", "key": "k8"})).await.1, 10);

    let (mut found, mut after, mut pages) = (Vec::new(), String::new(), 0);
    loop {
        let page = ask(&mut client, "GET", &format!("{path}?count=60{after}"), "").await.json();
        let overrides = page["overrides"].as_array().unwrap();
        assert!(overrides.len() <= 60);
        found.extend(overrides.iter().map(Value::to_string));
        pages += 1;
        assert!(pages < 20);
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => break,
        }
    }
    found.sort();
    found.dedup();
    assert_eq!(found.len(), 250, "249 by text, 1 by bytes");
    assert!(found.contains(&r#"{"block":true,"key_hex":"ff00"}"#.to_owned()), "{found:?}");
    // What a list shows can be loaded again, and clears.
    let again = ask(&mut client, "POST", path, &found.join("\n")).await;
    assert_eq!((again.status, &again.json()["set"]), (200, &json!(250)), "{}", again.body);
    let clear = ask(&mut client, "POST", path, "{\"key_hex\":\"ff00\",\"clear\":true}").await;
    assert_eq!(clear.json()["cleared"], 1);
    let usual = ask(&mut client, "GET", path, "").await.json();
    assert_eq!(usual["overrides"].as_array().unwrap().len(), 100);
    for (query, field) in
        [("count=0", "count"), ("count=1001", "count"), ("after=x!", "after"), ("afer=1", "afer")]
    {
        let bad = ask(&mut client, "GET", &format!("{path}?{query}"), "").await;
        assert_eq!((bad.status, bad.json()["field"].as_str()), (400, Some(field)), "{query}");
    }
}

#[tokio::test]
async fn lines_that_fail_are_named_and_the_others_are_set() {
    let (_server, mut client) = AtWork::with_client(&policies()).await;
    let lines = [
        r#"{"key":"a","block":true}"#,
        "nonsense",
        "",
        r#"{"key":"b","factor":-1}"#,
        r#"{"key":"c","tier":"gold"}"#,
        r#"{"block":true}"#,
        r#"{"key":"d","exempt":true}"#,
    ];
    let path = "/v1/policies/p/overrides";
    let loaded = ask(&mut client, "POST", path, &lines.join("\n")).await;
    assert_eq!(loaded.status, 422, "{}", loaded.body);
    let said = loaded.json();
    assert_eq!((&said["set"], &said["cleared"]), (&json!(2), &json!(0)));
    let failed = said["errors"].as_array().unwrap();
    let at: Vec<u64> = failed.iter().filter_map(|error| error["line"].as_u64()).collect();
    assert_eq!(at, [2, 4, 5, 6]);
    assert!(failed[1]["detail"].as_str().unwrap().contains("must not be negative"), "{said}");
    assert_eq!(check(&mut client, json!({"policy": "p", "key": "a"})).await.0, 429);
    // Bounds: lines, and bytes.
    let many = "{\"key\":\"a\",\"clear\":true}\n".repeat(10_001);
    assert_eq!(ask(&mut client, "POST", path, &many).await.status, 413);
    let mut client = _server.http().await;
    let long = " ".repeat(1_024 * 1_024 + 1);
    assert_eq!(ask(&mut client, "POST", path, &long).await.status, 413);
    // A list may be longer than other bodies.
    let mut client = _server.http().await;
    let padded = format!("{}{}", " ".repeat(900_000), r#"{"key":"z","block":true}"#);
    assert_eq!(ask(&mut client, "POST", path, &padded).await.json()["set"], 1);
}

/// A key of several fields is written as answers show it.
#[tokio::test]
async fn keys_of_several_fields() {
    let (_server, mut client) = AtWork::with_client(&policies()).await;
    let body = json!({"policy": "login", "fields": {"client_ip": "203.0.113.1", "user": "ü"}});
    let answer = ask(&mut client, "POST", "/v1/check", &body.to_string()).await;
    let key = answer.json()["key"].as_str().unwrap().to_owned();
    let line = json!({"key": key, "limits": ["50/h"]}).to_string();
    let path = "/v1/policies/login/overrides";
    assert_eq!(ask(&mut client, "POST", path, &line).await.status, 200);
    let list = ask(&mut client, "GET", path, "").await.json();
    assert_eq!(list["overrides"][0]["key"], key);
    let answer = ask(&mut client, "POST", "/v1/check", &body.to_string()).await;
    assert_eq!(answer.json()["limit"], 50);
    let bad = ask(&mut client, "POST", path, r#"{"key":"alice","block":true}"#).await;
    assert_eq!(bad.status, 422, "{}", bad.body);
}

#[tokio::test]
async fn a_factor_scales_one_call() {
    let (_server, mut client) = AtWork::with_client(&policies()).await;
    let body = |factor: &str, cost: u64| -> String {
        format!(r#"{{"policy":"p","key":"k","cost":{cost},"factor":{factor}}}"#)
    };
    let by = async |client: &mut Client, path: &str, factor: &str, cost| {
        let answer = ask(client, "POST", path, &body(factor, cost)).await;
        let said = answer.json();
        (answer.status, said["limit"].clone(), said["remaining"].clone())
    };
    assert_eq!(by(&mut client, "/v1/check", "0.5", 8).await, (200, 20.into(), 12.into()));
    assert_eq!(by(&mut client, "/v1/check", "\"0.50\"", 1).await, (200, 20.into(), 11.into()));
    // Rounded up from 3.33…: read as it stands.
    assert_eq!(by(&mut client, "/v1/peek", "3", 0).await, (200, 4.into(), 0.into()));
    assert_eq!(by(&mut client, "/v1/check", "1", 1).await, (200, 10.into(), 0.into()));
    assert_eq!(by(&mut client, "/v1/check", "null", 1).await.0, 429);
    assert_eq!(by(&mut client, "/v1/check", "0", 1_000).await.0, 200, "no limits");
    assert_eq!(by(&mut client, "/v1/refund", "0.5", 1).await, (200, 20.into(), 11.into()));
    assert_eq!(by(&mut client, "/v1/report", "0.5", 3).await, (200, 20.into(), 8.into()));
    assert_eq!(by(&mut client, "/v1/reserve", "0.5", 8).await, (201, 20.into(), 0.into()));
    // A tier's factor and the call's are multiplied.
    let both = json!({"policy": "p", "key": "t", "tier": "pro", "factor": 0.1});
    assert_eq!(check(&mut client, both).await, (200, 200.into(), 199.into()));
    // And so are a key's and the call's: 0 of anything is no limit.
    put(&mut client, "scaled", json!({"factor": 2})).await;
    for (factor, status) in [("1", 429), ("0", 200), ("0.1", 200)] {
        let call = format!(r#"{{"policy":"p","key":"scaled","cost":6,"factor":{factor}}}"#);
        assert_eq!(ask(&mut client, "POST", "/v1/check", &call).await.status, status, "{factor}");
    }
    // Header fields have the numbers that decided.
    let answer = ask(&mut client, "POST", "/v1/check", &body("0.25", 0)).await;
    let policy = answer.header("ratelimit-policy").unwrap().to_owned();
    assert!(policy.contains("q=40"), "{policy}");

    let several = json!({"checks": [
        {"policy": "p", "key": "a", "factor": 0.5}, {"policy": "p", "key": "b", "factor": "2"},
    ]});
    for atomic in [true, false] {
        let mut several = several.clone();
        several["atomic"] = atomic.into();
        let said = ask(&mut client, "POST", "/v1/check", &several.to_string()).await.json();
        let limits = [0, 1].map(|at| said["decisions"][at]["limit"].clone());
        assert_eq!(limits, [20, 5].map(Value::from), "{said}");
    }
    let authorize = "/v1/authorize?policy=p&key=new&factor=";
    let answer = ask(&mut client, "GET", &format!("{authorize}0.5"), "").await;
    assert_eq!(answer.status, 200);
    assert!(answer.header("ratelimit-policy").unwrap().contains("q=20"), "{answer:?}");
    assert_eq!(ask(&mut client, "GET", &format!("{authorize}-1"), "").await.status, 400);
}

#[tokio::test]
async fn a_bad_factor_is_the_callers_mistake() {
    let (_server, mut client) = AtWork::with_client(&policies()).await;
    for (factor, says) in [
        ("-0.5", "must not be negative"),
        ("\"x\"", "must be a decimal number"),
        ("true", "must be a decimal number"),
        ("{}", "must be a decimal number"),
        ("0.1234567890123456789", "at most 18 digits"),
        ("\"0.000000000000000001\"", "cannot be scaled by"),
    ] {
        let one = format!(r#"{{"policy":"p","key":"k","factor":{factor}}}"#);
        for path in ["/v1/check", "/v1/peek", "/v1/reserve"] {
            let answer = ask(&mut client, "POST", path, &one).await;
            let said = answer.json();
            assert_eq!(
                (answer.status, &said["field"]),
                (400, &json!("factor")),
                "{factor}: {said}"
            );
            assert!(said["detail"].as_str().unwrap().contains(says), "{said}");
        }
    }
    let several = r#"{"checks":[{"policy":"p","key":"k"},{"policy":"p","key":"l","factor":-1}]}"#;
    let said = ask(&mut client, "POST", "/v1/check", several).await.json();
    assert_eq!(said["field"], "checks[1].factor", "{said}");
    let said = ask(&mut client, "POST", "/v1/check", r#"{"checks":[],"factor":1}"#).await.json();
    assert_eq!(said["field"], "factor", "{said}");
}
