//! Which policy applies to a key, and how: one answer for servers, middleware and rehearsals.

mod key_list;
mod resolution;
#[cfg(test)]
mod tests;
mod unknown_tier;

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use waterclock_core::{Factor, Policy, Rollout};

use self::key_list::KeyList;
pub use self::resolution::{Action, Origin, Resolution};
pub use self::unknown_tier::UnknownTier;

/// A policy with its tiers, its rollout, and the keys it treats differently.
///
/// [`resolve`](Self::resolve) is the only place that knows the order of precedence:
///
/// | first match wins | found in | result |
/// |---|---|---|
/// | 1. block | `block` | [`Action::Block`] |
/// | 2. exempt | `exempt` | [`Action::Exempt`] |
/// | 3. limits of this key | `overrides` | [`Action::Enforce`] with those limits |
/// | 4. numbers of this call | [`Subject::has_own_numbers`] | [`Origin::Call`], enforced or in shadow |
/// | 5. factor of this call | [`Subject::with_factor`] | the limits of the tier or the policy by that factor; [`Action::Unlimited`] if it is 0 |
/// | 6. tier | `tiers`; for unknown ones the default tier | its limits, enforced or in shadow; [`Action::Unlimited`] if it has none |
/// | 7. the policy | | enforced or in shadow |
///
/// "Enforced or in shadow" is the rollout's choice: keys that are not enrolled are decided about in shadow. The
/// rollout does not concern rows 1 to 3.
///
/// A tier that the scope does not know gets the [default tier](Self::with_default_tier), or the policy itself. Callers that
/// can answer with an error ask [`known_tier`](Self::known_tier) first.
///
/// ```
/// use waterclock::{Action, Limit, Policy, Scope, Subject};
///
/// let scope = Scope::new(Policy::new("login", [Limit::per_minute(5)])?)
///     .with_tier("pro", Policy::new("login@pro", [Limit::per_minute(50)])?)
///     .with_exempt(["10.0.0.0/8"]);
///
/// let alice = scope.resolve(&Subject::new(b"alice").with_tier(Some("pro")));
/// assert_eq!(alice.policy.name(), "login@pro");
///
/// let inside = Subject::new(b"10.1.2.3").with_address("10.1.2.3".parse().ok());
/// assert_eq!(scope.resolve(&inside).action, Action::Exempt);
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Scope {
    policy: Arc<Policy>,
    rollout: Rollout,
    tiers: HashMap<Box<str>, Arc<Policy>>,
    /// Of tiers that are the policy by a factor.
    tier_factors: HashMap<Box<str>, Factor>,
    /// The policy without limits.
    unlimited: Arc<Policy>,
    default_tier: Option<Box<str>>,
    exempt: KeyList,
    block: KeyList,
    overrides: HashMap<Box<[u8]>, Arc<Policy>>,
}

/// The key that a [`Scope`] is asked about, and what came with it.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    key: &'a [u8],
    listed_as: &'a [u8],
    address: Option<IpAddr>,
    tier: Option<&'a str>,
    factor: Option<Factor>,
    has_own_numbers: bool,
    skips_variants: bool,
}

impl Scope {
    /// A policy that applies to every key in the same way.
    pub fn new(policy: impl Into<Arc<Policy>>) -> Self {
        let policy = policy.into();
        let unlimited = policy.scaled(policy.name(), Factor::ZERO);
        Self {
            // Without limits there is nothing that could not be scaled.
            unlimited: unlimited.map_or_else(|_| Arc::clone(&policy), Arc::new),
            policy,
            rollout: Rollout::EVERYBODY,
            tiers: HashMap::new(),
            tier_factors: HashMap::new(),
            default_tier: None,
            exempt: KeyList::default(),
            block: KeyList::default(),
            overrides: HashMap::new(),
        }
    }

    /// Limits a share of the keys; the others are decided about in shadow.
    #[must_use]
    pub fn with_rollout(mut self, rollout: Rollout) -> Self {
        self.rollout = rollout;
        self
    }

    /// Adds a tier, or replaces the one of its name. A tier with the policy's own name is the policy itself; one
    /// without limits admits everything.
    #[must_use]
    pub fn with_tier(mut self, name: &str, policy: impl Into<Arc<Policy>>) -> Self {
        self.tiers.insert(name.into(), policy.into());
        self
    }

    /// Says that a tier is the policy by this factor. Then the factor of a call and the tier's are multiplied before
    /// numbers are rounded.
    #[must_use]
    pub fn with_tier_factor(mut self, name: &str, factor: Factor) -> Self {
        self.tier_factors.insert(name.into(), factor);
        self
    }

