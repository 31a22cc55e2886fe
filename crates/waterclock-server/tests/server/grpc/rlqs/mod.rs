//! Envoy's rate limit quota service, asked by a real client.

mod bounds;
mod proxy;
mod shared;

use tonic::Code as Grpc;
use waterclock_server::envoy::Code;

use self::proxy::{Assigned, Proxy, bucket, usage};
use super::scene::{Scene, lone, per_user, user};
use crate::at_work::auth;

const RULES: &str = r#"
[policies.two]
limits = ["100/d"]
[[rules]]
domain = "d"
policy = "two"
descriptor = [{ key = "user" }, { key = "path", value = "/a*" }]
key = ["user"]
[[rules]]
domain = "d"
refuse = true
descriptor = [{ key = "user" }, { key = "path", value = "/refused" }]
[[rules]]
domain = "d"
unlimited = true
descriptor = [{ key = "user", value = "root" }, { key = "path" }]
[policies.shadow]
shadow = true
limits = ["1/d"]
[[rules]]
domain = "d"
policy = "shadow"
descriptor = [{ key = "shadow" }]
[policies.listed]
limits = ["5/d"]
block = ["mallory"]
exempt = ["trent"]
[[rules]]
domain = "d"
policy = "listed"
descriptor = [{ key = "listed" }]
[policies.apart]
limits = [{ algorithm = "min-interval", every = "1s" }]
[[rules]]
domain = "d"
policy = "apart"
descriptor = [{ key = "apart" }]
[policies.window]
limits = ["80/h fixed-window"]
[[rules]]
domain = "d"
policy = "window"
descriptor = [{ key = "window" }]
[policies.counted]
mode = "uniform"
limits = ["16/h fixed-window"]
[[rules]]
domain = "d"
policy = "counted"
charge = "count"
descriptor = [{ key = "counted" }]
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rules_of_descriptors_apply_to_buckets() {
    let scene = Scene::new(RULES).await;
    let mut proxy = Proxy::open(scene.channel().await).await.unwrap();
    for (entries, expected) in [
        // In whatever order.
        (&[("path", "/abc"), ("user", "alice")][..], Assigned::Units(13)),
        (&[("user", "alice"), ("path", "/refused")], Assigned::DenyAll),
        (&[("user", "root"), ("path", "/x")], Assigned::AllowAll),
        // Exactly the rule's entries.
        (&[("user", "alice")], Assigned::AllowAll),
        (&[("user", "alice"), ("path", "/a"), ("more", "")], Assigned::AllowAll),
        (&[("unknown", "x")], Assigned::AllowAll),
        (&[("shadow", "x")], Assigned::AllowAll),
        (&[("listed", "mallory")], Assigned::DenyAll),
        (&[("listed", "trent")], Assigned::AllowAll),
        (&[("listed", "alice")], Assigned::Units(4)),
        // Units of it cannot be spent later.
        (&[("apart", "x")], Assigned::DenyAll),
        (&[("window", "x")], Assigned::Units(11)),
        (&[("counted", "x")], Assigned::Units(9)),
    ] {
        assert_eq!(proxy.first(entries).await, expected, "{entries:?}");
    }
    // Another domain has no rules.
    let mut other = Proxy::open(scene.channel().await).await.unwrap();
    other.send_to("other", vec![usage(bucket(&[("listed", "mallory")]), 0, 1, 0)]).await;
    assert_eq!(other.next().await.unwrap().1, Assigned::AllowAll);
}

/// Units are charged when they are assigned: what proxies and direct callers get together is the limit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn proxies_and_direct_callers_share_a_budget() {
    let (scene, mut client) = Scene::with_client(&per_user("\"24/d\"")).await;
    assert_eq!(lone(&mut client, user("alice")).await, (Code::Ok, 23));
    let mut proxies = Vec::new();
    let mut units = 0;
    for _ in 0..8 {
        let mut proxy = Proxy::open(scene.channel().await).await.unwrap();
        match proxy.first(&[("user", "alice")]).await {
            Assigned::Units(more) => units += more + 1,
            Assigned::DenyAll => {}
            other => panic!("{other:?}"),
        }
        proxies.push(proxy);
    }
    // With the requests that were admitted before the first assignment, as far as those were paid.
    assert!((12..=23).contains(&units), "{units}");
    let mut direct = 0;
    while lone(&mut client, user("alice")).await.0 == Code::Ok {
        direct += 1;
        assert!(direct <= 24);
    }
    assert!(units + direct <= 23, "{units} {direct}");
    // Nothing is left for others.
    let mut late = Proxy::open(scene.channel().await).await.unwrap();
    assert_eq!(late.first(&[("user", "alice")]).await, Assigned::DenyAll);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_are_renewed_and_follow_demand() {
    let scene = Scene::new(&per_user("\"6000/m\"")).await;
    let mut proxy = Proxy::open(scene.channel().await).await.unwrap();
    let id = bucket(&[("user", "alice")]);
    let Assigned::Units(first) = proxy.first(&[("user", "alice")]).await else {
        panic!("there are units")
    };
    assert_eq!(first, 751, "an eighth of the capacity, and one");
    // Without another report, before the first lapses.
    assert_eq!(proxy.next().await.unwrap(), (id.clone(), Assigned::Units(first)));
    // 300 a second, for eight seconds.
    proxy.send(vec![usage(id.clone(), 5, 750, 750)]).await;
    loop {
        let Assigned::Units(units) = proxy.next().await.unwrap().1 else { panic!("units") };
        if units > 2_000 {
            break;
        }
    }
    let metrics = scene.server().metrics_text();
    for line in [
        "waterclock_rlqs_streams 1",
        "waterclock_rlqs_buckets 1",
        "waterclock_decisions_total{policy=\"p\",outcome=\"allow\",face=\"grpc\"} 751",
        "waterclock_decisions_total{policy=\"p\",outcome=\"deny\",face=\"grpc\"} 750",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
    assert!(
        !metrics.contains("waterclock_rlqs_assignments_total{kind=\"units\"} 0\n"),
        "{metrics}"
    );
}

/// A reload changes what applies at the next report.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reload_applies() {
    let scene = Scene::new(&per_user("\"5/d\"")).await;
    let mut proxy = Proxy::open(scene.channel().await).await.unwrap();
    assert_eq!(proxy.first(&[("user", "alice")]).await, Assigned::Units(4));
    scene.reload("[policies.p]\nlimits = [\"5/d\"]\n").await;
    let id = bucket(&[("user", "alice")]);
    for _ in 0..100 {
        proxy.send(vec![usage(id.clone(), 5, 0, 0)]).await;
        if proxy.next().await.unwrap().1 == Assigned::AllowAll {
            return;
        }
    }
    panic!("the old rule still applies");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_end_when_the_server_stops() {
    let scene = Scene::new(&per_user("\"5/d\"")).await;
    let mut proxy = Proxy::open(scene.channel().await).await.unwrap();
    assert_eq!(proxy.first(&[("user", "alice")]).await, Assigned::Units(4));
    let stopping = tokio::spawn(scene.stop());
    let status = loop {
        if let Err(status) = proxy.next().await {
            break status;
        }
    };
    assert_eq!(status.code(), Grpc::Unavailable, "{status}");
    tokio::time::timeout(std::time::Duration::from_secs(30), stopping).await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_are_needed_where_there_are_some() {
    let config = format!("{}{}", auth(&[("checker", "check")]), per_user("\"5/d\""));
    let scene = Scene::new(&config).await;
    let Err(status) = Proxy::open(scene.channel().await).await else { panic!("no token") };
    assert_eq!(status.code(), Grpc::Unauthenticated);
}
