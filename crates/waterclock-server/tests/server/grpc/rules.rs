//! Which descriptors get which policy.

use waterclock_server::envoy::Code;

use super::scene::{Scene, about, ask, descriptor, lone, request};

const RULES: &str = "
[policies.three]\nlimits = [\"3/h\"]
[policies.five]\nlimits = [\"5/h\"]
[policies.own]\nkey = [\"user\"]\nlimits = [\"4/h\"]
[[rules]]\ndomain = \"d\"\npolicy = \"three\"\ndescriptor = [{ key = \"path\" }]
[[rules]]\ndomain = \"d\"\npolicy = \"five\"\ndescriptor = [{ key = \"path\", value = \"/login*\" }]
[[rules]]\ndomain = \"d\"\nunlimited = true\ndescriptor = [{ key = \"path\", value = \"/login/help\" }]
[[rules]]\ndomain = \"d\"\nrefuse = true\nname = \"closed\"\ndescriptor = [{ key = \"path\", value = \"/admin*\" }]
[[rules]]\ndomain = \"d\"\npolicy = \"three\"\ndescriptor = [{ key = \"path\" }, { key = \"address\" }]\nkey = [\"address\"]
[[rules]]\ndomain = \"d\"\npolicy = \"five\"\ndescriptor = [{ key = \"all\" }]\nkey = []
[[rules]]\ndomain = \"d\"\npolicy = \"own\"\ndescriptor = [{ key = \"user\" }, { key = \"tenant\" }]
[[rules]]\ndomain = \"e\"\npolicy = \"three\"\ndescriptor = [{ key = \"path\" }]
[[rules]]\ndomain = \"d\"\npolicy = \"three\"\ndescriptor = [{ key = \"general\" }]\nname = \"general\"
[[rules]]\ndomain = \"d\"\npolicy = \"five\"\ndescriptor = [{ key = \"special\" }]\nreplaces = [\"general\"]
";

#[tokio::test]
async fn the_most_specific_one_decides() {
    let (_scene, mut client) = Scene::with_client(RULES).await;
    let mut path = async |path: &str| {
        about(&mut client, vec![descriptor(&[("path", path)])]).await.statuses.remove(0)
    };
    assert_eq!(path("/other").await.current_limit.unwrap().requests_per_unit, 3);
    assert_eq!(path("/login").await.current_limit.unwrap().requests_per_unit, 5);
    assert_eq!(path("/login/x").await.current_limit.unwrap().requests_per_unit, 5);
    for _ in 0..10 {
        let status = path("/login/help").await;
        assert_eq!((status.code(), status.current_limit), (Code::Ok, None));
    }
    let status = path("/admin/x").await;
    let limit = status.current_limit.clone().unwrap();
    assert_eq!((status.code(), limit.requests_per_unit), (Code::OverLimit, 0));
    assert_eq!(limit.name, "closed");
}

#[tokio::test]
async fn budgets_are_apart_by_domain_key_and_value() {
    let (_scene, mut client) = Scene::with_client(RULES).await;
    let first = (Code::Ok, 2);
    assert_eq!(lone(&mut client, descriptor(&[("path", "/a")])).await, first);
    assert_eq!(lone(&mut client, descriptor(&[("path", "/b")])).await, first);
    assert_eq!(lone(&mut client, descriptor(&[("general", "/a")])).await, first);
    // The same policy, key and value in another domain.
    let mut elsewhere = request(vec![descriptor(&[("path", "/a")])]);
    elsewhere.domain = "e".to_owned();
    let response = ask(&mut client, elsewhere).await.unwrap();
    assert_eq!(response.statuses[0].limit_remaining, 2);
    assert_eq!(lone(&mut client, descriptor(&[("path", "/a")])).await, (Code::Ok, 1));
}

#[tokio::test]
async fn named_entries_share_a_budget() {
    let (_scene, mut client) = Scene::with_client(RULES).await;
    let mut at = async |path: &str, address: &str| {
        lone(&mut client, descriptor(&[("path", path), ("address", address)])).await
    };
    assert_eq!(at("/a", "10.0.0.1").await, (Code::Ok, 2));
    assert_eq!(at("/b", "10.0.0.1").await, (Code::Ok, 1));
    assert_eq!(at("/b", "10.0.0.2").await, (Code::Ok, 2));
    for left in (0..5).rev() {
        let value = left.to_string();
        assert_eq!(lone(&mut client, descriptor(&[("all", &value)])).await, (Code::Ok, left));
    }
    // The policy's own key fields are entries' keys.
    assert_eq!(
        lone(&mut client, descriptor(&[("user", "a"), ("tenant", "x")])).await,
        (Code::Ok, 3)
    );
    assert_eq!(
        lone(&mut client, descriptor(&[("user", "a"), ("tenant", "y")])).await,
        (Code::Ok, 2)
    );
}

#[tokio::test]
async fn a_replaced_rule_neither_limits_nor_is_charged() {
    let (_scene, mut client) = Scene::with_client(RULES).await;
    let both = || vec![descriptor(&[("general", "x")]), descriptor(&[("special", "x")])];
    for left in (0..5).rev() {
        let statuses = about(&mut client, both()).await.statuses;
        assert_eq!(statuses[0].current_limit, None);
        assert_eq!(statuses[1].limit_remaining, left);
    }
    assert_eq!(about(&mut client, both()).await.overall_code(), Code::OverLimit);
    assert_eq!(lone(&mut client, descriptor(&[("general", "x")])).await, (Code::Ok, 2));
}

#[tokio::test]
async fn lists_of_the_policy_know_the_value() {
    let config = "
[policies.p]
limits = [\"2/h\"]
exempt = [\"10.0.0.0/8\", \"friend\"]
block = [\"10.6.6.6\"]
overrides = { \"alice\" = [\"7/h\"] }
[[rules]]\ndomain = \"d\"\npolicy = \"p\"\ndescriptor = [{ key = \"remote_address\" }]
[[rules]]\ndomain = \"d\"\npolicy = \"p\"\ndescriptor = [{ key = \"user\" }]
";
    let (_scene, mut client) = Scene::with_client(config).await;
    for _ in 0..5 {
        for exempt in [("remote_address", "10.1.2.3"), ("user", "friend")] {
            let status = about(&mut client, vec![descriptor(&[exempt])]).await.statuses.remove(0);
            assert_eq!((status.code(), status.current_limit), (Code::Ok, None));
        }
    }
    let blocked = descriptor(&[("remote_address", "10.6.6.6")]);
    assert_eq!(lone(&mut client, blocked).await, (Code::OverLimit, 0));
    assert_eq!(lone(&mut client, descriptor(&[("user", "alice")])).await, (Code::Ok, 6));
    assert_eq!(lone(&mut client, descriptor(&[("user", "bob")])).await, (Code::Ok, 1));
}

#[tokio::test]
async fn a_reload_swaps_rules_and_refills_nothing() {
    let config = |rules: &str| format!("[policies.p]\nlimits = [\"5/d\"]\n{rules}");
    let rule = |key: &str| {
        format!("[[rules]]\ndomain = \"d\"\npolicy = \"p\"\ndescriptor = [{{ key = \"{key}\" }}]\n")
    };
    let (scene, mut client) = Scene::with_client(&config(&rule("a"))).await;
    assert_eq!(lone(&mut client, descriptor(&[("a", "x")])).await, (Code::Ok, 4));
    scene.reload(&config(&format!("{}{}", rule("b"), rule("a")))).await;
    assert_eq!(lone(&mut client, descriptor(&[("a", "x")])).await, (Code::Ok, 3));
    assert_eq!(lone(&mut client, descriptor(&[("b", "x")])).await, (Code::Ok, 4));
    scene.reload(&config(&rule("b"))).await;
    let status = about(&mut client, vec![descriptor(&[("a", "x")])]).await.statuses.remove(0);
    assert_eq!(status.current_limit, None);
}