    /// The tier of requests that name one which the scope does not know. Requests without a tier stay without one.
    #[must_use]
    pub fn with_default_tier(mut self, name: &str) -> Self {
        self.default_tier = Some(name.into());
        self
    }

    /// Adds keys that are never refused: keys, addresses or networks (`10.0.0.0/8`).
    #[must_use]
    pub fn with_exempt<K: AsRef<str>>(mut self, keys: impl IntoIterator<Item = K>) -> Self {
        self.exempt.extend(keys);
        self
    }

    /// Adds keys that are always refused: keys, addresses or networks (`10.0.0.0/8`).
    #[must_use]
    pub fn with_block<K: AsRef<str>>(mut self, keys: impl IntoIterator<Item = K>) -> Self {
        self.block.extend(keys);
        self
    }

    /// Gives one key its own limits: a [variant](crate::Store::set_variant) of the policy.
    #[must_use]
    pub fn with_override(mut self, key: impl AsRef<[u8]>, policy: impl Into<Arc<Policy>>) -> Self {
        self.overrides.insert(key.as_ref().into(), policy.into());
        self
    }

    /// The policy of keys that nothing else applies to.
    #[must_use]
    pub fn policy(&self) -> &Arc<Policy> {
        &self.policy
    }

    /// The share of keys that is limited.
    #[must_use]
    pub fn rollout(&self) -> Rollout {
        self.rollout
    }

    /// The policy of a tier, if the scope knows it.
    #[must_use]
    pub fn tier(&self, name: &str) -> Option<&Arc<Policy>> {
        self.tiers.get(name)
    }

    /// The tier of requests that name an unknown one.
    #[must_use]
    pub fn default_tier(&self) -> Option<&str> {
        self.default_tier.as_deref()
    }

    /// The tier that applies to a request which names one: that tier, or the default tier if it is unknown.
    ///
    /// # Errors
    ///
    /// The tier is unknown, and there is no default tier.
    pub fn known_tier<'a>(&'a self, name: &'a str) -> Result<&'a str, UnknownTier> {
        if self.tiers.contains_key(name) {
            return Ok(name);
        }
        self.default_tier().ok_or_else(|| {
            UnknownTier::new(self.policy.name(), name, self.tiers.keys().map(|name| &**name))
        })
    }

    /// Whether requests can name a tier.
    #[must_use]
    pub fn has_tiers(&self) -> bool {
        !self.tiers.is_empty()
    }

    /// The policies of tiers and of single keys that share their keys with the policy. A store must know them,
    /// as [variants](crate::Store::set_variant) of it.
    pub fn variants(&self) -> impl Iterator<Item = &Arc<Policy>> {
        self.overrides.values().chain(self.tiers())
    }

    /// The policies of tiers among the [variants](Self::variants).
    pub fn tiers(&self) -> impl Iterator<Item = &Arc<Policy>> {
        // A tier without limits keeps no state, so the store never sees it.
        let tiers = self.tiers.values();
        tiers.filter(|tier| !tier.limits().is_empty() && tier.name() != self.policy.name())
    }

    /// The address that a key spells, alone or as the first of a group; `None` if no list needs it.
    #[must_use]
    pub fn address_in(&self, key: &[u8]) -> Option<IpAddr> {
        if self.exempt.is_empty() && self.block.is_empty() {
            return None;
        }
        let text = std::str::from_utf8(key).ok()?;
        let group = || text.parse::<IpNet>().ok().map(|network| network.addr());
        text.parse().ok().or_else(group).map(|address: IpAddr| address.to_canonical())
    }

    /// Whether lists or overrides name any key.
    #[must_use]
    pub fn names_keys(&self) -> bool {
        !(self.exempt.is_empty() && self.block.is_empty() && self.overrides.is_empty())
    }

    /// Whether a key is limited; the policy decides about the others in shadow.
    #[must_use]
    #[inline]
    pub fn enrols(&self, key: &[u8]) -> bool {
        self.rollout.is_everybody() || self.rollout.enrols(self.policy.name(), key)
    }

