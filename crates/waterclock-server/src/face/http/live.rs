//! `/v1/live`: one snapshot of what the server does, or a stream of them as server-sent events.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::timeout;

use super::problem::{Problem, json};
use super::request::{Access, Reads};
use crate::access::{Attempt, Role, bearer_of};
use crate::observe::Live;
use crate::pace::Pace;
use crate::server::{Phase, Server};

const EVENTS: &str = "text/event-stream";

/// One snapshot; or one now and then, for callers that accept events.
pub(super) async fn live(access: Access<Reads>, parts: Parts) -> Result<Response, Problem> {
    let mut response = if accepts_events(&parts.headers) {
        Feed::new(access.server, &parts)?.into_response()
    } else {
        let live = |server: &Server| json(StatusCode::OK, &Live::of(server));
        access.server.read_at_length(live).await
    };
    let no_store = HeaderValue::from_static("no-store");
    response.headers_mut().insert(header::CACHE_CONTROL, no_store);
    Ok(response)
}

fn accepts_events(headers: &HeaderMap) -> bool {
    let names_events = |range: &str| {
        let kind = range.split(';').next().unwrap_or_default();
        kind.trim().eq_ignore_ascii_case(EVENTS)
    };
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepted.flat_map(|value| value.split(',')).any(names_events)
}

/// One reader of events, until the server drains or its token is revoked.
///
/// Each event is made when the one before was sent: a slow reader gets fewer of them, and nothing piles up. A reader that
/// does not read at all is idle, and closed like other idle connections. All feeds send the same event at the same time.
struct Feed {
    server: Arc<Server>,
    token: Option<String>,
    phase: watch::Receiver<Phase>,
    pace: Option<Arc<Pace>>,
    /// The tick of the last event.
    sent: Option<u64>,
    _room: OwnedSemaphorePermit,
}

impl Feed {
    fn new(server: Arc<Server>, parts: &Parts) -> Result<Feed, Problem> {
        let Some(room) = server.admit_to_live() else {
            let detail = "too many live feeds are open; poll without `text/event-stream` instead";
            return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail).retry_after(10));
        };
        Ok(Feed {
            phase: server.phase(),
            token: bearer_of(&parts.headers).map(str::to_owned),
            pace: parts.extensions.get().cloned(),
            sent: None,
            _room: room,
            server,
        })
    }

    /// The next event, when its time has come; `None` where the feed ends.
    async fn next(&mut self) -> Option<Bytes> {
        let ticks = self.server.ticks();
        if let Some(next) = self.sent.map(|sent| sent + 1) {
            let wait = ticks.until(next, self.server.uptime());
            let draining = self.phase.wait_for(|phase| *phase >= Phase::Draining);
            if timeout(wait, draining).await.is_ok() {
                return None;
            }
        }
        // The timer's clock may differ from the server's: never repeat a tick.
        let tick = ticks.at(self.server.uptime()).max(self.sent.map_or(0, |sent| sent + 1));
        // A reload may have revoked the token.
        if self.server.revalidate(self.token.as_deref(), Role::Read) != Attempt::Granted {
            return None;
        }
        if let Some(pace) = &self.pace {
            pace.keep_alive();
        }
        let event = move |server: &Server| {
            server.ticks().event(tick, || {
                let live = serde_json::to_string(&Live::of(server)).ok()?;
                Some(format!("data: {live}\n\n").into())
            })
        };
        let (tick, event) = self.server.read_at_length(event).await?;
        self.sent = Some(tick);
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
        // nginx would buffer events until it has a few kilobytes of them.
        headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
        response
    }
}
