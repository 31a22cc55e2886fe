//! Building the layer, and what can be wrong with it.

use std::error::Error;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use http::request::Parts;
use waterclock::{Limit, Migration, Policy, Scope, Settlement, Store, StoreError};

use super::gate::{Gate, PeerSource, Respond};
use super::{RateLimitConnections, RateLimitLayer};
use crate::key::Key;
use crate::refusal::Refusal;
use crate::rule::{Rule, decide_alike};

/// Builds a [`RateLimitLayer`].
pub struct RateLimitLayerBuilder<S> {
    store: S,
    rules: Vec<Rule>,
    key: Option<Key>,
    peer: PeerSource,
    respond: Respond,
}

impl<S: Store + 'static> RateLimitLayerBuilder<S> {
    pub(super) fn new(store: S) -> Self {
        let respond: Respond = Arc::new(|refusal| refusal.response());
        Self { store, rules: Vec::new(), key: None, peer: PeerSource::Unknown, respond }
    }

    /// Adds a policy, or a [`Scope`], for every request: a [`Rule`] without conditions.
    #[must_use]
    pub fn policy(self, policy: impl Into<Scope>) -> Self {
        self.rule(Rule::new(policy))
    }

    /// Adds a [`Rule`]. A request is charged by every rule that it matches: by all of them or by none.
    #[must_use]
    pub fn rule(mut self, rule: impl Into<Rule>) -> Self {
        self.rules.push(rule.into());
        self
    }

    /// Sets the key of all rules that have none of their own.
    #[must_use]
    pub fn key(mut self, key: impl Into<Key>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Finds the address of the connection's peer in a request, for [`ClientIp`](crate::ClientIp) keys with
    /// servers that leave it there.
    ///
    /// The function must know the address for every request. A program that accepts connections itself
    /// should use [`build_per_connection`](Self::build_per_connection), which cannot miss one.
    #[must_use]
    pub fn peer(mut self, peer: impl Fn(&Parts) -> IpAddr + Send + Sync + 'static) -> Self {
        self.peer = PeerSource::Request(Arc::new(peer));
        self
    }

    /// Replaces the response to refused requests, which is [`Refusal::response`] by default. The header
    /// fields of the policies' styles are added to it.
    #[must_use]
    pub fn respond(
        mut self,
        respond: impl Fn(&Refusal<'_>) -> Response<Bytes> + Send + Sync + 'static,
    ) -> Self {
        self.respond = Arc::new(respond);
        self
    }

    /// Sets the policies in the store, and makes the layer.
    ///
    /// # Errors
    ///
    /// [`BuildError`] if rules, keys and policies do not fit together, or if the store rejects a policy.
    pub async fn build(mut self) -> Result<RateLimitLayer<S>, BuildError> {
        self.verify()?;
        let peer = self.peer.clone();
        if let PeerSource::Unknown = peer
            && let Some(rule) = self.rules.iter().find(|rule| rule.needs_peer())
        {
            return Err(BuildError::NoPeer(rule.policy().name().to_owned()));
        }
        Ok(RateLimitLayer { gate: Arc::new(self.gate().await?), peer })
    }

    /// The same for servers that make a service for each connection, and so know its peer;
    /// [`peer`](Self::peer) is not used then.
    ///
    /// # Errors
    ///
    /// As [`build`](Self::build).
    pub async fn build_per_connection(mut self) -> Result<RateLimitConnections<S>, BuildError> {
        self.verify()?;
        Ok(RateLimitConnections { gate: Arc::new(self.gate().await?) })
    }

    /// Finds every mistake that needs no store.
    fn verify(&mut self) -> Result<(), BuildError> {
        if self.rules.is_empty() {
            return Err(BuildError::NoRule);
        }
        for rule in &mut self.rules {
            rule.key = rule.key.take().or_else(|| self.key.clone());
            verify(rule)?;
        }
        let policies: Vec<&Arc<Policy>> = self.rules.iter().flat_map(Rule::policies).collect();
        for (at, policy) in policies.iter().enumerate() {
            let mut earlier = policies[..at].iter().filter(|other| other.name() == policy.name());
            if earlier.any(|other| !decide_alike(other, policy)) {
                return Err(BuildError::DuplicatePolicy(policy.name().to_owned()));
            }
        }
        Ok(())
    }

    async fn gate(self) -> Result<Gate<S>, BuildError> {
        let Self { store, rules, respond, .. } = self;
        for rule in &rules {
            store.set_policy(Policy::clone(rule.policy())).await?;
            for variant in rule.scope.variants() {
                let variant = Policy::clone(variant);
                store.set_variant(rule.policy().name(), variant, Migration::Units).await?;
            }
        }
        if rules.iter().any(Rule::reserves) {
            verify_reservations(&store).await?;
        }
        Ok(Gate::new(store, rules, respond))
    }
}

/// A store without reservations answers `Unfit` to any call about them.
async fn verify_reservations(store: &impl Store) -> Result<(), StoreError> {
    match store.settle("are-there-reservations", Settlement::Cancel).await {
        Err(error @ StoreError::Unfit(_)) => Err(error),
        _ => Ok(()),
    }
}

fn verify(rule: &Rule) -> Result<(), BuildError> {
    let policy = || rule.policy().name().to_owned();
    if let Some(mistake) = &rule.mistake {
        return Err(mistake.clone());
    }
    // A key with an override has no other limits, so those may have any name.
    if let Some(tier) = rule.scope.tiers().find(|tier| !same_names(tier, rule.policy())) {
        return Err(BuildError::Tier { policy: policy(), tier: tier.name().to_owned() });
    }
    if let Some(tier) = rule.scope.default_tier().filter(|name| rule.scope.tier(name).is_none()) {
        return Err(BuildError::DefaultTier { policy: policy(), tier: tier.to_owned() });
    }
    if rule.policies().any(|policy| policy.counts_several()) {
        return Err(BuildError::SeveralUnits(policy()));
    }
    let Some(key) = &rule.key else { return Err(BuildError::NoKey(policy())) };
    if let Some(header) = key.invalid_header() {
        return Err(BuildError::Header { policy: policy(), header: header.to_owned() });
    }
    match key.parameters().find(|parameter| !rule.captures(parameter)) {
        Some(parameter) => {
            Err(BuildError::NoParameter { policy: policy(), parameter: parameter.to_owned() })
        }
        None => Ok(()),
    }
}

/// Tiers share what was spent by the names of their limits.
fn same_names(tier: &Policy, policy: &Policy) -> bool {
    let [tier, policy] = [tier, policy].map(|policy| policy.limits().iter().map(Limit::name));
    tier.eq(policy)
}

impl<S> fmt::Debug for RateLimitLayerBuilder<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimitLayerBuilder").field("rules", &self.rules).finish_non_exhaustive()
    }
}

