//! One stream of responses: each is put in force and acknowledged, or rejected with a reason.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Uri;
use http::uri::PathAndQuery;
use prost_types::{Struct, Value, value::Kind};
use sha2::{Digest, Sha256};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};
use tokio_stream::wrappers::ReceiverStream;
use tonic::client::Grpc;
use tonic::metadata::{MetadataKey, MetadataValue};
use tonic::{Code, Request};
use tracing::{error, info, warn};
use waterclock_config::{MAX_SECRET_FILE, XdsConfig, read_file};

use super::codec::Raw;
use super::connect::Connection;
use super::kept::{self, decode_response};
use crate::face::grpc::proto::{DiscoveryRequest, DiscoveryResponse, Node, RpcStatus};
use crate::off_workers::off_workers;
use crate::reference::{Domain, TYPE_URL, decode, merged};
use crate::server::Server;

const METHOD: &str =
    "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources";

/// After each response, and at least as long as it took, so that a control plane that sends without end does not take a
/// processor; twice as long after each one that is rejected in a row.
const PACE: Duration = Duration::from_millis(20);
const SLOWEST: Duration = Duration::from_secs(5);

/// How often certificates are compared with those of the connection.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// A stream that is over.
pub(super) struct Ended {
    pub(super) why: String,
    /// Whether it has brought a configuration.
    pub(super) was_useful: bool,
}

/// Opens a stream and follows it to its end.
pub(super) async fn follow(server: &Arc<Server>, config: &Arc<XdsConfig>) -> Ended {
    let mut follower =
        Follower { server, config, version: String::new(), rejected: 0, was_useful: false };
    let known = fingerprint(config).await;
    let why = follower.run(pin!(certificates_changed(config, known))).await;
    Ended { why, was_useful: follower.was_useful }
}

struct Follower<'f> {
    server: &'f Arc<Server>,
    config: &'f Arc<XdsConfig>,
    /// The last one that was put in force on this stream.
    version: String,
    /// How many were rejected in a row.
    rejected: u32,
    was_useful: bool,
}

impl Follower<'_> {
    /// Returns why it is over. What is being put in force is put in force first, whatever ends it.
    async fn run(&mut self, mut changed: Pin<&mut impl Future<Output = String>>) -> String {
        let connection = match Connection::open(self.config).await {
            Ok(connection) => connection,
            Err(why) => return why,
        };
        let scheme = if self.config.tls.is_some() { "https" } else { "http" };
        let Ok(origin) = format!("{scheme}://{}", self.config.server).parse::<Uri>() else {
            return format!("{:?} is no host and port", self.config.server);
        };
        let mut client =
            Grpc::with_origin(connection, origin).max_decoding_message_size(self.config.max_bytes);
        if let Err(error) = client.ready().await {
            return format!("no HTTP/2: {error}");
        }
        let (requests, sent) = mpsc::channel(1);
        _ = requests.try_send(self.request(None));
        let mut request = Request::new(ReceiverStream::new(sent));
        for (name, value) in &self.config.headers {
            let field = (MetadataKey::from_bytes(name.as_bytes()), MetadataValue::try_from(value));
            if let (Ok(name), Ok(value)) = field {
                request.metadata_mut().insert(name, value);
            }
        }
        let path = PathAndQuery::from_static(METHOD);
        let opening = pin!(client.streaming(request, path, Raw));
        self.server.xds().note_stream();
        let opened = tokio::select! {
            opened = opening => opened,
            why = changed.as_mut() => return why,
        };
        let mut responses = match opened {
            Ok(response) => response.into_inner(),
            Err(status) => return described(&status),
        };
        info!(server = self.config.server, "following a control plane by xDS");
        loop {
            let message = tokio::select! {
                message = responses.message() => message,
                why = changed.as_mut() => return why,
            };
            let bytes = match message {
                Ok(Some(bytes)) => bytes,
                Ok(None) => return "the server has ended the stream".to_owned(),
                Err(status) => return described(&status),
            };
            let began = Instant::now();
            let answer = self.answer(bytes).await;
            let took = began.elapsed();
            // A server that reads no answers is not heard any more, but its certificates may change.
            let sent = tokio::select! {
                sent = requests.send(answer) => sent,
                why = changed.as_mut() => return why,
            };
            if sent.is_err() {
                return "the server has ended the stream".to_owned();
            }
            sleep(self.pace(took)).await;
        }
    }

    /// How long to wait after a response that took so long.
    fn pace(&self, took: Duration) -> Duration {
        PACE.saturating_mul(1 << self.rejected.min(16)).max(took).min(SLOWEST)
    }

    /// Puts a response in force if it has no faults; and the request that says so.
    async fn answer(&mut self, bytes: Bytes) -> DiscoveryRequest {
        let outcome = self.apply(&bytes).await;
        let (nonce, outcome) = match outcome {
            Ok((response, domains)) => (response.nonce.clone(), Ok((response, domains))),
            Err((nonce, why)) => (nonce, Err(why)),
        };
        let status = self.server.xds();
        match outcome {
            Ok((response, domains)) => {
                self.version = response.version_info;
                (self.rejected, self.was_useful) = (0, true);
                status.note_accepted(&self.version);
                self.server.reloads().note_push(self.server);
                info!(version = self.version, domains, "configuration by xDS is in force");
                self.keep(bytes).await;
                self.request(Some((nonce, None)))
            }
            Err(why) => {
                self.rejected = self.rejected.saturating_add(1);
                status.note_rejected(why.clone());
                if status.may_log() {
                    error!("configuration by xDS rejected, the old one stays in force: {why}");
                }
                self.request(Some((nonce, Some(why))))
            }
        }
    }

    /// The response and how many domains it has, or its nonce and what is wrong with it.
    async fn apply(&self, bytes: &Bytes) -> Result<(DiscoveryResponse, usize), (String, String)> {
        let (bytes, merges) = (bytes.clone(), self.config.merge_domains);
        let (response, domains) = off_workers(move || read(&bytes, merges)).await?;
        let many = domains.len();
        match self.server.engine.push(domains).await {
            Ok(()) => Ok((response, many)),
            Err(invalid) => Err((response.nonce, invalid.to_string())),
        }
    }

    async fn keep(&self, bytes: Bytes) {
        let Some(path) = self.config.keep.clone() else { return };
        let written = off_workers(move || {
            kept::write(&path, &bytes).map_err(|error| format!("{}: {error}", path.display()))
        });
        if let Err(why) = written.await {
            let why = format!("cannot keep the configuration by xDS: {why}");
            warn!("{why}");
            self.server.xds().note_error(why);
        }
    }

    /// The next request: the first of a stream, or the answer to the response of this nonce.
    fn request(&self, answered: Option<(String, Option<String>)>) -> DiscoveryRequest {
        let (nonce, why) = answered.unwrap_or_default();
        let error = |message| RpcStatus { code: Code::InvalidArgument.into(), message };
        let text = |text: &String| Value { kind: Some(Kind::StringValue(text.clone())) };
        let metadata = &self.config.metadata;
        let fields: BTreeMap<_, _> =
            metadata.iter().map(|(name, value)| (name.clone(), text(value))).collect();
        DiscoveryRequest {
            version_info: self.version.clone(),
            node: Some(Node {
                id: self.config.node.clone(),
                metadata: (!fields.is_empty()).then_some(Struct { fields }),
            }),
            resource_names: Vec::new(),
            type_url: TYPE_URL.to_owned(),
            response_nonce: nonce,
            error_detail: why.map(error),
        }
    }
}

