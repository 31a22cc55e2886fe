//! Peers that mean no good, beside one that goes on unharmed.

use std::time::Duration;

use http::{HeaderValue, Method, Request};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use waterclock_server::envoy::Code;
use waterclock_server::{Patience, Phase};

use super::scene::{Client, Scene, ask, lone, per_user, request, user};
use crate::hostile::frames::{self, GOAWAY, Heard, RST_STREAM, frame, opening};
use crate::patience::LONG;

const LIMIT: &str = "\"1000000/d\"";
const PATH: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

pub(crate) async fn http2(scene: &Scene) -> h2::client::SendRequest<bytes::Bytes> {
    let stream = TcpStream::connect(scene.address()).await.unwrap();
    let (sender, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    sender.ready().await.unwrap()
}

pub(crate) fn post(scene: &Scene) -> Request<()> {
    post_to(scene, PATH)
}

pub(crate) fn post_to(scene: &Scene, path: &str) -> Request<()> {
    Request::builder()
        .method(Method::POST)
        .uri(format!("http://{}{path}", scene.address()))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(())
        .unwrap()
}

async fn is_well(client: &mut Client) {
    assert_eq!(lone(client, user("legitimate")).await.0, Code::Ok);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_taken_back_at_once_end_their_connection_only() {
    let (scene, mut client) = Scene::with_client(&per_user(LIMIT)).await;
    let mut flood = opening();
    for id in (1..40_000).step_by(2) {
        flood.extend(frames::post(id, PATH, false));
        flood.extend(frame(RST_STREAM, 0, id, &8_u32.to_be_bytes()));
    }
    for _ in 0..5 {
        let mut stream = TcpStream::connect(scene.address()).await.unwrap();
        let (mut reader, mut writer) = stream.split();
        // The server may have had enough before all is written.
        let write = async { _ = writer.write_all(&flood).await };
        let mut heard = Heard::default();
        let read = heard.until(&mut reader, |frame| frame.kind == GOAWAY);
        let ((), goodbye) = timeout(LONG, async { tokio::join!(write, read) }).await.unwrap();
        // ENHANCE_YOUR_CALM
        assert_eq!(goodbye.expect("a goodbye").payload[4..8], [0, 0, 0, 11]);
        is_well(&mut client).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_headers_are_turned_away() {
    let (scene, mut client) = Scene::with_client(&per_user(LIMIT)).await;
    for (bytes, is_fine) in [(8 * 1_024, true), (20 * 1_024, false), (1_024 * 1_024, false)] {
        let mut sender = http2(&scene).await;
        let mut request = post(&scene);
        // Many fields, as one of them alone does not fit into a frame.
        for piece in 0..bytes / 1_024 {
            let name = http::HeaderName::try_from(format!("x-{piece}")).unwrap();
            let value = HeaderValue::from_str(&"x".repeat(1_000)).unwrap();
            request.headers_mut().insert(name, value);
        }
        let answered = async {
            let (response, _) = sender.send_request(request, true).ok()?;
            let response = response.await.ok()?;
            Some(response.status().is_success())
        };
        let answered = timeout(LONG, answered).await.unwrap_or_default();
        assert_eq!(answered.unwrap_or(false), is_fine, "{bytes}");
        is_well(&mut client).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_streams_than_fit_wait_and_none_is_lost() {
    let scene = Scene::new(&per_user(LIMIT)).await;
    let client = scene.client().await;
    let callers: Vec<_> = (0..1_000)
        .map(|_| {
            let mut client = client.clone();
            tokio::spawn(
                async move { ask(&mut client, request(vec![user("many")])).await.map(drop) },
            )
        })
        .collect();
    for caller in callers {
        caller.await.unwrap().unwrap();
    }
}

/// Whether the server ends a connection that begins like this.
async fn is_ended(scene: &Scene, first: &[u8]) -> bool {
    let mut stream = TcpStream::connect(scene.address()).await.unwrap();
    stream.write_all(first).await.unwrap();
    let mut rest = Vec::new();
    let end = timeout(LONG, stream.read_to_end(&mut rest)).await;
    end.is_ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_protocols_are_not_spoken() {
    // So patient that only the first bytes can be the reason.
    let patience = Patience { head: Duration::from_secs(60), ..Patience::default() };
    let scene = Scene::with(&per_user(LIMIT), patience).await;
    let mut client = scene.client().await;
    for first in [&b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"[..], b"*1\r\n$4\r\nPING\r\n", &[0; 100]] {
        assert!(is_ended(&scene, first).await);
        is_well(&mut client).await;
    }
    assert!(
        is_ended(&scene, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nnot a frame at all, far too long").await
    );
    is_well(&mut client).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silence_and_dawdling_are_not_waited_for() {
    let short = Duration::from_millis(300);
    let scene =
        Scene::with(&per_user(LIMIT), Patience { head: short, idle: short, ..Patience::default() })
            .await;
    // Nothing, half a preface, and a whole one with nothing after it.
    for first in [&b""[..], b"PRI * HT", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0"] {
        assert!(is_ended(&scene, first).await, "{first:?}");
    }
    // A request whose body never comes.
    let mut sender = http2(&scene).await;
    let (response, _body) = sender.send_request(post(&scene), false).unwrap();
    let response = timeout(LONG, response).await.unwrap().unwrap();
    assert_eq!(response.headers()["grpc-status"], "4");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn draining_ends_connections_and_loses_no_request() {
    let scene = Scene::new(&per_user(LIMIT)).await;
    let mut phase = scene.server().phase();
    let mut client = scene.client().await;
    is_well(&mut client).await;
    let asking = tokio::spawn(async move {
        let mut answered = 0_u32;
        while *phase.borrow_and_update() < Phase::Draining {
            let answer = ask(&mut client, request(vec![user("x")])).await;
            if *phase.borrow() < Phase::Draining {
                answer.unwrap();
            }
            answered += 1;
        }
        answered
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    timeout(LONG, scene.stop()).await.unwrap();
    assert!(asking.await.unwrap() > 0);
}

/// Long messages that never end share a bounded memory, and short ones are decided beside them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_that_stop_leave_room_for_short_ones() {
    let text = format!("[server]\nmax_receive_bytes = \"4MiB\"\n{}", per_user(LIMIT));
    let (scene, mut client) = Scene::with_client(&text).await;
    let mut sender = http2(&scene).await;
    let mut message = vec![0, 0, 0, 0xea, 0x60];
    message.resize(50_000, b'x');
    let mut streams = Vec::new();
    for _ in 0..80 {
        sender = sender.ready().await.unwrap();
        let (response, mut body) = sender.send_request(post(&scene), false).unwrap();
        body.send_data(message.clone().into(), false).unwrap();
        streams.push((response, body));
    }
    let refused = "waterclock_receive_refused_total{face=\"grpc\"}";
    crate::patience::eventually("some find no room", async || {
        !scene.server().metrics_text().contains(&format!("{refused} 0\n"))
    })
    .await;
    is_well(&mut client).await;
    // One without room is refused, which is a decision; one that never ends is an error.
    let mut decided = 0;
    for (response, _body) in streams {
        let response = timeout(LONG, response).await.unwrap().unwrap();
        decided += usize::from(!response.headers().contains_key("grpc-status"));
    }
    // Their address has 1.5 MiB, of which three quarters hold 23 of them.
    assert!((57..80).contains(&decided), "{decided}");
}
