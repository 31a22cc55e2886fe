//! TLS, and certificates asked of clients, on every face alike.

use std::time::Duration;

use rustls::version::{TLS12, TLS13};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use waterclock_config::Config;
use waterclock_server::observe::Face;
use waterclock_server::{Patience, Timing};

use crate::at_work::{AtWork, hurried};
use crate::certificates::Authority;
use crate::client::Client;
use crate::patience::LONG;

/// A first word to a face, and how its answer begins.
const FACES: [(Face, &[u8], &[u8]); 3] = [
    (Face::Http, b"GET /healthz HTTP/1.1\r\nhost: waterclock\r\n\r\n", b"HTTP/1.1 200"),
    // A preface and empty settings are answered with settings, 6 bytes for each of them.
    (Face::Grpc, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0", b"\0\0"),
    (Face::Resp, b"PING\r\n", b"+PONG"),
];

struct Scene {
    authority: Authority,
    server: AtWork,
    _directory: TempDir,
}

/// A server with a certificate, and perhaps with `client_ca`.
async fn scene(asks_clients: bool, patience: Patience) -> Scene {
    let directory = TempDir::new().unwrap();
    let authority = Authority::new();
    authority.for_server().write_to(directory.path());
    std::fs::write(directory.path().join("ca.pem"), authority.pem()).unwrap();
    let client_ca = if asks_clients { ", client_ca = \"ca.pem\"" } else { "" };
    let text = format!(
        "[server]\ntls = {{ cert = \"cert.pem\", key = \"key.pem\"{client_ca} }}\n\
         [policies.p]\nlimits = [\"1000000/s\"]\n"
    );
    let path = directory.path().join("waterclock.toml");
    std::fs::write(&path, text).unwrap();
    let config = Config::load(&path).unwrap();
    let server = AtWork::with(config, Timing { patience, ..hurried() }).await;
    Scene { authority, server, _directory: directory }
}

/// What the face says first, as long as what is expected of it; shorter if it closes before.
async fn first_words(
    mut stream: impl AsyncReadExt + AsyncWriteExt + Unpin,
    say: &[u8],
    long: usize,
) -> Vec<u8> {
    _ = stream.write_all(say).await;
    _ = stream.flush().await;
    let mut heard = vec![0; long];
    let mut length = 0;
    while length < long {
        let read = timeout(LONG, stream.read(&mut heard[length..])).await;
        match read.expect("neither an answer nor an end") {
            Ok(0) | Err(_) => break,
            Ok(read) => length += read,
        }
    }
    heard.truncate(length);
    heard
}

/// Envoy offers at most 1.2 to its upstreams by default, and Envoy Gateway does not configure more.
#[tokio::test]
async fn both_versions_of_tls_are_spoken() {
    let Scene { authority, server, .. } = &scene(false, Patience::default()).await;
    for versions in [&[&TLS12], &[&TLS13]] {
        for (face, say, hear) in FACES {
            let stream = authority.connect_by(versions, server.address(face), None).await;
            let heard = first_words(stream.unwrap(), say, hear.len()).await;
            assert_eq!(heard, hear, "{face:?} {versions:?}");
        }
    }
}

#[tokio::test]
async fn clients_that_know_the_authority_are_served() {
    let Scene { authority, server, .. } = &scene(false, Patience::default()).await;
    for (face, say, hear) in FACES {
        let stream = authority.connect(server.address(face), None).await.unwrap();
        assert_eq!(first_words(stream, say, hear.len()).await, hear, "{face:?}");
        let stranger = Authority::new();
        assert!(stranger.connect(server.address(face), None).await.is_err(), "{face:?}");
        server.has_no_connections(face).await;
    }
}

#[tokio::test]
async fn plain_text_is_not_answered() {
    let Scene { server, .. } = &scene(false, Patience::default()).await;
    for (face, say, hear) in FACES {
        let stream = TcpStream::connect(server.address(face)).await.unwrap();
        let heard = first_words(stream, say, hear.len()).await;
        // An alert of TLS may come before the end.
        assert_ne!(heard, hear, "{face:?}");
        server.has_no_connections(face).await;
    }
}

#[tokio::test]
async fn clients_show_a_certificate_where_they_are_asked_for_one() {
    let Scene { authority, server, .. } = &scene(true, Patience::default()).await;
    let stranger = Authority::new();
    for (face, say, hear) in FACES {
        let own = authority.for_client();
        let stream = authority.connect(server.address(face), Some(&own)).await.unwrap();
        assert_eq!(first_words(stream, say, hear.len()).await, hear, "{face:?}");
        // With TLS 1.3 a client learns only afterwards that it was refused.
        for own in [None, Some(stranger.for_client())] {
            if let Ok(stream) = authority.connect(server.address(face), own.as_ref()).await {
                let heard = first_words(stream, say, hear.len()).await;
                assert_eq!(heard, b"", "{face:?}: an unknown certificate: {}", own.is_some());
            }
        }
        server.has_no_connections(face).await;
    }
}

#[tokio::test]
async fn a_handshake_that_stalls_is_given_up() {
    let patience = Patience { head: Duration::from_millis(300), ..Patience::default() };
    let Scene { server, .. } = &scene(false, patience).await;
    for (face, ..) in FACES {
        for beginning in [&b""[..], b"\x16\x03\x01\x02\x00\x01\x00"] {
            let stream = TcpStream::connect(server.address(face)).await.unwrap();
            let mut client = Client::over(stream);
            client.write(beginning).await;
            assert!(client.is_closed(LONG).await, "{face:?}");
        }
        server.has_no_connections(face).await;
    }
}

/// A client that asks for long answers and reads none of them loses its connection.
#[tokio::test]
async fn answers_that_are_not_read_keep_no_connection() {
    let short = Duration::from_secs(1);
    let patience = Patience { head: short, body: short, idle: 2 * short, ..Patience::default() };
    let Scene { authority, server, .. } = &scene(false, patience).await;
    let checks = vec![r#"{"policy":"p","key":"k"}"#; 250].join(",");
    let body = format!(r#"{{"atomic":false,"checks":[{checks}]}}"#);
    let request = format!(
        "POST /v1/check HTTP/1.1\r\nhost: t\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut client = authority.connect(server.address(Face::Http), None).await.unwrap();
    // More than the buffers of both sides have room for.
    for _ in 0..120 {
        let sent = async {
            client.write_all(request.as_bytes()).await?;
            client.flush().await
        };
        if !matches!(timeout(Duration::from_millis(200), sent).await, Ok(Ok(()))) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    server.has_no_connections(Face::Http).await;
}
