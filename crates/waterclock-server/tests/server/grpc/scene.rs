//! A server on a free port, and a client that asks it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tonic::Status;
use tonic::transport::{Channel, Endpoint};
use waterclock_config::Config;
use waterclock_server::envoy::{
    Code, DescriptorStatus, Entry, RateLimitDescriptor, RateLimitRequest, RateLimitResponse,
    RateLimitServiceClient,
};
use waterclock_server::{Patience, Server, Timing};

use crate::at_work::{AtWork, hurried};

pub(crate) type Client = RateLimitServiceClient<Channel>;

/// A server that goes away with the scene.
pub(crate) struct Scene {
    at_work: AtWork,
    file: PathBuf,
    _directory: TempDir,
}

impl Scene {
    /// A server with these policies and rules.
    pub(crate) async fn new(config: &str) -> Scene {
        Scene::with(config, Patience::default()).await
    }

    pub(crate) async fn with(config: &str, patience: Patience) -> Scene {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("waterclock.toml");
        std::fs::write(&file, config).unwrap();
        let config = Config::load(&file).unwrap();
        // Long enough for tests that observe the shutdown.
        let (lame_duck, drain) = (Duration::from_secs(2), Duration::from_secs(60));
        let timing = Timing { lame_duck, drain, patience, ..hurried() };
        Scene { at_work: AtWork::with(config, timing).await, file, _directory: directory }
    }

    /// The same, with a client.
    pub(crate) async fn with_client(config: &str) -> (Scene, Client) {
        let scene = Scene::new(config).await;
        let client = scene.client().await;
        (scene, client)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.at_work.grpc_address()
    }

    /// A new connection to the HTTP face.
    pub(crate) async fn http(&self) -> crate::client::Client {
        self.at_work.http().await
    }

    /// Stops the server in good order.
    pub(crate) async fn stop(self) {
        self.at_work.running.stop().await;
    }

    pub(crate) fn server(&self) -> &Arc<Server> {
        self.at_work.running.server()
    }

    pub(crate) async fn channel(&self) -> Channel {
        let endpoint = Endpoint::new(format!("http://{}", self.address())).unwrap();
        endpoint.connect().await.unwrap()
    }

    pub(crate) async fn client(&self) -> Client {
        RateLimitServiceClient::new(self.channel().await)
    }

    /// Writes another configuration and waits until it is in force.
    pub(crate) async fn reload(&self, config: &str) {
        let metrics = self.server().engine.metrics();
        let before = metrics.generation.get();
        std::fs::write(&self.file, config).unwrap();
        self.at_work.running.reload();
        while metrics.generation.get() == before {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// A policy `p` of this limit for whatever `user` there is in the domain `d`.
pub(crate) fn per_user(limit: &str) -> String {
    format!(
        "[policies.p]\nlimits = [{limit}]\n[[rules]]\ndomain = \"d\"\npolicy = \"p\"\ndescriptor = [{{ key = \"user\" }}]\n"
    )
}

pub(crate) fn descriptor<V: AsRef<[u8]>>(entries: &[(&str, V)]) -> RateLimitDescriptor {
    let entry =
        |(key, value): &(&str, V)| Entry { key: (*key).to_owned(), value: value.as_ref().to_vec() };
    RateLimitDescriptor { entries: entries.iter().map(entry).collect(), ..Default::default() }
}

pub(crate) fn user(name: impl AsRef<[u8]>) -> RateLimitDescriptor {
    descriptor(&[("user", name)])
}

pub(crate) fn request(descriptors: Vec<RateLimitDescriptor>) -> RateLimitRequest {
    RateLimitRequest { domain: "d".to_owned(), descriptors, hits_addend: 0 }
}

pub(crate) async fn ask(
    client: &mut Client,
    request: RateLimitRequest,
) -> Result<RateLimitResponse, Status> {
    client.should_rate_limit(request).await.map(tonic::Response::into_inner)
}

/// The answer about descriptors of the domain `d`.
pub(crate) async fn about(
    client: &mut Client,
    descriptors: Vec<RateLimitDescriptor>,
) -> RateLimitResponse {
    let count = descriptors.len();
    let response = ask(client, request(descriptors)).await.unwrap();
    assert_eq!(response.statuses.len(), count);
    let over = response.statuses.iter().any(|status| status.code() == Code::OverLimit);
    let overall = if over { Code::OverLimit } else { Code::Ok };
    assert_eq!(response.overall_code(), overall);
    assert!(response.statuses.iter().all(|status| status.code() != Code::Unknown));
    response
}

/// The code and what is left, of a request with one descriptor.
pub(crate) async fn lone(client: &mut Client, descriptor: RateLimitDescriptor) -> (Code, u32) {
    let response = about(client, vec![descriptor]).await;
    seen(&response.statuses[0])
}

pub(crate) fn seen(status: &DescriptorStatus) -> (Code, u32) {
    (status.code(), status.limit_remaining)
}

/// How many requests no policy has decided, by the metrics.
pub(crate) fn undecided(scene: &Scene) -> u64 {
    errors_of(scene, "")
}

/// How many checks of a policy were errors, by the metrics.
pub(crate) fn errors_of(scene: &Scene, policy: &str) -> u64 {
    let counted = format!(
        "waterclock_decisions_total{{policy=\"{policy}\",outcome=\"error\",face=\"grpc\"}} "
    );
    let metrics = scene.server().metrics_text();
    let line = metrics.lines().find_map(|line| line.strip_prefix(&*counted));
    line.map_or(0, |count| count.parse().unwrap())
}
