//! Every bound, kept and broken by one.

use tonic::Code as Grpc;
use waterclock_server::envoy::{Code, RateLimitDescriptor, RateLimitRequest};

use super::scene::{Client, Scene, ask, descriptor, per_user, request, user};

/// The error for a request, or the status of its first descriptor.
async fn outcome(client: &mut Client, request: RateLimitRequest) -> Result<Code, String> {
    match ask(client, request).await {
        Ok(response) => Ok(response.statuses[0].code()),
        Err(status) => {
            assert_eq!(status.code(), Grpc::InvalidArgument, "{status}");
            Err(status.message().to_owned())
        }
    }
}

#[tokio::test]
async fn domain_and_descriptors_must_be_there() {
    let (_scene, mut client) = Scene::with_client(&per_user("\"5/h\"")).await;
    let nowhere = RateLimitRequest { domain: String::new(), ..request(vec![user("a")]) };
    assert_eq!(outcome(&mut client, nowhere).await, Err("`domain` must not be empty".to_owned()));
    let nothing = outcome(&mut client, request(vec![])).await;
    assert_eq!(nothing, Err("`descriptors` must hold at least one".to_owned()));
    let unknown = RateLimitRequest { domain: "x".to_owned(), ..request(vec![user("a")]) };
    assert_eq!(outcome(&mut client, unknown).await, Ok(Code::Ok));
}

#[tokio::test]
async fn descriptors() {
    let (_scene, mut client) = Scene::with_client(&per_user("\"100/h\"")).await;
    let many = |count: usize| request((0..count).map(|at| user(&at.to_string())).collect());
    assert_eq!(outcome(&mut client, many(32)).await, Ok(Code::Ok));
    let sentence = outcome(&mut client, many(33)).await.unwrap_err();
    assert_eq!(sentence, "`descriptors` must hold at most 32; found 33");
}

#[tokio::test]
async fn entries() {
    let all: Vec<String> = (0..16).map(|_| "{ key = \"k\" }".to_owned()).collect();
    let config = format!(
        "[policies.p]\nlimits = [\"1/h\"]\n[[rules]]\ndomain = \"d\"\npolicy = \"p\"\ndescriptor = [{}]",
        all.join(", ")
    );
    let (_scene, mut client) = Scene::with_client(&config).await;
    let many = |count: usize| request(vec![descriptor(&vec![("k", "v"); count])]);
    assert_eq!(outcome(&mut client, many(16)).await, Ok(Code::Ok));
    assert_eq!(outcome(&mut client, many(16)).await, Ok(Code::OverLimit));
    let sentence = outcome(&mut client, many(17)).await.unwrap_err();
    assert_eq!(sentence, "`descriptors[0].entries` must hold at most 16; found 17");
}

#[tokio::test]
async fn texts() {
    let (_scene, mut client) = Scene::with_client(&per_user("\"1/h\"")).await;
    let long = |length: usize| "x".repeat(length);
    // As long as it may be, and limited.
    let value = || request(vec![user(&long(1_024))]);
    assert_eq!(outcome(&mut client, value()).await, Ok(Code::Ok));
    assert_eq!(outcome(&mut client, value()).await, Ok(Code::OverLimit));
    // Only its end is different.
    let other = format!("{}y", long(1_023));
    assert_eq!(outcome(&mut client, request(vec![user(&other)])).await, Ok(Code::Ok));
    let sentence = outcome(&mut client, request(vec![user("a"), user(&long(1_025))])).await;
    let expected = "`descriptors[1].entries[0].value` must be at most 1024 bytes long; found 1025";
    assert_eq!(sentence.unwrap_err(), expected);
    let key = |length| request(vec![descriptor(&[("a", "b"), (&long(length), "v")])]);
    assert_eq!(outcome(&mut client, key(1_024)).await, Ok(Code::Ok));
    let sentence = outcome(&mut client, key(1_025)).await.unwrap_err();
    assert!(sentence.starts_with("`descriptors[0].entries[1].key` must be"), "{sentence}");
    let domain = |length| RateLimitRequest { domain: long(length), ..request(vec![user("a")]) };
    assert_eq!(outcome(&mut client, domain(1_024)).await, Ok(Code::Ok));
    let sentence = outcome(&mut client, domain(1_025)).await.unwrap_err();
    assert!(sentence.starts_with("`domain` must be at most 1024 bytes"), "{sentence}");
}

#[tokio::test]
async fn messages() {
    let (_scene, mut client) = Scene::with_client(&per_user("\"1/h\"")).await;
    // Within every bound of its own, and yet too long together.
    let wide: RateLimitDescriptor = descriptor(&[("user", &*"x".repeat(1_000)); 16]);
    let long = |count: usize| request(vec![wide.clone(); count]);
    assert!(ask(&mut client, long(4)).await.is_ok());
    let status = ask(&mut client, long(5)).await.unwrap_err();
    assert_eq!(status.code(), Grpc::OutOfRange, "{status}");
}
