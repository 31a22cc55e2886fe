//! Bytes that are not a request, or a request that should be rejected.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use super::{CHECK, LONG, Scene, impatient};
use crate::client::Client;

fn with_body(lines: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let mut bytes =
        format!("POST /v1/check HTTP/1.1\r\nhost: t\r\n{lines}content-length: {length}\r\n\r\n")
            .into_bytes();
    bytes.extend(body);
    bytes
}

fn chunked(lines: &str, body: &str) -> Vec<u8> {
    format!("POST /v1/check HTTP/1.1\r\nhost: t\r\n{lines}transfer-encoding: chunked\r\n\r\n{body}")
        .into_bytes()
}

/// Heads and bodies, each with the statuses that are right. 0: closed without a word.
fn cases() -> Vec<(&'static str, Vec<u8>, &'static [u16])> {
    let lines = |count| (0..count).map(|at| format!("x-{at}: y\r\n")).collect::<String>();
    let get = |lines: &str| format!("GET /healthz HTTP/1.1\r\nhost: t\r\n{lines}\r\n").into_bytes();
    let key = "k".repeat(1 << 20);
    let mut garbage = vec![0; 4_096];
    fastrand::Rng::with_seed(1).fill(&mut garbage);
    vec![
        ("a long head", get(&format!("x: {}\r\n", "y".repeat(17_000))), &[431]),
        ("no host", b"GET /healthz HTTP/1.1\r\n\r\n".to_vec(), &[400]),
        ("two hosts", get("host: u\r\n"), &[400]),
        ("no host, before it was needed", b"GET /healthz HTTP/1.0\r\n\r\n".to_vec(), &[200]),
        ("64 lines", get(&lines(63)), &[200]),
        ("65 lines", get(&lines(64)), &[431]),
        (
            "a long target",
            format!("GET /{} HTTP/1.1\r\n\r\n", "y".repeat(17_000)).into(),
            &[414, 431],
        ),
        (
            "a key of 1 MiB",
            with_body("", format!(r#"{{"policy":"p","key":"{key}"}}"#).as_bytes()),
            &[413],
        ),
        (
            "a key of 1 KiB + 1",
            with_body("", format!(r#"{{"policy":"p","key":"{}"}}"#, &key[..1_025]).as_bytes()),
            &[400],
        ),
        ("a deep nest", with_body("", "[".repeat(60_000).as_bytes()), &[400]),
        ("a nest too large", with_body("", "[".repeat(100_000).as_bytes()), &[413]),
        (
            "a deep nest inside",
            with_body("", format!(r#"{{"policy":{}"#, "[".repeat(60_000)).as_bytes()),
            &[400],
        ),
        ("not UTF-8", with_body("", b"{\"policy\":\"p\",\"key\":\"\xff\xfe\"}"), &[400]),
        ("half a surrogate", with_body("", br#"{"policy":"p","key":"\ud800"}"#), &[400]),
        ("a name twice", with_body("", br#"{"policy":"p","key":"k","key":"l"}"#), &[400]),
        ("a huge cost", with_body("", br#"{"policy":"p","key":"k","cost":1e999}"#), &[400]),
        ("no chunk", chunked("", "ZZ\r\nhello\r\n0\r\n\r\n"), &[400]),
        ("a huge chunk", chunked("", "FFFFFFFFFFFFFFFFF\r\n"), &[400]),
        (
            "chunks too large",
            chunked("", &format!("{:x}\r\n{}\r\n0\r\n\r\n", 70_000, "y".repeat(70_000))),
            &[413],
        ),
        ("two lengths", with_body("content-length: 3\r\n", CHECK.as_bytes()), &[400]),
        (
            "a signed length",
            b"POST /v1/check HTTP/1.1\r\nhost: t\r\ncontent-length: +5\r\n\r\nhello".to_vec(),
            &[400],
        ),
        (
            "not chunked in the end",
            chunked("transfer-encoding: gzip\r\n", "")
                .iter()
                .map(|byte| if *byte == b'k' { b'j' } else { *byte })
                .collect(),
            &[400],
        ),
        ("a space before the colon", with_body("transfer-encoding : chunked\r\n", b"{}"), &[400]),
        ("a folded line", get("x: y\r\n z\r\n"), &[400]),
        ("a bad version", b"GET / HTTP/9.9\r\n\r\n".to_vec(), &[400, 505]),
        ("a NUL", b"GET /\0 HTTP/1.1\r\n\r\n".to_vec(), &[400]),
        ("garbage", garbage, &[400, 0]),
        ("TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".repeat(50), &[400, 0]),
        ("Redis", b"*1\r\n$4\r\nPING\r\n\r\n".to_vec(), &[400, 0]),
    ]
}

#[tokio::test]
async fn nonsense_is_answered_or_closed() {
    let scene = Scene::new(impatient()).await;
    for (name, bytes, statuses) in cases() {
        let mut client = scene.client().await;
        let answer = client.try_send(&bytes).await;
        let status = answer.map_or(0, |answer| answer.status);
        assert!(statuses.contains(&status), "{name}: {status}");
    }
    scene.ends_well().await;
}

/// With two content lengths, a proxy in front may use the other one, and take the rest of a
/// body for a request. So nothing after such a request is looked at.
#[tokio::test]
async fn nothing_is_smuggled() {
    let scene = Scene::new(impatient()).await;
    let smuggled = "GET /healthz HTTP/1.1\r\nhost: t\r\n\r\n";
    let length = CHECK.len();
    for lines in [
        "content-length: 4\r\ntransfer-encoding: chunked\r\n",
        "transfer-encoding: chunked\r\ncontent-length: 4\r\n",
    ] {
        let mut client = scene.client().await;
        let text = format!(
            "POST /v1/check HTTP/1.1\r\nhost: t\r\n{lines}\r\n{length:x}\r\n{CHECK}\r\n0\r\n\r\n{smuggled}"
        );
        let answer = client.try_send(text.as_bytes()).await.expect("an answer");
        assert!([200, 400].contains(&answer.status), "{}", answer.status);
        assert!(client.read().await.is_none(), "{lines}: the smuggled request was answered");
    }
    scene.ends_well().await;
}

#[tokio::test]
async fn a_thousand_requests_at_once_are_answered_in_order() {
    let scene = Scene::new(impatient()).await;
    let mut client = scene.client().await;
    let requests: String = (0..1_000)
        .map(|at| {
            let body = format!(r#"{{"policy":"p","key":"{at}"}}"#);
            let length = body.len();
            format!("POST /v1/check HTTP/1.1\r\nhost: t\r\ncontent-length: {length}\r\n\r\n{body}")
        })
        .collect();
    client.write(requests.as_bytes()).await;
    for at in 0..1_000 {
        let answer = client.read().await.expect("an answer");
        assert_eq!(answer.status, 200);
        assert_eq!(answer.json()["key"], at.to_string());
    }
    drop(client);
    scene.ends_well().await;
}

/// A connection that is closed while more is coming is reset, and a reset may take along the answer
/// that explains it. So the server keeps reading for a while.
#[tokio::test]
async fn a_client_that_goes_on_talking_is_not_cut_off() {
    let scene = Scene::new(impatient()).await;
    let mut stream = TcpStream::connect(scene.server.http_address()).await.unwrap();
    stream
        .write_all(b"POST /v1/check HTTP/1.1\r\nhost: t\r\ncontent-length: 1000000\r\n\r\n")
        .await
        .unwrap();
    let mut heard = Vec::new();
    while !heard.ends_with(b"}") {
        let read = timeout(LONG, stream.read_buf(&mut heard)).await.expect("an answer").unwrap();
        assert_ne!(read, 0, "{}", String::from_utf8_lossy(&heard));
    }
    assert!(heard.starts_with(b"HTTP/1.1 413"));
    // Well within patience.
    for _ in 0..10 {
        stream.write_all(&[b'x'; 1_000]).await.expect("the server still reads");
        sleep(Duration::from_millis(5)).await;
    }
    // But not for good.
    assert!(Client::over(stream).is_closed(LONG).await);
    scene.ends_well().await;
}

/// An unexpected body is not taken for the next request, and does not close the connection.
#[tokio::test]
async fn a_body_where_none_belongs() {
    let scene = Scene::new(impatient()).await;
    let mut client = scene.client().await;
    for body in [
        format!("content-length: 60000\r\n\r\n{}", "x".repeat(60_000)),
        format!("transfer-encoding: chunked\r\n\r\n{:x}\r\n{CHECK}\r\n0\r\n\r\n", CHECK.len()),
    ] {
        for path in ["GET /healthz", "POST /nowhere", "PATCH /v1/check", "POST /v1/check"] {
            let text = format!("{path} HTTP/1.1\r\nhost: t\r\n{body}");
            let answer = client.try_send(text.as_bytes()).await.expect("an answer");
            assert!(answer.status < 500, "{path}: {}", answer.status);
            if answer.header("connection") == Some("close") {
                client = scene.client().await;
            }
            assert_eq!(client.post("/v1/check", CHECK).await.status, 200, "{path}");
        }
    }
    drop(client);
    scene.ends_well().await;
}
