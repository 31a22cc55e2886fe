//! Kuadrant's service, and rules that apply wherever a descriptor contains their entries.

use tonic::transport::Channel;
use waterclock_server::envoy::{Code, RateLimitDescriptor, RateLimitRequest};
use waterclock_server::kuadrant::RateLimitServiceClient;

use super::scene::{Client, Scene, ask, descriptor, request, seen};

/// As `waterclock import` writes the limits of Kuadrant's operator.
const RULES: &str = r#"
[policies.tokens]
limits = [{ algorithm = "fixed-window", limit = 20, per = "1h" }]
[policies.requests]
limits = [{ algorithm = "fixed-window", limit = 3, per = "1h" }]
[policies.everything]
limits = [{ algorithm = "fixed-window", limit = 100, per = "1h" }]
[[rules]]
domain = "d"
descriptor = [{ key = "tokenlimit.free__01234567", value = "1" }, { key = "auth.identity.userid" }]
match = "contains"
key = ["auth.identity.userid"]
policy = "tokens"
[[rules]]
domain = "d"
descriptor = [{ key = "limit.all__89abcdef", value = "1" }]
match = "contains"
key = []
policy = "requests"
[[rules]]
domain = "d"
descriptor = []
match = "contains"
policy = "everything"
[[rules]]
domain = "d"
descriptor = [{ key = "limit.none__00000000", value = "1" }]
match = "contains"
refuse = true
"#;

type Kuadrant = RateLimitServiceClient<Channel>;

async fn scene() -> (Scene, Client, Kuadrant) {
    let (scene, envoy) = Scene::with_client(RULES).await;
    let kuadrant = RateLimitServiceClient::new(scene.channel().await);
    (scene, envoy, kuadrant)
}

fn tokens_of(user: &str) -> RateLimitDescriptor {
    descriptor(&[("auth.identity.userid", user), ("x", "y"), ("tokenlimit.free__01234567", "1")])
}

async fn check(client: &mut Kuadrant, descriptor: RateLimitDescriptor) -> (Code, Code, u32) {
    let answer = client.check_rate_limit(request(vec![descriptor])).await.unwrap().into_inner();
    assert_eq!(answer.statuses.len(), 1);
    let (code, left) = seen(&answer.statuses[0]);
    (answer.overall_code(), code, left)
}

async fn report(client: &mut Kuadrant, descriptor: RateLimitDescriptor, hits: u32) {
    let request = RateLimitRequest { hits_addend: hits, ..request(vec![descriptor]) };
    let answer = client.report(request).await.unwrap().into_inner();
    assert_eq!((answer.overall_code(), answer.statuses[0].code()), (Code::Ok, Code::Ok));
}

#[tokio::test]
async fn checks_charge_nothing_and_reports_always_add() {
    let (_scene, _envoy, mut client) = scene().await;
    for _ in 0..30 {
        assert_eq!(check(&mut client, tokens_of("a")).await, (Code::Ok, Code::Ok, 20));
    }
    report(&mut client, tokens_of("a"), 15).await;
    assert_eq!(check(&mut client, tokens_of("a")).await, (Code::Ok, Code::Ok, 5));
    // 0 is 1.
    report(&mut client, tokens_of("a"), 0).await;
    assert_eq!(check(&mut client, tokens_of("a")).await, (Code::Ok, Code::Ok, 4));
    // Also beyond the limit.
    report(&mut client, tokens_of("a"), 50).await;
    let over = check(&mut client, tokens_of("a")).await;
    assert_eq!(over, (Code::OverLimit, Code::OverLimit, 0));
    report(&mut client, tokens_of("a"), 1).await;
    assert_eq!(check(&mut client, tokens_of("b")).await, (Code::Ok, Code::Ok, 20));
}

#[tokio::test]
async fn a_check_ignores_how_many_hits_there_are() {
    let (_scene, _envoy, mut client) = scene().await;
    report(&mut client, tokens_of("a"), 19).await;
    let many = RateLimitRequest { hits_addend: 1_000, ..request(vec![tokens_of("a")]) };
    let answer = client.check_rate_limit(many).await.unwrap().into_inner();
    assert_eq!(answer.overall_code(), Code::Ok);
}

/// One descriptor holds all limits: every one of them is asked, and the one that binds is shown.
#[tokio::test]
async fn all_limits_of_a_descriptor_apply() {
    let (_scene, mut envoy, mut client) = scene().await;
    let both = || {
        let mut both = tokens_of("a");
        both.entries.extend(descriptor(&[("limit.all__89abcdef", "1")]).entries);
        both
    };
    // The second descriptor holds labels; no rule applies twice because of it.
    let labels = || descriptor(&[("label", "x"), ("limit.all__89abcdef", "1")]);
    for left in [2, 1, 0] {
        let answer = ask(&mut envoy, request(vec![both(), labels()])).await.unwrap();
        assert_eq!(seen(&answer.statuses[0]), (Code::Ok, left));
        assert_eq!(answer.statuses.len(), 2);
    }
    let answer = ask(&mut envoy, request(vec![both(), labels()])).await.unwrap();
    assert_eq!(answer.overall_code(), Code::OverLimit);
    assert_eq!(seen(&answer.statuses[0]), (Code::OverLimit, 0));
    // The refused request was charged nowhere.
    assert_eq!(check(&mut client, tokens_of("a")).await, (Code::Ok, Code::Ok, 17));
    assert_eq!(check(&mut client, both()).await.0, Code::OverLimit);
    assert_eq!(check(&mut client, descriptor(&[("x", "y")])).await, (Code::Ok, Code::Ok, 97));
}

#[tokio::test]
async fn a_limit_of_nothing_refuses_checks_and_takes_reports() {
    let (_scene, mut envoy, mut client) = scene().await;
    let none = || descriptor(&[("limit.none__00000000", "1")]);
    assert_eq!(check(&mut client, none()).await.0, Code::OverLimit);
    let answer = ask(&mut envoy, request(vec![none()])).await.unwrap();
    assert_eq!(answer.overall_code(), Code::OverLimit);
    report(&mut client, none(), 1).await;
}

/// Many entries and many descriptors are decided like others, or refused whole.
#[tokio::test]
async fn many_entries() {
    let (_scene, mut envoy, mut client) = scene().await;
    let wide = |count: usize| {
        let mut wide = descriptor(&vec![("auth.identity.userid", "z"); count - 2]);
        wide.entries.extend(descriptor(&[("limit.none__00000000", "0")]).entries);
        wide.entries.extend(descriptor(&[("limit.all__89abcdef", "1")]).entries);
        wide
    };
    let answer = ask(&mut envoy, request(vec![wide(16_384)])).await.unwrap();
    assert_eq!(seen(&answer.statuses[0]), (Code::Ok, 2));
    let answer = client.check_rate_limit(request(vec![wide(16_385)])).await.unwrap().into_inner();
    assert_eq!(answer.overall_code(), Code::OverLimit);
    let many = request((0..1_024).map(|_| wide(16)).collect());
    let answer = ask(&mut envoy, many).await.unwrap();
    let limits = answer.statuses.iter().filter(|status| status.current_limit.is_some());
    assert_eq!((answer.overall_code(), limits.count()), (Code::Ok, 1), "each rule once");
}
