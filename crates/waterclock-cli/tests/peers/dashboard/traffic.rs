//! Clients that send checks while the dashboard is open.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::json;

/// Keeps asking until it is dropped.
pub(super) struct Traffic {
    goes_on: Arc<AtomicBool>,
    clients: Vec<JoinHandle<()>>,
}

impl Traffic {
    pub(super) fn start(clients: Vec<Box<dyn FnMut() + Send>>) -> Self {
        let goes_on = Arc::new(AtomicBool::new(true));
        let client = |mut ask: Box<dyn FnMut() + Send>| {
            let goes_on = Arc::clone(&goes_on);
            thread::spawn(move || {
                while goes_on.load(Ordering::Relaxed) {
                    ask();
                    thread::sleep(Duration::from_millis(20));
                }
            })
        };
        let clients = clients.into_iter().map(client).collect();
        Self { goes_on, clients }
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        self.goes_on.store(false, Ordering::Relaxed);
        for client in self.clients.drain(..) {
            // What went wrong there has been said there.
            _ = client.join();
        }
    }
}

/// Asks the HTTP face for one decision; the status.
pub(super) fn check_by_http(port: u16, policy: &str, key: &str) -> u16 {
    let body = json!({ "policy": policy, "key": key }).to_string();
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("it listens");
    let length = body.len();
    let question = format!(
        "POST /v1/check HTTP/1.1\r\nHost: t\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    stream.write_all(question.as_bytes()).expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer arrives");
    answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0)
}

/// Asks the Redis face for one decision about any bytes.
pub(super) fn check_by_resp(port: u16, policy: &str, key: &[u8]) {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("it listens");
    let mut question = b"*3\r\n".to_vec();
    for word in [b"RL.CHECK", policy.as_bytes(), key] {
        question.extend(format!("${}\r\n", word.len()).into_bytes());
        question.extend(word);
        question.extend(b"\r\n");
    }
    stream.write_all(&question).expect("it reads");
    let mut answer = [0; 256];
    let read = stream.read(&mut answer).expect("an answer arrives");
    assert_eq!(answer[..read].first(), Some(&b'*'), "numbers");
}

/// A client of the Redis face that asks for one decision after the other on one connection.
pub(super) fn by_resp(port: u16, command: &'static str) -> Box<dyn FnMut() + Send> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("it listens");
    Box::new(move || {
        stream.write_all(format!("{command}\r\n").as_bytes()).expect("it reads");
        let mut answer = [0; 256];
        let read = stream.read(&mut answer).expect("an answer arrives");
        assert_eq!(answer[..read].first(), Some(&b'*'), "numbers");
    })
}
