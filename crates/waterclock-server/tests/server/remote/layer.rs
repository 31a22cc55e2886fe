//! The tower layer over a server.

use std::convert::Infallible;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use tower::{Layer, ServiceExt};
use waterclock_http::{HeaderStyle, Key, RateLimitLayer, Rule};

use super::{patient, url_of};
use crate::at_work::AtWork;

const POLICY: &str = "[policies.api]\nlimits = [{ name = \"burst\", algorithm = \"gcra\", limit = 2, per = \"2h\" }]\n";

#[tokio::test]
async fn requests_are_refused_by_the_server_s_counts() {
    let server = AtWork::serving(POLICY).await;
    let store = patient(&url_of(&server)).connect().await.unwrap();
    let api = store.policy("api").unwrap();
    let layer = RateLimitLayer::builder(store)
        .rule(Rule::new(api).headers(HeaderStyle::Ietf))
        .key(Key::header("x-tenant"))
        .build()
        .await
        .unwrap();
    let service = layer.layer(tower::service_fn(|_: Request<Full<Bytes>>| async {
        Ok::<_, Infallible>(Response::new(Full::<Bytes>::from("served")))
    }));
    let send = async |tenant: &str| {
        let request = Request::get("/").header("x-tenant", tenant);
        service.clone().oneshot(request.body(Full::default()).unwrap()).await.unwrap()
    };
    let first = send("a").await;
    assert_eq!(first.status(), StatusCode::OK);
    assert_eq!(first.headers()["ratelimit-policy"], r#""api.burst";q=2;w=7200"#);
    assert_eq!(first.headers()["ratelimit"], r#""api.burst";r=1;t=3600"#);
    // Another client of the same server takes the second.
    let taken = server.http().await.post("/v1/check", r#"{"policy":"api","key":"a"}"#).await;
    assert_eq!(taken.status, 200);
    let refused = send("a").await;
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert!(refused.headers()["ratelimit"].to_str().unwrap().starts_with(r#""api.burst";r=0;t="#));
    let wait: u64 = refused.headers()["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((3_500..=3_600).contains(&wait), "{wait}");
    assert_eq!(send("b").await.status(), StatusCode::OK);
}
