//! Overrides and factors over a server.

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use tower::{Layer, ServiceExt};
use waterclock::{
    Charge, Failure, Hold, KeyOverride, Limit, OnExpiry, Override, Store, StoreError, Verb,
};
use waterclock_http::{HeaderStyle, Key, RateLimitLayer, Rule};

use super::{check, patient, url_of};
use crate::at_work::{AtWork, auth};

fn policies() -> String {
    let auth = auth(&[("root", "admin"), ("plain", "read")]);
    let limit = "{ name = \"burst\", algorithm = \"gcra\", limit = 4, per = \"2h\" }";
    format!("{auth}[policies.api]\ntiers = {{ pro = {{ factor = 0.5 }} }}\nlimits = [{limit}]\n")
}

#[tokio::test]
async fn overrides_cross_the_network() {
    let server = AtWork::serving(&policies()).await;
    let store = patient(&url_of(&server)).token("root").connect().await.unwrap();
    let limits = [Limit::per_hour(9).with_name("burst"), Limit::per_day(99).into()];
    let hour = Duration::from_secs(3_600);
    for rule in [
        Override::limits(limits).unwrap(),
        Override::Factor("0.123456789012345678".parse().unwrap()),
        Override::Tier("pro".into()),
        Override::Block,
        Override::Exempt,
    ] {
        for key in [&b"alice/..?"[..], b"\xff\x00", b"bytes:ff"] {
            let new = KeyOverride::new(key, rule.clone());
            store.set_override("api", &new).await.unwrap();
            assert_eq!(store.override_of("api", key).await.unwrap(), Some(new));
        }
    }
    let brief = KeyOverride::new("alice/..?", Override::Block).expires_in(Some(hour));
    store.set_override("api", &brief).await.unwrap();
    let left = store.override_of("api", b"alice/..?").await.unwrap().unwrap().expires_in;
    assert!(left.is_some_and(|left| left <= hour), "{left:?}");
    assert!(!check(&store, "api", b"alice/..?", 1).await.unwrap().decision.is_allowed());
    assert!(check(&store, "api", b"\xff\x00", 1_000).await.unwrap().decision.is_allowed());

    let (mut keys, mut after) = (Vec::new(), None);
    for _ in 0..9 {
        let page = store.overrides("api", after.as_deref(), 2).await.unwrap();
        keys.extend(page.overrides.into_iter().map(|kept| kept.key));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    keys.sort();
    assert_eq!(keys, [&b"alice/..?"[..], b"bytes:ff", b"\xff\x00"]);
    assert!(store.clear_override("api", b"\xff\x00").await.unwrap());
    assert!(!store.clear_override("api", b"\xff\x00").await.unwrap());
    assert_eq!(store.override_of("api", b"\xff\x00").await.unwrap(), None);

    let gold = KeyOverride::new("k", Override::Tier("gold".into()));
    let error = store.set_override("api", &gold).await.unwrap_err();
    assert!(
        matches!(&error, StoreError::Unfit(_)) && error.to_string().contains("gold"),
        "{error}"
    );
    let client = patient(&url_of(&server)).token("plain").connect().await.unwrap();
    assert!(client.override_of("api", b"bytes:ff").await.unwrap().is_some());
    let error = client.set_override("api", &brief).await.unwrap_err();
    assert_eq!(error.failure(), Some(Failure::Auth), "{error}");
}

#[tokio::test]
async fn factors_cross_the_network() {
    let server = AtWork::serving(&policies()).await;
    let store = patient(&url_of(&server)).token("root").connect().await.unwrap();
    let charge =
        |cost, factor: &str| Charge::new("api", b"k", cost).with_factor(factor.parse().ok());
    let answers = store.apply(Verb::Check, &[charge(6, "0.5")]).await.unwrap();
    assert_eq!((answers[0].decision.limit(), answers[0].decision.remaining()), (Some(8), Some(2)));
    let applied = answers[0].applied.as_ref().unwrap();
    assert_eq!(applied.policy.limits()[0].capacity(), Some(8), "the numbers of header fields");
    let hold =
        Hold { id: None, ttl: None, charges: &[charge(2, "0.5")], on_expiry: OnExpiry::Keep };
    assert!(store.reserve(&hold).await.unwrap().id.is_some());
    assert!(!store.apply(Verb::Check, &[charge(1, "0.5")]).await.unwrap()[0].decision.is_allowed());
    let free = store.apply(Verb::Check, &[charge(1_000, "0")]).await.unwrap();
    assert!(free[0].decision.is_allowed() && free[0].limits.is_empty());
    let far = store.apply(Verb::Check, &[charge(1, "0.000000000000000001")]).await;
    assert!(matches!(far, Err(StoreError::Unfit(_))), "{far:?}");
}

#[tokio::test]
async fn a_layer_scales_single_requests() {
    let server = AtWork::serving(&policies()).await;
    let store = patient(&url_of(&server)).token("root").connect().await.unwrap();
    let api = store.policy("api").unwrap();
    let rule = Rule::new(api)
        .headers(HeaderStyle::Ietf)
        .factor_of(|parts| parts.headers.get("x-factor")?.to_str().ok()?.parse().ok());
    let layer = RateLimitLayer::builder(store).rule(rule).key(Key::header("x-tenant"));
    let layer = layer.build().await.unwrap();
    let service = layer.layer(tower::service_fn(|_: Request<Full<Bytes>>| async {
        Ok::<_, Infallible>(Response::new(Full::<Bytes>::from("served")))
    }));
    let send = async |factor: &str| {
        let request = Request::get("/").header("x-tenant", "a").header("x-factor", factor);
        service.clone().oneshot(request.body(Full::default()).unwrap()).await.unwrap()
    };
    let first = send("0.5").await;
    let policy = first.headers()["ratelimit-policy"].to_str().unwrap().to_owned();
    assert!(policy.contains("q=8"), "{policy}");
    for _ in 0..3 {
        assert_eq!(send("1").await.status(), StatusCode::OK);
    }
    assert_eq!(send("1").await.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(send("0.5").await.status(), StatusCode::OK);
    assert_eq!(send("0").await.status(), StatusCode::OK);
}
