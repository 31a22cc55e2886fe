//! A connection to a control plane: TCP, TLS with certificates of both sides, HTTP/2.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::ClientConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{PrivateKeyDer, ServerName};
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tonic::body::Body;
use tower::Service;
use waterclock_config::{MAX_SECRET_FILE, XdsConfig, XdsTls, read_file};

use crate::off_workers::off_workers;
use crate::tls::{Authorities, certificates};

/// How long each step of connecting may take.
const STEP: Duration = Duration::from_secs(5);
/// A peer that is gone is noticed by the system. Pings of HTTP/2 would annoy servers, which close on those they did not
/// ask for.
const IDLE: Duration = Duration::from_secs(30);
const PROBE_EVERY: Duration = Duration::from_secs(10);

/// An open connection. Closed when it is dropped.
pub(super) struct Connection {
    calls: SendRequest<Body>,
    task: AbortHandle,
}

impl Connection {
    /// Connects, with certificates as the files have them now.
    pub(super) async fn open(config: &Arc<XdsConfig>) -> Result<Connection, String> {
        let server = &config.server;
        let tcp = timeout(STEP, TcpStream::connect(server)).await;
        let tcp = tcp.map_err(|_| "connecting took too long".to_owned())?;
        let tcp = tcp.map_err(|error| format!("cannot connect: {error}"))?;
        let probes = TcpKeepalive::new().with_time(IDLE).with_interval(PROBE_EVERY);
        // Without them, a peer that is gone is noticed later.
        _ = SockRef::from(&tcp).set_tcp_keepalive(&probes);
        _ = tcp.set_nodelay(true);
        if config.tls.is_none() {
            return Connection::over(tcp).await;
        }
        let all = Arc::clone(config);
        let (tls, name) = off_workers(move || client(&all)).await?;
        let tls = timeout(STEP, TlsConnector::from(Arc::new(tls)).connect(name, tcp)).await;
        let tls = tls.map_err(|_| "the TLS handshake took too long".to_owned())?;
        Connection::over(tls.map_err(|error| format!("TLS handshake failed: {error}"))?).await
    }

    async fn over<IO>(io: IO) -> Result<Connection, String>
    where
        IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let handshake = http2::Builder::new(TokioExecutor::new()).handshake(TokioIo::new(io));
        let opened = timeout(STEP, handshake).await;
        let opened = opened.map_err(|_| "the HTTP/2 handshake took too long".to_owned())?;
        let (calls, driving) = opened.map_err(|error| format!("no HTTP/2: {error}"))?;
        let task: JoinHandle<_> = tokio::spawn(driving);
        Ok(Connection { calls, task: task.abort_handle() })
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Service<Request<Body>> for Connection {
    type Response = Response<Incoming>;
    type Error = hyper::Error;
    type Future = Pin<Box<dyn Future<Output = hyper::Result<Response<Incoming>>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<hyper::Result<()>> {
        self.calls.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.calls.send_request(request))
    }
}

/// Reads the certificates. Blocks.
fn client(config: &XdsConfig) -> Result<(ClientConfig, ServerName<'static>), String> {
    let Some(XdsTls { ca, own, name, .. }) = &config.tls else {
        return Err("no certificates are configured".to_owned());
    };
    let host = config.server.rsplit_once(':').map_or(&*config.server, |(host, _)| host);
    let host = name.as_deref().unwrap_or(host.trim_matches(['[', ']']));
    let name = ServerName::try_from(host.to_owned())
        .map_err(|_| format!("{host:?} is no name that a certificate could have"))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(Authorities::read(ca)?.roots);
    let mut client = match own {
        None => builder.with_no_client_auth(),
        Some((cert, key)) => {
            let pem = read_file(key, MAX_SECRET_FILE)?;
            let private = PrivateKeyDer::from_pem_slice(&pem)
                .map_err(|_| format!("{}: contains no private key in PEM format", key.display()))?;
            builder
                .with_client_auth_cert(certificates(cert)?, private)
                .map_err(|error| format!("{} and {}: {error}", cert.display(), key.display()))?
        }
    };
    client.alpn_protocols = vec![b"h2".to_vec()];
    Ok((client, name))
}
