use std::time::Duration;

use waterclock_core::{Limit, Policy};

use crate::places::OnFull;

/// How a store serves a policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Serving {
    /// What happens while the store is unreachable; a store in this process never is.
    pub on_store_error: OnStoreError,
    /// For how long [`OnStoreError::Local`] serves in one outage; afterwards it is [`OnStoreError::Deny`]. Without it,
    /// for as long as the outage lasts.
    pub local_for: Option<Duration>,
    /// Lease mode, for policies with hot keys; a store that has no leases ignores it.
    pub lease: Option<Lease>,
    /// What happens to new keys when a store in this process is full. Another store is not full while it has memory.
    pub on_full: OnFull,
}

impl Serving {
    /// Served like this while the store is unreachable, without leases.
    #[must_use]
    pub const fn new(on_store_error: OnStoreError) -> Self {
        Self { on_store_error, local_for: None, lease: None, on_full: OnFull::Evict }
    }

    /// The same, but local for so long at most; see [`local_for`](Self::local_for).
    #[must_use]
    pub const fn with_local_for(self, local_for: Option<Duration>) -> Self {
        Self { local_for, ..self }
    }

    /// The same with leases, or without.
    #[must_use]
    pub const fn with_lease(self, lease: Option<Lease>) -> Self {
        Self { lease, ..self }
    }

    /// The same with another choice for a full store.
    #[must_use]
    pub const fn with_on_full(self, on_full: OnFull) -> Self {
        Self { on_full, ..self }
    }
}

/// Units that a node debits in one call and then spends without calling the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Lease {
    /// So many units, to be spent within this time.
    Units {
        /// Units that a node holds of one key, at most.
        size: u64,
        /// How long they may be spent.
        ttl: Duration,
    },
    /// As many as a key is asked for in about a tenth of a second, to be spent within a second. The nodes that the store has
    /// counted, or as many as it was told of, together hold at most a tenth of the smallest limit.
    Auto,
}

impl Lease {
    /// How long automatic leases may be spent.
    const AUTO_TTL: Duration = Duration::from_secs(1);
    /// At most a tenth of a limit is leased automatically.
    const AUTO_SHARE: u64 = 10;

    /// So many units for so long.
    #[must_use]
    pub const fn new(size: u64, ttl: Duration) -> Self {
        Self::Units { size, ttl }
    }

    /// How long units may be spent.
    #[must_use]
    pub const fn ttl(self) -> Duration {
        match self {
            Self::Units { ttl, .. } => ttl,
            Self::Auto => Self::AUTO_TTL,
        }
    }

    /// The most units of one key that a node may hold if so many nodes share the store.
    ///
    /// ```
    /// use waterclock::{Lease, Limit, Policy};
    ///
    /// let policy = Policy::new("api", [Limit::per_second(4_000)])?;
    /// assert_eq!(Lease::Auto.most(&policy, 4), 100);
    /// # Ok::<(), waterclock::PolicyError>(())
    /// ```
    #[must_use]
    pub fn most(self, policy: &Policy, nodes: u64) -> u64 {
        match self {
            Self::Units { size, .. } => size,
            Self::Auto => {
                let smallest = policy.limits().iter().filter_map(Limit::max_cost).min();
                smallest.unwrap_or(0) / Self::AUTO_SHARE / nodes.max(1)
            }
        }
    }
}

/// What happens while the store is unreachable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OnStoreError {
    /// Serve this node's share of each limit from memory.
    #[default]
    Local,
    /// Allow everything.
    Allow,
    /// Fail the check with the store's error.
    Deny,
}

impl OnStoreError {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Local, Self::Allow, Self::Deny];

    /// The one that configuration spells like this.
    ///
    /// ```
    /// use waterclock::OnStoreError;
    ///
    /// assert_eq!(OnStoreError::parse("deny"), Some(OnStoreError::Deny));
    /// assert_eq!(OnStoreError::parse("fail"), None);
    /// ```
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|choice| choice.name() == name)
    }

    /// As configuration spells it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Allow => "allow",
            Self::Deny => "deny",
        }
    }
}
