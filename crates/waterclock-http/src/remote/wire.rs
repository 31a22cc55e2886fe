//! Requests to the server and what comes back.

use std::error::Error;
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::Connect;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use waterclock::{Failure, StoreError};

use super::question::Call;

/// A server closes connections that are idle for a minute; this side does so before.
const IDLE: Duration = Duration::from_secs(30);
/// No answer is as long as that.
const MOST_BYTES: usize = 8 * 1_024 * 1_024;

/// A pool of connections to one server.
pub(super) struct Wire<C> {
    client: Client<C, Full<Bytes>>,
    /// Without a slash at its end.
    base: String,
    authorization: Option<HeaderValue>,
}

/// What the server said.
pub(super) struct Reply {
    pub(super) status: StatusCode,
    pub(super) body: Bytes,
}

impl<C: Connect + Clone + Send + Sync + 'static> Wire<C> {
    pub(super) fn new(
        connector: C,
        base: String,
        authorization: Option<HeaderValue>,
        connections: usize,
    ) -> Self {
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(connections)
            .build(connector);
        Self { client, base, authorization }
    }

    pub(super) async fn send(&self, call: Call) -> Result<Reply, StoreError> {
        let Call { method, path, body } = call;
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.base));
        if !body.is_empty() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        let request = request.body(Full::from(body)).map_err(|error| {
            StoreError::Unfit(format!("nothing can be asked at {}{path}: {error}", self.base))
        })?;
        let response = self.client.request(request).await.map_err(|error| {
            let kind = if error.is_connect() { Failure::Unreachable } else { Failure::BadReply };
            StoreError::failed(kind, format!("{} does not answer: {}", self.base, cause(&error)))
        })?;
        let status = response.status();
        let body = Limited::new(response.into_body(), MOST_BYTES).collect().await;
        let body = body.map_err(|error| {
            let reason = format!("the answer of {} broke off: {}", self.base, cause(&*error));
            StoreError::failed(Failure::BadReply, reason)
        })?;
        Ok(Reply { status, body: body.to_bytes() })
    }
}

impl<C> Wire<C> {
    pub(super) fn base(&self) -> &str {
        &self.base
    }
}

/// What is behind an error: the layers above it only say that there is one.
fn cause(error: &dyn Error) -> String {
    let mut deepest = error;
    while let Some(source) = deepest.source() {
        deepest = source;
    }
    deepest.to_string()
}
