//! HTTP/1.1 in a few lines.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// One connection.
pub(crate) struct Client {
    stream: TcpStream,
}

/// An answer.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) text: String,
}

impl Answer {
    /// Whether the connection ends with it.
    pub(crate) fn says_goodbye(&self) -> bool {
        self.text.to_ascii_lowercase().contains("\r\nconnection: close\r\n")
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        let body = self.text.split_once("\r\n\r\n").unwrap().1;
        serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {body}"))
    }
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> io::Result<Client> {
        let stream = TcpStream::connect_timeout(&address, Duration::from_secs(5))?;
        stream.set_read_timeout(Some(Duration::from_secs(20)))?;
        Ok(Client { stream })
    }

    pub(crate) fn get(&mut self, path: &str) -> Answer {
        self.ask("GET", path, &[], "").expect("an answer")
    }

    pub(crate) fn check(&mut self, policy: &str, key: &str) -> Answer {
        let body = format!(r#"{{"policy":"{policy}","key":"{key}"}}"#);
        self.ask("POST", "/v1/check", &[], &body).expect("an answer")
    }

    /// Nothing if the connection ended before the answer did.
    pub(crate) fn ask(
        &mut self,
        method: &str,
        path: &str,
        lines: &[&str],
        body: &str,
    ) -> Option<Answer> {
        let length = body.len();
        let lines: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
        let text = format!(
            "{method} {path} HTTP/1.1\r\nhost: t\r\n{lines}content-length: {length}\r\n\r\n{body}"
        );
        self.stream.write_all(text.as_bytes()).ok()?;
        self.read()
    }

    /// Sends the beginning of a request, and no more.
    pub(crate) fn begin(&mut self) {
        let head = "POST /v1/check HTTP/1.1\r\nhost: t\r\ncontent-length: 30\r\n\r\n{";
        self.stream.write_all(head.as_bytes()).unwrap();
    }

    fn read(&mut self) -> Option<Answer> {
        let mut bytes = Vec::new();
        loop {
            let text = String::from_utf8_lossy(&bytes);
            if let Some((head, body)) = text.split_once("\r\n\r\n") {
                let head = head.to_ascii_lowercase();
                let length = head.split_once("content-length: ").map_or(0, |(_, rest)| {
                    rest.lines().next().and_then(|length| length.parse().ok()).unwrap_or(0)
                });
                if body.len() >= length {
                    let status = text.split(' ').nth(1)?.parse().ok()?;
                    return Some(Answer { status, text: text.into_owned() });
                }
            }
            let mut more = [0; 4096];
            match self.stream.read(&mut more) {
                Ok(length @ 1..) => bytes.extend(&more[..length]),
                _ => return None,
            }
        }
    }
}
