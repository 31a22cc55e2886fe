//! Unary calls straight over HTTP/2: a client with fewer layers than tonic's leaves the server to be
//! what holds it up.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{BufMut, Bytes, BytesMut};
use h2::client::SendRequest;
use http::Request;
use prost::Message;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::wire::rate_limit_response::Code;
use super::wire::{PATH, RateLimitRequest, RateLimitResponse};
use crate::Error;
use crate::measured::Seen;

/// A message as gRPC sends it: not compressed, its length before it.
pub fn framed(message: &RateLimitRequest) -> Bytes {
    let bytes = message.encode_to_vec();
    let mut framed = BytesMut::with_capacity(PREFIX + bytes.len());
    framed.put_u8(0);
    framed.put_u32(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
    framed.put_slice(&bytes);
    framed.freeze()
}

const PREFIX: usize = 5;

#[derive(Clone)]
pub struct Client {
    send: SendRequest<Bytes>,
    head: Request<()>,
}

impl Client {
    pub async fn open(port: u16) -> Result<Self, Error> {
        let stream = TcpStream::connect(("127.0.0.1", port)).await?;
        stream.set_nodelay(true)?;
        let (send, connection) = h2::client::handshake(stream).await?;
        tokio::spawn(connection);
        let head = Request::post(format!("http://127.0.0.1:{port}{PATH}"))
            .version(http::Version::HTTP_2)
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(())?;
        Ok(Self { send, head })
    }

    /// Whether what is asked about may pass.
    pub async fn admits(&mut self, message: Bytes) -> Result<bool, Error> {
        // One that is ready takes one request, and has to become ready again.
        let mut send = self.send.clone().ready().await?;
        let (answer, mut body) = send.send_request(self.head.clone(), false)?;
        body.send_data(message, true)?;
        let mut body = answer.await?.into_body();
        let mut framed = BytesMut::new();
        while let Some(chunk) = body.data().await {
            let chunk = chunk?;
            body.flow_control().release_capacity(chunk.len())?;
            framed.extend_from_slice(&chunk);
        }
        let trailers = body.trailers().await?.unwrap_or_default();
        let status = trailers.get("grpc-status").map_or(&b""[..], |status| status.as_bytes());
        let message = framed.get(PREFIX..).unwrap_or_default();
        match RateLimitResponse::decode(message)?.overall_code() {
            _ if status != b"0" => Err(format!("the call failed: {trailers:?}").into()),
            Code::Ok => Ok(true),
            Code::OverLimit => Ok(false),
            Code::Unknown => Err("it does not know".into()),
        }
    }
}

/// So many callers ask for so long. Whatever is not admitted is an error.
pub async fn drive(
    client: &Client,
    streams: usize,
    messages: &Arc<[Bytes]>,
    time: Duration,
) -> Result<Vec<Seen>, Error> {
    let end = Instant::now() + time;
    let mut tasks = JoinSet::new();
    for n in 0..streams {
        // Each starts elsewhere in the same sequence.
        tasks.spawn(repeat(client.clone(), Arc::clone(messages), n, end));
    }
    let mut all = vec![];
    while let Some(seen) = tasks.join_next().await {
        all.push(seen??);
    }
    Ok(all)
}

async fn repeat(
    mut client: Client,
    messages: Arc<[Bytes]>,
    n: usize,
    end: Instant,
) -> Result<Seen, Error> {
    let mut seen = Seen::default();
    let mut now = Instant::now();
    for message in messages.iter().cycle().skip(n * 127) {
        if now >= end {
            break;
        }
        if !client.admits(message.clone()).await? {
            return Err("it refused what must pass".into());
        }
        now = seen.answered(now);
    }
    Ok(seen)
}
