//! A service to put the layer around, a store that takes its time, and requests.

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use tower::util::BoxCloneSyncService;
use tower::{Layer, ServiceExt, service_fn};
use waterclock::{
    Answer, Charge, Gcra, Hold, ManualClock, MemoryStore, Migration, Policy, Reserved, Settled,
    Settlement, Store, StoreError, Verb,
};
use waterclock_http::{Checked, RateLimitLayer, ResponseBody};

use crate::scene::START;

/// A remote store: it never answers on the first poll.
#[derive(Clone)]
pub(crate) struct Remote(pub(crate) MemoryStore<ManualClock>);

impl Store for Remote {
    async fn set_policy(&self, policy: Policy) -> Result<(), StoreError> {
        self.0.set_policy(policy).await
    }

    async fn set_variant(
        &self,
        of: &str,
        policy: Policy,
        migration: Migration,
    ) -> Result<(), StoreError> {
        self.0.set_variant(of, policy, migration).await
    }

    async fn apply(&self, verb: Verb, charges: &[Charge<'_>]) -> Result<Vec<Answer>, StoreError> {
        tokio::task::yield_now().await;
        self.0.apply(verb, charges).await
    }

    async fn reserve(&self, hold: &Hold<'_>) -> Result<Reserved, StoreError> {
        let reserved = self.0.reserve(hold).await;
        tokio::time::sleep(Duration::from_millis(5)).await;
        reserved
    }

    async fn settle(&self, id: &str, with: Settlement<'_>) -> Result<Settled, StoreError> {
        tokio::task::yield_now().await;
        self.0.settle(id, with).await
    }
}

pub(crate) fn memory() -> (MemoryStore<ManualClock>, ManualClock) {
    let clock = ManualClock::default();
    clock.set(START);
    (MemoryStore::new(1_000, clock.clone()), clock)
}

/// A bucket that gets one unit every ten seconds.
pub(crate) fn policy(name: &str, capacity: u64) -> Policy {
    let limit = Gcra::new(1, Duration::from_secs(10)).expect("a valid rate");
    Policy::new(name, [limit.with_capacity(capacity).with_name("burst")]).expect("a valid policy")
}

pub(crate) type App =
    BoxCloneSyncService<Request<Full<Bytes>>, Response<ResponseBody<Full<Bytes>>>, Infallible>;

/// Answers with what is left of `api`, as the handler sees it.
pub(crate) fn app<S: Store + 'static>(layer: &RateLimitLayer<S>) -> App {
    let handler = service_fn(|request: Request<Full<Bytes>>| async move {
        let checked = request.extensions().get::<Checked>();
        let left = checked.and_then(|checked| checked.get("api"));
        let left = left.and_then(|answer| answer.decision.remaining());
        Ok(Response::new(Full::from(format!("{left:?}"))))
    });
    BoxCloneSyncService::new(layer.layer(handler))
}

pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().expect("header fields are text"))
    }
}

pub(crate) async fn send(app: &App, request: http::request::Builder) -> Reply {
    let request = request.body(Full::default()).expect("a valid request");
    let Ok(response) = app.clone().oneshot(request).await;
    let (head, body) = response.into_parts();
    let Ok(body) = body.collect().await;
    let body = String::from_utf8(body.to_bytes().to_vec()).expect("bodies are text");
    Reply { status: head.status, headers: head.headers, body }
}

/// A request of this user.
pub(crate) fn of(user: &str) -> http::request::Builder {
    Request::get("/").header("x-user", user)
}
