//! Which requests are charged to which policy.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use http::Method;
use http::request::Parts;
use matchit::Params;
use waterclock::store::Persist as _;
use waterclock::{Factor, Outcome, Policy, Resolution, Rollout, Scope, Subject, UnknownTier};

use crate::exchange::Exchange;
use crate::fields::{HeaderStyle, Jitter, Prepared};
use crate::key::{FoundKey, Key, KeyError, KeyInput};
use crate::layer::{BuildError, Match};

type Condition = Arc<dyn Fn(&Parts) -> bool + Send + Sync>;
type CostOf = Arc<dyn Fn(&Parts) -> u64 + Send + Sync>;
type FactorOf = Arc<dyn Fn(&Parts) -> Option<Factor> + Send + Sync>;
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
    pub(crate) scope: Scope,
    pub(crate) key: Option<Key>,
    pub(crate) headers: HeaderStyle,
    pub(crate) jitter: Jitter,
    /// What is known beforehand of the fields of responses, when a layer is built.
    pub(crate) prepared: Option<Prepared>,
    pub(crate) settle: Option<Settle>,
    pub(crate) report: Report,
    /// The first mistake in what the rule was built from.
    pub(crate) mistake: Option<BuildError>,
    methods: Vec<Method>,
    paths: Vec<Box<str>>,
    /// Those of them that have no parameters, so that it takes no router to match them.
    plain_paths: Vec<Box<str>>,
    router: matchit::Router<()>,
    conditions: Vec<Condition>,
    cost: Cost,
    tier_of: Option<TierOf>,
    factor_of: Option<FactorOf>,
}

#[derive(Clone)]
enum Cost {
    Units(u64),
    Of(CostOf),
}

impl Rule {
    /// Every request, at a cost of 1. A [`Scope`] brings its block, exempt and override lists along.
    #[must_use]
    pub fn new(scope: impl Into<Scope>) -> Self {
        Self {
            scope: scope.into(),
            key: None,
            headers: HeaderStyle::default(),
            jitter: Jitter::NONE,
            prepared: None,
            settle: None,
            report: Arc::new(|exchange| match exchange.is_server_error() {
                true => Outcome::Error,
                false => Outcome::Ok,
            }),
            mistake: None,
            methods: Vec::new(),
            paths: Vec::new(),
            plain_paths: Vec::new(),
            router: matchit::Router::new(),
            conditions: Vec::new(),
            cost: Cost::Units(1),
            tier_of: None,
            factor_of: None,
        }
    }

    /// Matches only requests with this method. Can be called more than once; methods are OR-ed.
    ///
    /// GET includes HEAD, which servers answer with the same handler.
    #[must_use]
    pub fn method(mut self, method: Method) -> Self {
        self.methods.push(method);
        self
    }

    /// Matches only requests with such a path: `/users/{id}`, `/files/{*path}`. Can be called more than
    /// once; paths are OR-ed.
    ///
    /// The path is compared as sent, like axum does. Parameters in braces can be a [`Key::path`].
    #[must_use]
    pub fn path(mut self, pattern: &str) -> Self {
        if self.router.insert(pattern, ()).is_err() {
            let policy = self.policy().name().to_owned();
            self.mistake.get_or_insert(BuildError::Path { policy, path: pattern.to_owned() });
        }
        if !pattern.contains(['{', '}']) {
            self.plain_paths.push(pattern.into());
        }
        self.paths.push(pattern.into());
        self
    }

    /// Matches only requests for which this is true. Can be called more than once; conditions are AND-ed.
    #[must_use]
    pub fn when(mut self, condition: impl Fn(&Parts) -> bool + Send + Sync + 'static) -> Self {
        self.conditions.push(Arc::new(condition));
        self
    }

