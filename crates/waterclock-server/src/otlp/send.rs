//! One message to a collector: HTTP/1.1, one connection for each.

use std::fmt::Write as _;

use prost::Message;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::settings::Target;

/// What is read of an answer: its first line.
const ANSWER: usize = 1_024;

/// Sends a message. The error is a sentence about what happened.
pub(super) async fn send(target: &Target, message: &impl Message) -> Result<(), String> {
    let Ok(sent) = timeout(target.timeout, exchange(target, message.encode_to_vec())).await else {
        return Err(format!("no answer within {} ms", target.timeout.as_millis()));
    };
    let status = sent.map_err(|error| error.to_string())?;
    match status {
        Some(200..300) => Ok(()),
        Some(status) => Err(format!("it answered {status}")),
        None => Err("it does not speak HTTP".to_owned()),
    }
}

async fn exchange(target: &Target, body: Vec<u8>) -> std::io::Result<Option<u16>> {
    let mut stream = TcpStream::connect(&*target.authority).await?;
    let mut head = String::new();
    // Writing to a string does not fail.
    _ = write!(
        head,
        "POST {} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/x-protobuf\r\ncontent-length: {}\r\nconnection: close\r\n",
        target.path,
        target.authority,
        body.len()
    );
    let mut bytes = head.into_bytes();
    for (name, value) in &target.headers {
        bytes.extend([name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat());
    }
    bytes.extend_from_slice(b"\r\n");
    bytes.extend(body);
    stream.write_all(&bytes).await?;
    let mut answer = Vec::new();
    let mut piece = [0; ANSWER];
    while answer.len() < ANSWER && !answer.windows(2).any(|two| two == b"\r\n") {
        match stream.read(&mut piece).await? {
            0 => break,
            read => answer.extend_from_slice(&piece[..read]),
        }
    }
    let line = String::from_utf8_lossy(&answer);
    let status = line.strip_prefix("HTTP/1.").and_then(|line| line.split(' ').nth(1));
    Ok(status.and_then(|status| status.trim().parse().ok()))
}
