//! Health and reflection.

use std::time::Duration;

use tokio_stream::StreamExt;
use tonic::Code as Grpc;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::{v1, v1alpha};
use waterclock_server::Phase;

use super::hostile::{http2, post_to};
use super::scene::{Scene, per_user};
use crate::at_work::auth;
use crate::patience::eventually;

const SERVICE: &str = "envoy.service.ratelimit.v3.RateLimitService";

const OTHERS: [&str; 2] =
    ["kuadrant.service.ratelimit.v1.RateLimitService", "waterclock.v1.RateLimiter"];

fn about(service: &str) -> HealthCheckRequest {
    HealthCheckRequest { service: service.to_owned() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn health_follows_the_servers_phase() {
    let scene = Scene::new(&per_user("\"5/h\"")).await;
    let mut client = HealthClient::new(scene.channel().await);
    for service in ["", SERVICE, OTHERS[0], OTHERS[1]] {
        let response = client.check(about(service)).await.unwrap().into_inner();
        assert_eq!(response.status(), ServingStatus::Serving);
    }
    let status = client.check(about("unknown")).await.unwrap_err();
    assert_eq!(status.code(), Grpc::NotFound);
    let mut unknown = client.watch(about("unknown")).await.unwrap().into_inner();
    let first = unknown.next().await.unwrap().unwrap();
    assert_eq!(first.status(), ServingStatus::ServiceUnknown);
    let mut watched = client.watch(about(SERVICE)).await.unwrap().into_inner();
    assert_eq!(watched.next().await.unwrap().unwrap().status(), ServingStatus::Serving);
    let mut phase = scene.server().phase();
    let stopping = tokio::spawn(scene.stop());
    phase.wait_for(|phase| *phase == Phase::LameDuck).await.unwrap();
    // Still served, but not ready for new clients.
    let response = client.check(about("")).await.unwrap().into_inner();
    assert_eq!(response.status(), ServingStatus::NotServing);
    assert_eq!(watched.next().await.unwrap().unwrap().status(), ServingStatus::NotServing);
    // A watcher does not hold the server up.
    assert!(watched.next().await.is_none_or(|last| last.is_err()));
    tokio::time::timeout(Duration::from_secs(30), stopping).await.unwrap().unwrap();
}

/// A watch lasts as long as its connection, though the client has no token and sends nothing more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_last() {
    let auth = auth(&[("checker", "check")]);
    let within = "authenticate_within = \"200ms\"\n";
    let scene = Scene::new(&format!("{auth}{within}{}", per_user("\"5/h\""))).await;
    let mut client = HealthClient::new(scene.channel().await);
    let mut watched = client.watch(about("")).await.unwrap().into_inner();
    assert_eq!(watched.next().await.unwrap().unwrap().status(), ServingStatus::Serving);
    tokio::time::sleep(Duration::from_secs(2)).await;
    let stopping = tokio::spawn(scene.stop());
    let last = watched.next().await.expect("it is still open").unwrap();
    assert_eq!(last.status(), ServingStatus::NotServing);
    stopping.await.unwrap();
}

/// Watches are few: on one connection, of one address, and of all strangers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_are_bounded() {
    let auth = auth(&[("checker", "check")]);
    let scene = Scene::new(&format!("{auth}{}", per_user("\"5/h\""))).await;
    let mut client = HealthClient::new(scene.channel().await);
    let mut watches = Vec::new();
    for _ in 0..16 {
        watches.push(client.watch(about("")).await.unwrap());
    }
    let status = client.watch(about("")).await.unwrap_err();
    assert_eq!(status.code(), Grpc::ResourceExhausted);
    // Strangers have 256 watches, of which one address has 64.
    let mut clients = vec![client];
    for _ in 0..3 {
        let mut client = HealthClient::new(scene.channel().await);
        for _ in 0..16 {
            watches.push(client.watch(about("")).await.unwrap());
        }
        clients.push(client);
    }
    let mut client = HealthClient::new(scene.channel().await);
    assert_eq!(client.watch(about("")).await.unwrap_err().code(), Grpc::ResourceExhausted);
    assert!(client.check(about("")).await.is_ok(), "health checks are always answered");
    // A client with a token is no stranger, and has other places, in which its address has a part as well.
    drop(watches);
    let mut known = tonic::Request::new(about(""));
    known.metadata_mut().insert("authorization", "Bearer checker".parse().unwrap());
    assert!(client.watch(known).await.is_ok());
}

