//! Waterclock's own service.

use std::future::Future;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Response, Status};
use waterclock_server::rate_limiter::{
    CancelRequest, CheckRequest, CommitRequest, Cost, RateLimiterClient, ReserveRequest,
    WaitRequest,
};

use super::{Decision, Hold, Miss};
use crate::server::TOKEN;

pub(crate) struct Grpc {
    // Before the runtime that drives it.
    client: RateLimiterClient<Channel>,
    runtime: Runtime,
    patience: Duration,
}

impl Grpc {
    pub(super) fn connect(port: u16, patience: Duration) -> Result<Self, Miss> {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let endpoint = Endpoint::from_shared(format!("http://127.0.0.1:{port}")).expect("a URL");
        let connected = runtime.block_on(async { timeout(patience, endpoint.connect()).await });
        let channel = connected.map_err(|_| Miss::Silent)?;
        let channel = channel.map_err(|error| Miss::Broken(format!("{error:?}")))?;
        Ok(Self { client: RateLimiterClient::new(channel), runtime, patience })
    }

    pub(super) fn check(&mut self, policy: &str, key: &str, cost: u64) -> Result<Decision, Miss> {
        let asked = self.client.check(with_token(question(policy, key, cost)));
        answered(&self.runtime, self.patience, asked).map(decided)
    }

    pub(super) fn wait(
        &mut self,
        policy: &str,
        key: &str,
        within: Duration,
    ) -> Result<Decision, Miss> {
        let within_us = u64::try_from(within.as_micros()).expect("a short time");
        let check = Some(question(policy, key, 1));
        let asked = self.client.wait(with_token(WaitRequest { check, within_us }));
        answered(&self.runtime, self.patience, asked).map(decided)
    }

    pub(super) fn reserve(&mut self, hold: Hold<'_>) -> Result<bool, Miss> {
        let request = ReserveRequest {
            checks: vec![question(hold.policy, hold.key, hold.cost)],
            ttl_us: u64::try_from(hold.ttl.as_micros()).ok(),
            id: Some(hold.id.to_owned()),
            on_expiry: hold.release.then(|| "release".to_owned()),
        };
        let asked = self.client.reserve(with_token(request));
        answered(&self.runtime, self.patience, asked).map(|answer| answer.reservation.is_some())
    }

    pub(super) fn settle(&mut self, id: &str, used: Option<u64>) -> Result<(), Miss> {
        let id = id.to_owned();
        let settled = match used {
            Some(cost) => {
                let cost = vec![Cost { cost, ..Cost::default() }];
                let asked = self.client.commit(with_token(CommitRequest { id, cost }));
                answered(&self.runtime, self.patience, asked)
            }
            None => {
                let asked = self.client.cancel(with_token(CancelRequest { id }));
                answered(&self.runtime, self.patience, asked)
            }
        };
        settled.map(|_| ())
    }
}

fn question(policy: &str, key: &str, cost: u64) -> CheckRequest {
    CheckRequest {
        policy: policy.to_owned(),
        key: Some(key.to_owned()),
        cost: Some(cost),
        ..CheckRequest::default()
    }
}

fn with_token<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    let token = format!("Bearer {TOKEN}").parse().expect("printable");
    request.metadata_mut().insert("authorization", token);
    request
}

fn decided(decision: waterclock_server::rate_limiter::Decision) -> Decision {
    Decision { granted: decision.granted, source: decision.source }
}

/// What came of a call, if anything came.
fn answered<T>(
    runtime: &Runtime,
    patience: Duration,
    call: impl Future<Output = Result<Response<T>, Status>>,
) -> Result<T, Miss> {
    let said = runtime.block_on(async { timeout(patience, call).await });
    match said.map_err(|_| Miss::Silent)? {
        Ok(answer) => Ok(answer.into_inner()),
        Err(status) => Err(match status.code() {
            Code::NotFound => Miss::Unknown,
            // What the transport says in the server's place.
            _ if std::error::Error::source(&status).is_some() => {
                Miss::Broken(status.message().to_owned())
            }
            code => Miss::Said(format!("{code:?} {}", status.message())),
        }),
    }
}
