//! The server as a store, without a fallback: a call that it does not answer fails.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::Connect;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout, timeout_at};
use waterclock::store::check_reserved_costs;
use waterclock::{
    Answer, BadReservation, Charge, Failure, Hold, KeyOverride, OverridePage, Policy, Reserved,
    Settled, Settlement, Store, StoreError, Verb,
};

use super::builder::RemoteStoreBuilder;
use super::known::KnownPolicies;
use super::overrides::{
    clear_override_call, overrides_call, read_override_call, set_override_call,
};
use super::reply::{self, Reply};
use super::request::{Call, calls, reserve_call, resettable, settle_call};
use waterclock_config::DescribedPolicies;

/// A server closes connections that are idle for a minute; this side does so before.
const IDLE: Duration = Duration::from_secs(30);
/// The longest body that is read.
const MOST_BYTES: usize = 8 * 1_024 * 1_024;
/// How long the list of policies may take, or a call of an administrator.
const PATIENT: Duration = Duration::from_secs(5);

/// A pool of connections to one server, and the policies that it has.
pub(super) struct Server<C> {
    client: Client<C, Full<Bytes>>,
    /// The server's address, without a slash at its end.
    pub(super) base: String,
    authorization: Option<HeaderValue>,
    deadline: Duration,
    /// For calls that are running.
    room: Semaphore,
    pub(super) policies: KnownPolicies,
}

impl<C: Connect + Clone + Send + Sync + 'static> Server<C> {
    pub(super) fn new(connector: C, settings: &RemoteStoreBuilder) -> Result<Self, StoreError> {
        let RemoteStoreBuilder { url, deadline, connections, .. } = settings;
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(*connections)
            .build(connector);
        Ok(Self {
            client,
            base: url.trim_end_matches('/').to_owned(),
            authorization: settings.authorization()?,
            deadline: *deadline,
            room: Semaphore::new((*connections).min(Semaphore::MAX_PERMITS)),
            policies: KnownPolicies::default(),
        })
    }

    /// The policies that the server has.
    pub(super) async fn describe(&self) -> Result<DescribedPolicies, StoreError> {
        let late = || {
            let reason = format!("{} does not answer GET /v1/policies within 5 s", self.base);
            StoreError::failed(Failure::Timeout, reason)
        };
        let sent = timeout(PATIENT, self.send(Call::policies())).await;
        let reply = sent.map_err(|_| late())??;
        let is_ours = reply.problem().is_some() && reply.status != StatusCode::NOT_FOUND;
        match reply.status {
            StatusCode::OK => {
                serde_json::from_slice(&reply.body).map_err(|_| self.not_a_server("something else"))
            }
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Err(reply.error(&self.base, &[])),
            _ if is_ours => Err(reply.error(&self.base, &[])),
            status => Err(self.not_a_server(&format!("status {}", status.as_u16()))),
        }
    }

    /// A call that changes policies, within the time for those.
    pub(super) async fn ask(&self, call: Call) -> Result<Reply, StoreError> {
        let late = || {
            let reason = format!("{} does not answer within 5 s", self.base);
            StoreError::failed(Failure::Timeout, reason)
        };
        timeout(PATIENT, self.send(call)).await.unwrap_or_else(|_| Err(late()))
    }

    fn not_a_server(&self, answers: &str) -> StoreError {
        let reason = format!(
            "{} is not a waterclock server: it answers {answers} to GET /v1/policies",
            self.base
        );
        StoreError::failed(Failure::BadReply, reason)
    }

    /// Runs calls within a deadline, and within the number of connections.
    async fn within<T>(
        &self,
        patience: Duration,
        calls: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let by = Instant::now() + patience;
        let Ok(_room) = timeout_at(by, self.room.acquire()).await else {
            let reason = format!("too many calls wait for {}", self.base);
            return Err(StoreError::failed(Failure::Overloaded, reason));
        };
        timeout_at(by, calls).await.unwrap_or_else(|_| {
            let reason = format!("{} does not answer within {patience:?}", self.base);
            Err(StoreError::failed(Failure::Timeout, reason))
        })
    }

    async fn apply_by(
        &self,
        patience: Duration,
        verb: Verb,
        charges: &[Charge<'_>],
    ) -> Result<Vec<Answer>, StoreError> {
        if charges.is_empty() {
            return Ok(Vec::new());
        }
        let (charges, policies) = self.priced(verb, charges)?;
        let mut calls = calls(verb, &charges)?;
        let asked = async {
            let last = calls.pop();
            for call in calls {
                let reply = self.send(call).await?;
                if reply.status != StatusCode::OK {
                    return Err(reply.error(&self.base, &charges));
                }
            }
            let last = last.ok_or_else(|| reply::malformed(&self.base, "nothing was asked"))?;
            let reply = self.send(last).await?;
            match reply.status {
                StatusCode::OK | StatusCode::TOO_MANY_REQUESTS => {
                    reply.answers(&self.base, &charges, &policies)
                }
                _ => Err(reply.error(&self.base, &charges)),
            }
        };
        self.within(patience, asked).await
    }

    /// Whether a call is one for the server. Asked before the breaker is: an error of the call is a sign that the server
    /// answers only if the server said so.
    pub(super) fn accepts(&self, verb: Verb, charges: &[Charge<'_>]) -> Result<(), StoreError> {
        if verb == Verb::Reset {
            charges.iter().try_for_each(resettable)?;
        }
        self.priced(verb, charges).map(|_| ())
    }

    /// The same for a reservation.
    pub(super) fn accepts_hold(&self, hold: &Hold<'_>) -> Result<(), StoreError> {
        if hold.charges.is_empty() {
            return Err(BadReservation::Empty.into());
        }
        let (charges, _) = self.priced(Verb::Check, hold.charges)?;
        Ok(check_reserved_costs(charges.iter().map(|charge| &charge.cost))?)
    }

    /// The charges as the server's policies count them, so that its answers can be compared with them; and these
    /// policies.
    fn priced<'a>(
        &self,
        verb: Verb,
        charges: &[Charge<'a>],
    ) -> Result<(Vec<Charge<'a>>, Vec<Arc<Policy>>), StoreError> {
        let mut priced = Vec::with_capacity(charges.len());
        let mut policies = Vec::with_capacity(charges.len());
        for charge in charges {
            let policy = self.policies.find(charge.policy)?;
            priced.push(charge.priced(verb, &policy)?);
            policies.push(policy);
        }
        Ok((priced, policies))
    }

    /// A call that no client waits for.
    async fn administer(&self, call: Call) -> Result<Reply, StoreError> {
        self.within(PATIENT, self.send(call)).await
    }

    async fn send(&self, call: Call) -> Result<Reply, StoreError> {
        let Call { method, path, body } = call;
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.base));
        if !body.is_empty() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        let request = request.body(Full::from(body)).map_err(|error| {
            StoreError::unfit(format!("{}{path} is not a valid address: {error}", self.base))
        })?;
        let response = self.client.request(request).await.map_err(|error| {
            let kind = if error.is_connect() { Failure::Unreachable } else { Failure::BadReply };
            StoreError::failed(kind, format!("{} does not answer: {}", self.base, cause(&error)))
        })?;
        let status = response.status();
        let body = Limited::new(response.into_body(), MOST_BYTES).collect().await;
        let body = body.map_err(|error| {
            let reason = format!("the answer of {} is cut off: {}", self.base, cause(&*error));
            StoreError::failed(Failure::BadReply, reason)
        })?;
        Ok(Reply { status, body: body.to_bytes() })
    }
}

