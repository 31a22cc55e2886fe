use std::fmt;
use std::time::Duration;

use http::Uri;
use http::header::HeaderValue;
use hyper_util::client::legacy::connect::{Connect, HttpConnector};
use waterclock::{Fallback, OnStoreError, Serving, StoreError};

use super::RemoteStore;
use super::server::Server;

const DEADLINE: Duration = Duration::from_millis(50);
/// The longest deadline.
const LONGEST: Duration = Duration::from_secs(3_600);
const CONNECTIONS: usize = 256;

/// Settings of a [`RemoteStore`].
#[derive(Clone)]
pub struct RemoteStoreBuilder {
    pub(super) url: String,
    token: Option<String>,
    pub(super) deadline: Duration,
    on_store_error: OnStoreError,
    local_for: Option<Duration>,
    nodes: u64,
    pub(super) connections: usize,
}

impl RemoteStoreBuilder {
    pub(super) fn new(url: &str) -> Self {
        Self {
            url: url.to_owned(),
            token: None,
            deadline: DEADLINE,
            on_store_error: OnStoreError::Local,
            local_for: None,
            nodes: 1,
            connections: CONNECTIONS,
        }
    }

    /// The bearer token. It needs the roles `check`, for checks, and `read`, for the list of policies; and `admin` to
    /// reset keys.
    #[must_use]
    pub fn token(mut self, token: &str) -> Self {
        self.token = Some(token.to_owned());
        self
    }

    /// How long one call may take, everything included: 50 ms unless set, an hour at most.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline.min(LONGEST);
        self
    }

    /// What happens while the server is unreachable; [`OnStoreError::Local`] unless set.
    #[must_use]
    pub fn on_store_error(mut self, on_store_error: OnStoreError) -> Self {
        self.on_store_error = on_store_error;
        self
    }

    /// For how long [`OnStoreError::Local`] serves in one outage, before checks are errors; always unless set. See
    /// [`Serving::local_for`].
    #[must_use]
    pub fn local_for(mut self, local_for: Duration) -> Self {
        self.local_for = Some(local_for);
        self
    }

    /// How many processes share this server: each serves that part of every limit while the server is unreachable; 1
    /// unless set.
    #[must_use]
    pub fn nodes(mut self, nodes: u64) -> Self {
        self.nodes = nodes;
        self
    }

    /// How many calls may be under way at once, each on a connection of its own; 256 unless set. Others
    /// wait, within their deadline.
    #[must_use]
    pub fn connections(mut self, connections: usize) -> Self {
        self.connections = connections;
        self
    }

    /// Connects over plain TCP, and reads the server's policies.
    pub async fn connect(self) -> Result<RemoteStore, StoreError> {
        let uri = self.uri()?;
        if uri.scheme_str() != Some("http") {
            return Err(StoreError::settings(format!(
                "`{}` is not plain HTTP; use `connect_with` with a connector for it",
                self.url
            )));
        }
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        self.connect_with(connector).await
    }

    /// Connects with a connector of your own: TLS, a Unix socket, a proxy.
    pub async fn connect_with<C>(self, connector: C) -> Result<RemoteStore<C>, StoreError>
    where
        C: Connect + Clone + Send + Sync + 'static,
    {
        self.uri()?;
        for (name, is_zero) in [
            ("deadline", self.deadline.is_zero()),
            ("nodes", self.nodes == 0),
            ("connections", self.connections == 0),
        ] {
            if is_zero {
                return Err(StoreError::settings(format!("the store's `{name}` is zero")));
            }
        }
        let serving = Serving::new(self.on_store_error).with_local_for(self.local_for);
        let store = Fallback::builder(Server::new(connector, &self)?)
            .nodes(self.nodes)
            .serving(serving)
            .silence(2 * self.deadline)
            .build()?;
        let store = RemoteStore { store };
        store.refresh().await?;
        Ok(store)
    }

    pub(super) fn authorization(&self) -> Result<Option<HeaderValue>, StoreError> {
        let Some(token) = &self.token else { return Ok(None) };
        let mut value = HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| {
            let reason = "the token has characters that a header field cannot have";
            StoreError::settings(reason)
        })?;
        value.set_sensitive(true);
        Ok(Some(value))
    }

    fn uri(&self) -> Result<Uri, StoreError> {
        let wrong = |what: &str| {
            let instead = "write it like `http://127.0.0.1:8080`";
            StoreError::settings(format!("the server's address {what}; {instead}"))
        };
        let uri: Uri =
            self.url.parse().map_err(|error| wrong(&format!("is not a URL ({error})")))?;
        // The address may contain a password: it is not repeated.
        match (uri.scheme(), uri.authority()) {
            (Some(_), Some(authority)) if authority.as_str().contains('@') => {
                Err(wrong("contains a user; give the token with `token`"))
            }
            (Some(_), Some(_)) if uri.query().is_none() => Ok(uri),
            (Some(_), Some(_)) => Err(wrong("has a query")),
            _ => Err(wrong("has no scheme or no host")),
        }
    }
}

/// Without the token.
impl fmt::Debug for RemoteStoreBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteStoreBuilder")
            .field("deadline", &self.deadline)
            .field("on_store_error", &self.on_store_error)
            .field("local_for", &self.local_for)
            .field("nodes", &self.nodes)
            .field("connections", &self.connections)
            .finish_non_exhaustive()
    }
}
