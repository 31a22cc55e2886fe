//! Limits that come with the request.

use tonic::Code as Grpc;
use waterclock_server::envoy::{Code, RateLimitDescriptor, RateLimitOverride, RateLimitUnit, Unit};

use super::scene::{Scene, about, ask, descriptor, lone, per_user, request, seen, user};

fn with(requests_per_unit: u32, unit: RateLimitUnit) -> RateLimitDescriptor {
    let limit = RateLimitOverride { requests_per_unit, unit: unit.into() };
    RateLimitDescriptor { limit: Some(limit), ..user("alice") }
}

const EPOCH: &str =
    "{ algorithm = \"fixed-window\", limit = 5, per = \"365d\", align = \"epoch\" }";

#[tokio::test]
async fn replace_the_configured_numbers() {
    let (_scene, mut client) = Scene::with_client(&per_user(EPOCH)).await;
    for left in (0..8).rev() {
        let descriptor = with(8, RateLimitUnit::Year);
        let status = about(&mut client, vec![descriptor]).await.statuses.remove(0);
        assert_eq!(seen(&status), (Code::Ok, left));
        let limit = status.current_limit.unwrap();
        assert_eq!((limit.requests_per_unit, limit.unit()), (8, Unit::Year));
    }
    assert_eq!(lone(&mut client, with(8, RateLimitUnit::Year)).await, (Code::OverLimit, 0));
}

/// The key's identity does not depend on the number.
#[tokio::test]
async fn share_what_was_spent() {
    let (_scene, mut client) = Scene::with_client(&per_user(EPOCH)).await;
    assert_eq!(lone(&mut client, user("alice")).await, (Code::Ok, 4));
    assert_eq!(lone(&mut client, user("alice")).await, (Code::Ok, 3));
    assert_eq!(lone(&mut client, with(8, RateLimitUnit::Year)).await, (Code::Ok, 5));
    assert_eq!(lone(&mut client, with(4, RateLimitUnit::Year)).await, (Code::Ok, 0));
    assert_eq!(lone(&mut client, with(4, RateLimitUnit::Year)).await, (Code::OverLimit, 0));
    assert_eq!(lone(&mut client, user("alice")).await, (Code::Ok, 0));
    assert_eq!(lone(&mut client, user("alice")).await, (Code::OverLimit, 0));
}

#[tokio::test]
async fn of_nothing_refuse_and_charge_nothing() {
    let (_scene, mut client) = Scene::with_client(&per_user("\"5/h\"")).await;
    let response = about(&mut client, vec![user("bob"), with(0, RateLimitUnit::Hour)]).await;
    assert_eq!(seen(&response.statuses[0]), (Code::Ok, 5));
    assert_eq!(seen(&response.statuses[1]), (Code::OverLimit, 0));
    assert_eq!(lone(&mut client, user("bob")).await, (Code::Ok, 4));
    assert_eq!(lone(&mut client, user("alice")).await, (Code::Ok, 4));
}

#[tokio::test]
async fn without_a_unit_are_bad_input() {
    let (_scene, mut client) = Scene::with_client(&per_user("\"5/h\"")).await;
    let bad = request(vec![user("bob"), with(5, RateLimitUnit::Unknown)]);
    let status = ask(&mut client, bad).await.unwrap_err();
    assert_eq!(status.code(), Grpc::InvalidArgument);
    assert!(status.message().contains("descriptors[1].limit.unit"), "{}", status.message());
}

#[tokio::test]
async fn without_a_rule_limit_nothing() {
    let (_scene, mut client) = Scene::with_client(&per_user("\"5/h\"")).await;
    let limit = RateLimitOverride { requests_per_unit: 1, unit: RateLimitUnit::Day.into() };
    for _ in 0..3 {
        let unmatched = RateLimitDescriptor { limit: Some(limit), ..descriptor(&[("x", "y")]) };
        let status = about(&mut client, vec![unmatched]).await.statuses.remove(0);
        assert_eq!((status.code(), status.current_limit), (Code::Ok, None));
    }
}

#[tokio::test]
async fn every_unit_has_its_length() {
    let (_scene, mut client) = Scene::with_client(&per_user("\"5/h\"")).await;
    let units = [
        (RateLimitUnit::Second, Unit::Second),
        (RateLimitUnit::Minute, Unit::Minute),
        (RateLimitUnit::Hour, Unit::Hour),
        (RateLimitUnit::Day, Unit::Day),
        (RateLimitUnit::Month, Unit::Month),
        (RateLimitUnit::Year, Unit::Year),
    ];
    for (asked, told) in units {
        let status = about(&mut client, vec![with(1_000, asked)]).await.statuses.remove(0);
        assert_eq!(status.current_limit.unwrap().unit(), told);
    }
}

/// An error would admit the request: where there are too many different numbers, the policy's own decide.
#[tokio::test]
async fn more_different_limits_than_are_kept() {
    let (_scene, mut client) = Scene::with_client(&per_user(EPOCH)).await;
    let with_number = |requests_per_unit: u32, name: &str| {
        let limit = RateLimitOverride { requests_per_unit, unit: RateLimitUnit::Year.into() };
        RateLimitDescriptor { limit: Some(limit), ..user(name) }
    };
    for number in 100..1_100 {
        let name = format!("user {number}");
        let decided = lone(&mut client, with_number(number, &name)).await;
        assert_eq!(decided, (Code::Ok, number - 1));
    }
    assert_eq!(lone(&mut client, with_number(1_100, "bob")).await, (Code::Ok, 4));
    assert_eq!(lone(&mut client, with_number(1_099, "carol")).await, (Code::Ok, 1_098));
}
