//! HTTP/2 against its spirit.

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::frames::{
    CONTINUATION, GOAWAY, HEADERS, Heard, RST_STREAM, SETTINGS, frame, head, opening, post,
};
use super::{CHECK, LONG, Scene, impatient};
use crate::client::Client;

const REFUSED_STREAM: [u8; 4] = [0, 0, 0, 7];
const CANCEL: [u8; 4] = [0, 0, 0, 8];

async fn open(scene: &Scene) -> TcpStream {
    let mut stream = TcpStream::connect(scene.server.http_address()).await.unwrap();
    stream.write_all(&opening()).await.unwrap();
    stream
}

/// Odd numbers: those of clients.
fn streams(count: u32) -> impl Iterator<Item = u32> {
    (0..count).map(|at| 2 * at + 1)
}

#[tokio::test]
async fn a_preface_and_then_garbage() {
    let scene = Scene::new(impatient()).await;
    let mut random = fastrand::Rng::with_seed(2);
    let mut clients = Vec::new();
    for _ in 0..20 {
        let mut stream = open(&scene).await;
        let mut garbage = vec![0; 4_096];
        random.fill(&mut garbage);
        _ = stream.write_all(&garbage).await;
        clients.push(Client::over(stream));
    }
    // A frame of garbage may be as long as it says, up to 16 KiB, and is waited for until the connection counts as
    // idle.
    for mut client in clients {
        assert!(client.is_closed(LONG).await);
    }
    scene.ends_well().await;
}

/// Requests that are taken back at once cost the client nothing. That is noticed.
#[tokio::test]
async fn requests_taken_back_at_once() {
    let scene = Scene::new(impatient()).await;
    let mut stream = open(&scene).await;
    let mut flood = Vec::new();
    for id in streams(20_000) {
        flood.extend(post(id, "/v1/check", false));
        flood.extend(frame(RST_STREAM, 0, id, &CANCEL));
    }
    _ = stream.write_all(&flood).await;
    let goodbye = Heard::default().until(&mut stream, |frame| frame.kind == GOAWAY).await;
    if let Some(goodbye) = goodbye {
        // ENHANCE_YOUR_CALM
        assert_eq!(goodbye.payload[4..8], [0, 0, 0, 11]);
    }
    drop(stream);
    scene.ends_well().await;
}

/// 256 requests at once on a connection, and no more. A request that was taken back makes room.
#[tokio::test]
async fn one_stream_too_many() {
    let scene = Scene::new(impatient()).await;
    let mut stream = open(&scene).await;
    let mut bytes = Vec::new();
    for id in streams(257) {
        bytes.extend(post(id, "/v1/check", false));
    }
    stream.write_all(&bytes).await.unwrap();
    let mut heard = Heard::default();
    let settings = heard.until(&mut stream, |frame| frame.kind == SETTINGS).await.unwrap();
    let most: &[u8] = &[0, 3, 0, 0, 1, 0];
    assert!(settings.payload.chunks(6).any(|setting| setting == most), "{settings:?}");
    let refused = heard.until(&mut stream, |frame| frame.kind == RST_STREAM).await.unwrap();
    assert_eq!(refused.payload, REFUSED_STREAM);
    assert_eq!(refused.stream, 513, "the 257th");
    let body = frame(super::frames::DATA, super::frames::END_STREAM, 511, CHECK.as_bytes());
    stream.write_all(&body).await.unwrap();
    let answer = heard.until(&mut stream, |frame| frame.kind == HEADERS).await.unwrap();
    assert_eq!((answer.stream, answer.payload[0]), (511, 0x88), "the 256th is answered");
    drop(stream);
    scene.ends_well().await;
}

#[tokio::test]
async fn a_head_that_goes_on_and_on() {
    let scene = Scene::new(impatient()).await;
    let mut stream = open(&scene).await;
    let mut flood = frame(HEADERS, 0, 1, &head("/v1/check"));
    // A literal field without a place in the table: name `x`, a value of 100 bytes.
    let mut field = vec![0x00, 1, b'x', 100];
    field.extend([b'y'; 100]);
    for _ in 0..2_000 {
        flood.extend(frame(CONTINUATION, 0, 1, &field.repeat(10)));
    }
    _ = stream.write_all(&flood).await;
    assert!(Client::over(stream).is_closed(LONG).await);
    scene.ends_well().await;
}

/// A client that starts requests and finishes none is disconnected.
#[tokio::test]
async fn streams_that_stop() {
    let scene = Scene::new(impatient()).await;
    let mut stream = open(&scene).await;
    let mut bytes = Vec::new();
    for id in streams(100) {
        bytes.extend(post(id, "/v1/check", false));
        // Every other one is taken back while it is waited for.
        if id % 4 == 1 {
            bytes.extend(frame(RST_STREAM, 0, id, &CANCEL));
        }
    }
    stream.write_all(&bytes).await.unwrap();
    assert!(Client::over(stream).is_closed(LONG).await);
    scene.ends_well().await;
}
