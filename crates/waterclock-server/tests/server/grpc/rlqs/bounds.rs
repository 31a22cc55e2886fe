//! What one proxy can take: streams, buckets, bytes; and messages that are none.

use std::collections::HashMap;

use tonic::Code as Grpc;

use super::super::scene::{Scene, per_user};
use super::proxy::{Assigned, Proxy, bucket, usage};

/// Streams of one connection, and buckets of one stream, as documented.
const STREAMS: usize = 16;
const BUCKETS: usize = 10_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_has_a_few_streams() {
    let scene = Scene::new(&per_user("\"5/d\"")).await;
    let channel = scene.channel().await;
    let mut open = Vec::new();
    for _ in 0..STREAMS {
        open.push(Proxy::open(channel.clone()).await.unwrap());
    }
    let Err(status) = Proxy::open(channel.clone()).await else { panic!("one too many") };
    assert_eq!(status.code(), Grpc::ResourceExhausted, "{status}");
    // Others are served, and a place that is given up is free again.
    assert!(Proxy::open(scene.channel().await).await.is_ok());
    drop(open.pop());
    while Proxy::open(channel.clone()).await.is_err() {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

/// Ids of buckets may come from clients of the proxy. More than are remembered are refused, not admitted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_has_so_many_buckets() {
    // A trusted proxy, which is not bounded by its address.
    let scene = Scene::new("[server]\ntrusted_proxies = [\"127.0.0.1\"]\n").await;
    let mut proxy = Proxy::open(scene.channel().await).await.unwrap();
    for some in 0..11 {
        let name = |at: usize| format!("{:05}", some * 1_000 + at);
        let usages = (0..1_000).map(|at| usage(bucket(&[("k", &name(at))]), 0, 1, 0));
        proxy.send(usages.collect()).await;
    }
    let mut seen = HashMap::new();
    for _ in 0..11_000 {
        let (_, assigned) = proxy.next().await.unwrap();
        *seen.entry(assigned == Assigned::AllowAll).or_insert(0) += 1;
    }
    assert_eq!(seen.get(&true), Some(&BUCKETS));
    assert_eq!(seen.get(&false), Some(&1_000));
    // One that is idle is abandoned.
    proxy.send(vec![usage(bucket(&[("k", "more")]), 5, 0, 0)]).await;
    assert_eq!(proxy.next().await.unwrap().1, Assigned::Abandoned);
    // Their memory is given back with the stream.
    drop(proxy);
    while !scene.server().metrics_text().contains("waterclock_receive_bytes 0") {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert!(scene.server().metrics_text().contains("waterclock_rlqs_buckets 0"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reports_that_are_none_end_the_stream() {
    let scene = Scene::new(&per_user("\"5/d\"")).await;
    let mut nameless = Proxy::open(scene.channel().await).await.unwrap();
    nameless.send_to("", vec![usage(bucket(&[("user", "a")]), 0, 1, 0)]).await;
    assert_eq!(nameless.next().await.unwrap_err().code(), Grpc::InvalidArgument);
    let mut long = Proxy::open(scene.channel().await).await.unwrap();
    long.send(vec![usage(bucket(&[("user", &"x".repeat(4 << 20))]), 0, 1, 0)]).await;
    assert_eq!(long.next().await.unwrap_err().code(), Grpc::ResourceExhausted);
    // What Envoy does: repeats, reports of nothing, values that are not UTF-8, no id.
    let mut odd = Proxy::open(scene.channel().await).await.unwrap();
    let mut bytes = bucket(&[]);
    bytes.bucket.insert("user".to_owned(), vec![0xff, 0xfe]);
    let mut without = usage(bucket(&[]), 0, 1, 0);
    without.bucket_id = None;
    let mut unlikely = usage(bytes.clone(), 0, u64::MAX, u64::MAX);
    unlikely.time_elapsed = Some(prost_types::Duration { seconds: -1, nanos: -1 });
    odd.send(vec![without, usage(bytes.clone(), 0, 0, 0), usage(bytes.clone(), 0, 1, 0), unlikely])
        .await;
    let (id, assigned) = odd.next().await.unwrap();
    assert_eq!(id, bytes);
    assert!(matches!(assigned, Assigned::Units(_) | Assigned::DenyAll), "{assigned:?}");
}
