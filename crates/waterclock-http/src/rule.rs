//! Which requests get which policy.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use http::Method;
use http::request::Parts;
use matchit::Params;
use waterclock::{Outcome, Policy, Rollout};

use crate::exchange::Exchange;
use crate::fields::HeaderStyle;
use crate::key::Key;

type Condition = Arc<dyn Fn(&Parts) -> bool + Send + Sync>;
type CostOf = Arc<dyn Fn(&Parts) -> u64 + Send + Sync>;
type TierOf = Arc<dyn Fn(&Parts) -> Option<Cow<'_, str>> + Send + Sync>;
pub(crate) type Settle = Arc<dyn Fn(&Exchange) -> u64 + Send + Sync>;
pub(crate) type Report = Arc<dyn Fn(&Exchange) -> Outcome + Send + Sync>;

/// Which requests are charged to a policy, under which key, and how much.
///
/// ```
/// use http::Method;
/// use waterclock::{Limit, Policy};
/// use waterclock_http::{HeaderStyle, Key, Rule};
///
/// let login = Policy::new("login", [Limit::per_minute(5)])?;
/// let rule = Rule::new(login)
///     .method(Method::POST)
///     .path("/login")
///     .key(Key::header("x-user"))
///     .headers(HeaderStyle::Ietf)
///     // Only failures count.
///     .settle(|exchange| u64::from(exchange.is_failure()));
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Rule {
    pub(crate) policy: Arc<Policy>,
    pub(crate) tiers: Vec<(Box<str>, Arc<Policy>)>,
    pub(crate) key: Option<Key>,
    pub(crate) headers: HeaderStyle,
    pub(crate) settle: Option<Settle>,
    pub(crate) report: Report,
    pub(crate) rollout: Rollout,
    methods: Vec<Method>,
    paths: Paths,
    conditions: Vec<Condition>,
    cost: Cost,
    tier_of: Option<TierOf>,
}

/// Patterns of paths, and the first that makes no sense.
#[derive(Clone, Default)]
struct Paths {
    patterns: Vec<Box<str>>,
    router: matchit::Router<()>,
    wrong: Option<String>,
}

#[derive(Clone)]
enum Cost {
    Units(u64),
    Of(CostOf),
}

impl Rule {
    /// Every request, at a cost of 1.
    #[must_use]
    pub fn new(policy: Policy) -> Self {
        Self {
            policy: Arc::new(policy),
            tiers: Vec::new(),
            key: None,
            headers: HeaderStyle::default(),
            settle: None,
            report: Arc::new(|exchange| match exchange.is_breakdown() {
                true => Outcome::Error,
                false => Outcome::Ok,
            }),
            rollout: Rollout::EVERYBODY,
            methods: Vec::new(),
            paths: Paths::default(),
            conditions: Vec::new(),
            cost: Cost::Units(1),
            tier_of: None,
        }
    }

    /// Only requests with this method. Said again: or with that one. What goes for GET goes for HEAD, which
    /// servers answer in the same way.
    #[must_use]
    pub fn method(mut self, method: Method) -> Self {
        self.methods.push(method);
        self
    }

    /// Only requests whose path is like this: `/users/{id}`, `/files/{*path}`. Said again: or like that.
    ///
    /// The path is compared as it was sent, as axum does it. What is in braces can be a [`Key::path`].
    #[must_use]
    pub fn path(mut self, pattern: &str) -> Self {
        if self.paths.router.insert(pattern, ()).is_err() {
            self.paths.wrong.get_or_insert_with(|| pattern.to_owned());
        }
        self.paths.patterns.push(pattern.into());
        self
    }

    /// Only requests for which this is true. Said again: for which that is true as well.
    #[must_use]
    pub fn when(mut self, condition: impl Fn(&Parts) -> bool + Send + Sync + 'static) -> Self {
        self.conditions.push(Arc::new(condition));
        self
    }

