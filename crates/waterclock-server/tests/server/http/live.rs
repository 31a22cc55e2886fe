//! The live feed: what it tells, to whom, for how long.

use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use waterclock_config::Config;
use waterclock_server::observe::Face;
use waterclock_server::{Room, Timing};

use crate::at_work::{AtWork, auth, hurried};
use crate::client::{Answer, Client};
use crate::patience::{LONG, eventually};
use crate::reload::Scene;

const POLICIES: &str = r#"
[policies.watched]
shadow = true
limits = ["1/h"]
[policies.plain]
limits = [
  { name = "all", algorithm = "gcra", limit = 1, per = "1h", capacity = 2 },
  { name = "failures", algorithm = "error-rate", threshold = "50%", per = "1m", min_samples = 5, cool_down = "1s" },
]
"#;
const EVENTS: &str = "accept: text/event-stream";

async fn check(client: &mut Client, policy: &str, key: &str) {
    client.post("/v1/check", &format!(r#"{{"policy":"{policy}","key":"{key}"}}"#)).await;
}

async fn subscribe(client: &mut Client) -> Answer {
    client.send("GET", "/v1/live", &[EVENTS], "").await
}

/// A new connection that reads events.
async fn subscriber(server: &AtWork) -> Client {
    let mut client = server.http().await;
    assert_eq!(subscribe(&mut client).await.status, 200);
    assert_eq!(client.event().await.expect("an event at once")["phase"], "serving");
    client
}

fn policy<'a>(live: &'a Value, name: &str) -> &'a Value {
    let policies = live["policies"].as_array().unwrap();
    policies.iter().find(|policy| policy["name"] == name).unwrap()
}

#[tokio::test]
async fn everything_at_one_instant() {
    let (server, mut client) = AtWork::with_client(POLICIES).await;
    for _ in 0..3 {
        check(&mut client, "plain", "very-secret-key").await;
        check(&mut client, "watched", "w").await;
    }
    let mut resp = TcpStream::connect(server.resp_address()).await.unwrap();
    for _ in 0..2 {
        resp.write_all(b"CL.THROTTLE bob 0 1 3600\r\n").await.unwrap();
        assert!(resp.read(&mut [0; 100]).await.unwrap() > 0);
    }
    let answer = client.get("/v1/live").await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    let live = answer.json();
    assert!(live["at_us"].as_u64() > Some(1_600_000_000_000_000), "{live}");
    assert!(live["uptime_us"].as_u64().is_some());
    assert_eq!((&live["version"], &live["phase"]), (&"0.1.0".into(), &"serving".into()));
    let store = &live["store"];
    assert_eq!((&store["name"], &store["degraded"]), (&"memory".into(), &false.into()));
    assert_eq!(store["nodes"], serde_json::json!({ "configured": 1, "alive": 1 }));
    assert_eq!((&store["errors"]["timeout"], &store["overflowed"]), (&0.into(), &0.into()));
    assert_eq!(live["config"], client.get("/v1/config").await.json());
    assert_eq!(live["connections"], serde_json::json!({ "http": 1, "grpc": 0, "resp": 1 }));
    let totals = |allowed, refused, shadow_refused| serde_json::json!({ "allowed": allowed, "refused": refused, "shadow_refused": shadow_refused, "error": 0 });
    assert_eq!(live["totals"], totals(4, 2, 2));
    let names: Vec<_> = live["policies"].as_array().unwrap().iter().map(|p| &p["name"]).collect();
    assert_eq!(names, ["@throttle", "plain", "watched"]);
    let plain = policy(&live, "plain");
    assert_eq!(plain["totals"], totals(2, 1, 0));
    assert_eq!((&plain["keys"], &plain["reservations"]), (&1.into(), &0.into()));
    assert_eq!(
        plain["limits"],
        serde_json::json!([{ "name": "all", "limit": 2 }, { "name": "failures", "limit": null }])
    );
    assert_eq!(policy(&live, "watched")["totals"], totals(1, 0, 2));
    assert_eq!(policy(&live, "@throttle")["totals"], totals(1, 1, 0));
}

