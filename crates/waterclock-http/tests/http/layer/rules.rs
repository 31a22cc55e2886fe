//! Which requests are charged to which policies.

use std::borrow::Cow;
use std::time::Duration;

use http::request::Parts;
use http::{Method, Request, StatusCode};
use waterclock::{Concurrency, Limit, Policy, Rollout, Scope, Store};
use waterclock_http::{ClientIp, HeaderStyle, Jitter, Key, RateLimitLayer, Reason, Rule};

use super::stage::{App, Remote, app, memory, of, policy, send};

async fn layered(rules: Vec<Rule>) -> App {
    let builder = RateLimitLayer::builder(memory().0).key(Key::header("x-user"));
    let builder = rules.into_iter().fold(builder, |builder, rule| builder.rule(rule));
    app(&builder.build().await.expect("a valid layer"))
}

fn ask(method: Method, path: &str) -> http::request::Builder {
    Request::builder().method(method).uri(path).header("x-user", "alice")
}

#[tokio::test]
async fn by_method_path_and_anything_else() {
    let login =
        Rule::new(policy("login", 1)).method(Method::POST).method(Method::PUT).path("/login");
    let bots = Rule::new(policy("bots", 1)).when(|parts| {
        parts.headers.get("user-agent").is_some_and(|agent| agent.as_bytes().starts_with(b"bot"))
    });
    let report = Rule::new(policy("report", 1)).method(Method::GET).path("/report");
    let app = layered(vec![login, bots, report]).await;
    let status = async |request| send(&app, request).await.status.as_u16();
    assert_eq!(status(ask(Method::GET, "/login")).await, 200);
    assert_eq!(status(ask(Method::POST, "/login?again")).await, 200);
    assert_eq!(status(ask(Method::GET, "/login")).await, 200);
    assert_eq!(status(ask(Method::PUT, "/login")).await, 429);
    assert_eq!(status(ask(Method::POST, "/logout")).await, 200);
    // The handler of GET answers HEAD as well.
    assert_eq!(status(ask(Method::GET, "/report")).await, 200);
    assert_eq!(status(ask(Method::HEAD, "/report")).await, 429);
    assert_eq!(status(ask(Method::GET, "/").header("user-agent", "bot/1")).await, 200);
    assert_eq!(status(ask(Method::GET, "/").header("user-agent", "bot/1")).await, 429);
    // A request that no rule is about needs no key.
    assert_eq!(status(Request::get("/")).await, 200);
}

/// Paths with and without parameters, in one rule.
#[tokio::test]
async fn by_any_of_its_paths() {
    let rule = Rule::new(policy("users", 1)).path("/me").path("/users/{id}").path("/{{plain}}");
    let app =
        layered(vec![rule.key(Key::from_fn(|parts| Some(parts.uri.path().to_owned())))]).await;
    let status = async |path| send(&app, ask(Method::GET, path)).await.status.as_u16();
    for path in ["/me", "/users/7", "/{plain}"] {
        assert_eq!((status(path).await, status(path).await), (200, 429), "{path}");
    }
    for path in ["/", "/me/", "/users/{id}/x", "/users", "/{{plain}}", "/ME"] {
        assert_eq!((status(path).await, status(path).await), (200, 200), "{path}");
    }
}

/// A wait of nearly a thousand seconds, or up to half as long again.
#[tokio::test]
async fn a_wait_is_spread() {
    let limit = waterclock::Gcra::new(1, Duration::from_secs(1_000)).expect("valid");
    let policy = Policy::new("slow", [limit]).expect("valid");
    let app = layered(vec![Rule::new(policy).jitter(Jitter::percent(50))]).await;
    assert_eq!(send(&app, ask(Method::GET, "/")).await.status, StatusCode::OK);
    let mut waits = std::collections::BTreeSet::new();
    for _ in 0..50 {
        let refused = send(&app, ask(Method::GET, "/")).await;
        let wait: u64 = refused.headers["retry-after"].to_str().unwrap().parse().unwrap();
        assert!((900..=1_500).contains(&wait), "{wait}");
        waits.insert(wait);
    }
    assert!(waits.len() > 10, "{waits:?}");
}

