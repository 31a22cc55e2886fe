//! What is going on just now: once, or again and again as server-sent events.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::timeout;

use super::Shared;
use super::decide::json;
use super::guard::{open, token_of};
use super::problem::Problem;
use crate::access::{Attempt, Role};
use crate::observe::Live;
use crate::pace::Pace;
use crate::server::{Phase, Server};

const EVENTS: &str = "text/event-stream";

/// One snapshot; or one now and then, for those who accept events.
pub(super) async fn live(State(server): Shared, parts: Parts) -> Response {
    if let Err(problem) = open(&server, &parts, Role::Read) {
        return problem.into_response();
    }
    let mut response = if accepts_events(&parts.headers) {
        match Feed::new(server, &parts) {
            Ok(feed) => feed.into_response(),
            Err(problem) => return problem.into_response(),
        }
    } else {
        json(StatusCode::OK, &Live::of(&server))
    };
    let no_store = HeaderValue::from_static("no-store");
    response.headers_mut().insert(header::CACHE_CONTROL, no_store);
    response
}

fn accepts_events(headers: &HeaderMap) -> bool {
    let names_events = |range: &str| {
        let kind = range.split(';').next().unwrap_or_default();
        kind.trim().eq_ignore_ascii_case(EVENTS)
    };
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepted.flat_map(|value| value.split(',')).any(names_events)
}

/// Somebody who reads events, until the server drains or the token is not good any more.
///
/// Each event is fetched when the one before has gone out: whoever reads slowly hears less, and nothing piles
/// up. Whoever does not read at all is idle, and parted from like others who are. All feeds tell the same
/// event at the same time.
struct Feed {
    server: Arc<Server>,
    token: Option<String>,
    phase: watch::Receiver<Phase>,
    pace: Option<Arc<Pace>>,
    /// The tick that was told of last.
    told: Option<u64>,
    _room: OwnedSemaphorePermit,
}

impl Feed {
    fn new(server: Arc<Server>, parts: &Parts) -> Result<Feed, Problem> {
        let Some(room) = server.admit_to_live() else {
            let detail =
                "too many live feeds are being read; ask without `text/event-stream` instead";
            return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail).retry_after(10));
        };
        Ok(Feed {
            phase: server.phase(),
            token: token_of(&parts.headers).map(str::to_owned),
            pace: parts.extensions.get().cloned(),
            told: None,
            _room: room,
            server,
        })
    }

    /// The next event, when its time has come; `None` where the feed ends.
    async fn next(&mut self) -> Option<Bytes> {
        let ticks = self.server.ticks();
        if let Some(next) = self.told.map(|told| told + 1) {
            let wait = ticks.until(next, self.server.uptime());
            let draining = self.phase.wait_for(|phase| *phase >= Phase::Draining);
            if timeout(wait, draining).await.is_ok() {
                return None;
            }
        }
        // Where two clocks do not agree on a wait, it is over nevertheless.
        let tick = ticks.at(self.server.uptime()).max(self.told.map_or(0, |told| told + 1));
        // A reload may have taken the token away.
        if self.server.still(self.token.as_deref(), Role::Read) != Attempt::Granted {
            return None;
        }
        if let Some(pace) = &self.pace {
            pace.answer_goes_on();
        }
        let (tick, event) = ticks.event(tick, || {
            let live = serde_json::to_string(&Live::of(&self.server)).ok()?;
            Some(format!("data: {live}\n\n").into())
        })?;
        self.told = Some(tick);
        Some(event)
    }
}

impl IntoResponse for Feed {
    fn into_response(self) -> Response {
        let events = stream::unfold(self, |mut feed| async move {
            let event = feed.next().await?;
            Some((Ok::<_, Infallible>(event), feed))
        });
        let mut response = Body::from_stream(events).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(EVENTS));
        // nginx would keep events until it has a few kilobytes of them.
        headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
        response
    }
}
