//! What a response says beside the codes.

use prost_types::value::Kind;
use waterclock_server::envoy::{Code, DescriptorStatus, RateLimitResponse, Unit};

use super::scene::{Client, Scene, about, per_user, user};

async fn status(client: &mut Client) -> DescriptorStatus {
    about(client, vec![user("alice")]).await.statuses.remove(0)
}

#[tokio::test]
async fn limits_as_requests_per_unit() {
    let limits = [
        ("\"10/s\"", 10, Unit::Second),
        ("{ algorithm = \"gcra\", limit = 60, per = \"1m\", capacity = 5 }", 60, Unit::Minute),
        ("\"7/h sliding-window\"", 7, Unit::Hour),
        ("\"7/d rolling-window\"", 7, Unit::Day),
        ("\"7/7d fixed-window\"", 7, Unit::Week),
        ("\"7/30d quota\"", 7, Unit::Month),
        ("\"7/365d fixed-window\"", 7, Unit::Year),
        ("\"7/90s fixed-window\"", 7, Unit::Unknown),
        (
            "{ algorithm = \"fixed-window\", limit = 3, per = \"month\", align = \"calendar\" }",
            3,
            Unit::Month,
        ),
        (
            "{ algorithm = \"leaky-bucket\", capacity = 10, drip = 2, every = \"1s\" }",
            2,
            Unit::Second,
        ),
        ("{ algorithm = \"min-interval\", every = \"1m\" }", 1, Unit::Minute),
        ("{ algorithm = \"gcra\", limit = 8000000000, per = \"1s\" }", u32::MAX, Unit::Second),
    ];
    for (limit, requests, unit) in limits {
        let scene = Scene::new(&per_user(limit)).await;
        let status = status(&mut scene.client().await).await;
        let told = status.current_limit.unwrap();
        assert_eq!((told.requests_per_unit, told.unit()), (requests, unit), "{limit}");
        assert!(told.name.starts_with("p."), "{}", told.name);
    }
}

#[tokio::test]
async fn remaining_is_clamped() {
    let scene =
        Scene::new(&per_user("{ algorithm = \"gcra\", limit = 8000000000, per = \"1s\" }")).await;
    assert_eq!(status(&mut scene.client().await).await.limit_remaining, u32::MAX);
}

#[tokio::test]
async fn the_binding_limit_is_told() {
    let limits = "{ name = \"burst\", algorithm = \"fixed-window\", limit = 3, per = \"1h\" }, \
                  { name = \"daily\", algorithm = \"fixed-window\", limit = 4, per = \"1d\" }";
    let (_scene, mut client) = Scene::with_client(&per_user(limits)).await;
    for left in (0..3).rev() {
        let status = status(&mut client).await;
        assert_eq!(status.limit_remaining, left);
        assert_eq!(status.current_limit.unwrap().name, "p.burst");
    }
    let refused = status(&mut client).await;
    assert_eq!(refused.code(), Code::OverLimit);
    assert_eq!(refused.current_limit.unwrap().name, "p.burst");
}

#[tokio::test]
async fn the_reset_is_rounded_up_to_whole_seconds() {
    let (_scene, mut client) = Scene::with_client(&per_user("\"2/90s fixed-window\"")).await;
    for _ in 0..4 {
        let reset = status(&mut client).await.duration_until_reset.unwrap();
        assert_eq!(reset.nanos, 0);
        assert!((80..=90).contains(&reset.seconds), "{}", reset.seconds);
    }
}

fn header(response: &RateLimitResponse, key: &str) -> Option<String> {
    let mut headers = response.response_headers_to_add.iter();
    headers.find(|header| header.key == key).map(|header| header.value.clone())
}

#[tokio::test]
async fn headers_are_those_of_the_policys_style() {
    let config = |style: &str| {
        per_user("\"1/h\"").replace("[policies.p]", &format!("[policies.p]\nheaders = \"{style}\""))
    };
    let told = [
        ("none", None, &[][..]),
        ("retry-after", None, &["retry-after"]),
        ("ietf", Some("ratelimit"), &["ratelimit", "ratelimit-policy", "retry-after"]),
        ("draft-03", Some("x-ratelimit-remaining"), &["x-ratelimit-limit", "retry-after"]),
        ("legacy", Some("x-ratelimit-remaining"), &["x-ratelimit-clear", "retry-after"]),
    ];
    for (style, when_admitted, when_refused) in told {
        let scene = Scene::new(&config(style)).await;
        let mut client = scene.client().await;
        let admitted = about(&mut client, vec![user("alice")]).await;
        assert_eq!(header(&admitted, "retry-after"), None, "{style}");
        match when_admitted {
            Some(name) => assert!(header(&admitted, name).is_some(), "{style}"),
            None => assert_eq!(admitted.response_headers_to_add, [], "{style}"),
        }
        let refused = about(&mut client, vec![user("alice")]).await;
        assert_eq!(refused.overall_code(), Code::OverLimit);
        for name in when_refused {
            assert!(header(&refused, name).is_some(), "{style}: {name}");
        }
        if style == "none" {
            assert_eq!(refused.response_headers_to_add, []);
        }
    }
}

#[tokio::test]
async fn metadata_names_what_refused() {
    let (_scene, mut client) = Scene::with_client(&per_user("\"1/h\"")).await;
    let mut fields = async || {
        let metadata = about(&mut client, vec![user("alice")]).await.dynamic_metadata.unwrap();
        let Some(Kind::ListValue(list)) = &metadata.fields["descriptors"].kind else { panic!() };
        let Some(Kind::StructValue(first)) = &list.values[0].kind else { panic!() };
        first.fields.clone()
    };
    let admitted = fields().await;
    assert_eq!(admitted["policy"].kind, Some(Kind::StringValue("p".to_owned())));
    assert_eq!(admitted["allowed"].kind, Some(Kind::BoolValue(true)));
    let refused = fields().await;
    assert_eq!(refused["allowed"].kind, Some(Kind::BoolValue(false)));
    let Some(Kind::ListValue(names)) = &refused["refused_by"].kind else { panic!() };
    assert_eq!(names.values[0].kind, Some(Kind::StringValue("gcra".to_owned())));
}

#[tokio::test]
async fn shadows_refuse_nothing_and_tell_only_the_metadata() {
    let config = per_user("\"1/h\"").replace("[policies.p]", "[policies.p]\nshadow = true");
    let (_scene, mut client) = Scene::with_client(&config).await;
    for turn in 0..3 {
        let response = about(&mut client, vec![user("alice")]).await;
        let status = &response.statuses[0];
        assert_eq!((status.code(), &status.current_limit), (Code::Ok, &None));
        assert_eq!(response.response_headers_to_add, []);
        let shown = format!("{:?}", response.dynamic_metadata);
        assert_eq!(shown.contains("shadow_refused_by"), turn > 0, "{shown}");
    }
}

#[tokio::test]
async fn decisions_are_counted() {
    let (scene, mut client) = Scene::with_client(&per_user("\"1/h\"")).await;
    for _ in 0..3 {
        about(&mut client, vec![user("alice")]).await;
    }
    let text = scene.server().metrics_text();
    let count = |outcome: &str| {
        let labels = format!("policy=\"p\",outcome=\"{outcome}\",face=\"grpc\"}} ");
        let line = text.lines().find(|line| line.contains(&labels)).unwrap_or_default();
        line.rsplit(' ').next().unwrap_or_default().to_owned()
    };
    assert_eq!((count("allow"), count("deny")), ("1".to_owned(), "2".to_owned()), "{text}");
}
