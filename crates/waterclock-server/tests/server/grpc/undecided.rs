//! Calls that end without a decision: proxies admit these by default, so each is counted, once.

use bytes::Bytes;
use tokio::time::timeout;
use tonic::Code as Grpc;
use waterclock_conformance::real::RedisServer;
use waterclock_server::envoy::RateLimitRequest;
use waterclock_server::observe::Face;

use super::hostile::{http2, post};
use super::scene::{Scene, ask, errors_of, per_user, request, undecided, user};
use crate::at_work::auth;
use crate::patience::{LONG, eventually};

/// The status of a call with this body.
async fn status_of(scene: &Scene, body: &'static [u8]) -> String {
    let sender = &mut http2(scene).await;
    let (response, mut sent) = sender.send_request(post(scene), false).unwrap();
    sent.send_data(Bytes::from_static(body), true).unwrap();
    let response = timeout(LONG, response).await.unwrap().unwrap();
    let status = response.headers().get("grpc-status").expect("an error");
    status.to_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_is_counted_once() {
    let (scene, mut client) = Scene::with_client(&per_user("\"100/h\"")).await;
    let (invalid, unimplemented) = ("3", "12");
    let mut expected = 0;
    for (body, status) in [
        (&b""[..], invalid),
        (b"\0\0\0", invalid),
        (b"\0\0\0\0\x09half", invalid),
        (b"\0\0\0\0\x03\xff\xff\xff", invalid),
        (b"\0\0\0\0\x03\x0a\x01\xff", invalid),
        (b"\x01\0\0\0\x01x", unimplemented),
    ] {
        assert_eq!(status_of(&scene, body).await, status, "{body:?}");
        expected += 1;
        assert_eq!(undecided(&scene), expected, "{body:?}");
    }
    let nowhere = RateLimitRequest { domain: String::new(), ..request(vec![user("a")]) };
    assert_eq!(ask(&mut client, nowhere).await.unwrap_err().code(), Grpc::InvalidArgument);
    assert_eq!(undecided(&scene), expected + 1);
    let all: Vec<_> = std::iter::from_fn(|| scene.server().admit(Face::Grpc)).collect();
    let shed = ask(&mut client, request(vec![user("a")])).await.unwrap_err();
    assert_eq!(shed.code(), Grpc::ResourceExhausted);
    assert_eq!(undecided(&scene), expected + 2);
    drop(all);
    // A caller that does not wait for the answer.
    let mut sender = http2(&scene).await;
    let (response, mut sent) = sender.send_request(post(&scene), false).unwrap();
    sent.send_data(Bytes::from_static(b"\0\0"), false).unwrap();
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    sent.send_reset(h2::Reason::CANCEL);
    drop(response);
    eventually("it is counted", async || undecided(&scene) == expected + 3).await;
    assert!(ask(&mut client, request(vec![user("a")])).await.is_ok());
    assert_eq!(undecided(&scene), expected + 3, "a decision is none of them");
}

#[tokio::test]
async fn calls_without_a_valid_token() {
    let auth = auth(&[("checker", "check")]);
    let (scene, mut client) = Scene::with_client(&format!("{auth}{}", per_user("\"5/h\""))).await;
    let status = ask(&mut client, request(vec![user("a")])).await.unwrap_err();
    assert_eq!(status.code(), Grpc::Unauthenticated);
    assert_eq!(undecided(&scene), 1);
}

/// A store that fails is counted for the policy, and not a second time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failures_of_the_store() {
    let redis = RedisServer::start();
    redis.kill();
    let store = format!("[store]\nurl = \"{}\"\n", redis.url());
    let policy = "[policies.p]\non_store_error = \"deny\"";
    let config = store + &per_user("\"5/d\"").replace("[policies.p]", policy);
    let (scene, mut client) = Scene::with_client(&config).await;
    for calls in 1..=5 {
        let status = ask(&mut client, request(vec![user("a")])).await.unwrap_err();
        assert_eq!(status.code(), Grpc::Unavailable);
        assert_eq!(errors_of(&scene, "p") + undecided(&scene), calls);
    }
    assert!(errors_of(&scene, "p") >= 1);
}
