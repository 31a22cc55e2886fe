//! Watch: counters and levels, once a second, until the server drains or the token is revoked.
//!
//! Each snapshot is made when the one before was sent: a slow reader gets fewer of them, and nothing piles up.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Response};
use http_body_util::StreamBody;
use hyper::body::Frame;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::timeout;
use tonic::Status;
use tonic::body::Body;
use waterclock::Clock;

use super::super::call::AnswerBody;
use super::super::proto::rate_limiter as proto;
use super::framed;
use crate::access::{Attempt, Role, bearer_of};
use crate::connections::Guest;
use crate::engine::PolicyCount;
use crate::lasting::LastingPlace;
use crate::observe::Totals;
use crate::server::{Phase, Server};

/// Policies of one snapshot.
const MAX_POLICIES: usize = 1_000;

/// The answer: a stream of snapshots.
pub(super) fn watch(
    server: &Arc<Server>,
    guest: &Arc<Guest>,
    headers: &HeaderMap,
    request: proto::WatchRequest,
) -> Result<Response<AnswerBody>, Status> {
    if !request.policy.is_empty() {
        let plan = server.engine.plan();
        plan.find(&request.policy).map_err(|unknown| Status::not_found(unknown.to_string()))?;
    }
    let room = server.admit_to_live().zip(server.watches().begin(guest));
    let room = room.ok_or_else(|| {
        Status::resource_exhausted("too many live feeds are open; poll `GET /v1/live` instead")
    })?;
    let feed = Feed {
        server: Arc::clone(server),
        token: bearer_of(headers).map(str::to_owned),
        policy: request.policy,
        phase: server.phase(),
        sent: None,
        _room: room,
    };
    let frames = stream::unfold(Some(feed), |feed| async move {
        let mut feed = feed?;
        Some(match feed.next().await {
            Ok(snapshot) => (Ok::<_, Status>(Frame::data(snapshot)), Some(feed)),
            Err(status) => {
                let mut trailers = HeaderMap::new();
                // Our own messages are valid header values.
                _ = status.add_header(&mut trailers);
                (Ok(Frame::trailers(trailers)), None)
            }
        })
    });
    let mut answer = Response::new(AnswerBody::Other(Body::new(StreamBody::new(frames))));
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    Ok(answer)
}

/// One reader.
struct Feed {
    server: Arc<Server>,
    token: Option<String>,
    /// Empty: all of them.
    policy: String,
    phase: watch::Receiver<Phase>,
    /// The tick of the last snapshot.
    sent: Option<u64>,
    _room: (OwnedSemaphorePermit, LastingPlace),
}

impl Feed {
    /// The next snapshot, when its time has come; or the status with which the stream ends.
    async fn next(&mut self) -> Result<Bytes, Status> {
        let ticks = self.server.ticks();
        if let Some(next) = self.sent.map(|sent| sent + 1) {
            let wait = ticks.until(next, self.server.uptime());
            let draining = self.phase.wait_for(|phase| *phase >= Phase::Draining);
            if timeout(wait, draining).await.is_ok() {
                return Err(Status::unavailable("the server is stopping"));
            }
        }
        self.sent = Some(ticks.at(self.server.uptime()).max(self.sent.map_or(0, |sent| sent + 1)));
        // A reload may have revoked the token.
        if self.server.revalidate(self.token.as_deref(), Role::Read) != Attempt::Granted {
            return Err(Status::unauthenticated("the token was revoked"));
        }
        let policy = self.policy.clone();
        let snapshot = self.server.read_at_length(move |server| snapshot(server, &policy)).await;
        Ok(framed(&snapshot))
    }
}

fn snapshot(server: &Server, policy: &str) -> proto::Snapshot {
    let (engine, metrics) = (&server.engine, server.engine.metrics());
    // Policies before the sum of them: so the sum is never less.
    let counts = engine.policy_counts().into_iter();
    let chosen = counts.filter(|count| policy.is_empty() || count.name == policy);
    let policies = chosen.take(MAX_POLICIES).map(of_policy).collect();
    let now = metrics.clock().now();
    proto::Snapshot {
        at_us: now.as_nanos() / 1_000,
        uptime_us: u64::try_from(server.uptime_at(now).as_micros()).unwrap_or(u64::MAX),
        phase: server.phase().borrow().name().to_owned(),
        degraded: engine.is_degraded(),
        totals: Some(of_totals(metrics.totals())),
        policies,
    }
}

fn of_policy(count: PolicyCount) -> proto::PolicySnapshot {
    proto::PolicySnapshot {
        totals: Some(of_totals(count.totals)),
        keys: count.keys as u64,
        reservations: count.reservations as u64,
        name: count.name,
    }
}

fn of_totals(Totals { allowed, refused, shadow_refused, error }: Totals) -> proto::Totals {
    proto::Totals { allowed, refused, shadow_refused, error }
}
