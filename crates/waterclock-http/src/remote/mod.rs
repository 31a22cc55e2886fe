//! A running waterclock server as a store.

mod builder;
mod define;
mod known;
mod overrides;
mod reply;
mod request;
mod server;

use std::fmt;
use std::time::Duration;

use hyper_util::client::legacy::connect::{Connect, HttpConnector};
use waterclock::{
    Answer, Charge, Cost, Failure, Fallback, Hold, KeyOverride, OverridePage, Policy, Reserved,
    Serving, Settled, Settlement, Store, StoreError, Verb,
};

pub use builder::RemoteStoreBuilder;
use server::Server;

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
/// Policies are configured on the server, or defined by [`define_policy`](RemoteStore::define_policy);
/// [`set_policy`](Store::set_policy) adds none. A definition of your own for one
/// of them is used for header fields and while the server is unreachable; its limits have the names of the server's.
///
/// Overrides of single keys are the server's: reading them needs a token with the role `read`, changing them `admin`.
///
/// While the server is unreachable, [`OnStoreError`](waterclock::OnStoreError) decides, as [`Fallback`] describes; reservations fail.
///
/// A call is never repeated: one that timed out may have been charged. Keys are text on the server. A key that is UTF-8
/// is sent as it is; another one, and one that begins with `bytes:`, as `bytes:` and its bytes in hexadecimal, of which
/// a server takes 509.
pub struct RemoteStore<C = HttpConnector> {
    store: Fallback<Server<C>>,
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
        self.store.store().policies.served(name).map(|policy| Policy::clone(&policy))
    }
}

impl<C: Connect + Clone + Send + Sync + 'static> RemoteStore<C> {
    /// Reads the server's policies again, after its configuration changed.
    pub async fn refresh(&self) -> Result<(), StoreError> {
        let server = self.store.store();
        let described = server.describe().await?;
        for gone in server.policies.replace(described.into_policies()) {
            self.store.drop_policy(&gone).await;
        }
        for policy in server.policies.here() {
            self.store.adopt_policy(&policy).await?;
        }
        Ok(())
    }

    /// A policy that is not known may be new on the server.
    async fn refresh_unless_held(&self, policy: &Policy) -> Result<(), StoreError> {
        if self.store.store().policies.holds(policy.name()) {
            return Ok(());
        }
        self.refresh().await
    }
}

impl<C: Connect + Clone + Send + Sync + 'static> Store for RemoteStore<C> {
    async fn set_policy(&self, policy: Policy) -> Result<(), StoreError> {
        self.refresh_unless_held(&policy).await?;
        self.store.set_policy(policy).await
    }

    async fn set_policy_as(&self, policy: Policy, serving: Serving) -> Result<(), StoreError> {
        self.refresh_unless_held(&policy).await?;
        self.store.set_policy_as(policy, serving).await
    }

    async fn set_override(&self, policy: &str, new: &KeyOverride) -> Result<(), StoreError> {
        self.store.set_override(policy, new).await
    }

    async fn clear_override(&self, policy: &str, key: &[u8]) -> Result<bool, StoreError> {
        self.store.clear_override(policy, key).await
    }

    async fn override_of(
        &self,
        policy: &str,
        key: &[u8],
    ) -> Result<Option<KeyOverride>, StoreError> {
        self.store.override_of(policy, key).await
    }

    async fn overrides(
        &self,
        policy: &str,
        after: Option<&str>,
        count: usize,
    ) -> Result<OverridePage, StoreError> {
        self.store.overrides(policy, after, count).await
    }

    async fn apply(&self, verb: Verb, charges: &[Charge<'_>]) -> Result<Vec<Answer>, StoreError> {
        self.store.store().accepts(verb, charges)?;
        self.store.apply(verb, charges).await
    }

    async fn apply_within(
        &self,
        patience: Duration,
        verb: Verb,
        charges: &[Charge<'_>],
    ) -> Result<Vec<Answer>, StoreError> {
        self.store.store().accepts(verb, charges)?;
        self.store.apply_within(patience, verb, charges).await
    }

    async fn reserve(&self, hold: &Hold<'_>) -> Result<Reserved, StoreError> {
        self.store.store().accepts_hold(hold)?;
        self.store.reserve(hold).await
    }

    async fn settle(&self, id: &str, with: Settlement<'_>) -> Result<Settled, StoreError> {
        self.store.settle(id, with).await
    }

    async fn fill(&self, policy: &Policy, charge: &Charge<'_>) -> Result<Cost, StoreError> {
        self.store.store().accepts(Verb::Check, std::slice::from_ref(charge))?;
        self.store.fill(policy, charge).await
    }

    async fn probe(&self) -> Result<Vec<String>, StoreError> {
        self.store.probe().await
    }

    fn is_degraded(&self) -> bool {
        self.store.is_degraded()
    }

    fn failures(&self) -> Vec<(Failure, u64)> {
        self.store.failures()
    }

    async fn close(&self) {
        self.store.close().await;
    }
}

impl<C> Clone for RemoteStore<C> {
    fn clone(&self) -> Self {
        Self { store: self.store.clone() }
    }
}

/// Without the token and the keys.
impl<C> fmt::Debug for RemoteStore<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteStore")
            .field("server", &self.store.store().base)
            .finish_non_exhaustive()
    }
}
