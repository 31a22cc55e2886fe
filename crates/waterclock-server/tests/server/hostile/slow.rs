//! Peers that take their time.

use std::time::Duration;

use tokio::time::sleep;

use super::{CHECK, LONG, Scene, impatient};

#[tokio::test]
async fn a_head_that_drips() {
    let scene = Scene::new(impatient()).await;
    let mut client = scene.client().await;
    // Much longer than patience lasts, at one byte each 50 ms.
    let head = format!("GET /healthz HTTP/1.1\r\nx: {}", "y".repeat(1_000));
    let drip = async {
        for byte in head.as_bytes() {
            client.write(&[*byte]).await;
            sleep(Duration::from_millis(50)).await;
            if client.is_closed(Duration::ZERO).await {
                return true;
            }
        }
        false
    };
    assert!(drip.await, "a dripping head was waited for");
    scene.ends_well().await;
}

/// Patience is for each head anew, and a head does not get more for coming after a good one.
#[tokio::test]
async fn a_second_head_that_stops() {
    let scene = Scene::new(impatient()).await;
    let mut client = scene.client().await;
    assert_eq!(client.get("/healthz").await.status, 200);
    client.write(b"GET /healthz HTTP/1.1\r\nhos").await;
    assert!(client.is_closed(LONG).await);
    scene.ends_well().await;
}

#[tokio::test]
async fn silence_from_the_start_and_half_requests() {
    let scene = Scene::new(impatient()).await;
    for beginning in
        ["", "G", "GET / HTTP/1.1\r\n", "PRI * HTTP/2.0\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"]
    {
        let mut client = scene.client().await;
        client.write(beginning.as_bytes()).await;
        assert!(client.is_closed(LONG).await, "{beginning}");
    }
    scene.ends_well().await;
}

#[tokio::test]
async fn a_head_that_never_ends() {
    let scene = Scene::new(impatient()).await;
    let mut client = scene.client().await;
    client.write(b"GET /healthz HTTP/1.1\r\n").await;
    for _ in 0..100 {
        client.write(&b"x: yyyyyyyyyyyyyyyy\r\n".repeat(100)).await;
    }
    assert_eq!(client.read().await.map(|answer| answer.status), Some(431));
    scene.ends_well().await;
}

#[tokio::test]
async fn a_body_that_stops() {
    let scene = Scene::new(impatient()).await;
    for head in ["content-length: 30\r\n\r\n{", "transfer-encoding: chunked\r\n\r\n5\r\n{"] {
        let mut client = scene.client().await;
        let text = format!("POST /v1/check HTTP/1.1\r\nhost: t\r\n{head}");
        let answer = client.try_send(text.as_bytes()).await.expect("an answer");
        assert_eq!(answer.status, 408);
        assert!(client.is_closed(LONG).await);
    }
    scene.ends_well().await;
}

/// The server does not wait for a body that it does not need.
#[tokio::test]
async fn a_body_that_stops_where_none_is_read() {
    let scene = Scene::new(impatient()).await;
    let mut client = scene.client().await;
    let text = "GET /healthz HTTP/1.1\r\nhost: t\r\ncontent-length: 30\r\n\r\n{";
    assert_eq!(client.try_send(text.as_bytes()).await.expect("an answer").status, 200);
    assert!(client.is_closed(LONG).await);
    scene.ends_well().await;
}

#[tokio::test]
async fn a_connection_at_rest_is_closed_in_the_end() {
    let scene = Scene::new(impatient()).await;
    let mut client = scene.client().await;
    // Not while it is used, however long that lasts.
    for _ in 0..40 {
        assert_eq!(client.post("/v1/check", CHECK).await.status, 200);
        sleep(Duration::from_millis(100)).await;
    }
    assert!(client.is_closed(LONG).await);
    scene.ends_well().await;
}

/// Unread responses fill every buffer on the way. The server must not wait for that forever.
#[tokio::test]
async fn answers_that_are_never_read() {
    let scene = Scene::new(impatient()).await;
    let mut client = scene.client().await;
    let requests = b"GET /openapi.json HTTP/1.1\r\nhost: t\r\n\r\n".repeat(400);
    client.write(&requests).await;
    let metrics = std::sync::Arc::clone(scene.server.running.server());
    let open =
        || metrics.engine.metrics().connections(waterclock_server::observe::Face::Http).get();
    crate::patience::eventually("left alone with its answers", async || open() <= 1).await;
    scene.ends_well().await;
    drop(client);
}
