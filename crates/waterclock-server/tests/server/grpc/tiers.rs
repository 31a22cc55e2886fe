//! Tiers and rollouts, as descriptors meet them.

use waterclock_server::envoy::{Code, Unit};

use super::scene::{Scene, about, descriptor, lone, user};

const RULES: &str = r#"
[policies.p]
tiers = { pro = { factor = 0.5 }, staff = { factor = 0 } }
limits = [{ name = "a", algorithm = "fixed-window", limit = 10, per = "365d", align = "epoch" }]

[policies.untiered]
limits = [{ name = "a", algorithm = "fixed-window", limit = 10, per = "365d", align = "epoch" }]

[[rules]]
domain = "d"
policy = "p"
descriptor = [{ key = "user" }]

[[rules]]
domain = "d"
policy = "p"
descriptor = [{ key = "user" }, { key = "tier" }]

[[rules]]
domain = "d"
policy = "untiered"
descriptor = [{ key = "other" }, { key = "tier" }]
"#;

#[tokio::test]
async fn an_entry_picks_the_tier_and_is_no_part_of_the_key() {
    let (_scene, mut client) = Scene::with_client(RULES).await;
    let of = |tier| descriptor(&[("user", "u"), ("tier", tier)]);
    assert_eq!(lone(&mut client, user("u")).await, (Code::Ok, 9));
    let response = about(&mut client, vec![of("pro")]).await;
    let limit = response.statuses[0].current_limit.clone().unwrap();
    assert_eq!((limit.requests_per_unit, limit.unit()), (20, Unit::Year));
    assert_eq!(limit.name, "p.a");
    assert_eq!(response.statuses[0].limit_remaining, 18);
    // An error would admit the request, so an unknown tier is none.
    assert_eq!(lone(&mut client, of("unheard-of")).await, (Code::Ok, 7));
    for _ in 0..30 {
        let status = about(&mut client, vec![of("staff")]).await.statuses.remove(0);
        assert_eq!((status.code(), status.current_limit), (Code::Ok, None));
    }
    assert_eq!(lone(&mut client, user("u")).await, (Code::Ok, 6));
}

#[tokio::test]
async fn an_unknown_tier_gets_the_default_tier() {
    let rules = RULES.replacen("limits =", "default_tier = \"pro\"\nlimits =", 1);
    let (_scene, mut client) = Scene::with_client(&rules).await;
    let of = |tier| descriptor(&[("user", "u"), ("tier", tier)]);
    assert_eq!(lone(&mut client, of("unheard-of")).await, (Code::Ok, 19));
    assert_eq!(lone(&mut client, user("u")).await, (Code::Ok, 8));
}

/// Hits are requests, whatever else a policy counts.
#[tokio::test]
async fn of_several_units_hits_are_requests() {
    let rules = r#"
[policies.llm]
limits = [
  { name = "requests", algorithm = "fixed-window", limit = 10, per = "365d", align = "epoch" },
  { name = "tokens", algorithm = "fixed-window", limit = 5, per = "365d", align = "epoch", unit = "tokens" },
]
[[rules]]
domain = "d"
policy = "llm"
descriptor = [{ key = "user" }]
"#;
    let (_scene, mut client) = Scene::with_client(rules).await;
    for left in [5, 5, 5, 5, 5, 4, 3, 2, 1, 0] {
        assert_eq!(lone(&mut client, user("u")).await, (Code::Ok, left));
    }
    assert_eq!(lone(&mut client, user("u")).await.0, Code::OverLimit);
}

/// To a policy without tiers the entry is like any other.
#[tokio::test]
async fn without_tiers_it_is_an_entry_of_the_key() {
    let (_scene, mut client) = Scene::with_client(RULES).await;
    for tier in ["one", "two"] {
        let descriptor = descriptor(&[("other", "u"), ("tier", tier)]);
        assert_eq!(lone(&mut client, descriptor).await, (Code::Ok, 9));
    }
}

#[tokio::test]
async fn keys_that_are_not_enrolled_are_told_nothing() {
    let rules = RULES.replace("[policies.p]\n", "[policies.p]\nrollout = \"0%\"\n");
    let (_scene, mut client) = Scene::with_client(&rules).await;
    for _ in 0..12 {
        let response = about(&mut client, vec![user("u")]).await;
        let status = &response.statuses[0];
        assert_eq!((status.code(), status.current_limit.clone()), (Code::Ok, None));
        assert!(response.response_headers_to_add.is_empty());
    }
}