impl<C: Connect + Clone + Send + Sync + 'static> Store for Server<C> {
    async fn set_policy(&self, policy: Policy) -> Result<(), StoreError> {
        self.policies.define(&policy)
    }

    async fn apply(&self, verb: Verb, charges: &[Charge<'_>]) -> Result<Vec<Answer>, StoreError> {
        self.apply_by(self.deadline, verb, charges).await
    }

    async fn apply_within(
        &self,
        patience: Duration,
        verb: Verb,
        charges: &[Charge<'_>],
    ) -> Result<Vec<Answer>, StoreError> {
        self.apply_by(patience.min(self.deadline), verb, charges).await
    }

    async fn reserve(&self, hold: &Hold<'_>) -> Result<Reserved, StoreError> {
        let (charges, policies) = self.priced(Verb::Check, hold.charges)?;
        let call = reserve_call(&Hold { charges: &charges, ..*hold })?;
        let asked = async {
            let reply = self.send(call).await?;
            match reply.status {
                StatusCode::CREATED => {
                    let answers = reply.answers(&self.base, &charges, &policies)?;
                    let (id, expires_in) = reply.reservation(&self.base)?;
                    Ok(Reserved::held(id, expires_in, answers))
                }
                StatusCode::TOO_MANY_REQUESTS => {
                    let answers = reply.answers(&self.base, &charges, &policies)?;
                    Ok(Reserved::refused(answers))
                }
                _ => Err(reply.reservation_error(&self.base, &charges)),
            }
        };
        self.within(self.deadline, asked).await
    }

    async fn settle(&self, id: &str, with: Settlement<'_>) -> Result<Settled, StoreError> {
        let call = settle_call(id, with)?;
        let asked = async {
            let reply = self.send(call).await?;
            match reply.status {
                StatusCode::OK => reply.settled(&self.base),
                StatusCode::NOT_FOUND => Err(StoreError::UnknownReservation(id.to_owned())),
                _ => Err(reply.reservation_error(&self.base, &[])),
            }
        };
        self.within(self.deadline, asked).await
    }

    async fn set_override(&self, policy: &str, new: &KeyOverride) -> Result<(), StoreError> {
        let reply = self.administer(set_override_call(policy, new)?).await?;
        match reply.status {
            StatusCode::OK => Ok(()),
            _ => Err(reply.administration_error(&self.base, policy)),
        }
    }

    async fn clear_override(&self, policy: &str, key: &[u8]) -> Result<bool, StoreError> {
        let reply = self.administer(clear_override_call(policy, key)?).await?;
        match reply.status {
            StatusCode::OK => Ok(reply.cleared(&self.base)? > 0),
            _ => Err(reply.administration_error(&self.base, policy)),
        }
    }

    async fn override_of(
        &self,
        policy: &str,
        key: &[u8],
    ) -> Result<Option<KeyOverride>, StoreError> {
        let known = self.policies.find(policy)?;
        let reply = self.administer(read_override_call(policy, key)?).await?;
        match reply.status {
            StatusCode::OK => reply.override_of(&self.base, key, &known).map(Some),
            StatusCode::NOT_FOUND if reply.problem().is_some() => Ok(None),
            _ => Err(reply.administration_error(&self.base, policy)),
        }
    }

    async fn overrides(
        &self,
        policy: &str,
        after: Option<&str>,
        count: usize,
    ) -> Result<OverridePage, StoreError> {
        let known = self.policies.find(policy)?;
        let reply = self.administer(overrides_call(policy, after, count)).await?;
        match reply.status {
            StatusCode::OK => reply.overrides(&self.base, &known),
            _ => Err(reply.administration_error(&self.base, policy)),
        }
    }

    async fn probe(&self) -> Result<Vec<String>, StoreError> {
        self.describe().await?;
        Ok(Vec::new())
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