    /// Sets the key, instead of the layer's key for all its rules.
    #[must_use]
    pub fn key(mut self, key: impl Into<Key>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Sets the cost of each request.
    #[must_use]
    pub fn cost(mut self, units: u64) -> Self {
        self.cost = Cost::Units(units);
        self
    }

    /// Computes the cost of a request from its head. A cost of 0 charges nothing and is never refused.
    #[must_use]
    pub fn cost_of(mut self, cost: impl Fn(&Parts) -> u64 + Send + Sync + 'static) -> Self {
        self.cost = Cost::Of(Arc::new(cost));
        self
    }

    /// Sets the response's header fields: `Retry-After` by default.
    #[must_use]
    pub fn headers(mut self, style: HeaderStyle) -> Self {
        self.headers = style;
        self
    }

    /// Spreads `Retry-After` upwards by a random share of the wait of up to this much, so that clients that were refused
    /// together do not come back together. The decision stays exact.
    #[must_use]
    pub fn jitter(mut self, jitter: Jitter) -> Self {
        self.jitter = jitter;
        self
    }

    /// Gives other numbers to requests that [`tier_of`](Self::tier_of) assigns to this tier.
    ///
    /// The policy has its own name, and its limits have the names of the rule's policy. Tiers share their
    /// keys: a key that changes tiers keeps what it has spent.
    #[must_use]
    pub fn tier(mut self, name: &str, policy: Policy) -> Self {
        if policy.name() == self.policy().name() && !decide_alike(&policy, self.policy()) {
            self.mistake.get_or_insert(BuildError::DuplicatePolicy(policy.name().to_owned()));
        }
        self.scope = self.scope.with_tier(name, policy);
        self
    }

    /// Sets the tier of requests whose tier is not known. Without one, they get 400
    /// ([`Reason::Tier`](crate::Reason::Tier)).
    #[must_use]
    pub fn default_tier(mut self, name: &str) -> Self {
        self.scope = self.scope.with_default_tier(name);
        self
    }

    /// Finds the tier of a request. Requests without a tier get the policy itself.
    #[must_use]
    pub fn tier_of(
        mut self,
        tier: impl Fn(&Parts) -> Option<Cow<'_, str>> + Send + Sync + 'static,
    ) -> Self {
        self.tier_of = Some(Arc::new(tier));
        self
    }

    /// Finds the factor of a request, by which the limits of its tier are scaled: 0.5 doubles what is admitted, 0
    /// disables the limits. All factors of a key share what it has spent, and none of them costs any memory.
    ///
    /// A factor that the limits cannot be scaled to fails the check.
    #[must_use]
    pub fn factor_of(
        mut self,
        factor: impl Fn(&Parts) -> Option<Factor> + Send + Sync + 'static,
    ) -> Self {
        self.factor_of = Some(Arc::new(factor));
        self
    }

    /// Limits only a share of the keys. The others are decided in shadow and never refused.
    ///
    /// A key is in the share or not on every node and after every restart alike.
    #[must_use]
    pub fn rollout(mut self, rollout: Rollout) -> Self {
        self.scope = self.scope.with_rollout(rollout);
        self
    }

    /// Computes what a request cost when its response has ended. Its cost is reserved until then; the
    /// difference is given back, or charged even beyond the limit.
    ///
    /// Reserve at least 1: a request that costs nothing beforehand is never refused.
    #[must_use]
    pub fn settle(mut self, cost: impl Fn(&Exchange) -> u64 + Send + Sync + 'static) -> Self {
        self.settle = Some(Arc::new(cost));
        self
    }

    /// Tells an error-rate limit how a request went. By default it is an error if the
    /// [service was at fault](Exchange::is_server_error).
    #[must_use]
    pub fn report(
        mut self,
        outcome: impl Fn(&Exchange) -> Outcome + Send + Sync + 'static,
    ) -> Self {
        self.report = Arc::new(outcome);
        self
    }

    pub(crate) fn policy(&self) -> &Arc<Policy> {
        self.scope.policy()
    }

    /// The policy and its variants.
    pub(crate) fn policies(&self) -> impl Iterator<Item = &Arc<Policy>> {
        std::iter::once(self.policy()).chain(self.scope.variants())
    }

    /// Prepares the fields of responses, once they cannot change any more.
    pub(crate) fn prepare(&mut self) {
        if matches!(self.headers, HeaderStyle::Ietf | HeaderStyle::Draft10) {
            self.prepared = Prepared::new(self.policy());
        }
    }

    /// Whether it makes reservations.
    pub(crate) fn reserves(&self) -> bool {
        self.settle.is_some() || self.policies().any(|policy| policy.reserves_only())
    }

    pub(crate) fn needs_peer(&self) -> bool {
        self.key.as_ref().is_some_and(Key::needs_peer)
    }

    /// Whether it is in shadow for some or all keys. Then a request without a key is not refused.
    pub(crate) fn is_trial(&self) -> bool {
        self.policy().is_shadow() || !self.scope.rollout().is_everybody()
    }

    /// Whether it applies to a request. Parameters of its path are left in `captured`.
    #[inline]
    pub(crate) fn matches<'a>(
        &'a self,
        parts: &'a Parts,
        captured: &mut Option<Params<'a, 'a>>,
    ) -> bool {
        if !self.methods.is_empty() && !self.has_method(&parts.method) {
            return false;
        }
        if !self.paths.is_empty() && !self.has_path(parts.uri.path(), captured) {
            return false;
        }
        self.conditions.iter().all(|condition| condition(parts))
    }

