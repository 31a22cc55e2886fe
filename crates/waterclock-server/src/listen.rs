//! Sockets: bound, accepted from, and closed without losing anybody.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use prometheus_client::metrics::gauge::Gauge;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tonic::service::Routes;
use tracing::{debug, warn};

use crate::face;
use crate::last_call::{HANDSHAKES, refuse_newcomers};
use crate::observe::Face;
use crate::server::{Phase, Server};
use crate::tls::Greeting;
use waterclock_config::{Invalid, Listen};

/// A bound socket for each face that is on.
#[derive(Debug, Default)]
pub struct Listeners {
    /// JSON API, forward-auth, dashboard and metrics.
    pub http: Option<TcpListener>,
    /// Envoy's rate limit service.
    pub grpc: Option<TcpListener>,
    /// The Redis protocol.
    pub resp: Option<TcpListener>,
}

impl Listeners {
    /// Binds every address; all of them or none.
    pub async fn bind(listen: &Listen) -> Result<Listeners, Invalid> {
        Ok(Listeners {
            http: bind(Face::Http, listen.http).await?,
            grpc: bind(Face::Grpc, listen.grpc).await?,
            resp: bind(Face::Resp, listen.resp).await?,
        })
    }

    /// The address a face really has: port 0 asks the system for a free one.
    #[must_use]
    pub fn address(&self, face: Face) -> Option<SocketAddr> {
        let listener = match face {
            Face::Http => &self.http,
            Face::Grpc => &self.grpc,
            Face::Resp => &self.resp,
        };
        listener.as_ref().and_then(|listener| listener.local_addr().ok())
    }

    /// The faces that are on, and their addresses.
    #[must_use]
    pub fn bound(&self) -> Vec<(Face, SocketAddr)> {
        let bound = |face| self.address(face).map(|address| (face, address));
        Face::ALL.into_iter().filter_map(bound).collect()
    }
}

async fn bind(face: Face, address: Option<SocketAddr>) -> Result<Option<TcpListener>, Invalid> {
    let Some(address) = address else { return Ok(None) };
    let listener = TcpListener::bind(address).await.map_err(|error| {
        let name = face.name();
        format!(
            "`{name}` cannot listen on {address}: {error}; choose another address, or \"\" for none"
        )
    })?;
    Ok(Some(listener))
}

/// What the connections of one face have in common.
pub(crate) struct Door {
    pub(crate) face: Face,
    pub(crate) server: Arc<Server>,
    /// For HTTP only.
    pub(crate) router: Router,
    /// For gRPC only.
    pub(crate) routes: Routes,
    pub(crate) tls: Greeting,
    pub(crate) connections: Arc<Semaphore>,
}

impl Door {
    /// Accepts until the server drains, and then whoever has already knocked.
    pub(crate) async fn keep_open(self, listener: TcpListener) {
        let door = Arc::new(self);
        let mut phase = door.server.phase();
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                _ = phase.wait_for(|phase| *phase >= Phase::Draining) => break,
            };
            match accepted {
                Ok((stream, peer)) => door.let_in(stream, peer),
                Err(error) => {
                    // Out of descriptors, most likely: let some go first.
                    warn!(face = door.face.name(), "no connection can be accepted: {error}");
                    sleep(Duration::from_millis(50)).await;
                }
            }
        }
        refuse_newcomers(&listener);
        let end = Instant::now() + HANDSHAKES;
        while let Ok(accepted) = timeout_at(end, listener.accept()).await {
            let Ok((stream, peer)) = accepted else { break };
            door.let_in(stream, peer);
        }
    }

    fn let_in(self: &Arc<Self>, stream: TcpStream, peer: SocketAddr) {
        let Ok(permit) = Arc::clone(&self.connections).try_acquire_owned() else {
            self.server.engine.metrics().count_shed(self.face);
            return;
        };
        let door = Arc::clone(self);
        tokio::spawn(async move {
            let _counted = Counted::new(door.server.engine.metrics().connections(door.face));
            let mut phase = door.server.phase();
            tokio::select! {
                () = door.greet(stream, peer) => {}
                _ = phase.wait_for(|phase| *phase == Phase::Ended) => {}
            }
            drop(permit);
        });
    }

    async fn greet(&self, stream: TcpStream, peer: SocketAddr) {
        _ = stream.set_nodelay(true);
        let tls = self.tls.load_full();
        let Some(acceptor) = tls else { return self.serve(stream, peer).await };
        match timeout(self.server.patience().head, acceptor.accept(stream)).await {
            Ok(Ok(stream)) => self.serve(stream, peer).await,
            Ok(Err(error)) => debug!(face = self.face.name(), "no TLS came about: {error}"),
            Err(_) => debug!(face = self.face.name(), "a TLS handshake took too long"),
        }
    }

    async fn serve<IO>(&self, stream: IO, peer: SocketAddr)
    where
        IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        match self.face {
            Face::Http => {
                face::http::serve(&self.server, self.router.clone(), stream, peer).await;
            }
            Face::Grpc => face::grpc::serve(&self.server, self.routes.clone(), stream, peer).await,
            Face::Resp => face::resp::serve(&self.server, stream, peer).await,
        }
    }
}

/// A connection that counts as open until it ends, however it ends.
struct Counted(Gauge);

impl Counted {
    fn new(open: &Gauge) -> Counted {
        open.inc();
        Counted(open.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.dec();
    }
}
