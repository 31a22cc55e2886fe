//! What shares a budget.

use http::{Request, StatusCode};
use waterclock_http::{Key, RateLimitLayer, Rule};

use super::stage::{App, app, memory, policy, send};

/// A layer that lets each key through once.
async fn once(key: Key) -> App {
    let rule = Rule::new(policy("api", 1));
    let layer = RateLimitLayer::builder(memory().0).rule(rule).key(key);
    app(&layer.build().await.expect("a valid layer"))
}

async fn status(app: &App, headers: &[(&str, &str)]) -> u16 {
    let request =
        headers.iter().fold(Request::get("/"), |to, (name, value)| to.header(*name, *value));
    send(app, request).await.status.as_u16()
}

#[tokio::test]
async fn everyone_shares_one() {
    let app = once(Key::everyone()).await;
    assert_eq!(status(&app, &[]).await, 200);
    assert_eq!(status(&app, &[("x-user", "bob")]).await, 429);
}

#[tokio::test]
async fn a_header() {
    let app = once(Key::header("x-user")).await;
    assert_eq!(status(&app, &[("x-user", "alice")]).await, 200);
    assert_eq!(status(&app, &[("x-user", "alice")]).await, 429);
    assert_eq!(status(&app, &[("x-user", "bob")]).await, 200);
    let reply = send(&app, Request::get("/")).await;
    assert_eq!(reply.status, StatusCode::BAD_REQUEST);
    assert!(
        reply.body.contains("limited by the header `x-user`, which it does not have"),
        "{}",
        reply.body
    );
}

#[tokio::test]
async fn the_subject_of_a_token() {
    // Two tokens of one user, and what cannot be verified has no subject.
    let subject = |token: &str| {
        token.strip_prefix("good-").and_then(|rest| rest.split('.').next().map(str::to_owned))
    };
    let app = once(Key::bearer(subject)).await;
    assert_eq!(status(&app, &[("authorization", "Bearer good-alice.1")]).await, 200);
    assert_eq!(status(&app, &[("authorization", "bEARER  good-alice.2")]).await, 429);
    for wrong in ["Bearer forged-bob.1", "Bearer ", "Bearer", "Basic good-bob.1", "good-bob.1", ""]
    {
        assert_eq!(status(&app, &[("authorization", wrong)]).await, 400, "{wrong}");
    }
    assert_eq!(status(&app, &[]).await, 400);
}

#[tokio::test]
async fn a_parameter_of_the_path() {
    let rule = Rule::new(policy("api", 1))
        .path("/users/{id}")
        .path("/v2/users/{id}/{*rest}")
        .key(Key::path("id"));
    let app = app(&RateLimitLayer::builder(memory().0).rule(rule).build().await.unwrap());
    let get = async |path: &str| send(&app, Request::get(path)).await.status.as_u16();
    assert_eq!(get("/users/alice").await, 200);
    assert_eq!(get("/users/alice").await, 429);
    // One user, however the path spells the name.
    assert_eq!(get("/users/%61lice").await, 429);
    assert_eq!(get("/users/alice?x=1").await, 429);
    assert_eq!(get("/v2/users/alice/a/b").await, 429);
    assert_eq!(get("/users/bob").await, 200);
    // Not of this rule.
    assert_eq!(get("/users/alice/posts").await, 200);
}

#[tokio::test]
async fn an_extension() {
    #[derive(Clone)]
    struct User(&'static str);
    let app = once(Key::extension(|user: &User| user.0)).await;
    assert_eq!(send(&app, Request::get("/").extension(User("alice"))).await.status, 200);
    assert_eq!(send(&app, Request::get("/").extension(User("alice"))).await.status, 429);
    let missing = send(&app, Request::get("/")).await;
    assert_eq!(missing.status, 400);
    assert!(missing.body.contains("limited by a key of its own, which"), "{}", missing.body);
}

#[tokio::test]
async fn several_together_cannot_be_typed_as_one() {
    let app = once(Key::all([Key::header("a"), Key::header("b")])).await;
    assert_eq!(status(&app, &[("a", "1"), ("b", "2")]).await, 200);
    assert_eq!(status(&app, &[("a", "1"), ("b", "2")]).await, 429);
    assert_eq!(status(&app, &[("a", "1,1:2"), ("b", "")]).await, 200);
    assert_eq!(status(&app, &[("a", ""), ("b", "1:2")]).await, 200);
    assert_eq!(status(&app, &[("a", "1")]).await, 400);
}

#[tokio::test]
async fn one_or_the_other_and_never_the_same() {
    let app = once(Key::header("a").or(Key::header("b")).or(Key::everyone())).await;
    assert_eq!(status(&app, &[("a", "x")]).await, 200);
    assert_eq!(status(&app, &[("a", "x"), ("b", "y")]).await, 429);
    assert_eq!(status(&app, &[("b", "x")]).await, 200);
    assert_eq!(status(&app, &[]).await, 200);
    assert_eq!(status(&app, &[("a", "")]).await, 200);
    assert_eq!(status(&app, &[]).await, 429);
    // What marks them cannot be typed, either.
    for forged in ["+x", "-x", "-", "++x"] {
        assert_eq!(status(&app, &[("a", forged)]).await, 200, "{forged}");
    }
}

#[tokio::test]
async fn a_key_that_has_to_be_looked_up() {
    let look_up = |parts: &http::request::Parts| {
        let session = parts.headers.get("cookie").cloned();
        async move {
            tokio::task::yield_now().await;
            session.filter(|session| session != "stale").map(|_| "alice")
        }
    };
    let tenant =
        Key::all([Key::header("x-tenant"), Key::from_async_fn(look_up), Key::header("x-last")]);
    let app = once(tenant.or(Key::from_fn(|parts| Some(parts.method.as_str().to_owned())))).await;
    let with = |cookie| [("x-tenant", "t"), ("cookie", cookie), ("x-last", "z")];
    assert_eq!(status(&app, &with("1")).await, 200);
    assert_eq!(status(&app, &with("2")).await, 429);
    assert_eq!(status(&app, &with("stale")).await, 200);
    assert_eq!(status(&app, &[]).await, 429);
}

#[tokio::test]
async fn a_key_has_a_longest() {
    let app = once(Key::header("x-user")).await;
    assert_eq!(status(&app, &[("x-user", &"a".repeat(1_024))]).await, 200);
    let reply = send(&app, Request::get("/").header("x-user", "a".repeat(1_025))).await;
    assert_eq!(reply.status, StatusCode::BAD_REQUEST);
    assert!(reply.body.contains("at most 1024 bytes long; found 1025"), "{}", reply.body);
}
