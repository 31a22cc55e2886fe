//! Limits that a control plane pushes.

mod answers;
mod control_plane;
mod hostile;
mod lifecycle;

use std::path::Path;

use waterclock_config::{Config, Micros, XdsConfig};
use waterclock_server::XdsState;
use waterclock_server::envoy::reference::{
    RateLimitConfig, RateLimitDescriptor, RateLimitPolicy, RateLimitUnit,
};
use waterclock_server::envoy::{
    Entry, RateLimitDescriptor as Asked, RateLimitRequest, RateLimitResponse,
};

use self::control_plane::ControlPlane;
use crate::at_work::{AtWork, hurried};
use crate::grpc::scene::{Client, ask};
use crate::patience::eventually;

/// A server that follows a control plane.
pub(crate) struct Follower {
    pub(crate) server: AtWork,
    pub(crate) client: Client,
}

impl Follower {
    /// With this file beside the control plane's limits.
    pub(crate) async fn of(plane: &ControlPlane, file: &str) -> Follower {
        Follower::with(plane, file, |_| {}).await
    }

    pub(crate) async fn with(
        plane: &ControlPlane,
        file: &str,
        set: impl FnOnce(&mut Config),
    ) -> Follower {
        let mut config = Config::read("test.toml", file).expect("valid");
        let mut xds = XdsConfig::new(plane.address.to_string());
        xds.node = "envoy-ratelimit".to_owned();
        // Tests do not wait longer than necessary.
        xds.backoff = (Micros(20_000), Micros(100_000));
        config.xds = Some(xds);
        set(&mut config);
        let server = AtWork::with(config, hurried()).await;
        let channel = tonic::transport::Endpoint::new(format!("http://{}", server.grpc_address()));
        let client = Client::new(channel.unwrap().connect().await.unwrap());
        Follower { server, client }
    }

    pub(crate) fn state(&self) -> XdsState {
        self.server.running.server().xds().state().expect("it follows")
    }

    /// Waits until this version is in force.
    pub(crate) async fn is_at(&self, version: &str) {
        eventually("the version is in force", async || self.state().version == version).await;
    }

    /// One request with these descriptors.
    pub(crate) async fn ask(
        &mut self,
        domain: &str,
        descriptors: &[&[(&str, &str)]],
    ) -> RateLimitResponse {
        let descriptors = descriptors.iter().map(|entries| asked(entries)).collect();
        let request = RateLimitRequest { domain: domain.to_owned(), descriptors, hits_addend: 0 };
        ask(&mut self.client, request).await.expect("decided")
    }
}

pub(crate) fn asked(entries: &[(&str, &str)]) -> Asked {
    let entry = |(key, value): &(&str, &str)| Entry {
        key: (*key).to_owned(),
        value: value.as_bytes().to_vec(),
    };
    Asked { entries: entries.iter().map(entry).collect(), ..Asked::default() }
}

pub(crate) fn domain(name: &str, descriptors: Vec<RateLimitDescriptor>) -> RateLimitConfig {
    RateLimitConfig { name: name.to_owned(), domain: name.to_owned(), descriptors }
}

pub(crate) fn node(
    (key, value): (&str, &str),
    rate_limit: Option<RateLimitPolicy>,
    descriptors: Vec<RateLimitDescriptor>,
) -> RateLimitDescriptor {
    let (key, value) = (key.to_owned(), value.to_owned());
    RateLimitDescriptor { key, value, rate_limit, descriptors, ..Default::default() }
}

pub(crate) fn per(unit: RateLimitUnit, requests_per_unit: u32) -> Option<RateLimitPolicy> {
    Some(RateLimitPolicy { unit: unit.into(), requests_per_unit, ..Default::default() })
}

/// `n` requests an hour for each value of `user` in the domain `d`.
pub(crate) fn hourly(n: u32) -> Vec<RateLimitConfig> {
    vec![domain("d", vec![node(("user", ""), per(RateLimitUnit::Hour, n), Vec::new())])]
}

/// What the HTTP API says about the control plane.
pub(crate) async fn shown(server: &AtWork) -> serde_json::Value {
    let answer = server.http().await.get("/v1/config").await;
    answer.json()["xds"].clone()
}

/// Writes the files of TLS that a client needs.
pub(crate) fn files(directory: &Path, authority: &crate::certificates::Authority) {
    authority.for_both().write_to(directory);
    std::fs::write(directory.join("ca.pem"), authority.pem()).unwrap();
}
