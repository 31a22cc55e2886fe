//! What reads bytes from others, without sockets: for fuzz targets, and no part of the API.
//!
//! Everything goes through the code that serves connections, from the first byte to the answer.

use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::Router;
use bytes::Bytes;
use futures_util::poll;
use http::Request;
use http_body_util::{BodyExt, Full};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::yield_now;
use waterclock_config::{Config, Invalid};

use crate::connections::Place;
use crate::engine::{Engine, Plan};
use crate::face;
use crate::observe::{Face, Metrics};
use crate::pace::Pace;
use crate::reference::Domain;
use crate::rules::Entry;
use crate::server::{Identity, Server};
use crate::timing::Timing;
use crate::xds;

/// How often something is polled that may wait. What has not ended by then waits for bytes that do not come.
const POLLS: usize = 6;

/// A server without listeners, and one client. Its methods belong in a runtime of tokio with one thread.
pub struct Faces {
    server: Arc<Server>,
    router: Router,
    client: Place,
}

impl Faces {
    /// A server with this configuration, which nobody else uses.
    pub async fn new(config: &Config, face: Face) -> Result<Faces, Invalid> {
        let engine = Engine::new(config, Arc::new(Metrics::default())).await?;
        let (identity, timing) = (Identity::new(config)?, Timing::default());
        let server = Arc::new(Server::new(engine, identity, config, &timing));
        let peer = SocketAddr::from((Ipv4Addr::LOCALHOST, 4_711));
        let client = server.place_for(face, peer);
        Ok(Faces { router: face::http::router(Arc::clone(&server)), server, client })
    }

    /// Forgets what the keys of these policies have spent.
    pub fn forget(&self, policies: &[&str]) {
        if let Some(memory) = self.server.engine.memory() {
            policies.iter().for_each(|policy| _ = memory.purge(policy));
        }
    }

    /// The answer to bytes that arrive at once over HTTP/1.1, without hyper. `None` if they are not plain.
    pub async fn http_plain(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let (mut connection, answered) = Connection::receiving([bytes]);
        let pace = Arc::new(Pace::new(self.server.patience(), Arc::clone(self.client.guest())));
        let stops = false.into();
        let plain = face::http::serve_plain(&self.server, &mut connection, &pace, &stops);
        let end = poll_often(pin!(plain)).await;
        end.is_none().then(|| answered.take())
    }

    /// The same through hyper and the router, whatever the bytes are.
    pub async fn http(&self, bytes: &[u8]) -> Vec<u8> {
        let (connection, answered) = Connection::receiving([bytes]);
        let router = self.router.clone();
        let served = face::http::serve_only(&self.server, router, connection, self.client.guest());
        poll_often(pin!(served)).await;
        answered.take()
    }

    /// The replies of the Redis protocol to bytes that arrive in pieces.
    pub async fn resp(&self, pieces: impl IntoIterator<Item = &[u8]>) -> Vec<u8> {
        let (connection, answered) = Connection::receiving(pieces);
        let served = face::resp::serve(&self.server, connection, self.client.guest());
        poll_often(pin!(served)).await;
        answered.take()
    }

    /// The messages that answer a call of gRPC, framed, and its status. `None` for one that waits.
    pub async fn grpc(&self, path: &str, framed: Vec<u8>) -> Option<(Vec<u8>, Option<i32>)> {
        let request = Request::post(path).body(Full::new(Bytes::from(framed))).ok()?;
        let answered = async {
            let answer = face::grpc::answer(&self.server, request, self.client.guest()).await;
            let status = |headers: &http::HeaderMap| {
                headers.get("grpc-status").and_then(|status| status.to_str().ok()?.parse().ok())
            };
            let at_once = status(answer.headers());
            let mut body = pin!(answer.into_body());
            let (mut messages, mut trailing) = (Vec::new(), None);
            while let Some(Ok(frame)) = body.as_mut().frame().await {
                match frame.into_data() {
                    Ok(data) => messages.extend_from_slice(&data),
                    Err(frame) => trailing = frame.trailers_ref().and_then(status),
                }
            }
            (messages, at_once.or(trailing))
        };
        poll_often(pin!(answered)).await
    }

    /// A message of a control plane, as far as it is one.
    pub fn xds(&self, message: &[u8], merges: bool) -> Result<PushedLimits, String> {
        let domains = Arc::new(xds::read_domains(message, merges)?);
        let engine = &self.server.engine;
        let plan = Plan::clone(&engine.plan());
        let before = Arc::clone(engine.plan().pushed());
        let plan = plan.with_pushed(Arc::clone(&domains), &before, engine.metrics())?;
        Ok(PushedLimits { domains, plan })
    }
}

/// Limits that a control plane has pushed.
pub struct PushedLimits {
    /// As they came.
    pub domains: Arc<Vec<Domain>>,
    plan: Plan,
}

impl PushedLimits {
    /// Whether something limits this descriptor.
    pub fn limits(&self, domain: &str, descriptor: &[Entry<'_>]) -> bool {
        self.plan.pushed().find(domain, descriptor, false).is_some()
    }
}

/// Polls until it ends, or waits for what does not come.
async fn poll_often<F: Future>(mut future: Pin<&mut F>) -> Option<F::Output> {
    for _ in 0..POLLS {
        if let Poll::Ready(output) = poll!(future.as_mut()) {
            return Some(output);
        }
        // Tasks that it has started.
        yield_now().await;
    }
    None
}

/// What was written to a connection.
#[derive(Clone, Default)]
struct Answered(Arc<Mutex<Vec<u8>>>);

impl Answered {
    fn take(&self) -> Vec<u8> {
        std::mem::take(&mut self.0.lock())
    }
}

/// A connection whose client sends pieces, then neither sends nor leaves.
struct Connection {
    pieces: VecDeque<Bytes>,
    answered: Answered,
}

impl Connection {
    fn receiving<'p>(pieces: impl IntoIterator<Item = &'p [u8]>) -> (Connection, Answered) {
        let pieces = pieces.into_iter().map(Bytes::copy_from_slice);
        let answered = Answered::default();
        (Connection { pieces: pieces.collect(), answered: answered.clone() }, answered)
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Some(mut piece) = self.pieces.pop_front() else { return Poll::Pending };
        let rest = piece.split_off(piece.len().min(buffer.remaining()));
        buffer.put_slice(&piece);
        if !rest.is_empty() {
            self.pieces.push_front(rest);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.answered.0.lock().extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
