//! The WebDriver protocol: JSON over HTTP.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// Starting a browser on a machine that is busy with other tests takes its time.
const PATIENCE: Duration = Duration::from_secs(120);

/// One call of the WebDriver protocol: what it answers.
#[track_caller]
pub(crate) fn call(port: u16, method: &str, path: &str, body: &Value) -> Value {
    match try_call(port, method, path, body) {
        Ok((200, answer)) => answer["value"].clone(),
        Ok((status, answer)) => {
            let message = answer["value"]["message"].to_string();
            panic!("{method} {path} {body}: {status}: {}", &message[..message.len().min(600)])
        }
        Err(error) => panic!("{method} {path}: {error}"),
    }
}

/// The same where it need not succeed: the status, and what came with it.
pub(crate) fn try_call(
    port: u16,
    method: &str,
    path: &str,
    body: &Value,
) -> std::io::Result<(u16, Value)> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let body = body.to_string();
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n\
         Connection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    )?;
    let mut answer = BufReader::new(stream);
    let mut line = String::new();
    answer.read_line(&mut line)?;
    let status = line.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    let mut length = 0;
    loop {
        line.clear();
        answer.read_line(&mut line)?;
        let header = line.trim().to_ascii_lowercase();
        if header.is_empty() {
            break;
        }
        if let Some(value) = header.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
    }
    let mut bytes = vec![0; length];
    answer.read_exact(&mut bytes)?;
    Ok((status, serde_json::from_slice(&bytes).unwrap_or(Value::Null)))
}