    /// What applies to a key. The table above says in which order.
    #[must_use]
    #[inline]
    pub fn resolve(&self, subject: &Subject<'_>) -> Resolution<'_> {
        let by_key =
            |policy, action| Resolution { policy, action, origin: Origin::Key, factor: None };
        if self.block.contains(subject.listed_as, subject.address) {
            return by_key(&self.policy, Action::Block);
        }
        if self.exempt.contains(subject.listed_as, subject.address) {
            return by_key(&self.policy, Action::Exempt);
        }
        if !subject.skips_variants
            && let Some(policy) = self.overrides.get(subject.listed_as)
        {
            return by_key(policy, Action::Enforce);
        }
        if subject.has_own_numbers {
            return Resolution { origin: Origin::Call, ..self.resolve_base(subject.key) };
        }
        match subject.tier.and_then(|tier| self.tier_or_default(tier)) {
            Some(policy) if policy.name() == self.policy.name() => self.resolve_base(subject.key),
            Some(policy) if policy.limits().is_empty() => {
                Resolution { policy, action: Action::Unlimited, origin: Origin::Tier, factor: None }
            }
            _ if subject.factor.is_some_and(Factor::is_zero) => Resolution {
                policy: &self.unlimited,
                action: Action::Unlimited,
                origin: Origin::Call,
                factor: None,
            },
            _ if subject.factor.is_some() => self.resolve_factor(subject),
            Some(policy) if !subject.skips_variants => {
                Resolution { policy, origin: Origin::Tier, ..self.resolve_base(subject.key) }
            }
            _ => self.resolve_base(subject.key),
        }
    }

    fn tier_or_default(&self, name: &str) -> Option<&Arc<Policy>> {
        self.tiers.get(name).or_else(|| self.tiers.get(self.default_tier()?))
    }

    /// What a refund or a reset of a key applies to: the policy itself, whatever lists, overrides and tiers say.
    #[must_use]
    #[inline]
    pub fn resolve_base(&self, key: &[u8]) -> Resolution<'_> {
        let action = if self.enrols(key) { Action::Enforce } else { Action::Shadow };
        Resolution { policy: &self.policy, action, origin: Origin::Policy, factor: None }
    }

    /// The factor of a call, with its tier.
    fn resolve_factor(&self, subject: &Subject<'_>) -> Resolution<'_> {
        let (base, factor) = (self.resolve_base(subject.key), subject.factor);
        let tier = subject.tier.filter(|_| !subject.skips_variants);
        let tier = tier.and_then(|tier| self.known_tier(tier).ok());
        let both = match tier.and_then(|tier| self.tier_factors.get(tier)) {
            Some(of_tier) => factor.and_then(|factor| of_tier.times(factor).ok()),
            None => None,
        };
        match tier.and_then(|tier| self.tiers.get(tier)) {
            Some(policy) if both.is_none() && policy.name() != self.policy.name() => {
                Resolution { policy, origin: Origin::Tier, factor, ..base }
            }
            _ => Resolution { origin: Origin::Call, factor: both.or(factor), ..base },
        }
    }
}

impl From<Policy> for Scope {
    fn from(policy: Policy) -> Self {
        Self::new(policy)
    }
}

impl<'a> Subject<'a> {
    /// A key without a tier or an address.
    #[must_use]
    pub fn new(key: &'a [u8]) -> Self {
        Self {
            key,
            listed_as: key,
            address: None,
            tier: None,
            factor: None,
            has_own_numbers: false,
            skips_variants: false,
        }
    }

    /// The name under which lists and overrides know the key, where that is not the key itself.
    #[must_use]
    pub fn listed_as(mut self, name: &'a [u8]) -> Self {
        self.listed_as = name;
        self
    }

    /// The client's address, which lists of networks are compared with. See [`Scope::address_in`].
    #[must_use]
    pub fn with_address(mut self, address: Option<IpAddr>) -> Self {
        self.address = address.map(|address| address.to_canonical());
        self
    }

    /// The tier that the request names.
    #[must_use]
    pub fn with_tier(mut self, tier: Option<&'a str>) -> Self {
        self.tier = tier;
        self
    }

    /// The factor of the call, by which the limits of the policy or of the tier are scaled.
    #[must_use]
    pub fn with_factor(mut self, factor: Option<Factor>) -> Self {
        self.factor = factor.filter(|factor| !factor.is_one());
        self
    }

    /// Whether the call brings its own numbers, which go before the tier's.
    #[must_use]
    pub fn has_own_numbers(mut self, has_own_numbers: bool) -> Self {
        self.has_own_numbers = has_own_numbers;
        self
    }

    /// Ignores the scope's overrides and tiers: the store does not know them any more.
    #[must_use]
    pub fn skips_variants(mut self, skips_variants: bool) -> Self {
        self.skips_variants = skips_variants;
        self
    }
}
