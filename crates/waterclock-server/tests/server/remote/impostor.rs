//! A fake server that lists a policy, and then answers something else, or nothing.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

const LIST: &str = r#"{"policies":[{"name":"p","mode":"binary","key":[],"headers":"none","on_store_error":"local","limits":[{"name":"l","algorithm":"gcra","limit":5,"per_us":3600000000,"capacity":5}]},{"name":"odd","mode":"binary","limits":[{"name":"l","algorithm":"oracle"}]}]}"#;

pub(super) struct Impostor {
    address: SocketAddr,
    /// How many questions came, the one about policies aside.
    asked: Arc<AtomicUsize>,
    accepting: JoinHandle<()>,
}

impl Impostor {
    /// Answers every question with these bytes; with none, never.
    pub(super) async fn saying(answer: impl Into<Vec<u8>>) -> Impostor {
        let list = format!(
            "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{LIST}",
            LIST.len()
        );
        Impostor::listing(list, answer).await
    }

    /// The same, with this answer to the question about policies.
    pub(super) async fn listing(list: impl Into<Vec<u8>>, answer: impl Into<Vec<u8>>) -> Impostor {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(AtomicUsize::new(0));
        let (list, answer): (Arc<[u8]>, Arc<[u8]>) = (list.into().into(), answer.into().into());
        let counted = Arc::clone(&asked);
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (list, answer) = (Arc::clone(&list), Arc::clone(&answer));
                tokio::spawn(attend(stream, list, answer, Arc::clone(&counted)));
            }
        });
        Impostor { address, asked, accepting }
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(super) fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

impl Drop for Impostor {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// One question on each connection.
async fn attend(
    mut stream: TcpStream,
    list: Arc<[u8]>,
    answer: Arc<[u8]>,
    asked: Arc<AtomicUsize>,
) {
    let mut heard = Vec::new();
    while !heard.windows(4).any(|four| four == b"\r\n\r\n") {
        if !matches!(stream.read_buf(&mut heard).await, Ok(1..)) {
            return;
        }
    }
    if heard.starts_with(b"GET ") {
        _ = stream.write_all(&list).await;
        return;
    }
    asked.fetch_add(1, Ordering::Relaxed);
    _ = stream.write_all(&answer).await;
    // Without an answer the connection stays open; what is still sent is read, or closing would be a reset.
    let mut rest = [0; 1_024];
    if answer.is_empty() {
        while matches!(stream.read(&mut rest).await, Ok(1..)) {}
    } else {
        _ = stream.shutdown().await;
        while matches!(stream.read(&mut rest).await, Ok(1..)) {}
    }
}
