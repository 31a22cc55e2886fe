//! Health and reflection.

use std::time::Duration;

use tokio_stream::StreamExt;
use tonic::Code as Grpc;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::{v1, v1alpha};
use waterclock_server::Phase;

use super::scene::{Scene, per_user};

const SERVICE: &str = "envoy.service.ratelimit.v3.RateLimitService";

fn about(service: &str) -> HealthCheckRequest {
    HealthCheckRequest { service: service.to_owned() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn health_follows_the_servers_phase() {
    let scene = Scene::new(&per_user("\"5/h\"")).await;
    let mut client = HealthClient::new(scene.channel().await);
    for service in ["", SERVICE] {
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
        assert!(names.iter().any(|name| name == SERVICE), "{names:?}");
        assert!(names.iter().any(|name| name == "grpc.health.v1.Health"), "{names:?}");
        assert!(files >= 1);
    }
}
