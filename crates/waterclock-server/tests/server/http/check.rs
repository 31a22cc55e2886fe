//! `/v1/check`, `/v1/peek`, `/v1/refund` and `/v1/reset`.

use serde_json::{Value, json};

use crate::at_work::AtWork;

const POLICIES: &str = r#"
[policies.burst]
headers = "ietf"
limits = [{ name = "burst", algorithm = "gcra", limit = 1, per = "1h", capacity = 2 }]

[policies.silent]
headers = "none"
limits = ["1/h"]

[policies.draft]
headers = "draft-03"
limits = [{ algorithm = "gcra", limit = 1, per = "1h", capacity = 2 }]

[policies.legacy]
headers = "legacy"
limits = [{ algorithm = "gcra", limit = 1, per = "1h", capacity = 2 }]

[policies.plain]
limits = [{ algorithm = "gcra", limit = 1, per = "1h", capacity = 3 }]

[policies.some]
mode = "nary"
limits = [{ algorithm = "gcra", limit = 1, per = "1h", capacity = 3 }]

[policies.login]
key = ["client_ip", "user"]
limits = ["1/h"]

[policies.address]
key = ["client_ip"]
exempt = ["10.0.0.0/8"]
block = ["192.0.2.1"]
headers = "ietf"
limits = ["1/h"]

[policies.bytes]
limits = [{ algorithm = "gcra", limit = 100, per = "1h", unit = "bytes" }]

[policies.shadow]
shadow = true
limits = ["1/h"]
"#;

fn body(policy: &str, key: &str, cost: u64) -> String {
    json!({ "policy": policy, "key": key, "cost": cost }).to_string()
}