#[tokio::test]
async fn all_rules_that_match_are_charged_or_none() {
    let narrow = Rule::new(policy("narrow", 1)).path("/upload").headers(HeaderStyle::Ietf);
    let wide = Rule::new(policy("api", 3)).headers(HeaderStyle::Ietf);
    let app = layered(vec![wide, narrow]).await;
    assert_eq!(send(&app, ask(Method::GET, "/upload")).await.body, "Some(2)");
    for _ in 0..5 {
        let refused = send(&app, ask(Method::GET, "/upload")).await;
        assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS);
        assert!(
            refused.body.contains(r#""violated-policies":["narrow.burst"]"#),
            "{}",
            refused.body
        );
        let fields = refused.header("ratelimit").unwrap();
        assert!(
            fields.starts_with(r#""api.burst";r=2;t="#) && fields.contains(r#""narrow.burst";r=0"#)
        );
    }
    // The refusals cost the wide policy nothing.
    assert_eq!(send(&app, ask(Method::GET, "/")).await.body, "Some(1)");
}

#[tokio::test]
async fn a_cost_by_what_the_request_says() {
    let cost = |parts: &http::request::Parts| {
        let length =
            parts.headers.get("content-length").and_then(|value| value.to_str().ok()?.parse().ok());
        length.unwrap_or(0u64).div_ceil(1_000)
    };
    let app = layered(vec![Rule::new(policy("api", 10)).cost_of(cost)]).await;
    assert_eq!(send(&app, of("alice").header("content-length", "3500")).await.body, "Some(6)");
    assert_eq!(send(&app, of("alice")).await.body, "Some(6)");
    let never = send(&app, of("alice").header("content-length", "11000")).await;
    assert_eq!((never.status.as_u16(), never.header("retry-after")), (429, None));
    assert_eq!(send(&app, of("bob").header("content-length", "10000")).await.body, "Some(0)");
}

async fn tiers<S: Store + 'static>(store: S) {
    let rule = Rule::new(policy("api", 2))
        .tier("pro", policy("api-pro", 5))
        .tier("staff", policy("api", 2).scaled("api-staff", "0".parse().unwrap()).unwrap())
        .tier_of(|parts| parts.headers.get("x-role")?.to_str().ok().map(Cow::Borrowed))
        .headers(HeaderStyle::Ietf);
    let layer = RateLimitLayer::builder(store).rule(rule).key(Key::header("x-user"));
    let app = app(&layer.build().await.unwrap());
    assert_eq!(send(&app, of("alice")).await.body, "Some(1)");
    // What was spent stays spent, and clients know the policy by one name.
    let promoted = send(&app, of("alice").header("x-role", "pro")).await;
    assert_eq!(promoted.body, "Some(3)");
    assert_eq!(promoted.header("ratelimit-policy"), Some(r#""api.burst";q=5;w=50"#));
    // An unknown tier is an error.
    let unknown = send(&app, of("alice").header("x-role", "guest")).await;
    assert_eq!(unknown.status, 400);
    assert!(unknown.body.contains("unknown tier"), "{}", unknown.body);
    assert_eq!(send(&app, of("alice").header("x-role", "pro")).await.body, "Some(2)");
    // A tier without limits spends nothing and discloses nothing.
    for _ in 0..9 {
        let free = send(&app, of("alice").header("x-role", "staff")).await;
        assert_eq!(
            (free.status.as_u16(), &*free.body, free.header("ratelimit")),
            (200, "None", None)
        );
    }
    assert_eq!(send(&app, of("alice").header("x-role", "pro")).await.body, "Some(1)");
}

#[tokio::test]
async fn an_unknown_tier_gets_the_default_tier() {
    let rule = |default: &str| {
        Rule::new(policy("api", 2))
            .tier("pro", policy("api-pro", 5))
            .default_tier(default)
            .tier_of(|parts| parts.headers.get("x-role")?.to_str().ok().map(Cow::Borrowed))
    };
    let app = layered(vec![rule("pro")]).await;
    assert_eq!(send(&app, of("alice").header("x-role", "guest")).await.body, "Some(4)");
    assert_eq!(send(&app, of("bob")).await.body, "Some(1)", "without a tier");
    let layer = RateLimitLayer::builder(memory().0).rule(rule("gold")).key(Key::header("x-user"));
    let error = layer.build().await.err().unwrap().to_string();
    assert!(error.contains("`gold`, which is none of its tiers"), "{error}");
}

/// Applications can answer by themselves.
#[tokio::test]
async fn an_unknown_tier_is_a_reason() {
    let rule = Rule::new(policy("api", 2))
        .tier("pro", policy("api-pro", 5))
        .tier_of(|_| Some(Cow::Borrowed("guest")));
    let layer = RateLimitLayer::builder(memory().0).rule(rule).key(Key::header("x-user"));
    let layer = layer.respond(|refusal| match refusal.reason() {
        Reason::Tier(error) => http::Response::new(error.to_string().into()),
        _ => refusal.response(),
    });
    let app = app(&layer.build().await.unwrap());
    let sentence = "policy `api` has no tier \"guest\"; it has `pro`";
    assert_eq!(send(&app, of("alice")).await.body, sentence);
}

#[tokio::test]
async fn tiers_share_their_keys() {
    tiers(memory().0).await;
    tiers(Remote(memory().0)).await;
}

async fn factors<S: Store + 'static>(store: S) {
    let rule = Rule::new(policy("api", 2))
        .tier("pro", policy("api-pro", 5))
        .tier_of(|parts| parts.headers.get("x-role")?.to_str().ok().map(Cow::Borrowed))
        .factor_of(|parts| parts.headers.get("x-factor")?.to_str().ok()?.parse().ok())
        .headers(HeaderStyle::Ietf);
    let layer = RateLimitLayer::builder(store).rule(rule).key(Key::header("x-user"));
    let app = app(&layer.build().await.unwrap());
    let scaled = send(&app, of("alice").header("x-factor", "0.25")).await;
    assert_eq!(scaled.body, "Some(7)");
    assert!(scaled.header("ratelimit-policy").unwrap().contains("q=8"));
    // What is spent by one factor is spent by all.
    assert_eq!(send(&app, of("alice")).await.body, "Some(0)");
    assert_eq!(send(&app, of("alice").header("x-factor", "1")).await.status, 429);
    assert_eq!(send(&app, of("alice").header("x-factor", "0")).await.body, "None");
    // A tier is scaled further.
    let both = of("bob").header("x-factor", "0.5").header("x-role", "pro");
    assert_eq!(send(&app, both).await.body, "Some(9)");
    // One that the limits cannot be scaled by fails the check.
    let far = of("bob").header("x-factor", "0.000000000000000001");
    assert_eq!(send(&app, far).await.status, 503);
}

#[tokio::test]
async fn factors_share_their_keys() {
    factors(memory().0).await;
    factors(Remote(memory().0)).await;
}

#[tokio::test]
async fn a_share_of_the_keys_is_limited_and_the_others_are_not() {
    let half = Rollout::new(5_000).unwrap();
    let rule = Rule::new(policy("api", 1)).rollout(half).headers(HeaderStyle::Ietf);
    let app = layered(vec![rule, Rule::new(policy("other", 1_000)).key(Key::everyone())]).await;
    let mut limited = 0;
    for n in 0..100 {
        let user = format!("user-{n}");
        assert_eq!(send(&app, of(&user)).await.body, "Some(0)");
        let second = send(&app, of(&user)).await;
        let is_enrolled = half.enrols("api", user.as_bytes());
        assert_eq!(second.status.as_u16(), if is_enrolled { 429 } else { 200 }, "{user}");
        assert_eq!(second.header("ratelimit").is_some(), is_enrolled, "{user}");
        limited += u32::from(is_enrolled);
    }
    assert!((30..=70).contains(&limited), "{limited}");
}

/// A refusal by one rule does not keep a rule in shadow from charging, as with a shadow policy.
#[tokio::test]
async fn rules_in_shadow_are_charged_on_their_own() {
    let watched = Rule::new(policy("api", 3)).rollout(Rollout::NOBODY);
    let narrow = Rule::new(policy("narrow", 1)).path("/upload");
    let app = layered(vec![watched, narrow]).await;
    assert_eq!(send(&app, ask(Method::GET, "/upload")).await.body, "Some(2)");
    assert_eq!(send(&app, ask(Method::GET, "/upload")).await.status, 429);
    for left in ["Some(0)", "Some(0)"] {
        assert_eq!(send(&app, ask(Method::GET, "/")).await.body, left);
    }
}

/// A policy on trial does not refuse requests that lack its key.
#[tokio::test]
async fn a_rule_on_trial_needs_no_key() {
    let shadow = Rule::new(policy("api", 1).with_shadow(true));
    let not_enrolled = Rule::new(policy("other", 1)).rollout(Rollout::NOBODY);
    let app = layered(vec![shadow, not_enrolled]).await;
    assert_eq!(send(&app, Request::get("/")).await.status, StatusCode::OK);
}

/// A rule made from a scope knows its lists. A blocked key is charged nowhere, an exempt one by other rules only.
#[tokio::test]
async fn blocked_and_exempt_keys_of_a_scope() {
    let scope = Scope::new(policy("api", 1)).with_block(["mallory"]).with_exempt(["staff"]);
    let all = Rule::new(policy("all", 4)).key(Key::everyone());
    let app = layered(vec![all, Rule::new(scope)]).await;
    for _ in 0..5 {
        let blocked = send(&app, of("mallory")).await;
        assert_eq!((blocked.status.as_u16(), blocked.header("retry-after")), (429, None));
    }
    for _ in 0..3 {
        assert_eq!(send(&app, of("staff")).await.status, StatusCode::OK);
    }
    assert_eq!(send(&app, of("alice")).await.body, "Some(0)");
    assert_eq!(send(&app, of("staff")).await.status, StatusCode::TOO_MANY_REQUESTS);
}

/// The limits of a single key need not be those of the policy, and clients see them under their own names.
#[tokio::test]
async fn a_key_has_other_limits() {
    let limit = |units: u64, name: &str| Limit::per_minute(units).with_name(name);
    let both = Policy::new("api", [limit(5, "short"), limit(9, "long")]).unwrap();
    let own = Policy::new("api@alice", [limit(2, "own")]).unwrap();
    let rule = Rule::new(Scope::new(both).with_override("alice", own)).headers(HeaderStyle::Ietf);
    let app = layered(vec![rule]).await;
    for left in 0..2 {
        let reply = send(&app, of("alice")).await;
        assert_eq!(reply.body, format!("Some({})", 1 - left));
        assert!(reply.header("ratelimit-policy").unwrap().starts_with("\"api.own\";q=2"));
    }
    let refused = send(&app, of("alice")).await;
    assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS);
    assert!(refused.body.contains(r#""violated-policies":["api.own"]"#), "{}", refused.body);
    assert!(refused.header("ratelimit").unwrap().starts_with("\"api.own\";r=0"));
    let other = send(&app, of("bob")).await;
    assert_eq!(other.body, "Some(4)");
    let names = other.header("ratelimit-policy").unwrap();
    assert!(names.contains("\"api.short\"") && names.contains("\"api.long\""), "{names}");
}

/// Lists name single addresses, although the addresses of a network share a key, alone or as a part of another.
#[tokio::test]
async fn lists_know_the_address_of_a_client() {
    let user = || Key::header("x-user");
    let keys = [
        Key::from(ClientIp::default()),
        Key::all([user(), ClientIp::default().into()]),
        Key::header("x-other").or(ClientIp::default()),
    ];
    for key in keys {
        let lists = ["2001:db8::bad", "2001:db8:1::", "2001:db8:2::/48", "192.0.2.0/24"];
        let scope = Scope::new(policy("api", 9)).with_block(lists).with_exempt(["203.0.113.7"]);
        let layer = RateLimitLayer::builder(memory().0).policy(scope).key(key.clone());
        let peer = |parts: &Parts| parts.headers["x-peer"].to_str().unwrap().parse().unwrap();
        let app = app(&layer.peer(peer).build().await.unwrap());
        let from = async |peer: &str| send(&app, of("alice").header("x-peer", peer)).await;
        for blocked in ["2001:db8::bad", "2001:db8:1::", "2001:db8:2:3::4", "::ffff:192.0.2.9"] {
            assert_eq!(from(blocked).await.status.as_u16(), 429, "{key:?} {blocked}");
        }
        for admitted in ["2001:db8::1", "2001:db8:1::1", "2001:db8:3::", "::ffff:198.51.100.1"] {
            assert_eq!(from(admitted).await.body, "Some(8)", "{key:?} {admitted}");
        }
        for _ in 0..10 {
            assert_eq!(from("::ffff:203.0.113.7").await.status.as_u16(), 200, "{key:?}");
        }
    }
}

/// Nor is it charged in shadow.
#[tokio::test]
async fn a_blocked_key_charges_no_rule_in_shadow() {
    let watched = Rule::new(policy("api", 3)).rollout(Rollout::NOBODY).key(Key::everyone());
    let scope = Scope::new(policy("listed", 9)).with_block(["mallory"]);
    let app = layered(vec![watched, Rule::new(scope)]).await;
    for _ in 0..5 {
        assert_eq!(send(&app, of("mallory")).await.status, StatusCode::TOO_MANY_REQUESTS);
    }
    assert_eq!(send(&app, of("alice")).await.body, "Some(2)");
}

/// A blocked key takes no place of a concurrency limit, either.
#[tokio::test]
async fn a_blocked_key_reserves_nothing() {
    let slots = Concurrency::new(1, Duration::from_secs(60)).unwrap();
    let slots = Rule::new(Policy::new("slots", [slots]).unwrap()).key(Key::everyone());
    let scope = Scope::new(policy("api", 9)).with_block(["mallory"]);
    let app = layered(vec![slots, Rule::new(scope)]).await;
    for _ in 0..3 {
        assert_eq!(send(&app, of("mallory")).await.status, StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(send(&app, of("alice")).await.status, StatusCode::OK);
    }
}
