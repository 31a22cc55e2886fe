//! Matching, counting and answers as those of the reference service.

use waterclock_server::envoy::reference::{
    RateLimitDescriptor, RateLimitPolicy, RateLimitReplace, RateLimitUnit,
};
use waterclock_server::envoy::{Code, RateLimitOverride, RateLimitRequest, Unit};

use super::control_plane::ControlPlane;
use super::{Follower, asked, domain, node, per};
use crate::grpc::scene::ask;

/// A follower with these descriptors in the domain `d`.
async fn following(descriptors: Vec<RateLimitDescriptor>) -> (ControlPlane, Follower) {
    let mut plane = ControlPlane::new().await;
    let follower = Follower::of(&plane, "").await;
    plane.stream().await.push("1", &[domain("d", descriptors)]).await;
    follower.is_at("1").await;
    (plane, follower)
}

const HOUR: RateLimitUnit = RateLimitUnit::Hour;

/// What Envoy Gateway sends for a route with one header rule, and what Envoy asks then.
#[tokio::test]
async fn a_rule_of_envoy_gateway() {
    let route = "httproute/default/backend/rule/0/match/0/www_example_com";
    let leaf = node(("rule-0-match-0", "rule-0-match-0"), per(HOUR, 3), Vec::new());
    let distinct = node(("rule-1-match-0", ""), per(HOUR, 1), Vec::new());
    let (_plane, mut follower) =
        following(vec![node((route, route), None, vec![leaf, distinct])]).await;
    let descriptor = [(route, route), ("rule-0-match-0", "rule-0-match-0")];
    for left in [2, 1, 0] {
        let answer = follower.ask("d", &[&descriptor]).await;
        let status = &answer.statuses[0];
        assert_eq!((answer.overall_code(), status.limit_remaining), (Code::Ok, left));
        let limit = status.current_limit.as_ref().unwrap();
        assert_eq!((limit.requests_per_unit, limit.unit(), &*limit.name), (3, Unit::Hour, ""));
        let reset = status.duration_until_reset.as_ref().unwrap();
        assert!((1..=3_600).contains(&reset.seconds), "{reset:?}");
        assert!(answer.response_headers_to_add.is_empty());
    }
    assert_eq!(follower.ask("d", &[&descriptor]).await.overall_code(), Code::OverLimit);
    // Each value has a budget of its own, the empty one too.
    for value in ["", "alice", "bob"] {
        let descriptor = [(route, route), ("rule-1-match-0", value)];
        let first = follower.ask("d", &[&descriptor]).await;
        let second = follower.ask("d", &[&descriptor]).await;
        assert_eq!(
            (first.overall_code(), second.overall_code()),
            (Code::Ok, Code::OverLimit),
            "{value}"
        );
    }
    let text = follower.server.running.server().metrics_text();
    let labels =
        format!("domain=\"d\",key1=\"{route}_{route}\",key2=\"rule-0-match-0_rule-0-match-0\"");
    for (name, count) in [("total_hits", 4), ("near_limit", 1), ("over_limit", 1)] {
        let line = format!("ratelimit_service_rate_limit_{name}{{{labels}}} {count}\n");
        assert!(text.contains(&line), "{line}{text}");
    }
    assert!(!text.contains("alice"), "values of requests are in no metric");
}

#[tokio::test]
async fn the_first_node_that_fits_decides_for_good() {
    let limit = |n| per(HOUR, n);
    let (_plane, mut follower) = following(vec![
        node(("path", "/a"), limit(1), Vec::new()),
        node(("path", "/a/*"), limit(2), Vec::new()),
        node(("path", "/a/b*"), limit(3), Vec::new()),
        node(("path", "*/end"), limit(4), Vec::new()),
        node(("path", ""), limit(5), vec![node(("user", ""), limit(6), Vec::new())]),
        node(("kind", "x"), None, vec![node(("user", "root"), limit(7), Vec::new())]),
        node(("kind", ""), None, vec![node(("user", ""), limit(8), Vec::new())]),
    ])
    .await;
    for (descriptor, expected) in [
        (&[("path", "/a")][..], Some(1)),
        (&[("path", "/a/c")], Some(2)),
        // Patterns are tried in their order, not the longest first.
        (&[("path", "/a/b")], Some(2)),
        (&[("path", "/the/end")], Some(4)),
        (&[("path", "/other")], Some(5)),
        (&[("path", "/other"), ("user", "u")], Some(6)),
        // The exact node has nothing below it.
        (&[("path", "/a"), ("user", "u")], None),
        (&[("kind", "x"), ("user", "root")], Some(7)),
        // Never back to the node without a value.
        (&[("kind", "x"), ("user", "u")], None),
        (&[("kind", "y"), ("user", "u")], Some(8)),
        // A limit applies where the descriptor ends.
        (&[("kind", "y")], None),
        (&[("user", "u")], None),
    ] {
        let answer = follower.ask("d", &[descriptor]).await;
        let limit = answer.statuses[0].current_limit.as_ref();
        assert_eq!(limit.map(|limit| limit.requests_per_unit), expected, "{descriptor:?}");
        assert_eq!(answer.overall_code(), Code::Ok);
    }
    let answer = follower.ask("elsewhere", &[&[("path", "/a")]]).await;
    assert_eq!(answer.statuses[0].current_limit, None);
}