/// Why a layer could not be built.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuildError {
    /// There is no rule, so nothing would be limited.
    NoRule,
    /// The policy of this name has no key.
    NoKey(String),
    /// The policy's key is the client's address, and the address of the connection's peer is not known.
    NoPeer(String),
    /// The policy's rule has an invalid path.
    Path {
        /// The policy.
        policy: String,
        /// The path.
        path: String,
    },
    /// The policy's key is a header field with an invalid name.
    Header {
        /// The policy.
        policy: String,
        /// The name of the field.
        header: String,
    },
    /// The policy's key needs a parameter that not all paths of the rule have.
    NoParameter {
        /// The policy.
        policy: String,
        /// The parameter.
        parameter: String,
    },
    /// The limits of a tier have other names than those of the policy.
    Tier {
        /// The policy.
        policy: String,
        /// The tier's policy.
        tier: String,
    },
    /// The default tier is none of the policy's tiers.
    DefaultTier {
        /// The policy.
        policy: String,
        /// The name of the tier.
        tier: String,
    },
    /// The policy counts several units, but a rule has one cost.
    SeveralUnits(String),
    /// Two different policies have this name.
    DuplicatePolicy(String),
    /// The store rejected a policy.
    Store(StoreError),
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRule => {
                f.write_str("the layer has no rule; add one with `.policy(…)` or `.rule(…)`")
            }
            Self::NoKey(policy) => write!(
                f,
                "policy `{policy}` has no key; set what shares its budget with `.key(…)`, which may be \
                 `Key::everyone()`"
            ),
            Self::NoPeer(policy) => write!(
                f,
                "the key of policy `{policy}` is the client's address, which a request does not contain; use \
                 `.build_per_connection()`, or find it with `.peer(…)`"
            ),
            Self::Path { policy, path } => write!(
                f,
                "the rule of policy `{policy}` has the path `{path}`, which is invalid or conflicts with another \
                 path; write `/users/{{id}}` or `/files/{{*path}}`"
            ),
            Self::Header { policy, header } => write!(
                f,
                "the key of policy `{policy}` is the header `{header}`, which is not a valid header name"
            ),
            Self::NoParameter { policy, parameter } => write!(
                f,
                "the key of policy `{policy}` is the parameter `{parameter}`, which not all paths of its rule \
                 have; write `.path(\"/…/{{{parameter}}}\")`"
            ),
            Self::Tier { policy, tier } => write!(
                f,
                "policy `{tier}` is a tier of `{policy}`, but its limits have other names, so what was spent \
                 cannot be carried over; give them the same names, or no limits at all"
            ),
            Self::DefaultTier { policy, tier } => write!(
                f,
                "the default tier of policy `{policy}` is `{tier}`, which is none of its tiers; add it with `.tier(…)`"
            ),
            Self::SeveralUnits(policy) => write!(
                f,
                "policy `{policy}` counts several units, but a rule has one cost; give each unit its own policy \
                 and rule, which are charged all or nothing"
            ),
            Self::DuplicatePolicy(policy) => write!(
                f,
                "two different policies are called `{policy}`; give one of them another name"
            ),
            Self::Store(error) => error.fmt(f),
        }
    }
}

impl Error for BuildError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Store(error) => Some(error),
            _ => None,
        }
    }
}

impl From<StoreError> for BuildError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}