/// Reads and checks a response. Takes long if it is large.
fn read(bytes: &Bytes, merges: bool) -> Result<(DiscoveryResponse, Vec<Domain>), (String, String)> {
    let response = decode_response(bytes).map_err(|why| (nonce_of(bytes), why))?;
    let domains = decode(&response).and_then(|domains| merged(domains, merges));
    match domains {
        Ok(domains) => Ok((response, domains)),
        Err(why) => Err((response.nonce, why)),
    }
}

/// The domains of a message from a control plane.
#[cfg(feature = "fuzzing")]
pub(crate) fn read_domains(message: &[u8], merges: bool) -> Result<Vec<Domain>, String> {
    read(&Bytes::copy_from_slice(message), merges)
        .map(|(_, domains)| domains)
        .map_err(|(_, why)| why)
}

/// The nonce of a response that is not decoded; empty if it cannot be read.
fn nonce_of(bytes: &[u8]) -> String {
    let mut nonce = String::new();
    _ = crate::face::grpc::each_field(bytes, |number, field| {
        if let (5, Some(text)) = (number, field) {
            nonce = String::from_utf8_lossy(&text[..text.len().min(1_024)]).into_owned();
        }
        Some(())
    });
    nonce
}

fn described(status: &tonic::Status) -> String {
    let message: String = status.message().chars().take(300).collect();
    format!("the stream has failed ({:?}): {message}", status.code())
}

/// A hash of the certificates; empty without TLS.
async fn fingerprint(config: &Arc<XdsConfig>) -> Vec<u8> {
    let Some(tls) = &config.tls else { return Vec::new() };
    let own = tls.own.iter().flat_map(|(cert, key)| [cert.clone(), key.clone()]);
    let files: Vec<PathBuf> = std::iter::once(tls.ca.clone()).chain(own).collect();
    let hash =
        |file: PathBuf| Sha256::digest(read_file(&file, MAX_SECRET_FILE).unwrap_or_default());
    off_workers(move || files.into_iter().flat_map(hash).collect()).await
}

/// Ends, with why the stream does, when it has other certificates than those in the files.
async fn certificates_changed(config: &Arc<XdsConfig>, known: Vec<u8>) -> String {
    loop {
        sleep(LOOK_EVERY).await;
        if config.tls.is_some() && fingerprint(config).await != known {
            return "the certificates have changed".to_owned();
        }
    }
}