/// Every descriptor is counted alone, refused or not: a bill cannot be told from a cost.
#[tokio::test]
async fn bills_are_added_whatever_is_left() {
    let (_plane, mut follower) = following(vec![
        node(("bill", ""), per(HOUR, 21), Vec::new()),
        node(("none", ""), per(HOUR, 0), Vec::new()),
        node(
            ("free", ""),
            Some(RateLimitPolicy { unlimited: true, ..Default::default() }),
            Vec::new(),
        ),
    ])
    .await;
    let mut bill = asked(&[("bill", "u")]);
    bill.hits_addend = Some(10);
    let none = asked(&[("none", "u")]);
    let request =
        |descriptors| RateLimitRequest { domain: "d".to_owned(), descriptors, hits_addend: 0 };
    let mut codes = Vec::new();
    for _ in 0..4 {
        // The other descriptor is refused, and changes nothing for this one.
        let answer = ask(&mut follower.client, request(vec![bill.clone(), none.clone()])).await;
        let answer = answer.unwrap();
        assert_eq!(answer.overall_code(), Code::OverLimit);
        let refused = answer.statuses[1].current_limit.as_ref().unwrap();
        assert_eq!((refused.requests_per_unit, refused.unit()), (0, Unit::Hour));
        let reset = answer.statuses[1].duration_until_reset.as_ref().unwrap();
        assert!((1..=3_600).contains(&reset.seconds), "{reset:?}");
        codes.push(answer.statuses[0].code());
    }
    assert_eq!(codes, [Code::Ok, Code::Ok, Code::OverLimit, Code::OverLimit]);
    let answer = follower.ask("d", &[&[("free", "u")]]).await;
    assert_eq!((answer.overall_code(), &answer.statuses[0].current_limit), (Code::Ok, &None));
}

#[tokio::test]
async fn shadow_limits_show_their_numbers() {
    let shadow = |name: &str, n| RateLimitDescriptor {
        shadow_mode: true,
        ..node((name, ""), per(HOUR, n), Vec::new())
    };
    let (_plane, mut follower) = following(vec![shadow("one", 1), shadow("zero", 0)]).await;
    for (name, left) in [("one", 0), ("one", 0), ("one", 0), ("zero", 0)] {
        let answer = follower.ask("d", &[&[(name, "u")]]).await;
        let status = &answer.statuses[0];
        assert_eq!((answer.overall_code(), status.code()), (Code::Ok, Code::Ok), "{name}");
        assert_eq!(status.limit_remaining, left);
        assert!(status.current_limit.is_some(), "{name}");
    }
}

#[tokio::test]
async fn of_limits_in_quota_mode_all_must_be_over() {
    let quota = |name: &str, n| RateLimitDescriptor {
        quota_mode: true,
        ..node((name, ""), per(HOUR, n), Vec::new())
    };
    let (_plane, mut follower) = following(vec![
        quota("small", 1),
        quota("large", 3),
        node(("plain", ""), per(HOUR, 5), Vec::new()),
    ])
    .await;
    let both: &[&[(&str, &str)]] = &[&[("small", "u")], &[("large", "u")]];
    let mut seen = Vec::new();
    for _ in 0..4 {
        let answer = follower.ask("d", both).await;
        seen.push((answer.statuses[0].code(), answer.overall_code()));
    }
    let (ok, over) = (Code::Ok, Code::OverLimit);
    assert_eq!(seen, [(ok, ok), (over, ok), (over, ok), (over, over)]);
    let with_plain: &[&[(&str, &str)]] = &[&[("large", "v")], &[("plain", "u")]];
    for _ in 0..3 {
        assert_eq!(follower.ask("d", with_plain).await.overall_code(), ok);
    }
    for expected in [over, over, over] {
        // Fourth and fifth: only the quota is over, and it is the only one. Sixth: the plain limit, too.
        assert_eq!(follower.ask("d", with_plain).await.overall_code(), expected);
    }
}

