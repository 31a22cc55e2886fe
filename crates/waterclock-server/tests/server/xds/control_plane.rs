//! A control plane of our own: an xDS server that sends what a test tells it to, and shows what it is asked.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use h2::{RecvStream, SendStream};
use prost::Message;
use prost_types::Any;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use waterclock_server::envoy::reference::RateLimitConfig;
use waterclock_server::envoy::{DiscoveryRequest, DiscoveryResponse};

use crate::certificates::Authority;
use crate::patience::LONG;

pub(crate) const TYPE_URL: &str =
    "type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig";

/// It goes away with the test.
pub(crate) struct ControlPlane {
    pub(crate) address: SocketAddr,
    streams: mpsc::Receiver<Stream>,
    _tasks: JoinSet<()>,
}

/// One stream of a client.
pub(crate) struct Stream {
    path: String,
    body: RecvStream,
    sent: SendStream<Bytes>,
    received: BytesMut,
    /// Ends the connection.
    connection: tokio::task::AbortHandle,
}

impl ControlPlane {
    pub(crate) async fn new() -> ControlPlane {
        ControlPlane::start(None).await
    }

    /// Demands TLS 1.3 and a certificate of this authority, as Envoy Gateway does.
    pub(crate) async fn with_tls(authority: &Authority) -> ControlPlane {
        let own = authority.for_server();
        let chain = vec![CertificateDer::from_pem_slice(own.certificate.as_bytes()).unwrap()];
        let key = PrivateKeyDer::from_pem_slice(own.key.as_bytes()).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(authority.pem().as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_client_cert_verifier(verifier.build().unwrap())
            .with_single_cert(chain, key)
            .unwrap();
        config.alpn_protocols = vec![b"h2".to_vec()];
        ControlPlane::start(Some(TlsAcceptor::from(Arc::new(config)))).await
    }

    async fn start(tls: Option<TlsAcceptor>) -> ControlPlane {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (opened, streams) = mpsc::channel(100);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((tcp, _)) = listener.accept().await {
                let (tls, opened) = (tls.clone(), opened.clone());
                let (tell, told) = tokio::sync::oneshot::channel();
                let handle = connections.spawn(async move {
                    let Ok(handle) = told.await else { return };
                    match tls {
                        None => serve(tcp, opened, handle).await,
                        Some(tls) => {
                            let Ok(stream) = tls.accept(tcp).await else { return };
                            serve(stream, opened, handle).await;
                        }
                    }
                });
                _ = tell.send(handle);
            }
        });
        ControlPlane { address, streams, _tasks: tasks }
    }

    /// The next stream that is opened, and its first request, which is as the protocol wants it.
    pub(crate) async fn stream(&mut self) -> Stream {
        let stream = timeout(LONG, self.streams.recv()).await.expect("a stream in time");
        let mut stream = stream.unwrap();
        let ends = "AggregatedDiscoveryService/StreamAggregatedResources";
        assert!(stream.path.ends_with(ends), "{}", stream.path);
        let first = stream.request().await;
        assert_eq!((&*first.version_info, &*first.response_nonce), ("", ""), "a new stream");
        assert_eq!(first.type_url, TYPE_URL);
        assert_eq!(first.node.unwrap().id, "envoy-ratelimit");
        assert!(first.resource_names.is_empty() && first.error_detail.is_none());
        stream
    }
}

async fn serve<IO: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    io: IO,
    opened: mpsc::Sender<Stream>,
    connection: tokio::task::AbortHandle,
) {
    let Ok(mut h2) = h2::server::handshake(io).await else { return };
    while let Some(Ok((request, mut respond))) = h2.accept().await {
        let answer = http::Response::builder().header("content-type", "application/grpc");
        let sent = respond.send_response(answer.body(()).unwrap(), false).unwrap();
        let stream = Stream {
            path: request.uri().path().to_owned(),
            body: request.into_body(),
            sent,
            received: BytesMut::new(),
            connection: connection.clone(),
        };
        _ = opened.send(stream).await;
    }
}

impl Stream {
    /// The next request.
    pub(crate) async fn request(&mut self) -> DiscoveryRequest {
        loop {
            if let Some(length) = self.received.get(1..5) {
                let length = u32::from_be_bytes(length.try_into().unwrap()) as usize;
                if self.received.len() >= 5 + length {
                    let message = self.received.split_to(5 + length);
                    return DiscoveryRequest::decode(&message[5..]).unwrap();
                }
            }
            let more = timeout(LONG, self.body.data()).await.expect("a request in time");
            let more = more.expect("not ended").expect("not failed");
            self.received.extend_from_slice(&more);
            _ = self.body.flow_control().release_capacity(more.len());
        }
    }

    /// Sends domains.
    pub(crate) fn send(&mut self, version: &str, domains: &[RateLimitConfig]) {
        let any = |config: &RateLimitConfig| Any {
            type_url: TYPE_URL.to_owned(),
            value: config.encode_to_vec(),
        };
        self.respond(version, domains.iter().map(any).collect());
    }

    pub(crate) fn respond(&mut self, version: &str, resources: Vec<Any>) {
        self.send_message(&DiscoveryResponse {
            version_info: version.to_owned(),
            resources,
            type_url: TYPE_URL.to_owned(),
            nonce: format!("nonce of {version}"),
        });
    }

    pub(crate) fn send_message(&mut self, response: &DiscoveryResponse) {
        self.send_framed(&response.encode_to_vec());
    }

    /// A message of any bytes.
    pub(crate) fn send_framed(&mut self, message: &[u8]) {
        let mut framed = BytesMut::new();
        framed.put_u8(0);
        framed.put_u32(u32::try_from(message.len()).unwrap());
        framed.put_slice(message);
        self.send_bytes(framed.freeze());
    }

    pub(crate) fn send_bytes(&mut self, bytes: Bytes) {
        self.sent.send_data(bytes, false).unwrap();
    }

    /// Expects that a version is acknowledged.
    pub(crate) async fn is_accepted(&mut self, version: &str) {
        let answer = self.request().await;
        assert_eq!(answer.error_detail, None);
        assert_eq!(answer.version_info, version);
        assert_eq!(answer.response_nonce, format!("nonce of {version}"));
    }

    /// Expects that a version is rejected while another one stays; and why.
    pub(crate) async fn is_rejected(&mut self, version: &str, stays: &str) -> String {
        let answer = self.request().await;
        assert_eq!(answer.version_info, stays);
        assert_eq!(answer.response_nonce, format!("nonce of {version}"));
        answer.error_detail.expect("rejected").message
    }

    /// Sends domains that are put in force.
    pub(crate) async fn push(&mut self, version: &str, domains: &[RateLimitConfig]) {
        self.send(version, domains);
        self.is_accepted(version).await;
    }

    /// Ends the stream in good order.
    pub(crate) fn end(mut self) {
        let trailers = http::HeaderMap::from_iter([(
            http::HeaderName::from_static("grpc-status"),
            http::HeaderValue::from_static("0"),
        )]);
        _ = self.sent.send_trailers(trailers);
    }

    /// Cuts the connection.
    pub(crate) fn cut(self) {
        self.connection.abort();
    }
}
