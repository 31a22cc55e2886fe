//! Which policy and key a bucket belongs to: the rules for descriptors apply, in whatever order the entries are.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use waterclock::{Limit, Policy};

use super::keeps::drain;
use crate::engine::{ActivePolicy, Check, Key, Plan, TIER};
use crate::face::grpc::proto::rlqs::BucketId;
use crate::rules::{Effect, Entry, Rule};

/// What applies to a bucket.
pub(super) enum Target {
    /// No rule, or an unlimited one.
    AllowAll,
    /// A rule that refuses, or a policy whose units cannot be handed out, by name.
    DenyAll(Option<Box<str>>),
    Limited(Spending),
}

/// What the requests of a bucket are charged to.
#[derive(Clone)]
pub(super) struct Spending {
    policy: Box<str>,
    key: Key<'static>,
    tier: Option<String>,
    rule: Arc<Rule>,
}

/// Tells budgets apart.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct BudgetId {
    policy: Box<str>,
    key: Box<[u8]>,
    tier: Option<String>,
    unit: Option<Box<str>>,
}

impl Target {
    /// What applies to a bucket of a domain.
    pub(super) fn of(plan: &Plan, domain: &str, id: &BucketId) -> Target {
        let bucket: Vec<Entry<'_>> =
            id.bucket.iter().map(|(key, value)| (&**key, &**value)).collect();
        let Some(rule) = plan.rules().find_bucket(domain, &bucket) else { return Target::AllowAll };
        let policy = match &rule.effect {
            Effect::Admit => return Target::AllowAll,
            Effect::Refuse => return Target::DenyAll(None),
            Effect::Limit(policy) => policy,
        };
        if !can_be_handed_out(policy.scope().policy()) {
            return Target::DenyAll(Some(policy.name().into()));
        }
        let tier = bucket.iter().find(|(key, _)| *key == TIER);
        let tier = tier.map(|(_, tier)| String::from_utf8_lossy(tier).into_owned());
        let known =
            tier.and_then(|tier| policy.scope().known_tier(&tier).ok().map(ToOwned::to_owned));
        Target::Limited(Spending {
            policy: policy.name().into(),
            key: rule.key(policy, domain, &rule.in_order(&bucket)),
            tier: known,
            rule: Arc::clone(rule),
        })
    }
}

/// Units can be charged before they are spent only where a limit counts units, and does not mind when they are spent.
fn can_be_handed_out(policy: &Policy) -> bool {
    policy.limits().iter().all(|limit| {
        limit.max_cost().is_some() && limit.lease().is_none() && limit.min_interval().is_none()
    })
}

impl Spending {
    pub(super) fn id(&self) -> BudgetId {
        BudgetId {
            policy: self.policy.clone(),
            key: self.key.bytes().into(),
            tier: self.tier.clone(),
            unit: self.rule.unit().map(Into::into),
        }
    }

    /// Its policy, if that is still there.
    pub(super) fn policy<'p>(&self, plan: &'p Plan) -> Option<&'p ActivePolicy> {
        plan.policy(&self.policy).map(|policy| &**policy)
    }

    /// The check of so many requests.
    pub(super) fn check<'a>(&'a self, policy: &'a ActivePolicy, requests: u64) -> Check<'a> {
        Check {
            policy,
            key: self.key.clone(),
            cost: self.rule.cost(policy, requests),
            tier: self.tier.as_deref().map(Cow::Borrowed),
            factor: None,
            rate: None,
        }
    }

    /// Whether a limit counts requests of the bucket.
    pub(super) fn is_of(&self, policy: &Policy, limit: &Limit) -> bool {
        !limit.is_shadow() && self.rule.is_of(policy, limit)
    }

    pub(super) fn has_tier(&self) -> bool {
        self.tier.is_some()
    }

    /// The most that the policy admits at once, and how long a bucket takes to fill.
    pub(super) fn numbers(&self, policy: &Policy) -> (Option<u64>, Option<Duration>) {
        let limits = || policy.limits().iter().filter(|limit| self.is_of(policy, limit));
        (limits().filter_map(Limit::max_cost).min(), limits().filter_map(refills).min())
    }
}

/// How long a bucket takes to fill; none for other algorithms.
pub(super) fn refills(limit: &Limit) -> Option<Duration> {
    let (units, per) = drain(limit)?;
    let nanos = u128::from(limit.capacity()?) * per.as_nanos() / u128::from(units.max(1));
    Some(Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)))
}
