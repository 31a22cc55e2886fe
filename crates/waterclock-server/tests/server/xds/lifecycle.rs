//! Streams that begin, end and begin again; certificates; the configuration on disk.

use tempfile::TempDir;
use waterclock_config::XdsTls;
use waterclock_server::envoy::{Code, RateLimitRequest};

use super::control_plane::ControlPlane;
use super::{Follower, asked, files, hourly, shown};
use crate::certificates::Authority;
use crate::grpc::scene::ask;
use crate::patience::{LONG, eventually, eventually_within};

/// How many requests in the hour are admitted.
async fn admitted(follower: &mut Follower, user: &str) -> u32 {
    for count in 0..20 {
        if follower.ask("d", &[&[("user", user)]]).await.overall_code() == Code::OverLimit {
            return count;
        }
    }
    u32::MAX
}

#[tokio::test]
async fn calls_fail_until_the_first_configuration_and_pass_after_an_empty_one() {
    let mut plane = ControlPlane::new().await;
    let mut follower = Follower::of(&plane, "").await;
    let request = || RateLimitRequest {
        domain: "d".to_owned(),
        descriptors: vec![asked(&[("user", "u")])],
        hits_addend: 0,
    };
    let error = ask(&mut follower.client, request()).await.unwrap_err();
    assert_eq!(error.code(), tonic::Code::Unknown);
    let mut stream = plane.stream().await;
    stream.push("1", &hourly(2)).await;
    assert_eq!(admitted(&mut follower, "u").await, 2);
    // The same numbers later: what was counted stays counted.
    stream.push("2", &hourly(3)).await;
    assert_eq!(admitted(&mut follower, "u").await, 0, "two of three, and one that was refused");
    stream.push("", &[]).await;
    let answer = ask(&mut follower.client, request()).await.unwrap();
    assert_eq!((answer.overall_code(), &answer.statuses[0].current_limit), (Code::Ok, &None));
    let text = follower.server.running.server().metrics_text();
    assert!(!text.contains("policy=\"user-"), "policies that are gone have no metrics");
}

#[tokio::test]
async fn limits_stay_without_a_connection_and_a_new_stream_begins_anew() {
    let mut plane = ControlPlane::new().await;
    let mut follower = Follower::of(&plane, "").await;
    let mut stream = plane.stream().await;
    stream.push("1", &hourly(2)).await;
    stream.cut();
    assert_eq!(admitted(&mut follower, "u").await, 2);
    // A control plane that was restarted counts from 1 again.
    let mut stream = plane.stream().await;
    stream.push("1", &hourly(5)).await;
    assert_eq!(admitted(&mut follower, "v").await, 5);
    stream.end();
    let mut stream = plane.stream().await;
    stream.push("2", &hourly(4)).await;
    assert_eq!(admitted(&mut follower, "w").await, 4);
    let state = follower.state();
    assert_eq!((state.accepted, state.rejected, state.streams), (3, 0, 3));
    assert!(state.connected && state.last_error.is_some());
}

#[tokio::test]
async fn a_reload_of_the_file_keeps_what_was_pushed() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("waterclock.toml");
    let mut plane = ControlPlane::new().await;
    let xds = format!("[xds]\nserver = \"{}\"\nnode = \"envoy-ratelimit\"\n", plane.address);
    std::fs::write(&file, &xds).unwrap();
    let server = crate::at_work::AtWork::serving_file(&file).await;
    let channel = tonic::transport::Endpoint::new(format!("http://{}", server.grpc_address()));
    let client = crate::grpc::scene::Client::new(channel.unwrap().connect().await.unwrap());
    let mut follower = Follower { server, client };
    let mut stream = plane.stream().await;
    stream.push("1", &hourly(2)).await;
    let generation = || follower.server.running.server().reloads().status().generation;
    let before = generation();
    std::fs::write(&file, format!("{xds}[policies.more]\nlimits = [\"1/s\"]\n")).unwrap();
    follower.server.running.reload();
    eventually("the file is reloaded", async || generation() > before).await;
    assert_eq!(admitted(&mut follower, "u").await, 2);
    let policies = follower.server.http().await.get("/v1/policies").await.json();
    let origin = |name: &str| {
        let all = policies["policies"].as_array().unwrap();
        let found = all.iter().find(|policy| policy["name"].as_str().unwrap().starts_with(name));
        found.unwrap()["origin"].clone()
    };
    assert_eq!((origin("more"), origin("user-")), ("file".into(), "envoy".into()));
}

#[tokio::test]
async fn certificates_of_both_sides_are_checked_and_read_again() {
    let directory = TempDir::new().unwrap();
    let authority = Authority::new();
    let mut plane = ControlPlane::with_tls(&authority).await;
    // Certificates of another authority at first.
    files(directory.path(), &Authority::new());
    let path = |name: &str| directory.path().join(name);
    let mut follower = Follower::with(&plane, "", |config| {
        let own = Some((path("cert.pem"), path("key.pem")));
        config.xds.as_mut().unwrap().tls = Some(XdsTls::new(path("ca.pem"), own, None));
    })
    .await;
    eventually("the server is not trusted", async || {
        follower.state().last_error.is_some_and(|why| why.contains("TLS handshake failed"))
    })
    .await;
    files(directory.path(), &authority);
    let mut stream = plane.stream().await;
    stream.push("1", &hourly(2)).await;
    assert_eq!(admitted(&mut follower, "u").await, 2);
    // New certificates while the stream is open: the next one uses them.
    files(directory.path(), &authority);
    eventually_within(2 * LONG, "a new stream", async || follower.state().streams > 1).await;
    plane.stream().await.push("1", &hourly(3)).await;
    assert_eq!(admitted(&mut follower, "v").await, 3);
}

#[tokio::test]
async fn the_last_good_configuration_is_kept_on_disk() {
    let directory = TempDir::new().unwrap();
    let keep = directory.path().join("xds.bin");
    let mut plane = ControlPlane::new().await;
    let set = |config: &mut waterclock_config::Config| {
        config.xds.as_mut().unwrap().keep = Some(keep.clone());
    };
    let follower = Follower::with(&plane, "", set).await;
    let mut stream = plane.stream().await;
    stream.push("7", &hourly(2)).await;
    stream.send("8", &[super::domain("", Vec::new())]);
    stream.is_rejected("8", "7").await;
    follower.server.running.stop().await;
    // The control plane says nothing this time.
    let mut follower = Follower::with(&plane, "", set).await;
    let mut stream = plane.stream().await;
    follower.is_at("7").await;
    assert_eq!(admitted(&mut follower, "u").await, 2);
    let shown = shown(&follower.server).await;
    assert_eq!((&shown["version"], &shown["from_disk"]), (&"7".into(), &true.into()));
    stream.push("1", &hourly(1)).await;
    assert_eq!(admitted(&mut follower, "v").await, 1);
    assert!(!follower.state().from_disk);
    follower.server.running.stop().await;
    std::fs::write(&keep, b"garbage").unwrap();
    let follower = Follower::with(&plane, "", set).await;
    eventually("the garbage is noticed", async || follower.state().last_error.is_some()).await;
    assert_eq!(follower.state().version, "");
}