#[tokio::test]
async fn keys_are_hashed_unless_the_configuration_says_otherwise() {
    let scene = Scene::new(POLICIES).await;
    let server = &scene.server;
    let mut client = server.http().await;
    let refuse = async |client: &mut Client, key: &str, times: usize| {
        for _ in 0..times + 2 {
            check(client, "plain", key).await;
        }
    };
    refuse(&mut client, "rarely", 1).await;
    refuse(&mut client, "often", 5).await;
    let answer = client.get("/v1/live").await;
    assert!(!answer.body.contains("often"), "{}", answer.body);
    let refused = &answer.json()["refused"];
    assert_eq!(refused["shown"], "hashed");
    let keys = refused["keys"].as_array().unwrap();
    let refusals: Vec<_> = keys.iter().map(|key| key["refusals"].as_u64()).collect();
    assert_eq!(refusals, [Some(5), Some(1)]);
    let is_hash = |text: &str| text.len() == 16 && text.bytes().all(|b| b.is_ascii_hexdigit());
    assert!(keys.iter().all(|key| key["key"].as_str().is_some_and(is_hash)), "{refused}");

    scene.write("waterclock.toml", &(format!("[server]\nshow_keys = true\n{POLICIES}")));
    server.running.reload();
    let shown = async |client: &mut Client| client.get("/v1/live").await.json()["refused"].clone();
    eventually("the reload", async || shown(&mut client).await["shown"] == "raw").await;
    assert!(shown(&mut client).await["keys"].as_array().unwrap().is_empty(), "nothing from before");
    check(&mut client, "plain", "often").await;
    let expected = serde_json::json!([
        { "policy": "plain", "key": "often", "refusals": 1, "refusals_at_most": 1 }
    ]);
    assert_eq!(shown(&mut client).await["keys"], expected);
    assert!(!server.running.server().metrics_text().contains("often"), "never in metrics");
}

/// What callers of the Redis protocol send need not be text. What is shown must not be another key.
#[tokio::test]
async fn a_key_that_is_no_text_is_told_from_one_that_is() {
    let server = AtWork::serving(&format!("[server]\nshow_keys = true\n{POLICIES}")).await;
    let mut resp = TcpStream::connect(server.resp_address()).await.unwrap();
    for _ in 0..3 {
        resp.write_all(b"*3\r\n$8\r\nRL.CHECK\r\n$5\r\nplain\r\n$4\r\ncaf\xe9\r\n").await.unwrap();
        assert!(resp.read(&mut [0; 100]).await.unwrap() > 0);
    }
    let live = server.http().await.get("/v1/live").await.json();
    let expected = serde_json::json!([
        { "policy": "plain", "key": r"caf\xe9", "escaped": true, "refusals": 1, "refusals_at_most": 1 }
    ]);
    assert_eq!(live["refused"]["keys"], expected);
}

#[tokio::test]
async fn totals_outlive_a_policy_and_its_refused_keys_do_not() {
    let other = "[policies.other]\nlimits = [\"1/h\"]\n";
    let both = format!("{POLICIES}{other}");
    let scene = Scene::new(&both).await;
    let server = &scene.server;
    let mut client = server.http().await;
    for name in ["plain", "other"] {
        for _ in 0..3 {
            check(&mut client, name, "k").await;
        }
    }
    let before = client.get("/v1/live").await.json();
    let decided =
        serde_json::json!({ "allowed": 3, "refused": 3, "shadow_refused": 0, "error": 0 });
    assert_eq!(before["totals"], decided);
    for (text, generation, policies) in [(POLICIES, 2, 2), (&both, 3, 3)] {
        scene.write("waterclock.toml", text);
        server.running.reload();
        eventually("the reload", async || {
            client.get("/v1/live").await.json()["config"]["generation"].as_u64() >= Some(generation)
        })
        .await;
        let live = client.get("/v1/live").await.json();
        assert_eq!(live["policies"].as_array().unwrap().len(), policies);
        assert_eq!(live["totals"], decided, "neither less nor more");
        let refused = live["refused"]["keys"].as_array().unwrap();
        let names: Vec<_> = refused.iter().map(|key| &key["policy"]).collect();
        assert_eq!(names, ["plain"], "a removed policy has no refused keys");
    }
}