#[tokio::test]
async fn a_decision_in_full() {
    let (_server, mut client) = AtWork::with_client(POLICIES).await;
    let answer = client.post("/v1/check", r#"{"policy":"burst","key":"alice"}"#).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(answer.header("ratelimit-policy"), Some(r#""burst.burst";q=2;w=7200"#));
    assert_eq!(answer.header("ratelimit"), Some(r#""burst.burst";r=1;t=3600"#));
    let decision = answer.json();
    for (name, value) in [
        ("policy", json!("burst")),
        ("key", json!("alice")),
        ("cost", json!(1)),
        ("allowed", json!(true)),
        ("granted", json!(1)),
        ("limit", json!(2)),
        ("remaining", json!(1)),
        ("retry_after_us", json!(0)),
        ("refused_by", json!([])),
        ("source", json!("authoritative")),
    ] {
        assert_eq!(decision[name], value, "{name}");
    }
    let next = decision["next_unit_us"].as_u64().unwrap();
    assert!((3_590_000_000..=3_600_000_000).contains(&next), "{next}");
    assert_eq!(decision["reset_after_us"], decision["next_unit_us"]);
    let limit = &decision["limits"][0];
    assert_eq!(limit["name"], "burst");
    assert_eq!(limit["remaining"], 1);
    assert_eq!(limit["next_unit_us"], decision["next_unit_us"]);
}

#[tokio::test]
async fn the_next_of_the_same_cost_and_the_counter() {
    let (_server, mut client) = AtWork::with_client(
        "[policies.bucket]\nlimits = [{ algorithm = \"gcra\", limit = 1, per = \"1h\", capacity = 4 }]\n\
         [policies.harsh]\nmode = \"uniform\"\nlimits = [\"3/1h rolling-window\"]\n\
         [policies.tried]\nrollout = \"0%\"\nlimits = [\"1/h\"]\n",
    )
    .await;
    let mut ask = async |path: &str, policy: &str, cost: u64| {
        let body = json!({"policy": policy, "key": "k", "cost": cost}).to_string();
        client.post(path, &body).await.json()
    };
    let about = |value: &Value, hours: u64| {
        let found = value.as_u64().unwrap();
        assert!(found.abs_diff(hours * 3_600_000_000) < 600_000_000, "{found}");
    };
    // Four, of which three are taken: three more take two hours.
    let first = ask("/v1/check", "bucket", 3).await;
    assert_eq!((&first["allowed"], &first["retry_after_us"]), (&json!(true), &json!(0)));
    about(&first["next_same_us"], 2);
    assert_eq!(first.get("counter"), None);
    assert_eq!(ask("/v1/peek", "bucket", 1).await["next_same_us"], 0);
    let refused = ask("/v1/check", "bucket", 3).await;
    assert_eq!(refused["next_same_us"], refused["retry_after_us"]);
    assert_eq!(ask("/v1/check", "bucket", 5).await["next_same_us"], Value::Null);
    about(&ask("/v1/report", "bucket", 4).await["next_same_us"], 7);
    // Refused or not, it is counted; no further than the limit below zero.
    for (cost, counter) in [(2, 1), (2, -1), (1, -2), (9, -3)] {
        assert_eq!(ask("/v1/check", "harsh", cost).await["counter"], counter);
    }
    // Where a policy is not rolled out yet, the same passes at any time.
    for _ in 0..2 {
        assert_eq!(ask("/v1/check", "tried", 1).await["next_same_us"], 0);
    }
}

#[tokio::test]
async fn refusals_are_429_with_the_headers_of_the_policy() {
    let (_server, mut client) = AtWork::with_client(POLICIES).await;
    for policy in ["burst", "draft", "legacy", "silent", "plain"] {
        let cost = match policy {
            "plain" => 3,
            "silent" => 1,
            _ => 2,
        };
        let full = client.post("/v1/check", &body(policy, "k", cost)).await;
        assert_eq!(full.status, 200, "{policy}: {}", full.body);
        assert_eq!(full.header("retry-after"), None);
        let refused = client.post("/v1/check", &body(policy, "k", 1)).await;
        assert_eq!(refused.status, 429);
        let decision = refused.json();
        assert_eq!(decision["allowed"], false);
        assert_eq!(decision["granted"], 0);
        assert_eq!(decision["refused_by"].as_array().unwrap().len(), 1);
        let retry: Option<u64> = refused.header("retry-after").map(|text| text.parse().unwrap());
        if policy == "silent" {
            assert_eq!(retry, None);
        } else {
            let exact = decision["retry_after_us"].as_u64().unwrap();
            assert_eq!(retry, Some(exact.div_ceil(1_000_000)), "{policy}");
        }
    }
    let draft = client.post("/v1/check", &body("draft", "k", 1)).await;
    assert_eq!(draft.header("x-ratelimit-limit"), Some("2, 2;w=7200"));
    assert_eq!(draft.header("x-ratelimit-remaining"), Some("0"));
    let legacy = client.post("/v1/check", &body("legacy", "k", 1)).await;
    assert_eq!(legacy.header("x-ratelimit-remaining"), Some("0"));
    assert!(legacy.header("x-ratelimit-clear").is_some_and(|text| text.contains('.')));
    assert!(legacy.header("x-ratelimit-reset").is_some_and(|text| text.contains('.')));
}

#[tokio::test]
async fn a_cost_above_the_limit_never_passes_and_is_told_so() {
    let (_server, mut client) = AtWork::with_client(POLICIES).await;
    let never = client.post("/v1/check", &body("burst", "k", 3)).await;
    assert_eq!(never.status, 429);
    assert_eq!(never.header("retry-after"), None);
    assert_eq!(never.json()["retry_after_us"], Value::Null);
    assert_eq!(never.json()["remaining"], 2);
}

#[tokio::test]
async fn a_partial_grant_is_no_refusal() {
    let (_server, mut client) = AtWork::with_client(POLICIES).await;
    let part = client.post("/v1/check", &body("some", "k", 5)).await;
    assert_eq!(part.status, 200);
    assert_eq!(part.json()["allowed"], false);
    assert_eq!(part.json()["granted"], 3);
    let none = client.post("/v1/check", &body("some", "k", 5)).await;
    assert_eq!(none.status, 429);
    assert_eq!(none.json()["granted"], 0);
}

#[tokio::test]
async fn refusals_as_problems_where_asked_for() {
    let (_server, mut client) = AtWork::with_client(POLICIES).await;
    client.post("/v1/check", &body("burst", "k", 2)).await;
    let asked = ["accept: application/problem+json, application/json;q=0.5"];
    let refused = client.send("POST", "/v1/check", &asked, &body("burst", "k", 1)).await;
    assert_eq!(refused.status, 429);
    assert_eq!(refused.header("content-type"), Some("application/problem+json"));
    let problem = refused.json();
    assert_eq!(problem["violated-policies"], json!(["burst.burst"]));
    assert_eq!(problem["status"], 429);
    assert_eq!(problem["refused_by"], json!(["burst"]));
    assert!(refused.header("retry-after").is_some());
    let admitted = client.send("POST", "/v1/check", &asked, &body("burst", "other", 1)).await;
    assert_eq!(admitted.header("content-type"), Some("application/json"));
}

#[tokio::test]
async fn peeks_refunds_and_resets() {
    let (_server, mut client) = AtWork::with_client(POLICIES).await;
    client.post("/v1/check", &body("plain", "k", 3)).await;
    let peek = client.post("/v1/peek", &body("plain", "k", 1)).await;
    assert_eq!(peek.status, 200, "a peek is always 200");
    assert_eq!(peek.json()["allowed"], false);
    assert_eq!(peek.header("retry-after"), None);
    let refund = client.post("/v1/refund", &body("plain", "k", 2)).await;
    assert_eq!(refund.status, 200);
    assert_eq!(refund.json()["remaining"], 2);
    let zero = client.post("/v1/check", &body("plain", "k", 0)).await;
    assert_eq!((zero.status, &zero.json()["remaining"]), (200, &json!(2)));
    assert_eq!(client.post("/v1/check", &body("plain", "k", 2)).await.status, 200);
    assert_eq!(client.post("/v1/check", &body("plain", "k", 1)).await.status, 429);
    let reset = client.post("/v1/reset", r#"{"policy":"plain","key":"k"}"#).await;
    assert_eq!((reset.status, &reset.json()["remaining"]), (200, &json!(3)));
    assert_eq!(client.post("/v1/check", &body("plain", "k", 3)).await.status, 200);
}

#[tokio::test]
async fn several_checks_all_or_nothing() {
    let (_server, mut client) = AtWork::with_client(POLICIES).await;
    let checks = |a: u64, b: u64, atomic: bool| {
        json!({"checks": [
            {"policy": "plain", "key": "k", "cost": a},
            {"policy": "burst", "key": "k", "cost": b},
        ], "atomic": atomic})
        .to_string()
    };
    let both = client.post("/v1/check", &checks(1, 1, true)).await;
    assert_eq!(both.status, 200);
    assert_eq!(both.json()["allowed"], true);
    assert_eq!(both.json()["decisions"][0]["remaining"], 2);
    let neither = client.post("/v1/check", &checks(1, 2, true)).await;
    assert_eq!(neither.status, 429);
    assert_eq!(neither.json()["allowed"], false);
    assert_eq!(neither.json()["decisions"][0]["remaining"], 2, "nothing was charged");
    assert!(neither.header("retry-after").is_some());
    let each = client.post("/v1/check", &checks(1, 2, false)).await;
    assert_eq!(each.status, 200);
    assert_eq!(each.json()["decisions"][0]["allowed"], true);
    assert_eq!(each.json()["decisions"][0]["remaining"], 1);
    assert_eq!(each.json()["decisions"][1]["allowed"], false);
    // Atomic unless told otherwise; the same key twice is summed.
    let twice = r#"{"checks":[{"policy":"plain","key":"z","cost":2},{"policy":"plain","key":"z","cost":2}]}"#;
    assert_eq!(client.post("/v1/check", twice).await.status, 429);
    // A batch as long as a body can hold.
    let many: Vec<Value> =
        (0..900).map(|i| json!({"policy": "plain", "key": format!("m{i}")})).collect();
    let many =
        client.post("/v1/check", &json!({"checks": many, "atomic": false}).to_string()).await;
    assert_eq!(many.json()["decisions"].as_array().unwrap().len(), 900);
}

#[tokio::test]
async fn keys_of_fields() {
    let (_server, mut client) = AtWork::with_client(POLICIES).await;
    let login = |ip: &str, user: &str| {
        json!({"policy": "login", "fields": {"client_ip": ip, "user": user, "more": 1}}).to_string()
    };
    assert_eq!(client.post("/v1/check", &login("203.0.113.1", "alice")).await.status, 200);
    let again = client.post("/v1/check", &login("::ffff:203.0.113.1", "alice")).await;
    assert_eq!(again.status, 429, "one address, two spellings");
    assert_eq!(client.post("/v1/check", &login("203.0.113.1", "bob")).await.status, 200);
    let missing = client
        .post("/v1/check", r#"{"policy":"login","fields":{"client_ip":"203.0.113.1"}}"#)
        .await;
    assert_eq!((missing.status, &missing.json()["field"]), (400, &json!("user")));
    let key = client.post("/v1/check", r#"{"policy":"login","key":"alice"}"#).await;
    assert_eq!((key.status, &key.json()["field"]), (400, &json!("fields")));
    // The key as an answer shows it names the same key.
    let shown = again.json()["key"].as_str().unwrap().to_owned();
    let same = client.post("/v1/peek", &body("login", &shown, 1)).await;
    assert_eq!(same.json()["allowed"], false);
    // One field: its value is the key.
    let one = json!({"policy": "address", "fields": {"client_ip": "203.0.113.9"}}).to_string();
    assert_eq!(client.post("/v1/check", &one).await.status, 200);
    assert_eq!(client.post("/v1/check", &body("address", "203.0.113.9", 1)).await.status, 429);
}

#[tokio::test]
async fn exempt_and_blocked() {
    let (_server, mut client) = AtWork::with_client(POLICIES).await;
    for _ in 0..3 {
        let exempt = client.post("/v1/check", &body("address", "10.1.2.3", 1)).await;
        assert_eq!(exempt.status, 200);
        assert_eq!(exempt.json()["source"], "policy");
    }
    let blocked = client.post("/v1/check", &body("address", "192.0.2.1", 1)).await;
    assert_eq!(blocked.status, 429);
    assert_eq!(blocked.json()["retry_after_us"], Value::Null);
    assert_eq!(blocked.json()["source"], "policy");
    // A blocked key has nothing left, whatever the call, and never will.
    let looked = client.post("/v1/peek", &body("address", "192.0.2.1", 0)).await;
    for said in [blocked.json(), looked.json()] {
        assert_eq!((&said["allowed"], &said["remaining"]), (&json!(false), &json!(0)), "{said}");
        assert_eq!(said["limits"][0]["remaining"], 0, "{said}");
        assert_eq!((&said["retry_after_us"], &said["next_unit_us"]), (&Value::Null, &Value::Null));
    }
    assert_eq!(blocked.header("ratelimit").map(|field| field.contains(";r=0")), Some(true));
}

/// Lists are about addresses, budgets about the /64 they share.
#[tokio::test]
async fn lists_see_ipv6_addresses() {
    let policies = r#"
[policies.address]
key = ["client_ip"]
exempt = ["2001:db8:1::/48"]
block = ["2001:db8:2::5", "2001:db8:3::/48"]
limits = ["1/h"]
"#;
    let (_server, mut client) = AtWork::with_client(policies).await;
    let by_field = |ip: &str| json!({"policy": "address", "fields": {"client_ip": ip}}).to_string();
    for (ip, first, second) in [
        ("2001:db8:1::7", 200, 200),
        ("2001:db8:2::5", 429, 429),
        ("2001:db8:2::6", 200, 429),
        ("2001:db8:3:4::1", 429, 429),
        ("2001:db8:9::1", 200, 429),
        ("2001:db8:9::2", 429, 429),
    ] {
        assert_eq!(client.post("/v1/check", &by_field(ip)).await.status, first, "{ip}");
        assert_eq!(client.post("/v1/check", &body("address", ip, 1)).await.status, second, "{ip}");
    }
}

/// However a caller spells an address, it is one client: for lists and for budgets. Other texts are no fresh keys.
#[tokio::test]
async fn one_client_however_its_address_is_spelled() {
    let policies = r#"
[policies.address]
key = ["client_ip"]
block = ["192.0.2.1", "2001:db8:2::/48"]
limits = ["1/h"]

[policies.both]
key = ["client_ip", "user"]
block = ["192.0.2.1", "2001:db8:2::/48"]
limits = ["1/h"]
"#;
    let (_server, mut client) = AtWork::with_client(policies).await;
    let of_both =
        |ip: &str| json!({"policy": "both", "fields": {"client_ip": ip, "user": "u"}}).to_string();
    let composed = |ip: &str| body("both", &format!("{}:{ip},1:u,", ip.len()), 1);
    for (plain, spellings) in [
        ("198.51.100.7", ["198.51.100.7:5555", " 198.51.100.7", "::ffff:198.51.100.7"]),
        ("2001:db8:9::1", ["[2001:db8:9::1]:1", "2001:db8:9::1%eth0", "2001:DB8:9:0::1"]),
    ] {
        assert_eq!(client.post("/v1/check", &body("address", plain, 1)).await.status, 200);
        assert_eq!(client.post("/v1/check", &of_both(plain)).await.status, 200);
        for ip in spellings {
            for body in [body("address", ip, 1), of_both(ip), composed(ip)] {
                assert_eq!(client.post("/v1/check", &body).await.status, 429, "{body}");
            }
        }
    }
    for ip in ["192.0.2.1:5555", " 192.0.2.1", "[2001:db8:2::1]:1", "2001:db8:2::1%eth0"] {
        for body in [body("address", ip, 1), of_both(ip), composed(ip)] {
            let blocked = client.post("/v1/check", &body).await;
            assert_eq!(
                (blocked.status, &blocked.json()["source"]),
                (429, &json!("policy")),
                "{body}"
            );
        }
    }
    for ip in
        ["", "alice", "192.0.2.1x", "192.0.2.1:99999", "192.0.2.0/24", "2001:db8::1/64", "fe80::1%"]
    {
        for body in [body("address", ip, 1), of_both(ip), composed(ip)] {
            let bad = client.post("/v1/check", &body).await;
            assert_eq!((bad.status, &bad.json()["field"]), (400, &json!("client_ip")), "{body}");
        }
    }
}

#[tokio::test]
async fn as_many_checks_as_there_may_be() {
    let (_server, mut client) = AtWork::with_client(POLICIES).await;
    let of = |many: usize| {
        let checks = vec![json!({"policy": "plain", "key": "k", "cost": 0}); many];
        json!({"checks": checks, "atomic": false}).to_string()
    };
    assert_eq!(client.post("/v1/check", &of(1_024)).await.status, 200);
    let more = client.post("/v1/check", &of(1_025)).await;
    assert_eq!((more.status, &more.json()["field"]), (400, &json!("checks")));
}

#[tokio::test]
async fn shadow_never_refuses() {
    let (_server, mut client) = AtWork::with_client(POLICIES).await;
    client.post("/v1/check", &body("shadow", "k", 1)).await;
    let second = client.post("/v1/check", &body("shadow", "k", 1)).await;
    assert_eq!(second.status, 200);
    assert_eq!(second.json()["allowed"], true);
    assert_eq!(second.json()["shadow_refused_by"], json!(["gcra"]));
    assert_eq!(second.header("retry-after"), None);
}

#[tokio::test]
async fn costs_by_unit() {
    let (_server, mut client) = AtWork::with_client(POLICIES).await;
    let of = |cost: Value| json!({"policy": "bytes", "key": "k", "cost": cost}).to_string();
    let some = client.post("/v1/check", &of(json!({"bytes": 40}))).await;
    assert_eq!((some.status, &some.json()["remaining"]), (200, &json!(60)));
    let other = client.post("/v1/check", &of(json!({"tokens": 4}))).await;
    assert_eq!((other.status, &other.json()["field"]), (400, &json!("cost")));
}

#[tokio::test]
async fn bad_input_names_the_field() {
    let (_server, mut client) = AtWork::with_client(POLICIES).await;
    for (body, status, field) in [
        ("", 400, "body"),
        ("nonsense", 400, "body"),
        ("[1]", 400, "body"),
        ("{}", 400, "policy"),
        (r#"{"policy":"login"}"#, 400, "client_ip"),
        (r#"{"policy":"plain","key":"k","fields":{"a":"b"}}"#, 400, "key"),
        (r#"{"policy":"plain","key":"k","cost":-1}"#, 400, "cost"),
        (r#"{"policy":"plain","key":"k","cost":1e2}"#, 400, "cost"),
        (r#"{"policy":"plain","key":"k","cost":18446744073709551616}"#, 400, "cost"),
        (r#"{"policy":"plain","key":7}"#, 400, "key"),
        (r#"{"policy":"plain","key":"k","cots":1}"#, 400, "cots"),
        (r#"{"checks":[]}"#, 400, "checks"),
        (
            r#"{"checks":[{"policy":"plain","key":"k"},{"policy":"login"}]}"#,
            400,
            "checks[1].client_ip",
        ),
        (r#"{"policy":"plain","fields":{"user":"x"}}"#, 400, "key"),
    ] {
        let answer = client.post("/v1/check", body).await;
        assert_eq!(answer.status, status, "{body}: {}", answer.body);
        assert_eq!(answer.header("content-type"), Some("application/problem+json"));
        assert_eq!(answer.json()["field"], field, "{body}");
        assert!(answer.json()["detail"].as_str().is_some_and(|text| text.len() > 10));
    }
    let unknown = client.post("/v1/check", r#"{"policy":"plan","key":"k"}"#).await;
    assert_eq!(unknown.status, 404);
    assert!(unknown.body.contains("did you mean `plain`"), "{}", unknown.body);
    // Nothing of all that was charged.
    assert_eq!(client.post("/v1/peek", &body("plain", "k", 1)).await.json()["remaining"], 3);
}

#[tokio::test]
async fn sizes_at_their_limits() {
    let (server, mut client) = AtWork::with_client(POLICIES).await;
    let long = |bytes: usize| body("plain", &"k".repeat(bytes), 1);
    assert_eq!(client.post("/v1/check", &long(1_024)).await.status, 200);
    let too_long = client.post("/v1/check", &long(1_025)).await;
    assert_eq!((too_long.status, &too_long.json()["field"]), (400, &json!("key")));
    let padded = |bytes: usize| {
        let start = r#"{"policy":"plain","key":"p"}"#;
        format!("{start}{}", " ".repeat(bytes - start.len()))
    };
    assert_eq!(client.post("/v1/check", &padded(65_536)).await.status, 200);
    assert_eq!(client.post("/v1/check", &padded(65_537)).await.status, 413);
    // Without a length, too.
    let mut client = server.http().await;
    let head = "POST /v1/check HTTP/1.1\r\nhost: t\r\ntransfer-encoding: chunked\r\n\r\n";
    client.write(head.as_bytes()).await;
    for _ in 0..17 {
        client.write(format!("1000\r\n{}\r\n", " ".repeat(4_096)).as_bytes()).await;
    }
    assert_eq!(client.read().await.map(|answer| answer.status), Some(413));
}

#[tokio::test]
async fn what_is_not_there() {
    let (_server, mut client) = AtWork::with_client(POLICIES).await;
    assert_eq!(client.get("/nothing").await.status, 404);
    assert_eq!(client.get("/v1/check").await.status, 405);
    assert_eq!(client.get("/v1/reservations/x").await.status, 405);
}
