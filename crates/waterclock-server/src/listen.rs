//! Listening sockets: bound, accepted from, and closed without losing a connection.

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use axum::Router;
use prometheus_client::metrics::gauge::Gauge;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tonic::service::Routes;
use tracing::{debug, warn};
use waterclock::{Limit, Limiter};

use crate::connections::Guest;
use crate::face;
use crate::observe::Face;
use crate::rarely::Rarely;
use crate::server::{Phase, Server};
use crate::tls::Acceptor;
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
    /// Small ports, in plain text, as Envoy's reference rate limit service has them.
    pub side: Vec<(SidePort, TcpListener)>,
}

/// What a small port serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SidePort {
    /// `/healthcheck` and `/json`.
    Main,
    /// `/rlconfig` and `/stats`.
    Debug,
    /// Metrics, at this path.
    Metrics(String),
}

impl Listeners {
    /// Binds a small port, too.
    ///
    /// # Errors
    ///
    /// A sentence with the address, if it cannot be had.
    pub fn add(&mut self, port: SidePort, address: SocketAddr) -> Result<(), Invalid> {
        let listener =
            listen(address).map_err(|error| format!("cannot listen on {address}: {error}"))?;
        self.side.push((port, listener));
        Ok(())
    }

    /// Binds every address; all of them or none.
    ///
    /// # Errors
    ///
    /// Every address that cannot be had.
    pub async fn bind(listen: &Listen) -> Result<Listeners, Invalid> {
        let mut problems = Vec::new();
        let mut bound = |face, address| match bind(face, address) {
            Ok(listener) => listener,
            Err(invalid) => {
                problems.extend(invalid);
                None
            }
        };
        let listeners = Listeners {
            http: bound(Face::Http, listen.http),
            grpc: bound(Face::Grpc, listen.grpc),
            resp: bound(Face::Resp, listen.resp),
            side: Vec::new(),
        };
        if problems.is_empty() { Ok(listeners) } else { Err(problems.into_iter().collect()) }
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

fn bind(face: Face, address: Option<SocketAddr>) -> Result<Option<TcpListener>, Invalid> {
    let Some(address) = address else { return Ok(None) };
    let listener = listen(address).map_err(|error| {
        let name = face.name();
        let why = match error.kind() {
            io::ErrorKind::AddrInUse => "the port is in use".to_owned(),
            _ => error.to_string(),
        };
        format!(
            "`{name}` cannot listen on {address}: {why}; choose another address with --{name}, WATERCLOCK_{} or \
             `{name}` in [server], or turn it off with \"\"",
            name.to_ascii_uppercase()
        )
    })?;
    Ok(Some(listener))
}

/// Connections of one listener that wait to be accepted.
const BACKLOG: u32 = 1_024;

/// As [`TcpListener::bind`], with room for more connections that have not been accepted yet: a burst of them would make
/// others wait for a second.
fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    socket.set_reuseaddr(cfg!(unix))?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// All faces share the process's file descriptors, and run out of them together.
static LOGGED_FAILURES: LazyLock<Limiter> = LazyLock::new(|| Limiter::new(Limit::per_second(1)));

/// One listening face.
pub(crate) struct Listener {
    pub(crate) face: Face,
    pub(crate) server: Arc<Server>,
    /// For HTTP only.
    pub(crate) router: Router,
    /// For gRPC only.
    pub(crate) routes: Routes,
    pub(crate) tls: Acceptor,
    /// Whether the router is all that it serves.
    pub(crate) is_side: bool,
}

impl Listener {
    /// Accepts until the server drains, and then the connections whose handshake has begun.
    pub(crate) async fn run(self, listener: TcpListener) {
        let face = Arc::new(self);
        let mut phase = face.server.phase();
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                _ = phase.wait_for(|phase| *phase >= Phase::Draining) => break,
            };
            match accepted {
                Ok((stream, peer)) => face.accept(stream, peer),
                Err(error) => {
                    // Most likely out of file descriptors: wait until some are closed.
                    if LOGGED_FAILURES.check().is_allowed() {
                        warn!(protocol = face.face.name(), "cannot accept connections: {error}");
                    }
                    sleep(Duration::from_millis(50)).await;
                }
            }
        }
        drop_new_connections(&listener);
        let end = Instant::now() + HANDSHAKE_TIME;
        while let Ok(accepted) = timeout_at(end, listener.accept()).await {
            let Ok((stream, peer)) = accepted else { break };
            face.accept(stream, peer);
        }
    }

