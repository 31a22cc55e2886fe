//! Responses to refused requests.

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use waterclock::{Answer, Charge, Failure, Policy, Store, StoreError, Verb};
use waterclock_http::{HeaderStyle, Key, RateLimitLayer, Reason, Rule};

use super::stage::{app, memory, of, policy, send};

/// A store that never answers.
struct Gone;

impl Store for Gone {
    async fn set_policy(&self, _: Policy) -> Result<(), StoreError> {
        Ok(())
    }

    async fn apply(&self, _: Verb, _: &[Charge<'_>]) -> Result<Vec<Answer>, StoreError> {
        Err(StoreError::failed(Failure::Timeout, "redis://secret-host:6379 did not answer"))
    }
}

#[tokio::test]
async fn a_problem_by_default() {
    let rule = Rule::new(policy("api", 1));
    let layer = RateLimitLayer::builder(memory().0).rule(rule).key(Key::header("x-user"));
    let app = app(&layer.build().await.unwrap());
    send(&app, of("alice")).await;
    let refused = send(&app, of("alice")).await;
    assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(refused.header("content-type"), Some("application/problem+json"));
    assert_eq!(refused.header("retry-after"), Some("10"));
    assert_eq!(
        refused.body,
        r#"{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"The request exceeds a limit","status":429,"detail":"too many requests; retry in 10 s","violated-policies":["api.burst"]}"#
    );
}

/// A policy without header fields discloses nothing.
#[tokio::test]
async fn nothing_is_disclosed() {
    let rule = Rule::new(policy("api", 1)).headers(HeaderStyle::None);
    let layer = RateLimitLayer::builder(memory().0).rule(rule).key(Key::header("x-user"));
    let app = app(&layer.build().await.unwrap());
    send(&app, of("alice")).await;
    let refused = send(&app, of("alice")).await;
    assert_eq!(refused.header("retry-after"), None);
    assert!(!refused.body.contains("api") && !refused.body.contains("10 s"), "{}", refused.body);
    let grpc = send(&app, of("alice").header("content-type", "application/grpc")).await;
    assert_eq!(grpc.header("grpc-status"), Some("8"));
    assert_eq!(grpc.header("grpc-status-details-bin"), None);
}

#[tokio::test]
async fn custom_responses() {
    let layer = RateLimitLayer::builder(memory().0)
        .rule(Rule::new(policy("api", 1)).headers(HeaderStyle::Draft03))
        .key(Key::header("x-user"))
        .respond(|refusal| {
            let Reason::Limited(checked) = refusal.reason() else { return refusal.response() };
            let wait = checked.retry_after().unwrap_or_default();
            let words = format!("{} must wait {wait:?}", refusal.request().uri.path());
            let mut response = Response::new(Bytes::from(words));
            *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
            response
        });
    let app = app(&layer.build().await.unwrap());
    send(&app, of("alice")).await;
    let refused = send(&app, of("alice")).await;
    assert_eq!((refused.status.as_u16(), &*refused.body), (503, "/ must wait 10s"));
    assert_eq!(refused.header("x-ratelimit-remaining"), Some("0"));
    assert_eq!(refused.header("retry-after"), Some("10"));
    assert_eq!(send(&app, Request::get("/")).await.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn a_store_without_an_answer() {
    let layer = RateLimitLayer::builder(Gone).rule(policy("api", 1)).key(Key::header("x-user"));
    let app = app(&layer.build().await.unwrap());
    let reply = send(&app, of("alice")).await;
    assert_eq!(reply.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(reply.header("retry-after"), Some("1"));
    assert!(reply.body.contains("(timeout)") && !reply.body.contains("secret"), "{}", reply.body);
    let grpc = send(&app, of("alice").header("content-type", "application/grpc")).await;
    assert_eq!((grpc.status.as_u16(), grpc.header("grpc-status")), (200, Some("14")));
}