/// What a client without a token sends to these services is bounded, and counted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strangers_send_little() {
    let auth = auth(&[("checker", "check")]);
    let settings = "max_receive_bytes = \"4MiB\"\n";
    let scene = Scene::new(&format!("{auth}{settings}{}", per_user("\"5/h\""))).await;
    let mut client = HealthClient::new(scene.channel().await);
    let status = client.check(about(&"x".repeat(4_000))).await.unwrap_err();
    assert_eq!(status.code(), Grpc::NotFound);
    let status = client.check(about(&"x".repeat(5_000))).await.unwrap_err();
    assert_eq!(status.code(), Grpc::OutOfRange);
    // Questions to reflection that never end: of 256 KiB for strangers, one address has half.
    let mut message = vec![0, 0, 0, 0xea, 0x60];
    message.resize(20_000, b'x');
    let mut sender = http2(&scene).await;
    let mut streams = Vec::new();
    for _ in 0..16 {
        sender = sender.ready().await.unwrap();
        let path = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
        let (response, mut body) = sender.send_request(post_to(&scene, path), false).unwrap();
        body.send_data(message.clone().into(), false).unwrap();
        streams.push((response, body));
    }
    let metrics = || scene.server().metrics_text();
    let refused = "waterclock_receive_refused_total{face=\"grpc\"} ";
    let number = |name: &str| {
        let text = metrics();
        let value = text.lines().find_map(|line| line.strip_prefix(name)).expect("a metric");
        value.parse::<usize>().unwrap()
    };
    eventually("most are refused", async || number(refused) >= 11).await;
    assert!(number("waterclock_receive_bytes ") <= 128 << 10, "{}", metrics());
    assert!(client.check(about("")).await.is_ok(), "health checks are always answered");
}

/// Names of the services and the number of files it takes to know ours.
macro_rules! reflected {
    ($version:ident, $scene:expr) => {{
        use $version::server_reflection_request::MessageRequest;
        use $version::server_reflection_response::MessageResponse;
        let channel = $scene.channel().await;
        let mut client = $version::server_reflection_client::ServerReflectionClient::new(channel);
        let ask = |question| $version::ServerReflectionRequest {
            host: String::new(),
            message_request: Some(question),
        };
        let questions = [
            ask(MessageRequest::ListServices(String::new())),
            ask(MessageRequest::FileContainingSymbol(SERVICE.to_owned())),
        ];
        let stream = tokio_stream::iter(questions);
        let mut answers = client.server_reflection_info(stream).await.unwrap().into_inner();
        let listed = answers.next().await.unwrap().unwrap().message_response.unwrap();
        let MessageResponse::ListServicesResponse(listed) = listed else { panic!("{listed:?}") };
        let names: Vec<String> = listed.service.into_iter().map(|service| service.name).collect();
        let file = answers.next().await.unwrap().unwrap().message_response.unwrap();
        let MessageResponse::FileDescriptorResponse(file) = file else { panic!("{file:?}") };
        (names, file.file_descriptor_proto.len())
    }};
}

#[tokio::test]
async fn both_versions_of_reflection_know_the_services() {
    let scene = Scene::new(&per_user("\"5/h\"")).await;
    for (names, files) in [reflected!(v1, scene), reflected!(v1alpha, scene)] {
        for service in [SERVICE, OTHERS[0], OTHERS[1]] {
            assert!(names.iter().any(|name| name == service), "{service}: {names:?}");
        }
        assert!(names.iter().any(|name| name == "grpc.health.v1.Health"), "{names:?}");
        assert!(files >= 1);
    }
}
