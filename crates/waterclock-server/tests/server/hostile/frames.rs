//! HTTP/2 by hand: frames that a decent client would not send.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::timeout;

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const CONTINUATION: u8 = 9;

pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;

/// How every connection begins.
pub(crate) fn opening() -> Vec<u8> {
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    bytes.extend(frame(SETTINGS, 0, 0, b""));
    bytes
}

pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("short");
    let mut bytes = length.to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// The head of a POST, from the table that every peer knows.
pub(crate) fn post(stream: u32, path: &str, ends: bool) -> Vec<u8> {
    let end = if ends { END_STREAM } else { 0 };
    frame(HEADERS, END_HEADERS | end, stream, &head(path))
}

/// `:method: POST`, `:scheme: http`, `:authority: t` and a path.
pub(crate) fn head(path: &str) -> Vec<u8> {
    let mut block = vec![0x83, 0x86, 0x01, 1, b't', 0x04, u8::try_from(path.len()).expect("short")];
    block.extend(path.as_bytes());
    block
}

/// A frame from the server.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

/// What came and was not looked at yet.
#[derive(Default)]
pub(crate) struct Heard(Vec<u8>);

impl Heard {
    /// The next frame of this sort, or nothing if the connection ends before.
    pub(crate) async fn until(
        &mut self,
        stream: &mut (impl AsyncRead + Unpin),
        is: impl Fn(&Frame) -> bool,
    ) -> Option<Frame> {
        loop {
            let frame = self.next(stream).await?;
            if is(&frame) {
                return Some(frame);
            }
        }
    }

    async fn next(&mut self, stream: &mut (impl AsyncRead + Unpin)) -> Option<Frame> {
        loop {
            if let Some(frame) = self.take() {
                return Some(frame);
            }
            let read = timeout(Duration::from_secs(20), stream.read_buf(&mut self.0)).await;
            match read.expect("the server neither answers nor closes") {
                Ok(0) | Err(_) => return None,
                Ok(_) => {}
            }
        }
    }

    fn take(&mut self) -> Option<Frame> {
        let head: &[u8; 9] = self.0.first_chunk()?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let frame = Frame {
            kind: head[3],
            stream: u32::from_be_bytes([head[5], head[6], head[7], head[8]]),
            payload: self.0.get(9..9 + length)?.to_vec(),
        };
        self.0.drain(..9 + length);
        Some(frame)
    }
}
