//! A server that shuts down loses no request.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use waterclock_config::Config;
use waterclock_server::{Patience, Phase, Timing};

use crate::at_work::{AtWork, hurried};
use crate::hostile::frames;
use crate::patience::{LONG, eventually};

const POLICY: &str = "[policies.p]\nlimits = [\"1000000/s\"]\n";
const CHECK: &str = r#"{"policy":"p","key":"k"}"#;

fn leisurely() -> Timing {
    Timing {
        lame_duck: Duration::from_millis(300),
        quiet: Duration::from_millis(300),
        patience: Patience::default(),
        ..hurried()
    }
}

async fn serving(timing: Timing) -> AtWork {
    AtWork::with(Config::read("test.toml", POLICY).unwrap(), timing).await
}

#[tokio::test]
async fn not_ready_first_and_every_answer_says_goodbye() {
    let server = serving(Timing { lame_duck: Duration::from_secs(5), ..leisurely() }).await;
    let (mut one, mut two) = (server.http().await, server.http().await);
    let answer = one.get("/readyz").await;
    assert_eq!((answer.status, answer.header("connection")), (200, None));
    let address = server.http_address();
    let shared = Arc::clone(server.running.server());
    let stop = tokio::spawn(server.running.stop());
    eventually("a lame duck", async || *shared.phase().borrow() >= Phase::LameDuck).await;
    let ready = one.get("/readyz").await;
    assert_eq!((ready.status, ready.header("connection")), (503, Some("close")));
    assert!(one.is_closed(LONG).await);
    // Still serving, on connections old and new.
    let mut three = crate::client::Client::connect(address).await;
    for client in [&mut two, &mut three] {
        let check = client.post("/v1/check", CHECK).await;
        assert_eq!((check.status, check.header("connection")), (200, Some("close")));
        assert!(client.is_closed(LONG).await);
    }
    timeout(LONG, stop).await.expect("ends").unwrap();
    assert!(TcpStream::connect(address).await.is_err(), "the listener is closed");
}

/// A request may be on its way when the server decides to close a connection at rest.
#[tokio::test]
async fn a_request_in_the_last_moment_is_answered() {
    let timing =
        Timing { lame_duck: Duration::ZERO, quiet: Duration::from_secs(15), ..leisurely() };
    let server = serving(timing).await;
    let mut client = server.http().await;
    assert_eq!(client.get("/healthz").await.status, 200);
    let shared = Arc::clone(server.running.server());
    let stop = tokio::spawn(server.running.stop());
    eventually("draining", async || *shared.phase().borrow() == Phase::Draining).await;
    let check = client.post("/v1/check", CHECK).await;
    assert_eq!((check.status, check.header("connection")), (200, Some("close")));
    timeout(LONG, stop).await.expect("ends").unwrap();
}

/// Connected, but not accepted yet, or accepted and not read yet, when the server drains.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_got_in_are_answered() {
    for _ in 0..5 {
        let timing = Timing { lame_duck: Duration::ZERO, ..leisurely() };
        let server = serving(timing).await;
        let address = server.http_address();
        let mut clients = tokio::task::JoinSet::new();
        let served = Arc::new(AtomicUsize::new(0));
        for _ in 0..8 {
            let served = Arc::clone(&served);
            clients.spawn(async move {
                let mut answered = 0;
                // One connection per request, until the listener is closed.
                while let Ok(Ok(stream)) =
                    timeout(Duration::from_secs(2), TcpStream::connect(address)).await
                {
                    let mut client = crate::client::Client::over(stream);
                    let answer = client.try_send(b"GET /healthz HTTP/1.1\r\nhost: t\r\n\r\n").await;
                    assert_eq!(answer.expect("an answer").status, 200);
                    served.fetch_add(usize::from(answered == 0), Ordering::Relaxed);
                    answered += 1;
                }
                answered
            });
        }
        eventually("all are served", async || served.load(Ordering::Relaxed) == 8).await;
        timeout(LONG, server.running.stop()).await.expect("ends");
        while let Some(answered) = clients.join_next().await {
            assert!(answered.expect("no request is lost") > 0);
        }
    }
}

#[tokio::test]
async fn a_connection_at_rest_does_not_hold_the_server_up() {
    let server = serving(Timing { drain: Duration::from_secs(60), ..leisurely() }).await;
    let mut clients = Vec::new();
    for _ in 0..10 {
        let mut client = server.http().await;
        assert_eq!(client.get("/healthz").await.status, 200);
        clients.push(client);
    }
    let stop = tokio::spawn(server.running.stop());
    for client in &mut clients {
        assert!(client.is_closed(LONG).await);
    }
    drop(clients);
    timeout(LONG, stop).await.expect("ends").unwrap();
}

#[tokio::test]
async fn a_body_under_way_is_awaited_and_answered() {
    let server = serving(leisurely()).await;
    let mut client = server.http().await;
    let length = CHECK.len();
    let head = format!("POST /v1/check HTTP/1.1\r\nhost: t\r\ncontent-length: {length}\r\n\r\n");
    client.write(head.as_bytes()).await;
    client.write(&CHECK.as_bytes()[..5]).await;
    sleep(Duration::from_millis(50)).await;
    let stop = tokio::spawn(server.running.stop());
    sleep(Duration::from_millis(900)).await;
    assert!(!stop.is_finished());
    client.write(&CHECK.as_bytes()[5..]).await;
    assert_eq!(client.read().await.expect("an answer").status, 200);
    timeout(LONG, stop).await.expect("ends").unwrap();
}

/// A connection that neither finishes nor closes is dropped in the end.
#[tokio::test]
async fn no_client_holds_the_server_up_for_good() {
    let server = serving(Timing { drain: Duration::from_millis(300), ..leisurely() }).await;
    let mut client = server.http().await;
    client.write(b"POST /v1/check HTTP/1.1\r\nhost: t\r\ncontent-length: 9\r\n\r\n").await;
    sleep(Duration::from_millis(50)).await;
    timeout(LONG, server.running.stop()).await.expect("ends");
    assert!(client.is_closed(LONG).await, "and the connection is closed");
}

/// HTTP/2 says which requests it still answers.
#[tokio::test]
async fn streams_under_way_are_answered() {
    let server = serving(leisurely()).await;
    let mut stream = TcpStream::connect(server.http_address()).await.unwrap();
    let mut bytes = frames::opening();
    bytes.extend(frames::post(1, "/v1/check", false));
    stream.write_all(&bytes).await.unwrap();
    let mut heard = frames::Heard::default();
    heard.until(&mut stream, |frame| frame.kind == frames::SETTINGS).await.expect("HTTP/2");
    sleep(Duration::from_millis(50)).await;
    let stop = tokio::spawn(server.running.stop());
    heard.until(&mut stream, |frame| frame.kind == frames::GOAWAY).await.expect("a goodbye");
    stream
        .write_all(&frames::frame(frames::DATA, frames::END_STREAM, 1, CHECK.as_bytes()))
        .await
        .unwrap();
    let answer = heard.until(&mut stream, |frame| frame.kind == frames::HEADERS).await;
    // 0x88 is `:status: 200`.
    assert_eq!(answer.expect("an answer").payload[0], 0x88);
    let mut rest = Vec::new();
    _ = timeout(LONG, stream.read_to_end(&mut rest)).await.expect("ends");
    drop(stream);
    timeout(LONG, stop).await.expect("ends").unwrap();
}