#[tokio::test]
async fn limits_that_come_with_requests() {
    let (_plane, mut follower) = following(vec![
        node(("user", ""), per(HOUR, 100), Vec::new()),
        RateLimitDescriptor {
            shadow_mode: true,
            ..node(("shadow", ""), per(HOUR, 100), Vec::new())
        },
    ])
    .await;
    for name in ["user", "shadow", "unknown"] {
        let mut descriptor = asked(&[(name, "u")]);
        descriptor.limit = Some(RateLimitOverride { requests_per_unit: 2, unit: 4 });
        let mut codes = Vec::new();
        for _ in 0..3 {
            let request = RateLimitRequest {
                domain: "d".to_owned(),
                descriptors: vec![descriptor.clone()],
                hits_addend: 0,
            };
            let answer = ask(&mut follower.client, request).await.unwrap();
            let limit = answer.statuses[0].current_limit.as_ref().unwrap();
            assert_eq!((limit.requests_per_unit, limit.unit()), (2, Unit::Day), "{name}");
            codes.push(answer.overall_code());
        }
        assert_eq!(codes, [Code::Ok, Code::Ok, Code::OverLimit], "{name}");
    }
}

#[tokio::test]
async fn names_units_and_replaced_limits() {
    let named = |name: &str, replaces: &[&str]| RateLimitPolicy {
        unit: RateLimitUnit::Week.into(),
        requests_per_unit: 1,
        name: name.to_owned(),
        replaces: replaces
            .iter()
            .map(|name| RateLimitReplace { name: (*name).to_owned() })
            .collect(),
        ..Default::default()
    };
    let (_plane, mut follower) = following(vec![
        node(("user", ""), Some(named("general", &[])), Vec::new()),
        node(("path", ""), Some(named("special", &["general"])), Vec::new()),
    ])
    .await;
    let answer = follower.ask("d", &[&[("user", "u")], &[("path", "/")]]).await;
    assert_eq!(answer.statuses[0].current_limit, None, "replaced");
    let limit = answer.statuses[1].current_limit.as_ref().unwrap();
    assert_eq!((limit.unit(), &*limit.name), (Unit::Week, "special"));
}

/// A policy of the file decides where a limit has its name.
#[tokio::test]
async fn policies_and_rules_of_the_file_win() {
    let file = "[policies.login]\nlimits = [{ algorithm = \"gcra\", limit = 60, per = \"1m\", capacity = 2 }]\n\
        [policies.own]\nlimits = [\"7/h\"]\n[[rules]]\ndomain = \"d\"\ndescriptor = [{ key = \"mine\" }]\npolicy = \"own\"\n";
    let mut plane = ControlPlane::new().await;
    let mut follower = Follower::of(&plane, file).await;
    let login = RateLimitPolicy {
        unit: HOUR.into(),
        requests_per_unit: 1_000,
        name: "login".to_owned(),
        ..Default::default()
    };
    let descriptors = vec![
        node(("user", ""), Some(login), Vec::new()),
        node(("mine", ""), per(HOUR, 1), Vec::new()),
    ];
    plane.stream().await.push("1", &[domain("d", descriptors)]).await;
    follower.is_at("1").await;
    let mut codes = Vec::new();
    for _ in 0..3 {
        let answer = follower.ask("d", &[&[("user", "u")]]).await;
        assert_eq!(answer.statuses[0].current_limit.as_ref().unwrap().name, "login");
        codes.push(answer.overall_code());
    }
    assert_eq!(codes, [Code::Ok, Code::Ok, Code::OverLimit]);
    let answer = follower.ask("d", &[&[("mine", "u")]]).await;
    assert_eq!(answer.statuses[0].current_limit.as_ref().unwrap().requests_per_unit, 7);
}
