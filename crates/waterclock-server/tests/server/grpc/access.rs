//! Authentication, and refusal while the server is overloaded.

use tonic::metadata::MetadataValue;
use tonic::{Code as Grpc, Request};

use super::scene::{Client, Scene, ask, per_user, request, user};

/// The SHA-256 of "checker" and of "reader".
const AUTH: &str = "[server]\nauth = [\
    { token = \"sha256:CHECKER\", roles = [\"check\"] }, \
    { token = \"sha256:3d0941964aa3ebdcb00ccef58b1bb399f9f898465e9886d5aec7f31090a0fb30\", roles = [\"read\"] }]\n";

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
    let hash = "d2d2328e3359f3de3515871090d1316cbcdc5383204c204f9390788c3ef8618f";
    let auth = AUTH.replace("CHECKER", hash);
    let scene = Scene::new(&format!("{auth}{}", per_user("\"100/h\""))).await;
    let mut client = scene.client().await;
    assert_eq!(code(&mut client, Some("Bearer checker")).await, Grpc::Ok);
    assert_eq!(code(&mut client, Some("bearer checker")).await, Grpc::Ok);
    assert_eq!(code(&mut client, None).await, Grpc::Unauthenticated);
    assert_eq!(code(&mut client, Some("checker")).await, Grpc::Unauthenticated);
    assert_eq!(code(&mut client, Some("Bearer nobody")).await, Grpc::Unauthenticated);
    assert_eq!(code(&mut client, Some("Bearer reader")).await, Grpc::PermissionDenied);
    // Guessing is limited: in the end not even the right token is looked at.
    for guess in 0..20 {
        code(&mut client, Some(&format!("Bearer {guess}"))).await;
    }
    assert_eq!(code(&mut client, Some("Bearer checker")).await, Grpc::Unauthenticated);
}

#[tokio::test]
async fn an_overloaded_server_says_so() {
    let scene = Scene::new(&per_user("\"100/h\"")).await;
    let mut client = scene.client().await;
    let face = waterclock_server::observe::Face::Grpc;
    let all: Vec<_> = std::iter::from_fn(|| scene.server().admit(face)).collect();
    let status = ask(&mut client, request(vec![user("alice")])).await.unwrap_err();
    assert_eq!(status.code(), Grpc::ResourceExhausted);
    drop(all);
    assert!(ask(&mut client, request(vec![user("alice")])).await.is_ok());
}
