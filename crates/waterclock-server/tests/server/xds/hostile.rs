//! A control plane that sends nonsense: the last good configuration stays, and what is wrong is shown.

use bytes::Bytes;
use prost::Message;
use prost_types::value::Kind;
use prost_types::{Any, ListValue, Struct, Value};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use waterclock_config::XdsConfig;
use waterclock_server::envoy::reference::{RateLimitConfig, RateLimitReplace, RateLimitUnit};
use waterclock_server::envoy::{Code, DiscoveryResponse};

use super::control_plane::{ControlPlane, Stream, TYPE_URL};
use super::{Follower, domain, hourly, node, per, shown};
use crate::patience::eventually;

/// A follower with two requests an hour in force.
async fn following() -> (ControlPlane, Follower, Stream) {
    let mut plane = ControlPlane::new().await;
    let follower = Follower::of(&plane, "").await;
    let mut stream = plane.stream().await;
    stream.push("good", &hourly(2)).await;
    (plane, follower, stream)
}

/// Whether the first configuration still decides.
async fn is_unharmed(follower: &mut Follower, user: &str) {
    let mut codes = Vec::new();
    for _ in 0..3 {
        codes.push(follower.ask("d", &[&[("user", user)]]).await.overall_code());
    }
    assert_eq!(codes, [Code::Ok, Code::Ok, Code::OverLimit], "{user}");
    assert_eq!(follower.state().version, "good");
}

fn any(config: &RateLimitConfig) -> Any {
    Any { type_url: TYPE_URL.to_owned(), value: config.encode_to_vec() }
}

#[tokio::test]
async fn faults_are_rejected_whole() {
    let (_plane, mut follower, mut stream) = following().await;
    let good = || any(&domain("other", Vec::new()));
    let bad = |descriptors| any(&domain("bad", descriptors));
    let unknown_unit = bad(vec![node(("k", ""), per(RateLimitUnit::Unknown, 1), Vec::new())]);
    let mut future_unit = per(RateLimitUnit::Hour, 1);
    future_unit.as_mut().unwrap().unit = 99;
    let many = vec![node(("k", ""), None, Vec::new()); 60_000];
    // Two bytes each in the message.
    let mut replacing = node(("k", ""), per(RateLimitUnit::Hour, 1), Vec::new());
    replacing.rate_limit.as_mut().unwrap().replaces = vec![RateLimitReplace::default(); 60_000];
    let mut describing = node(("k", ""), None, Vec::new());
    let list = Kind::ListValue(ListValue { values: vec![Value::default(); 60_000] });
    let fields = [("list".to_owned(), Value { kind: Some(list) })].into();
    describing.metadata = Some(Struct { fields });
    let cases = [
        ("empty domain", any(&domain("", Vec::new())), "no name"),
        ("twin domain", good(), "comes twice"),
        ("unit", unknown_unit, "`unit`"),
        ("unit of the future", bad(vec![node(("k", ""), future_unit, Vec::new())]), "`unit`"),
        ("key", bad(vec![node(("", ""), None, Vec::new())]), "no `key`"),
        ("type", Any { type_url: "type.googleapis.com/x".to_owned(), ..good() }, "is of type"),
        ("garbage", Any { value: vec![0xff; 100], ..good() }, "no RateLimitConfig"),
        ("many", bad(many), "more than 50000"),
        ("names", bad(vec![replacing]), "more than 50000"),
        ("metadata", bad(vec![describing]), "more than 50000"),
    ];
    let count = cases.len() as u64;
    for (version, resource, why) in cases {
        stream.respond(version, vec![good(), resource]);
        let message = stream.is_rejected(version, "good").await;
        assert!(message.contains(why), "{version}: {message}");
        is_unharmed(&mut follower, version).await;
        let shown = shown(&follower.server).await;
        assert!(shown["last_error"].as_str().unwrap().contains(why), "{shown}");
    }
    // The type of the whole response.
    stream.send_message(&DiscoveryResponse {
        nonce: "nonce of type".to_owned(),
        type_url: "type.googleapis.com/envoy.config.cluster.v3.Cluster".to_owned(),
        ..DiscoveryResponse::default()
    });
    assert!(stream.is_rejected("type", "good").await.contains("the response is of type"));
    // The stream is as good as before.
    stream.push("good", &hourly(2)).await;
    assert_eq!(follower.state().rejected, count + 1);
    let text = follower.server.running.server().metrics_text();
    let line = format!("waterclock_xds_updates_total{{outcome=\"rejected\"}} {}\n", count + 1);
    assert!(text.contains(&line), "{text}");
}

/// Each of these ends the stream, and the next one is good.
#[tokio::test]
async fn broken_streams_are_opened_again() {
    let (mut plane, mut follower, mut stream) = following().await;
    let huge = {
        let mut frame = vec![0];
        frame.extend((5_u32 << 20).to_be_bytes());
        Bytes::from(frame)
    };
    let compressed = Bytes::from_static(&[1, 0, 0, 0, 1, 0]);
    for (at, bytes) in [huge, compressed].into_iter().enumerate() {
        stream.send_bytes(bytes);
        stream = plane.stream().await;
        is_unharmed(&mut follower, &format!("after {at}")).await;
    }
    let last = follower.state().last_error.unwrap();
    assert!(last.contains("the stream has failed"), "{last}");
    // Not a message at all: rejected, though without a nonce that could be read.
    stream.send_framed(&[0xff; 64]);
    assert!(stream.request().await.error_detail.is_some());
    // Half a message, and nothing more.
    stream.send_bytes(Bytes::from_static(&[0, 0, 0, 1, 0, 7, 7]));
    is_unharmed(&mut follower, "half").await;
    stream.cut();
    plane.stream().await.push("good", &hourly(2)).await;
    is_unharmed(&mut follower, "cut").await;
}

/// A server that sends the same fault without end is slowed down.
#[tokio::test]
async fn a_storm_of_faults_is_paced() {
    let (_plane, mut follower, mut stream) = following().await;
    for _ in 0..200 {
        stream.send("bad", &[domain("", Vec::new())]);
    }
    for _ in 0..5 {
        stream.is_rejected("bad", "good").await;
    }
    is_unharmed(&mut follower, "storm").await;
    // Twice as long after each: 200 would take minutes.
    assert!(follower.state().rejected < 100, "{:?}", follower.state());
}

/// What speaks another protocol, or none.
#[tokio::test]
async fn strangers_in_place_of_a_control_plane() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let plane = ControlPlane::new().await;
    let file = "[policies.p]\nlimits = [\"2/h\"]\n[[rules]]\ndomain = \"d\"\n\
        descriptor = [{ key = \"user\" }]\npolicy = \"p\"\n";
    let mut follower = Follower::with(&plane, file, |config| {
        let backoff = config.xds.as_ref().unwrap().backoff;
        let mut xds = XdsConfig::new(address.to_string());
        xds.backoff = backoff;
        config.xds = Some(xds);
    })
    .await;
    for words in [&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], &[0xff; 1_000], b""] {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(words).await.unwrap();
        drop(stream);
    }
    eventually("the failure is shown", async || follower.state().last_error.is_some()).await;
    // Rules of the file decide meanwhile.
    let answer = follower.ask("d", &[&[("user", "u")]]).await;
    assert_eq!(answer.statuses[0].limit_remaining, 1);
}