#[tokio::test]
async fn all_clients_read_the_same_events() {
    let server = AtWork::serving(POLICIES).await;
    let (mut one, mut other) = (subscriber(&server).await, subscriber(&server).await);
    let mut told = [Vec::new(), Vec::new()];
    for _ in 0..20 {
        told[0].push(one.event().await.expect("another")["at_us"].as_u64());
        told[1].push(other.event().await.expect("another")["at_us"].as_u64());
    }
    // They may have begun one apart.
    let shared = told[0].iter().filter(|at| told[1].contains(at)).count();
    assert!(shared >= 3, "{told:?}");
    assert!(told.iter().all(|told| told.is_sorted_by(|a, b| a < b)), "{told:?}");
}

#[tokio::test]
async fn events_one_after_the_other() {
    let server = AtWork::serving(POLICIES).await;
    let (mut client, mut other) = (server.http().await, server.http().await);
    let answer = client
        .send("GET", "/v1/live", &["accept: application/json;q=0.5, Text/Event-Stream"], "")
        .await;
    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    let first = client.event().await.expect("at once");
    assert_eq!(first["totals"]["allowed"], 0);
    check(&mut other, "plain", "k").await;
    let mut before = first["at_us"].as_u64();
    let mut allowed = 0;
    while allowed == 0 {
        let event = client.event().await.expect("another");
        assert!(event["at_us"].as_u64() > before, "{event}");
        before = event["at_us"].as_u64();
        allowed = event["totals"]["allowed"].as_u64().unwrap();
    }
    assert_eq!(allowed, 1);
}

#[tokio::test]
async fn no_more_streams_than_there_is_room_for() {
    let room = Room { live: 2, ..Room::default() };
    let config = Config::read("test.toml", POLICIES).unwrap();
    let server = AtWork::with(config, Timing { room, ..hurried() }).await;
    let (first, _second) = (subscriber(&server).await, subscriber(&server).await);
    let mut third = server.http().await;
    let turned_away = subscribe(&mut third).await;
    assert_eq!(turned_away.status, 503);
    assert!(turned_away.body.contains("too many live feeds"), "{}", turned_away.body);
    assert_eq!(third.get("/v1/live").await.status, 200, "a snapshot needs no room");
    drop(first);
    eventually("room again", async || {
        let mut client = server.http().await;
        subscribe(&mut client).await.status == 200
    })
    .await;
}

