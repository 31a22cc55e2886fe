//! All descriptors of a request, or none.

use waterclock_server::envoy::Code;

use super::scene::{Scene, about, descriptor, lone, per_user, seen, user};

const TWO: &str = "
[policies.wide]\nlimits = [\"100/h\"]
[policies.narrow]\nlimits = [\"2/h\"]
[[rules]]\ndomain = \"d\"\npolicy = \"wide\"\ndescriptor = [{ key = \"address\" }]
[[rules]]\ndomain = \"d\"\npolicy = \"narrow\"\ndescriptor = [{ key = \"user\" }]
";

#[tokio::test]
async fn a_refused_request_charges_nothing_anywhere() {
    let (_scene, mut client) = Scene::with_client(TWO).await;
    let both = || vec![descriptor(&[("address", "10.0.0.1")]), user("alice")];
    for left in [1, 0] {
        let response = about(&mut client, both()).await;
        assert_eq!(seen(&response.statuses[1]), (Code::Ok, left));
    }
    for _ in 0..20 {
        let response = about(&mut client, both()).await;
        // The one that stood back for the other has not refused.
        assert_eq!(seen(&response.statuses[0]), (Code::Ok, 98));
        assert_eq!(seen(&response.statuses[1]), (Code::OverLimit, 0));
    }
    assert_eq!(lone(&mut client, descriptor(&[("address", "10.0.0.1")])).await, (Code::Ok, 97));
}

#[tokio::test]
async fn statuses_have_the_order_and_the_number_of_the_descriptors() {
    let (_scene, mut client) = Scene::with_client(TWO).await;
    let descriptors = vec![
        descriptor(&[("unknown", "x")]),
        user("alice"),
        descriptor::<&str>(&[]),
        descriptor(&[("address", "10.0.0.1")]),
        descriptor(&[("user", "alice"), ("address", "10.0.0.1")]),
    ];
    let statuses = about(&mut client, descriptors).await.statuses;
    let limits: Vec<Option<u32>> = statuses
        .iter()
        .map(|status| status.current_limit.as_ref().map(|limit| limit.requests_per_unit))
        .collect();
    assert_eq!(limits, [None, Some(2), None, Some(100), None]);
    assert!(statuses.iter().all(|status| status.code() == Code::Ok));
}

#[tokio::test]
async fn the_same_descriptor_twice_is_charged_twice() {
    let (_scene, mut client) = Scene::with_client(&per_user("\"3/h\"")).await;
    let response = about(&mut client, vec![user("alice"), user("alice")]).await;
    assert_eq!(seen(&response.statuses[0]), (Code::Ok, 1));
    let response = about(&mut client, vec![user("alice"), user("alice")]).await;
    assert_eq!(seen(&response.statuses[1]), (Code::OverLimit, 1));
    assert_eq!(lone(&mut client, user("alice")).await, (Code::Ok, 0));
}

/// Thirty-two callers at once, each charging a shared and a private budget: the shared one admits
/// exactly what it holds, and the private ones are charged for nothing else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_callers_share_exactly_what_there_is() {
    let config = "
[policies.all]\nlimits = [\"50/d\"]
[policies.each]\nlimits = [\"1000/d\"]
[[rules]]\ndomain = \"d\"\npolicy = \"all\"\ndescriptor = [{ key = \"all\" }]
[[rules]]\ndomain = \"d\"\npolicy = \"each\"\ndescriptor = [{ key = \"user\" }]
";
    let scene = Scene::new(config).await;
    let mut callers = Vec::new();
    for caller in 0..32 {
        let mut client = scene.client().await;
        callers.push(tokio::spawn(async move {
            let name = caller.to_string();
            let mut admitted = 0;
            for _ in 0..5 {
                let both = vec![descriptor(&[("all", "x")]), user(&name)];
                let response = about(&mut client, both).await;
                admitted += u32::from(response.overall_code() == Code::Ok);
            }
            let (_, left) = lone(&mut client, user(&name)).await;
            assert_eq!(left, 1_000 - admitted - 1);
            admitted
        }));
    }
    let mut total = 0;
    for caller in callers {
        total += caller.await.unwrap();
    }
    assert_eq!(total, 50);
}
