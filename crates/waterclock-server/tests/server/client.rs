//! HTTP/1.1 by hand: what is sent is exactly what the test says.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(20);

/// Bytes to and from a server, plain or not.
pub(crate) trait Wire: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Wire for T {}

/// One connection.
pub(crate) struct Client {
    stream: Box<dyn Wire>,
    buffer: Vec<u8>,
}

/// A response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: String,
}

impl Answer {
    /// The value of a header field.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        lines.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// The whole response as it came, without the time of day.
    pub(crate) fn text(&self) -> String {
        let lines = self.head.lines().filter(|line| !line.starts_with("date: "));
        let lines: String = lines.map(|line| format!("{line}\n")).collect();
        format!("{lines}\n{}", self.body)
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }
}

impl Client {
    pub(crate) async fn connect(address: SocketAddr) -> Client {
        Client::over(TcpStream::connect(address).await.expect("listens"))
    }

    /// On a connection that is there already.
    pub(crate) fn over(stream: impl Wire + 'static) -> Client {
        Client { stream: Box::new(stream), buffer: Vec::new() }
    }

    /// Posts JSON.
    pub(crate) async fn post(&mut self, path: &str, body: &str) -> Answer {
        self.send("POST", path, &[], body).await
    }

    pub(crate) async fn get(&mut self, path: &str) -> Answer {
        self.send("GET", path, &[], "").await
    }

    /// Sends a request with these header lines, and reads the answer.
    pub(crate) async fn send(
        &mut self,
        method: &str,
        path: &str,
        lines: &[&str],
        body: &str,
    ) -> Answer {
        let length = body.len();
        let lines: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
        let text = format!(
            "{method} {path} HTTP/1.1\r\nhost: waterclock\r\n{lines}content-length: {length}\r\n\r\n{body}"
        );
        self.write(text.as_bytes()).await;
        self.read().await.expect("an answer")
    }

    /// Sends bytes as they are.
    pub(crate) async fn write(&mut self, bytes: &[u8]) {
        // A server that has heard enough may have closed already; the answer tells.
        _ = self.stream.write_all(bytes).await;
    }

    /// Sends a request, and reads the answer, if one comes before the connection is closed.
    pub(crate) async fn try_send(&mut self, request: &[u8]) -> Option<Answer> {
        self.write(request).await;
        self.read().await
    }

    /// Whether the server closes the connection, whatever it says before.
    pub(crate) async fn is_closed(&mut self, within: Duration) -> bool {
        let end = async { while self.more().await.is_some() {} };
        timeout(within, end).await.is_ok()
    }

    /// The next answer, or nothing if the connection was closed instead.
    pub(crate) async fn read(&mut self) -> Option<Answer> {
        let head_end = loop {
            if let Some(at) = self.buffer.windows(4).position(|four| four == b"\r\n\r\n") {
                break at;
            }
            self.more().await?;
        };
        let head = String::from_utf8_lossy(&self.buffer[..head_end]).into_owned();
        let status = head.split(' ').nth(1)?.parse().ok()?;
        let mut answer = Answer { status, head, body: String::new() };
        let length: usize =
            answer.header("content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
        let end = head_end + 4 + length;
        while self.buffer.len() < end {
            self.more().await?;
        }
        answer.body = String::from_utf8_lossy(&self.buffer[head_end + 4..end]).into_owned();
        self.buffer.drain(..end);
        Some(answer)
    }

    /// The next server-sent event of an answer that has begun, or nothing if the answer has ended.
    pub(crate) async fn event(&mut self) -> Option<Value> {
        loop {
            let text = String::from_utf8_lossy(&self.buffer);
            if let Some((before, rest)) = text.split_once("data: ")
                && let Some((event, _)) = rest.split_once("\n\n")
            {
                let read =
                    serde_json::from_str(event).unwrap_or_else(|error| panic!("{error}: {event}"));
                let end = before.len() + "data: ".len() + event.len() + 2;
                self.buffer.drain(..end);
                return Some(read);
            }
            // The chunk after the last.
            if text.ends_with("0\r\n\r\n") {
                self.buffer.clear();
                return None;
            }
            self.more().await?;
        }
    }

    async fn more(&mut self) -> Option<()> {
        let read = timeout(PATIENCE, self.stream.read_buf(&mut self.buffer)).await;
        match read.expect("the server neither answers nor closes") {
            Ok(0) | Err(_) => None,
            Ok(_) => Some(()),
        }
    }
}
