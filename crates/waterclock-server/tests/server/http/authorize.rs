//! `/v1/authorize`, as proxies ask it.

use crate::at_work::AtWork;
use crate::client::{Answer, Client};

fn policies(trusted: &str) -> String {
    format!(
        r#"
[server]
trusted_proxies = {trusted}

[policies.per-client]
key = ["client_ip"]
limits = ["1/h"]

[policies.by-caller]
headers = "ietf"
limits = ["1/h"]

[policies.per-path]
key = ["client_ip", "method", "host", "path", "user_id"]
limits = ["1/h"]
"#
    )
}

const LOOPBACK: &str = r#"["127.0.0.0/8"]"#;

async fn ask(client: &mut Client, query: &str, lines: &[&str]) -> Answer {
    client.send("GET", &format!("/v1/authorize?{query}"), lines, "").await
}

#[tokio::test]
async fn the_status_decides_and_the_body_is_empty() {
    let (_server, mut client) = AtWork::with_client(&policies(LOOPBACK)).await;
    let lines = ["x-forwarded-for: 203.0.113.7"];
    let first = ask(&mut client, "policy=per-client", &lines).await;
    assert_eq!((first.status, first.body.as_str()), (200, ""));
    let second = ask(&mut client, "policy=per-client", &lines).await;
    assert_eq!((second.status, second.body.as_str()), (429, ""));
    let wait: u64 = second.header("retry-after").unwrap().parse().unwrap();
    assert!((3_590..=3_600).contains(&wait));
    let nginx = ask(&mut client, "policy=per-client&deny_status=403", &lines).await;
    assert_eq!(nginx.status, 403);
    assert!(nginx.header("retry-after").is_some());
    let head = client.send("HEAD", "/v1/authorize?policy=per-client", &[], "").await;
    assert_eq!(head.status, 200, "this one is the proxy's own address");
}

#[tokio::test]
async fn only_trusted_proxies_speak_for_others() {
    let (_server, mut client) = AtWork::with_client(&policies("[]")).await;
    let one = ask(&mut client, "policy=per-client", &["x-forwarded-for: 203.0.113.7"]).await;
    let other = ask(&mut client, "policy=per-client", &["x-forwarded-for: 203.0.113.8"]).await;
    assert_eq!((one.status, other.status), (200, 429), "both are the peer itself");

    let (_server, mut client) = AtWork::with_client(&policies(LOOPBACK)).await;
    for (forwarded, status) in [
        ("203.0.113.7", 200),
        ("203.0.113.8", 200),
        // What the client typed before it changes nothing.
        ("198.51.100.1, 203.0.113.8", 429),
        ("::ffff:203.0.113.7", 429),
        ("2001:db8:1:2::1", 200),
        ("2001:db8:1:2:ffff::9", 429),
    ] {
        let line = format!("x-forwarded-for: {forwarded}");
        let answer = ask(&mut client, "policy=per-client", &[&line]).await;
        assert_eq!(answer.status, status, "{forwarded}");
    }
}

#[tokio::test]
async fn keys_that_the_proxy_names() {
    let (_server, mut client) = AtWork::with_client(&policies(LOOPBACK)).await;
    let a = ask(&mut client, "policy=by-caller&key=a%20b&cost=1", &[]).await;
    assert_eq!((a.status, a.header("ratelimit")), (200, Some("\"by-caller.gcra\";r=0;t=3600")));
    assert_eq!(ask(&mut client, "policy=by-caller&key=a+b", &[]).await.status, 429);
    // Without one it is the client's address.
    let lines = ["x-forwarded-for: 203.0.113.7"];
    assert_eq!(ask(&mut client, "policy=by-caller", &lines).await.status, 200);
    assert_eq!(ask(&mut client, "policy=by-caller&key=203.0.113.7", &[]).await.status, 429);
}

#[tokio::test]
async fn fields_of_the_request_behind_the_proxy() {
    let lines = [
        "x-forwarded-for: 203.0.113.7",
        "x-forwarded-method: GET",
        "x-forwarded-host: example.org",
        "x-forwarded-uri: /a/b?c=d",
        "x-waterclock-user-id: alice",
    ];
    let (_server, mut client) = AtWork::with_client(&policies(LOOPBACK)).await;
    assert_eq!(ask(&mut client, "policy=per-path", &lines).await.status, 200);
    let mut other_query = lines;
    other_query[3] = "x-forwarded-uri: /a/b?c=e";
    assert_eq!(ask(&mut client, "policy=per-path", &other_query).await.status, 429);
    let mut other_user = lines;
    other_user[4] = "x-waterclock-user-id: bob";
    assert_eq!(ask(&mut client, "policy=per-path", &other_user).await.status, 200);
    let missing = ask(&mut client, "policy=per-path", &lines[..4]).await;
    assert_eq!((missing.status, missing.json()["field"].as_str()), (400, Some("user_id")));

    let (_server, mut client) = AtWork::with_client(&policies("[]")).await;
    let stranger = ask(&mut client, "policy=per-path", &lines).await;
    assert_eq!(stranger.status, 400);
    assert!(stranger.body.contains("trusted_proxies"), "{}", stranger.body);
}

#[tokio::test]
async fn bad_questions() {
    let (_server, mut client) = AtWork::with_client(&policies("[]")).await;
    for (query, status, field) in [
        ("", 400, Some("policy")),
        ("policy=per-client&deny_status=200", 400, Some("deny_status")),
        ("policy=per-client&deny_status=x", 400, Some("deny_status")),
        ("policy=per-client&cost=-1", 400, Some("cost")),
        ("policy=per-client&denystatus=403", 400, Some("denystatus")),
        ("policy=per-client&policy=by-caller", 400, Some("policy")),
        ("policy=unknown", 404, None),
    ] {
        let answer = ask(&mut client, query, &[]).await;
        assert_eq!(answer.status, status, "{query}");
        assert_eq!(answer.json()["field"].as_str(), field, "{query}");
    }
}