    /// The key of a request, if finding it takes no future.
    #[inline]
    pub(crate) fn find_now<'a>(
        &self,
        input: &KeyInput<'a, '_>,
    ) -> Option<Result<FoundKey<'a>, KeyError>> {
        match &self.key {
            Some(key) => key.find_now(input),
            // Builders make sure that there is one.
            None => Some(Ok(FoundKey::default())),
        }
    }

    /// The key of a request.
    pub(crate) async fn find<'a>(
        &self,
        input: &KeyInput<'a, '_>,
    ) -> Result<FoundKey<'a>, KeyError> {
        match &self.key {
            Some(key) => key.find(input).await,
            None => Ok(FoundKey::default()),
        }
    }

    fn has_method(&self, method: &Method) -> bool {
        self.methods.contains(method)
            || *method == Method::HEAD && self.methods.contains(&Method::GET)
    }

    fn has_path<'a>(&'a self, path: &'a str, captured: &mut Option<Params<'a, 'a>>) -> bool {
        // A path without parameters captures nothing.
        if self.plain_paths.iter().any(|plain| **plain == *path) {
            return true;
        }
        if self.plain_paths.len() < self.paths.len()
            && let Ok(found) = self.router.at(path)
        {
            *captured = Some(found.params);
            return true;
        }
        false
    }

    /// What applies to a key, at which cost.
    #[inline]
    pub(crate) fn resolve<'a>(
        &'a self,
        found: FoundKey<'a>,
        parts: &Parts,
    ) -> Result<Match<'a>, UnknownTier> {
        let FoundKey { key, address } = found;
        let cost = match &self.cost {
            Cost::Units(units) => *units,
            Cost::Of(cost) => cost(parts),
        };
        if self.tier_of.is_none() && self.factor_of.is_none() && !self.scope.names_keys() {
            // Nothing but the policy applies.
            let Resolution { policy, action, .. } = self.scope.resolve_base(&key);
            return Ok(Match { rule: self, policy, key, cost, action, factor: None, fixed: None });
        }
        let tier = self.tier_of.as_ref().and_then(|tier_of| tier_of(parts));
        tier.as_deref().map(|tier| self.scope.known_tier(tier)).transpose()?;
        let address = address.or_else(|| self.scope.address_in(&key));
        let factor = self.factor_of.as_ref().and_then(|factor_of| factor_of(parts));
        let subject = Subject::new(&key).with_address(address).with_tier(tier.as_deref());
        let found = self.scope.resolve(&subject.with_factor(factor));
        let Resolution { policy, action, factor, .. } = found;
        let fixed = found.answer(&cost.into()).map(Box::new);
        Ok(Match { rule: self, policy, key, cost, action, factor, fixed })
    }

    /// Whether every path captures this parameter.
    pub(crate) fn captures(&self, parameter: &str) -> bool {
        let (plain, rest) = (format!("{{{parameter}}}"), format!("{{*{parameter}}}"));
        let captures = |pattern: &str| pattern.contains(&plain) || pattern.contains(&rest);
        !self.paths.is_empty() && self.paths.iter().all(|path| captures(path))
    }
}

/// Whether two policies of one name are the same.
pub(crate) fn decide_alike(one: &Policy, other: &Policy) -> bool {
    let how = |policy: &Policy| (policy.definition(), policy.mode(), policy.is_shadow());
    how(one) == how(other)
}

impl From<Policy> for Rule {
    fn from(policy: Policy) -> Self {
        Self::new(Scope::new(policy))
    }
}

impl From<Scope> for Rule {
    fn from(scope: Scope) -> Self {
        Self::new(scope)
    }
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rule")
            .field("policy", &self.policy().name())
            .field("methods", &self.methods)
            .field("paths", &self.paths)
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}
