//! How much a request charges.

use waterclock_server::envoy::{Code, RateLimitDescriptor};

use super::scene::{Scene, about, ask, lone, per_user, request, seen, user};

fn hits(name: &str, hits: u64) -> RateLimitDescriptor {
    RateLimitDescriptor { hits_addend: Some(hits), ..user(name) }
}

fn back(name: &str, hits: u64) -> RateLimitDescriptor {
    RateLimitDescriptor { is_negative_hits: true, ..self::hits(name, hits) }
}

#[tokio::test]
async fn of_the_request_zero_is_one() {
    let (_scene, mut client) = Scene::with_client(&per_user("\"10/h\"")).await;
    for (addend, left) in [(0, 9), (1, 8), (5, 3)] {
        let mut request = request(vec![user("alice")]);
        request.hits_addend = addend;
        let response = ask(&mut client, request).await.unwrap();
        assert_eq!(seen(&response.statuses[0]), (Code::Ok, left));
    }
    let mut too_many = request(vec![user("alice")]);
    too_many.hits_addend = 4;
    let response = ask(&mut client, too_many).await.unwrap();
    assert_eq!(response.overall_code(), Code::OverLimit);
    // What is refused is not charged.
    assert_eq!(lone(&mut client, user("alice")).await, (Code::Ok, 2));
}

#[tokio::test]
async fn of_a_descriptor_beat_those_of_the_request() {
    let (_scene, mut client) = Scene::with_client(&per_user("\"10/h\"")).await;
    let mut request = request(vec![hits("alice", 3), user("bob")]);
    request.hits_addend = 7;
    let response = ask(&mut client, request).await.unwrap();
    assert_eq!(seen(&response.statuses[0]), (Code::Ok, 7));
    assert_eq!(seen(&response.statuses[1]), (Code::Ok, 3));
}

#[tokio::test]
async fn zero_of_a_descriptor_is_a_peek() {
    let (_scene, mut client) = Scene::with_client(&per_user("\"3/h\"")).await;
    for _ in 0..5 {
        assert_eq!(lone(&mut client, hits("alice", 0)).await, (Code::Ok, 3));
    }
    assert_eq!(lone(&mut client, hits("alice", 3)).await, (Code::Ok, 0));
    // Nothing is left, so a peek refuses.
    assert_eq!(lone(&mut client, hits("alice", 0)).await, (Code::OverLimit, 0));
    // One unit is left, and each peek asks for one.
    assert_eq!(lone(&mut client, hits("carol", 2)).await, (Code::Ok, 1));
    let response = about(&mut client, vec![hits("carol", 0), hits("carol", 0)]).await;
    assert_eq!(response.statuses.iter().map(seen).collect::<Vec<_>>(), [(Code::Ok, 1); 2]);
    // A request that a peek refuses charges nothing.
    let response = about(&mut client, vec![hits("bob", 2), hits("alice", 0)]).await;
    assert_eq!(response.statuses[0].code(), Code::Ok);
    assert_eq!(response.statuses[1].code(), Code::OverLimit);
    assert_eq!(lone(&mut client, hits("bob", 0)).await, (Code::Ok, 3));
}

#[tokio::test]
async fn negative_ones_give_back_and_no_more_than_was_taken() {
    let (_scene, mut client) = Scene::with_client(&per_user("\"10/h\"")).await;
    assert_eq!(lone(&mut client, hits("alice", 8)).await, (Code::Ok, 2));
    assert_eq!(lone(&mut client, back("alice", 5)).await, (Code::Ok, 7));
    assert_eq!(lone(&mut client, back("alice", 500)).await, (Code::Ok, 10));
    let one = RateLimitDescriptor { is_negative_hits: true, ..user("bob") };
    assert_eq!(lone(&mut client, hits("bob", 2)).await, (Code::Ok, 8));
    assert_eq!(lone(&mut client, one).await, (Code::Ok, 9));
    // An exhausted key takes something back, too.
    assert_eq!(lone(&mut client, hits("carol", 10)).await, (Code::Ok, 0));
    assert_eq!(lone(&mut client, back("carol", 1)).await, (Code::Ok, 1));
}

#[tokio::test]
async fn a_refused_request_gives_nothing_back() {
    let (_scene, mut client) = Scene::with_client(&per_user("\"10/h\"")).await;
    assert_eq!(lone(&mut client, hits("alice", 6)).await, (Code::Ok, 4));
    let response = about(&mut client, vec![back("alice", 3), hits("bob", 11)]).await;
    assert_eq!(seen(&response.statuses[0]), (Code::Ok, 4));
    assert_eq!(response.statuses[1].code(), Code::OverLimit);
    let response = about(&mut client, vec![back("alice", 3), hits("bob", 10)]).await;
    assert_eq!(seen(&response.statuses[0]), (Code::Ok, 7));
    assert_eq!(seen(&response.statuses[1]), (Code::Ok, 0));
}

#[tokio::test]
async fn more_than_any_limit_is_refused_and_not_misread() {
    let (_scene, mut client) = Scene::with_client(&per_user("\"10/h\"")).await;
    assert_eq!(lone(&mut client, hits("alice", u64::MAX)).await, (Code::OverLimit, 10));
    assert_eq!(lone(&mut client, back("alice", u64::MAX)).await, (Code::Ok, 10));
}
