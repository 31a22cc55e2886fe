//! A running waterclock server as a store.

mod answer;
mod ask;
mod breaker;
mod builder;
mod described;
mod hold;
mod key;
mod known;
mod no_answer;
mod question;
mod wire;
mod without;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use hyper_util::client::legacy::connect::{Connect, HttpConnector};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use waterclock::fallback::Local;
use waterclock::{
    Answer, Charge, Failure, Hold, OnStoreError, Policy, Reserved, Settled, Settlement, Store,
    StoreError, Verb,
};

use breaker::Breaker;
pub use builder::RemoteStoreBuilder;
use known::Known;
use no_answer::NoAnswer;
use wire::Wire;

/// How long hearing of the policies may take.
const GREETING: Duration = Duration::from_secs(5);

/// A [`Store`] on a waterclock server, asked over HTTP. Cheap to clone.
///
/// ```no_run
/// use waterclock_http::{Key, RateLimitLayer, RemoteStore};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let store = RemoteStore::builder("http://127.0.0.1:8080").token("secret").connect().await?;
/// let api = store.policy("api").ok_or("the server has no policy `api`")?;
/// let layer = RateLimitLayer::builder(store).rule(api).key(Key::header("x-tenant")).build().await?;
/// # Ok(()) }
/// ```
///
/// Policies live on the server: each one it has can be charged here at once, and
/// [`set_policy`](Store::set_policy) adds none. A definition of your own for one of them goes into header
/// fields, and decides while the server does not answer; its limits have the names of the server's.
///
/// Reservations are the server's own: while it does not answer, there are none.
///
/// A call is never repeated: one that took too long may have been charged. Keys are text on the server. A
/// key that is UTF-8 is sent as it is; another one, and one that begins with `bytes:`, as `bytes:` and its
/// bytes in hexadecimal, of which a server takes 509.
pub struct RemoteStore<C = HttpConnector> {
    inner: Arc<Inner<C>>,
}

struct Inner<C> {
    wire: Wire<C>,
    breaker: Breaker,
    known: Known,
    local: Local,
    /// For calls under way.
    room: Semaphore,
    deadline: Duration,
    on_store_error: OnStoreError,
    /// Whether somebody is telling the server what was admitted without it.
    is_settling: AtomicBool,
}

impl RemoteStore {
    /// Settings for a store on the server at an address such as `http://127.0.0.1:8080`.
    #[must_use]
    pub fn builder(url: &str) -> RemoteStoreBuilder {
        RemoteStoreBuilder::new(url)
    }
}

impl<C> RemoteStore<C> {
    /// A policy as the server describes it; `None` if it has none of this name that can be used here.
    #[must_use]
    pub fn policy(&self, name: &str) -> Option<Policy> {
        self.inner.known.served(name).map(|policy| Policy::clone(&policy))
    }

    /// Whether the server failed so often, or so clearly, that it is left alone and something stands in for it.
    #[must_use]
    pub fn is_degraded(&self) -> bool {
        self.inner.breaker.is_open()
    }
}

impl<C: Connect + Clone + Send + Sync + 'static> RemoteStore<C> {
    async fn greet(wire: Wire<C>, settings: &RemoteStoreBuilder) -> Result<Self, StoreError> {
        let inner = Inner {
            wire,
            breaker: Breaker::new(2 * settings.deadline),
            known: Known::default(),
            local: Local::new(settings.nodes),
            room: Semaphore::new(settings.connections.min(Semaphore::MAX_PERMITS)),
            deadline: settings.deadline,
            on_store_error: settings.on_store_error,
            is_settling: AtomicBool::new(false),
        };
        let store = Self { inner: Arc::new(inner) };
        store.refresh().await?;
        Ok(store)
    }

    /// Hears again which policies the server has, after its configuration changed.
    pub async fn refresh(&self) -> Result<(), StoreError> {
        let Inner { wire, known, local, .. } = &*self.inner;
        let late = || {
            let reason = format!("{} does not say which policies it has", wire.base());
            StoreError::failed(Failure::Timeout, reason)
        };
        let described = timeout(GREETING, self.inner.describe()).await.map_err(|_| late())??;
        for gone in known.replace(described.policies()) {
            // It may never have been one that could be used.
            _ = local.remove_policy(&gone).await;
        }
        for policy in known.here() {
            local.set_policy(&policy).await?;
        }
        Ok(())
    }
}

impl<C: Connect + Clone + Send + Sync + 'static> Store for RemoteStore<C> {
    async fn set_policy(&self, policy: Policy) -> Result<(), StoreError> {
        if !self.inner.known.holds(policy.name()) {
            self.refresh().await?;
        }
        self.inner.known.give(&policy)?;
        self.inner.local.set_policy(&policy).await
    }

    async fn apply(&self, verb: Verb, charges: &[Charge<'_>]) -> Result<Vec<Answer>, StoreError> {
        if charges.is_empty() {
            return Ok(Vec::new());
        }
        let known = |charge: &Charge<'_>| self.inner.known.find(charge.policy);
        let policies: Vec<Arc<Policy>> = charges.iter().map(known).collect::<Result<_, _>>()?;
        let charges = &*priced(verb, charges, &policies)?;
        match self.inner.ask(verb, charges, &policies).await {
            Ok(answers) => {
                self.inner.settle_soon();
                Ok(answers)
            }
            Err(NoAnswer::Missing(error)) => {
                self.inner.stand_in(error, verb, charges, &policies).await
            }
            Err(NoAnswer::Said(error)) => Err(error),
        }
    }

    async fn reserve(&self, hold: &Hold<'_>) -> Result<Reserved, StoreError> {
        if hold.charges.is_empty() {
            let reason = "a reservation holds nothing; give it at least one charge";
            return Err(StoreError::BadReservation(reason.to_owned()));
        }
        let known = |charge: &Charge<'_>| self.inner.known.find(charge.policy);
        let policies: Vec<Arc<Policy>> =
            hold.charges.iter().map(known).collect::<Result<_, _>>()?;
        let charges = &*priced(Verb::Check, hold.charges, &policies)?;
        self.inner.reserve(&Hold { charges, ..*hold }, &policies).await
    }

    async fn settle(&self, id: &str, with: Settlement<'_>) -> Result<Settled, StoreError> {
        self.inner.settle_held(id, with).await
    }
}

/// The charges as the server's policies count them, so that its answers can be compared with them.
fn priced<'a>(
    verb: Verb,
    charges: &[Charge<'a>],
    policies: &[Arc<Policy>],
) -> Result<Vec<Charge<'a>>, StoreError> {
    charges.iter().zip(policies).map(|(charge, policy)| charge.priced(verb, policy)).collect()
}

impl<C> Clone for RemoteStore<C> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

/// Without the token, and without what every key ever did.
impl<C> fmt::Debug for RemoteStore<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteStore")
            .field("server", &self.inner.wire.base())
            .finish_non_exhaustive()
    }
}
