//! `ShouldRateLimit` of Envoy's rate limit service.

use std::error::Error;
use std::future::ready;
use std::io;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};
use tower::service_fn;
use waterclock::Cost;
use waterclock_rehearse::terminal::visible;
use waterclock_server::envoy::{
    Code, Entry, RateLimitDescriptor, RateLimitRequest, RateLimitServiceClient,
};

use super::caller::Answers;
use super::load::{KEY, Keys, Load};
use crate::server::{NoAnswer, Server};

/// Nothing that works takes this long.
const PATIENCE: Duration = Duration::from_secs(5);
const STRANGER: &str =
    "does not serve Envoy's rate limit protocol; check that this is its gRPC address";

const BROKEN: &str =
    "closed the connection before it answered; check that this is its gRPC address";

pub(super) struct GrpcCaller {
    client: RateLimitServiceClient<Channel>,
    token: Option<MetadataValue<Ascii>>,
    domain: String,
    descriptor: Vec<(String, String)>,
    cost: u64,
}

impl GrpcCaller {
    pub(super) async fn connect(load: &Load) -> Result<GrpcCaller, NoAnswer> {
        let stranger = || NoAnswer::Stranger(STRANGER.to_owned());
        let Server { address, token, .. } = &load.server;
        let scheme = if address.tls { "https" } else { "http" };
        let endpoint = Endpoint::from_shared(format!("{scheme}://{}", address.authority()))
            .map_err(|_| stranger())?
            .connect_timeout(PATIENCE)
            .timeout(PATIENCE);
        // Dialled here, as for every face, and handed over once: when it breaks, a new caller dials again.
        let mut wire = Some(TokioIo::new(load.server.dial().await?));
        let hand_over = service_fn(move |_| {
            ready(wire.take().ok_or(io::Error::from(io::ErrorKind::NotConnected)))
        });
        let channel = endpoint.connect_with_connector(hand_over).await.map_err(|_| stranger())?;
        let token = token.as_ref().map(|token| format!("Bearer {token}").parse());
        Ok(GrpcCaller {
            client: RateLimitServiceClient::new(channel),
            token: token.transpose().map_err(|_| stranger())?,
            domain: load.domain.clone(),
            descriptor: load.descriptor.clone(),
            cost: load.cost.as_ref().map_or(1, Cost::most),
        })
    }

    pub(super) async fn call(&mut self, keys: &mut Keys) -> Result<Answers, NoAnswer> {
        let mut request = Request::new(self.question(&keys.next_name()));
        if let Some(token) = &self.token {
            request.metadata_mut().insert("authorization", token.clone());
        }
        let answer = self.client.should_rate_limit(request).await;
        let answer = answer.map_err(|status| no_answer(&status))?.into_inner();
        let is_limited = answer.statuses.iter().any(|status| status.current_limit.is_some());
        Ok(match answer.overall_code() {
            Code::OverLimit => Answers { refused: 1, ..Answers::default() },
            _ => Answers { allowed: 1, unlimited: u64::from(!is_limited), ..Answers::default() },
        })
    }

    fn question(&self, key: &str) -> RateLimitRequest {
        let entry = |(name, value): &(String, String)| Entry {
            key: name.clone(),
            value: value.replace(KEY, key).into(),
        };
        let descriptor = RateLimitDescriptor {
            entries: self.descriptor.iter().map(entry).collect(),
            // Here 0 is a look, whereas in the request it would be 1.
            hits_addend: Some(self.cost),
            ..RateLimitDescriptor::default()
        };
        RateLimitRequest {
            domain: self.domain.clone(),
            descriptors: vec![descriptor],
            hits_addend: 0,
        }
    }
}

fn no_answer(status: &Status) -> NoAnswer {
    let reason = visible(status.message());
    let is_ours = status.source().is_none();
    match status.code() {
        tonic::Code::DeadlineExceeded | tonic::Code::Cancelled => NoAnswer::Late(PATIENCE),
        // What passes may be asked again, as with the same words in HTTP.
        tonic::Code::Unavailable if is_ours => busy(reason),
        tonic::Code::ResourceExhausted => busy(reason),
        tonic::Code::Unauthenticated => refused(::http::StatusCode::UNAUTHORIZED, reason),
        tonic::Code::PermissionDenied | tonic::Code::InvalidArgument => {
            refused(::http::StatusCode::FORBIDDEN, reason)
        }
        tonic::Code::FailedPrecondition => refused(::http::StatusCode::BAD_REQUEST, reason),
        _ if !is_ours => NoAnswer::Broken(BROKEN.to_owned()),
        _ => NoAnswer::Stranger(STRANGER.to_owned()),
    }
}

fn busy(reason: String) -> NoAnswer {
    refused(::http::StatusCode::SERVICE_UNAVAILABLE, reason)
}

fn refused(status: ::http::StatusCode, reason: String) -> NoAnswer {
    NoAnswer::Refused { status: Some(status), reason }
}
