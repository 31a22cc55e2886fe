//! Authentication, and refusal while the server is overloaded.

use tonic::metadata::MetadataValue;
use tonic::{Code as Grpc, Request};

use super::scene::{Client, Scene, ask, per_user, request, user};
use crate::at_work::auth;

async fn code(client: &mut Client, token: Option<&str>) -> Grpc {
    let mut request = Request::new(request(vec![user("alice")]));
    if let Some(token) = token {
        let value = MetadataValue::try_from(token).unwrap();
        request.metadata_mut().insert("authorization", value);
    }
    match client.should_rate_limit(request).await {
        Ok(_) => Grpc::Ok,
        Err(status) => status.code(),
    }
}

#[tokio::test]
async fn tokens() {
    let auth = auth(&[("checker", "check"), ("reader", "read")]);
    let (_scene, mut client) =
        Scene::with_client(&format!("{auth}{}", per_user("\"100/h\""))).await;
    assert_eq!(code(&mut client, Some("Bearer checker")).await, Grpc::Ok);
    assert_eq!(code(&mut client, Some("bearer checker")).await, Grpc::Ok);
    assert_eq!(code(&mut client, None).await, Grpc::Unauthenticated);
    assert_eq!(code(&mut client, Some("checker")).await, Grpc::Unauthenticated);
    assert_eq!(code(&mut client, Some("Bearer unknown")).await, Grpc::Unauthenticated);
    assert_eq!(code(&mut client, Some("Bearer reader")).await, Grpc::PermissionDenied);
    // Whatever others guess from the same address, a known token passes.
    for guess in 0..12 {
        let guess = format!("Bearer {guess}");
        assert_eq!(code(&mut client, Some(&guess)).await, Grpc::Unauthenticated);
        assert_eq!(code(&mut client, Some("Bearer checker")).await, Grpc::Ok);
    }
}

#[tokio::test]
async fn an_overloaded_server_says_so() {
    let (scene, mut client) = Scene::with_client(&per_user("\"100/h\"")).await;
    let face = waterclock_server::observe::Face::Grpc;
    let all: Vec<_> = std::iter::from_fn(|| scene.server().admit(face)).collect();
    let status = ask(&mut client, request(vec![user("alice")])).await.unwrap_err();
    assert_eq!(status.code(), Grpc::ResourceExhausted);
    drop(all);
    assert!(ask(&mut client, request(vec![user("alice")])).await.is_ok());
}
