//! What the proxies protect.

use std::io::{BufRead, BufReader, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use waterclock_conformance::real::listener;

/// A web server that says `hello from the origin`, and 403 for `/forbidden`. It
/// ends with the process.
pub(crate) struct Origin {
    port: u16,
    served: Arc<AtomicU32>,
}

impl Origin {
    pub(crate) fn start() -> Self {
        let listener = listener();
        let port = listener.local_addr().expect("a listener has an address").port();
        let served = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&served);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let count = Arc::clone(&count);
                thread::spawn(move || serve(&stream, &count));
            }
        });
        Self { port, served }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// How many requests arrived so far.
    pub(crate) fn served(&self) -> u32 {
        self.served.load(Ordering::Relaxed)
    }
}

/// Answers one request; the proxies take care of the rest. A connection without a request gets nothing.
fn serve(stream: &TcpStream, served: &AtomicU32) {
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    let Some(question) = lines.next() else { return };
    for _header in lines.take_while(|line| !line.is_empty()) {}
    served.fetch_add(1, Ordering::Relaxed);
    let status = if question.contains("/forbidden") { "403 Forbidden" } else { "200 OK" };
    let body = "hello from the origin\n";
    let length = body.len();
    let answer =
        format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}");
    let mut stream = stream;
    // A proxy that has gone away needs no answer.
    let _ = stream.write_all(answer.as_bytes()).and_then(|()| stream.shutdown(Shutdown::Write));
}