/// Streams take none of the room for decisions.
#[tokio::test]
async fn decisions_do_not_wait_for_streams() {
    let room = Room { requests: 1, ..Room::default() };
    let config = Config::read("test.toml", POLICIES).unwrap();
    let server = AtWork::with(config, Timing { room, ..hurried() }).await;
    let _streams = (subscriber(&server).await, subscriber(&server).await);
    let mut client = server.http().await;
    let answer = client.post("/v1/check", r#"{"policy":"plain","key":"k"}"#).await;
    assert_eq!(answer.status, 200);
}

#[tokio::test]
async fn a_draining_server_ends_its_streams() {
    let config = Config::read("test.toml", POLICIES).unwrap();
    let timing = Timing { drain: Duration::from_secs(60), ..hurried() };
    let server = AtWork::with(config, timing).await;
    let mut streams = Vec::new();
    for _ in 0..5 {
        streams.push(subscriber(&server).await);
    }
    let stop = tokio::spawn(server.running.stop());
    for stream in &mut streams {
        while stream.event().await.is_some() {}
        assert!(stream.is_closed(LONG).await);
    }
    drop(streams);
    tokio::time::timeout(LONG, stop).await.expect("ends").unwrap();
}

/// HTTP/2 says goodbye at once and waits for its streams: this one ends, too.
#[tokio::test]
async fn a_draining_server_ends_streams_of_http2() {
    let config = Config::read("test.toml", POLICIES).unwrap();
    let timing = Timing { drain: Duration::from_secs(60), ..hurried() };
    let server = AtWork::with(config, timing).await;
    let stream = TcpStream::connect(server.http_address()).await.unwrap();
    let (mut send, connection) = h2::client::handshake(stream).await.unwrap();
    let connection = tokio::spawn(connection);
    let request = http::Request::get("http://waterclock/v1/live");
    let request = request.header("accept", "text/event-stream").body(()).unwrap();
    let (answer, _) = send.send_request(request, true).unwrap();
    let mut body = answer.await.unwrap().into_body();
    for _ in 0..2 {
        let event = body.data().await.expect("an event").unwrap();
        assert!(event.starts_with(b"data: {"));
        body.flow_control().release_capacity(event.len()).unwrap();
    }
    let stop = tokio::spawn(server.running.stop());
    while let Some(event) = body.data().await {
        body.flow_control().release_capacity(event.expect("a good end").len()).unwrap();
    }
    drop(send);
    _ = connection.await;
    tokio::time::timeout(LONG, stop).await.expect("ends").unwrap();
}

/// A stream that is read lives longer than the idle timeout.
#[tokio::test]
async fn a_client_that_reads_is_not_idle() {
    let mut timing = hurried();
    timing.patience.idle = Duration::from_secs(3);
    let server = AtWork::with(Config::read("test.toml", POLICIES).unwrap(), timing).await;
    let mut stream = subscriber(&server).await;
    for _ in 0..40 {
        assert!(stream.event().await.is_some());
    }
    drop(stream);
    server.has_no_connections(Face::Http).await;
}

/// A client that reads nothing fills every buffer on the way, and is then idle.
#[tokio::test]
async fn a_client_that_does_not_read_is_disconnected() {
    let mut text = String::new();
    for number in 0..2_000 {
        text += &format!("[policies.policy-{number:050}]\nlimits = [\"1/s\"]\n");
    }
    let mut timing = Timing { live_every: Duration::from_millis(5), ..hurried() };
    timing.patience.idle = Duration::from_millis(800);
    timing.patience.body = Duration::from_millis(300);
    let server = AtWork::with(Config::read("test.toml", &text).unwrap(), timing).await;
    let mut client = server.http().await;
    client.write(format!("GET /v1/live HTTP/1.1\r\nhost: t\r\n{EVENTS}\r\n\r\n").as_bytes()).await;
    let connections = server.running.server().engine.metrics().connections(Face::Http);
    eventually("connected", async || connections.get() == 1).await;
    server.has_no_connections(Face::Http).await;
    drop(client);
}

#[tokio::test]
async fn only_for_readers_and_only_as_long_as_they_are() {
    let scene = Scene::new(&(auth(&[("reader", "read"), ("checker", "check")]) + POLICIES)).await;
    let server = &scene.server;
    let mut client = server.http().await;
    for lines in [&[][..], &[EVENTS][..]] {
        assert_eq!(client.send("GET", "/v1/live", lines, "").await.status, 401);
        let lines = [lines, &["authorization: Bearer checker"]].concat();
        assert_eq!(client.send("GET", "/v1/live", &lines, "").await.status, 403);
    }
    let lines = [EVENTS, "authorization: Bearer reader"];
    assert_eq!(client.send("GET", "/v1/live", &lines, "").await.status, 200);
    assert!(client.event().await.is_some());
    scene.write("waterclock.toml", &(auth(&[("checker", "check")]) + POLICIES));
    server.running.reload();
    while client.event().await.is_some() {}
    assert_eq!(client.send("GET", "/v1/live", &lines, "").await.status, 401);
}

/// A feed that needed no token ends when a reload adds tokens.
#[tokio::test]
async fn a_server_that_closes_ends_open_streams() {
    let scene = Scene::new(POLICIES).await;
    let server = &scene.server;
    let mut stream = subscriber(server).await;
    scene.write("waterclock.toml", &(auth(&[("reader", "read")]) + POLICIES));
    server.running.reload();
    while stream.event().await.is_some() {}
}