    /// What shares a budget, if not what the layer says for all its rules.
    #[must_use]
    pub fn key(mut self, key: impl Into<Key>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// What each request costs.
    #[must_use]
    pub fn cost(mut self, units: u64) -> Self {
        self.cost = Cost::Units(units);
        self
    }

    /// What a request costs, by what it says of itself. Nothing is charged for 0.
    #[must_use]
    pub fn cost_of(mut self, cost: impl Fn(&Parts) -> u64 + Send + Sync + 'static) -> Self {
        self.cost = Cost::Of(Arc::new(cost));
        self
    }

    /// How much clients are told: `Retry-After` unless this says otherwise.
    #[must_use]
    pub fn headers(mut self, style: HeaderStyle) -> Self {
        self.headers = style;
        self
    }

    /// Other numbers for some: requests that [`tier_of`](Self::tier_of) says are of this tier get them.
    ///
    /// The policy has a name of its own and limits of the same names. Keys are shared: who changes tiers
    /// has spent what was spent.
    #[must_use]
    pub fn tier(mut self, name: &str, policy: Policy) -> Self {
        self.tiers.push((name.into(), Arc::new(policy)));
        self
    }

    /// Says which tier a request is of. None, and a tier that nobody named, get the policy itself.
    #[must_use]
    pub fn tier_of(
        mut self,
        tier: impl Fn(&Parts) -> Option<Cow<'_, str>> + Send + Sync + 'static,
    ) -> Self {
        self.tier_of = Some(Arc::new(tier));
        self
    }

    /// Limits only a share of the keys; the others are decided about in shadow, so that nobody of them is
    /// refused. Whose key belongs to it is the same on every node and after every restart.
    #[must_use]
    pub fn rollout(mut self, rollout: Rollout) -> Self {
        self.rollout = rollout;
        self
    }

    /// Says what a request has cost after all, when its response has ended. What it costs before is held
    /// until then; the difference is given back, or charged even beyond the limit.
    ///
    /// Let it cost at least 1 before: what costs nothing is never refused.
    #[must_use]
    pub fn settle(mut self, cost: impl Fn(&Exchange) -> u64 + Send + Sync + 'static) -> Self {
        self.settle = Some(Arc::new(cost));
        self
    }

    /// Says how a request went, to a limit on the rate of errors. By default it is an error
    /// if the service [broke down](Exchange::is_breakdown).
    #[must_use]
    pub fn report(
        mut self,
        outcome: impl Fn(&Exchange) -> Outcome + Send + Sync + 'static,
    ) -> Self {
        self.report = Arc::new(outcome);
        self
    }

    /// The policy and those of its tiers.
    pub(crate) fn policies(&self) -> impl Iterator<Item = &Policy> {
        let tiers = self.tiers.iter().map(|(_, tier)| &**tier);
        std::iter::once(&*self.policy).chain(tiers)
    }

    /// Whether something is held until a request has ended.
    pub(crate) fn holds(&self) -> bool {
        self.settle.is_some() || self.policies().any(Policy::reserves_only)
    }

    pub(crate) fn needs_peer(&self) -> bool {
        self.key.as_ref().is_some_and(Key::needs_peer)
    }

    /// Whether it turns nobody away, or not everybody: then a request without a key is none of its own.
    pub(crate) fn only_watches(&self) -> bool {
        self.policy.is_shadow() || !self.rollout.is_everybody()
    }

    /// Whether a request is one of its own, with what its path captured.
    pub(crate) fn matches<'a>(&'a self, parts: &'a Parts) -> Option<Option<Params<'a, 'a>>> {
        let method = match parts.method {
            Method::HEAD if !self.methods.contains(&Method::HEAD) => &Method::GET,
            ref method => method,
        };
        if !self.methods.is_empty() && !self.methods.contains(method) {
            return None;
        }
        let captured = match self.paths.patterns.is_empty() {
            true => None,
            false => Some(self.paths.router.at(parts.uri.path()).ok()?.params),
        };
        self.conditions.iter().all(|condition| condition(parts)).then_some(captured)
    }

    pub(crate) fn cost_for(&self, parts: &Parts) -> u64 {
        match &self.cost {
            Cost::Units(units) => *units,
            Cost::Of(cost) => cost(parts),
        }
    }

    /// The policy, or that of the request's tier.
    pub(crate) fn policy_for(&self, parts: &Parts) -> &Arc<Policy> {
        let Some(tier) = self.tier_of.as_ref().and_then(|tier_of| tier_of(parts)) else {
            return &self.policy;
        };
        let named = self.tiers.iter().find(|(name, _)| **name == *tier);
        named.map_or(&self.policy, |(_, policy)| policy)
    }

    /// The first pattern that is none, or that says the same as another.
    pub(crate) fn wrong_path(&self) -> Option<&str> {
        self.paths.wrong.as_deref()
    }

    /// Whether every path captures this parameter.
    pub(crate) fn captures(&self, parameter: &str) -> bool {
        let (plain, rest) = (format!("{{{parameter}}}"), format!("{{*{parameter}}}"));
        let captures = |pattern: &str| pattern.contains(&plain) || pattern.contains(&rest);
        !self.paths.patterns.is_empty() && self.paths.patterns.iter().all(|path| captures(path))
    }
}

impl From<Policy> for Rule {
    fn from(policy: Policy) -> Self {
        Self::new(policy)
    }
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rule")
            .field("policy", &self.policy.name())
            .field("methods", &self.methods)
            .field("paths", &self.paths.patterns)
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}
