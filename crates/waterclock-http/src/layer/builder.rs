use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use http::request::Parts;
use waterclock::{Crossing, Limit, Policy, Settlement, Store, StoreError};

use super::decide::{Gate, PeerOf, Respond};
use super::{BuildError, RateLimitConnections, RateLimitLayer};
use crate::key::Key;
use crate::refusal::Refusal;
use crate::rule::Rule;

/// Builds a [`RateLimitLayer`].
pub struct RateLimitBuilder<S> {
    store: S,
    rules: Vec<Rule>,
    key: Option<Key>,
    peer: PeerOf,
    respond: Respond,
}

impl<S: Store + 'static> RateLimitBuilder<S> {
    pub(super) fn new(store: S) -> Self {
        let respond: Respond = Arc::new(|refusal| refusal.response());
        Self { store, rules: Vec::new(), key: None, peer: PeerOf::Nobody, respond }
    }

    /// Adds a [`Rule`], or a policy for every request.
    ///
    /// A request is charged by every rule that it matches: all of them together or none.
    #[must_use]
    pub fn rule(mut self, rule: impl Into<Rule>) -> Self {
        self.rules.push(rule.into());
        self
    }

    /// What shares a budget, for the rules that do not say it themselves.
    #[must_use]
    pub fn key(mut self, key: impl Into<Key>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Where the address of the connection's other end stands, for [`ClientIp`](crate::ClientIp) keys
    /// where servers leave it in the request.
    ///
    /// The function has to know it for every request that can come. Where connections are accepted by
    /// this program, [`build_per_connection`](Self::build_per_connection) cannot miss one.
    #[must_use]
    pub fn peer(mut self, peer: impl Fn(&Parts) -> IpAddr + Send + Sync + 'static) -> Self {
        self.peer = PeerOf::Request(Arc::new(peer));
        self
    }

    /// Answers requests that are turned away, instead of [`Refusal::response`]. The header fields of the
    /// policies' styles are added to whatever it returns.
    #[must_use]
    pub fn respond(
        mut self,
        respond: impl Fn(&Refusal<'_>) -> Response<Bytes> + Send + Sync + 'static,
    ) -> Self {
        self.respond = Arc::new(respond);
        self
    }

    /// The layer, with its policies in the store.
    pub async fn build(mut self) -> Result<RateLimitLayer<S>, BuildError> {
        self.verify()?;
        let peer = self.peer.clone();
        if let PeerOf::Nobody = peer
            && let Some(rule) = self.rules.iter().find(|rule| rule.needs_peer())
        {
            return Err(BuildError::NoPeer(rule.policy.name().to_owned()));
        }
        Ok(RateLimitLayer { gate: Arc::new(self.gate().await?), peer })
    }

    /// The same for servers that make a service for each connection, and so know who each one comes from;
    /// [`peer`](Self::peer) is not asked then.
    pub async fn build_per_connection(mut self) -> Result<RateLimitConnections<S>, BuildError> {
        self.verify()?;
        Ok(RateLimitConnections::new(self.gate().await?))
    }

    /// Everything that can be wrong without a store.
    fn verify(&mut self) -> Result<(), BuildError> {
        if self.rules.is_empty() {
            return Err(BuildError::NoRule);
        }
        for rule in &mut self.rules {
            rule.key = rule.key.take().or_else(|| self.key.clone());
            verify(rule)?;
        }
        let policies: Vec<&Policy> = self.rules.iter().flat_map(Rule::policies).collect();
        for (at, policy) in policies.iter().enumerate() {
            let is_other =
                |other: &&&Policy| other.name() == policy.name() && !decide_alike(other, policy);
            if let Some(other) = policies[..at].iter().find(is_other) {
                return Err(BuildError::Twins(other.name().to_owned()));
            }
        }
        Ok(())
    }

    async fn gate(self) -> Result<Gate<S>, BuildError> {
        let Self { store, rules, respond, .. } = self;
        for rule in &rules {
            store.set_policy(Policy::clone(&rule.policy)).await?;
            for (_, tier) in &rule.tiers {
                let of = rule.policy.name();
                store.set_variant(of, Policy::clone(tier), Crossing::Units).await?;
            }
        }
        if rules.iter().any(Rule::holds) {
            can_hold(&store).await?;
        }
        Ok(Gate::new(store, rules, respond))
    }
}

/// A store that cannot hold anything says so to any question about it.
async fn can_hold(store: &impl Store) -> Result<(), StoreError> {
    match store.settle("can-you-hold", Settlement::Cancel).await {
        Err(error @ StoreError::Unfit(_)) => Err(error),
        _ => Ok(()),
    }
}

fn decide_alike(one: &Policy, other: &Policy) -> bool {
    let how = |policy: &Policy| (policy.definition(), policy.mode(), policy.is_shadow());
    how(one) == how(other)
}

fn verify(rule: &Rule) -> Result<(), BuildError> {
    let policy = || rule.policy.name().to_owned();
    if let Some(path) = rule.wrong_path() {
        return Err(BuildError::Path { policy: policy(), path: path.to_owned() });
    }
    if let Some((_, tier)) = rule.tiers.iter().find(|(_, tier)| !is_tier_of(tier, &rule.policy)) {
        return Err(BuildError::Tier { policy: policy(), tier: tier.name().to_owned() });
    }
    if rule.policies().any(Policy::counts_several) {
        return Err(BuildError::SeveralUnits(policy()));
    }
    let Some(key) = &rule.key else { return Err(BuildError::NoKey(policy())) };
    if let Some(header) = key.wrong_header() {
        return Err(BuildError::Header { policy: policy(), header: header.to_owned() });
    }
    match key.parameters().find(|parameter| !rule.captures(parameter)) {
        Some(parameter) => {
            Err(BuildError::NoParameter { policy: policy(), parameter: parameter.to_owned() })
        }
        None => Ok(()),
    }
}

/// What was spent is known by the limits' names. A tier without limits has nothing to know.
fn is_tier_of(tier: &Policy, policy: &Policy) -> bool {
    let [tiers, policys] = [tier, policy].map(|policy| policy.limits().iter().map(Limit::name));
    tier.limits().is_empty() || tiers.eq(policys)
}

impl<S> fmt::Debug for RateLimitBuilder<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimitBuilder").field("rules", &self.rules).finish_non_exhaustive()
    }
}