    fn accept(self: &Arc<Self>, stream: TcpStream, mut peer: SocketAddr) {
        // A listener on `[::]` sees IPv4 clients in mapped form; everything else compares plain addresses.
        peer.set_ip(peer.ip().to_canonical());
        let place = self.server.place_for(self.face, peer);
        let face = Arc::clone(self);
        tokio::spawn(async move {
            let metrics = face.server.engine.metrics();
            let _counted = Counted::new(metrics.connections(face.face));
            let mut phase = face.server.phase();
            let guest = place.guest();
            let ends = pin!(async {
                tokio::select! {
                    why = guest.must_close(face.server.authenticate_within()) => Some(why),
                    _ = phase.wait_for(|phase| *phase == Phase::Ended) => None,
                }
            });
            tokio::select! {
                () = face.handshake(stream, guest) => {}
                why = Rarely::new(ends) => {
                    why.into_iter().for_each(|why| metrics.count_closed(face.face, why));
                }
            }
        });
    }

    async fn handshake(&self, stream: TcpStream, guest: &Arc<Guest>) {
        _ = stream.set_nodelay(true);
        let tls = self.tls.load_full();
        let Some(acceptor) = tls else { return self.serve(stream, guest).await };
        match timeout(self.server.patience().head, acceptor.accept(stream)).await {
            Ok(Ok(stream)) => self.serve(stream, guest).await,
            Ok(Err(error)) => debug!(protocol = self.face.name(), "TLS handshake failed: {error}"),
            Err(_) => debug!(protocol = self.face.name(), "TLS handshake timed out"),
        }
    }

    async fn serve<IO>(&self, stream: IO, guest: &Arc<Guest>)
    where
        IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        match self.face {
            Face::Http if self.is_side => {
                face::http::serve_only(&self.server, self.router.clone(), stream, guest).await;
            }
            Face::Http => {
                face::http::serve(&self.server, self.router.clone(), stream, guest).await;
            }
            Face::Grpc => face::grpc::serve(&self.server, self.routes.clone(), stream, guest).await,
            Face::Resp => face::resp::serve(&self.server, stream, guest).await,
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

/// How long a TCP handshake that has begun may take.
const HANDSHAKE_TIME: Duration = Duration::from_millis(100);

/// Makes the system ignore new connections, while handshakes that have begun complete.
///
/// Closing a listening socket resets connections that were not accepted yet, and those may have sent a request. So first
/// new connections are dropped, then all others are accepted, then the socket is closed. Only Linux can do that;
/// elsewhere a client that connects in that instant is reset.
fn drop_new_connections(listener: &TcpListener) {
    if let Err(error) = drop_first_segments(listener) {
        debug!(
            "cannot drop new connections while draining; clients that connect now may be reset: {error}"
        );
    }
}

#[cfg(target_os = "linux")]
fn drop_first_segments(listener: &TcpListener) -> std::io::Result<()> {
    use socket2::{SockFilter, SockRef};

    // A BPF filter on the listening socket: load the byte with the TCP flags, and drop segments with SYN.
    const LOAD_BYTE: u16 = 0x30;
    const JUMP_IF_SET: u16 = 0x45;
    const RETURN: u16 = 0x06;
    const FLAGS: u32 = 13;
    const SYN: u32 = 0x02;
    SockRef::from(listener).attach_filter(&[
        SockFilter::new(LOAD_BYTE, 0, 0, FLAGS),
        SockFilter::new(JUMP_IF_SET, 0, 1, SYN),
        SockFilter::new(RETURN, 0, 0, 0),
        SockFilter::new(RETURN, 0, 0, u32::MAX),
    ])
}

#[cfg(not(target_os = "linux"))]
fn drop_first_segments(_: &TcpListener) -> std::io::Result<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use tokio::net::TcpStream;
    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn pending_connections_are_accepted_and_new_ones_dropped() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let _in = TcpStream::connect(address).await.unwrap();
        drop_new_connections(&listener);
        let newcomer = timeout(Duration::from_millis(300), TcpStream::connect(address)).await;
        assert!(newcomer.is_err(), "neither let in nor turned away");
        assert!(timeout(Duration::from_secs(5), listener.accept()).await.is_ok());
        assert!(timeout(Duration::from_millis(100), listener.accept()).await.is_err());
    }
}
