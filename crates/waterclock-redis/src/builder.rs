use std::time::Duration;

use waterclock::{Serving, Store, StoreError};

use crate::RedisStore;

/// Settings of a [`RedisStore`].
#[derive(Clone)]
pub struct RedisStoreBuilder {
    pub(crate) url: String,
    pub(crate) prefix: String,
    pub(crate) key_secret: String,
    pub(crate) deadline: Duration,
    pub(crate) nodes: u64,
    pub(crate) announce: bool,
    pub(crate) replicas: u64,
    pub(crate) root_certificate: Option<Vec<u8>>,
    pub(crate) denied_keys: usize,
    pub(crate) serving: Serving,
}

impl std::fmt::Debug for RedisStoreBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisStoreBuilder")
            .field("url", &crate::address::masked(&self.url))
            .field("prefix", &self.prefix)
            .field("deadline", &self.deadline)
            .field("nodes", &self.nodes)
            .field("replicas", &self.replicas)
            .finish_non_exhaustive()
    }
}

impl RedisStoreBuilder {
    pub(crate) fn new(url: &str) -> Self {
        Self {
            url: url.into(),
            prefix: "wc".into(),
            key_secret: String::new(),
            deadline: Duration::from_millis(50),
            nodes: 1,
            announce: false,
            replicas: 0,
            root_certificate: None,
            denied_keys: 10_000,
            serving: Serving::default(),
        }
    }

    /// What every key in Redis starts with (`wc`).
    #[must_use]
    pub fn prefix(mut self, prefix: &str) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// The secret by which keys are hashed, the same on every node. Without one, a reader of Redis can test guesses at
    /// a client's key.
    #[must_use]
    pub fn key_secret(mut self, secret: &str) -> Self {
        self.key_secret = secret.into();
        self
    }

    /// How long a check may take (50 ms). Without an answer by then, [`Serving::on_store_error`] decides.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// How many nodes share the store, at least (1): each serves `1/nodes` of a limit while it is unreachable. If more
    /// were counted when it last answered ([`announce`](Self::announce)), one divided by their number.
    #[must_use]
    pub fn nodes(mut self, nodes: u64) -> Self {
        self.nodes = nodes;
        self
    }

    /// Whether this process announces itself as a node (no), so that all nodes that do know how many there are
    /// ([`nodes_alive`](Store::nodes_alive)): for processes that serve for long.
    #[must_use]
    pub fn announce(mut self, announce: bool) -> Self {
        self.announce = announce;
        self
    }

    /// How many replicas must acknowledge a call before it is answered (0). If fewer do within a third of the deadline,
    /// [`Serving::on_store_error`] decides, and the call may have been charged. In return, a failover to any of them
    /// loses no charge that was answered, and a primary that is cut off from them decides nothing.
    #[must_use]
    pub fn replicas(mut self, replicas: u64) -> Self {
        self.replicas = replicas;
        self
    }

    /// The certificate authority of a `rediss://` server, in PEM, instead of the public ones.
    #[must_use]
    pub fn root_certificate(mut self, pem: &[u8]) -> Self {
        self.root_certificate = Some(pem.into());
        self
    }

    /// How many refused keys are cached until they can pass (10,000); 0 turns the cache off.
    #[must_use]
    pub fn denied_keys(mut self, keys: usize) -> Self {
        self.denied_keys = keys;
        self
    }

    /// How policies are served that are set without a [`Serving`].
    #[must_use]
    pub fn serving(mut self, serving: Serving) -> Self {
        self.serving = serving;
        self
    }

    /// Connects, and checks that the servers can decide.
    pub async fn connect(self) -> Result<RedisStore, StoreError> {
        let store = self.start()?;
        store.probe().await?;
        Ok(store)
    }

    /// A store that connects when it is first called, and falls back until then.
    pub fn start(self) -> Result<RedisStore, StoreError> {
        RedisStore::new(self)
    }
}
