//! Which policy applies to a key, and how: one answer for servers, middleware and rehearsals.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::{IpNet, Ipv4Net};
use waterclock_core::{Cost, Decision, Policy, Rollout};

use crate::store::Answer;

/// A policy with its tiers, its rollout, and the keys it treats differently.
///
/// [`resolve`](Self::resolve) is the only place that knows the order of precedence:
///
/// | first match wins | found in | result |
/// |---|---|---|
/// | 1. block | runtime override, then `block` | [`Action::Block`] |
/// | 2. exempt | runtime override, then `exempt` | [`Action::Exempt`] |
/// | 3. limits of this key | runtime override, then `overrides` | [`Action::Enforce`] with those limits |
/// | 4. numbers of this call | [`Subject::has_own_numbers`] | [`Origin::Call`], enforced or in shadow |
/// | 5. tier | `tiers`; an unknown tier is ignored | its limits, enforced or in shadow; [`Action::Unlimited`] if it has none |
/// | 6. the policy | | enforced or in shadow |
///
/// "Enforced or in shadow" is the rollout's choice: keys that are not enrolled are decided about in shadow. The
/// rollout does not concern rows 1 to 3.
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
    runtime: Option<&'a Override>,
    has_own_numbers: bool,
    skips_variants: bool,
}

/// What applies to one key instead of the policy.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Override {
    /// Always refuse it.
    Block,
    /// Never refuse it, and charge nothing.
    Exempt,
    /// Its own limits: a [variant](crate::Store::set_variant) of the policy.
    Limits(Arc<Policy>),
}

/// What applies to a key.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Resolution<'a> {
    /// The policy that decides, or whose numbers are reported where no decision is needed.
    pub policy: &'a Arc<Policy>,
    /// What happens.
    pub action: Action,
    /// Why.
    pub origin: Origin,
}

/// What happens to the requests of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Action {
    /// Refuse without asking the store; waiting does not help.
    Block,
    /// Admit without asking the store.
    Exempt,
    /// Admit without asking the store, because the key's tier has no limits.
    Unlimited,
    /// Let the policy decide.
    Enforce,
    /// Let the policy decide and charge, but admit in any case: the key is not enrolled.
    Shadow,
}

/// Where a [`Resolution`] comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// The policy itself.
    Policy,
    /// The tier of the request.
    Tier,
    /// Numbers that came with the call. [`Resolution::policy`] is the one to apply them to.
    Call,
    /// A list or an override that names this key.
    Key,
}

impl Scope {
    /// A policy that applies to every key in the same way.
    pub fn new(policy: impl Into<Arc<Policy>>) -> Self {
        Self {
            policy: policy.into(),
            rollout: Rollout::EVERYBODY,
            tiers: HashMap::new(),
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
    pub fn resolve<'a>(&'a self, subject: &Subject<'a>) -> Resolution<'a> {
        let by_key = |policy, action| Resolution { policy, action, origin: Origin::Key };
        let (runtime, address) = (subject.runtime, subject.address);
        if matches!(runtime, Some(Override::Block))
            || self.block.contains(subject.listed_as, address)
        {
            return by_key(&self.policy, Action::Block);
        }
        if matches!(runtime, Some(Override::Exempt))
            || self.exempt.contains(subject.listed_as, address)
        {
            return by_key(&self.policy, Action::Exempt);
        }
        if let Some(Override::Limits(policy)) = runtime {
            return by_key(policy, Action::Enforce);
        }
        if !subject.skips_variants
            && let Some(policy) = self.overrides.get(subject.listed_as)
        {
            return by_key(policy, Action::Enforce);
        }
        if subject.has_own_numbers {
            return Resolution { origin: Origin::Call, ..self.resolve_base(subject.key) };
        }
        match subject.tier.and_then(|tier| self.tiers.get(tier)) {
            Some(policy) if policy.name() == self.policy.name() => self.resolve_base(subject.key),
            Some(policy) if policy.limits().is_empty() => {
                Resolution { policy, action: Action::Unlimited, origin: Origin::Tier }
            }
            Some(policy) if !subject.skips_variants => {
                Resolution { policy, origin: Origin::Tier, ..self.resolve_base(subject.key) }
            }
            _ => self.resolve_base(subject.key),
        }
    }

    /// What a refund or a reset of a key applies to: the policy itself, whatever lists, overrides and tiers say.
    #[must_use]
    #[inline]
    pub fn resolve_base(&self, key: &[u8]) -> Resolution<'_> {
        let action = if self.enrols(key) { Action::Enforce } else { Action::Shadow };
        Resolution { policy: &self.policy, action, origin: Origin::Policy }
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
            runtime: None,
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

    /// An override that was set while the program runs. It goes before the scope's own overrides.
    #[must_use]
    pub fn with_override(mut self, runtime: Option<&'a Override>) -> Self {
        self.runtime = runtime;
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

impl Resolution<'_> {
    /// Whether the policy applies with its own limits, as it does to most keys.
    #[must_use]
    pub fn is_usual(&self) -> bool {
        self.origin == Origin::Policy
    }

    /// The answer, where it takes no store: to blocked, exempt and unlimited keys.
    #[must_use]
    pub fn answer(&self, cost: &Cost) -> Option<Answer> {
        match self.action {
            Action::Block => {
                let mut answer = Answer::fresh(self.policy, cost);
                answer.decision = answer.decision.blocked();
                // A positive number would promise what a blocked key never gets.
                answer.limits.iter_mut().for_each(|limit| limit.remaining = Some(0));
                Some(answer)
            }
            Action::Exempt => Some(Answer::exempt(self.policy, cost)),
            Action::Unlimited => Some(Answer::fresh(self.policy, cost)),
            Action::Enforce | Action::Shadow => None,
        }
    }

    /// The store's decision as reported to the caller: the same, or in shadow.
    pub fn report(&self, decision: Decision, cost: &Cost) -> Decision {
        if self.action == Action::Shadow { decision.in_shadow(cost) } else { decision }
    }
}

/// Keys, and networks of client addresses.
#[derive(Clone, Debug, Default)]
struct KeyList {
    keys: HashSet<Box<[u8]>>,
    networks: Vec<IpNet>,
}

impl KeyList {
    fn extend<K: AsRef<str>>(&mut self, entries: impl IntoIterator<Item = K>) {
        for entry in entries {
            let entry = entry.as_ref();
            let address = || entry.parse::<IpAddr>().ok().map(IpNet::from);
            self.networks.extend(entry.parse().ok().or_else(address).map(canonical));
            self.keys.insert(entry.as_bytes().into());
        }
    }

    fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    #[inline]
    fn contains(&self, key: &[u8], address: Option<IpAddr>) -> bool {
        !self.is_empty()
            && (self.keys.contains(key)
                || address.is_some_and(|address| {
                    self.networks.iter().any(|network| network.contains(&address))
                }))
    }
}

/// A network of IPv4-mapped addresses (`::ffff:192.0.2.0/120`) as one of IPv4: addresses are compared in that form.
fn canonical(network: IpNet) -> IpNet {
    let IpNet::V6(mapped) = network else { return network };
    let v4 = mapped.addr().to_ipv4_mapped().zip(mapped.prefix_len().checked_sub(96));
    let v4 = v4.and_then(|(address, prefix)| Ipv4Net::new(address, prefix).ok());
    v4.map_or(network, IpNet::V4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limit;

    fn policy(name: &str, limit: u64) -> Policy {
        Policy::new(name, [Limit::per_minute(limit).with_name("one")]).unwrap()
    }

    fn free(name: &str) -> Policy {
        Policy::new(name, Vec::<Limit>::new()).unwrap()
    }

    fn scope() -> Scope {
        Scope::new(policy("p", 10))
            .with_tier("pro", policy("p@pro", 100))
            .with_tier("staff", free("p@staff"))
            .with_tier("same", policy("p", 10))
            .with_block(["both", "blocked", "192.0.2.0/24", "::ffff:198.51.100.7"])
            .with_exempt(["both", "exempt", "own-exempt", "10.0.0.0/8", "2001:db8::1"])
            .with_exempt(["::ffff:203.0.113.0/120"])
            .with_override("own", policy("p@own", 1))
            .with_override("own-exempt", policy("p@own-exempt", 1))
    }

    /// Every row of the table, and every pair of rows that can meet.
    #[test]
    fn precedence() {
        use Action::{Block, Enforce, Exempt, Shadow, Unlimited};
        use Origin::{Call, Key, Tier};
        let custom = Override::Limits(Arc::new(policy("p@custom", 2)));
        let [block, exempt, custom] =
            [Some(&Override::Block), Some(&Override::Exempt), Some(&custom)];
        let own = Origin::Policy;
        // key, tier, runtime override, own numbers -> when enrolled, when not, policy, origin
        let rows = [
            ("alice", None, None, false, Enforce, Shadow, "p", own),
            ("alice", Some("nobody"), None, false, Enforce, Shadow, "p", own),
            ("alice", Some("same"), None, false, Enforce, Shadow, "p", own),
            ("alice", Some("pro"), None, false, Enforce, Shadow, "p@pro", Tier),
            ("alice", Some("staff"), None, false, Unlimited, Unlimited, "p@staff", Tier),
            ("alice", None, None, true, Enforce, Shadow, "p", Call),
            ("alice", Some("pro"), None, true, Enforce, Shadow, "p", Call),
            ("alice", Some("staff"), None, true, Enforce, Shadow, "p", Call),
            ("own", None, None, false, Enforce, Enforce, "p@own", Key),
            ("own", Some("pro"), None, true, Enforce, Enforce, "p@own", Key),
            ("own", Some("staff"), None, false, Enforce, Enforce, "p@own", Key),
            ("alice", Some("pro"), custom, true, Enforce, Enforce, "p@custom", Key),
            ("own", None, custom, false, Enforce, Enforce, "p@custom", Key),
            ("exempt", Some("pro"), None, true, Exempt, Exempt, "p", Key),
            ("exempt", None, custom, false, Exempt, Exempt, "p", Key),
            ("own-exempt", None, None, false, Exempt, Exempt, "p", Key),
            ("own", None, exempt, false, Exempt, Exempt, "p", Key),
            ("blocked", Some("staff"), None, true, Block, Block, "p", Key),
            ("both", None, None, false, Block, Block, "p", Key),
            ("blocked", None, exempt, false, Block, Block, "p", Key),
            ("blocked", None, custom, false, Block, Block, "p", Key),
            ("exempt", None, block, false, Block, Block, "p", Key),
            ("own", None, block, false, Block, Block, "p", Key),
        ];
        let unenrolled = scope().with_rollout(Rollout::NOBODY);
        for (key, tier, runtime, has_own_numbers, enrolled, not_enrolled, name, origin) in rows {
            for (scope, action) in [(&scope(), enrolled), (&unenrolled, not_enrolled)] {
                let subject = Subject::new(key.as_bytes()).with_tier(tier).with_override(runtime);
                let found = scope.resolve(&subject.has_own_numbers(has_own_numbers));
                let expected = (action, name, origin);
                let found = (found.action, found.policy.name(), found.origin);
                assert_eq!(found, expected, "{key} {tier:?} {runtime:?} {has_own_numbers}");
            }
        }
    }

    #[test]
    fn lists_know_addresses_and_other_names() {
        let scope = scope();
        let action = |subject: Subject<'_>| scope.resolve(&subject).action;
        let at = |text: &str| Subject::new(b"k").with_address(text.parse().ok());
        assert_eq!(action(at("10.1.2.3")), Action::Exempt);
        assert_eq!(action(at("2001:db8::1")), Action::Exempt);
        assert_eq!(action(at("192.0.2.9")), Action::Block);
        assert_eq!(action(at("::ffff:192.0.2.9")), Action::Block);
        assert_eq!(action(at("198.51.100.7")), Action::Block, "listed as ::ffff:198.51.100.7");
        assert_eq!(action(at("203.0.113.9")), Action::Exempt, "listed as ::ffff:203.0.113.0/120");
        assert_eq!(action(at("11.1.2.3")), Action::Enforce);
        assert_eq!(action(Subject::new(b"k").listed_as(b"blocked")), Action::Block);
        assert_eq!(scope.address_in(b"::ffff:10.1.2.3"), "10.1.2.3".parse().ok());
        assert_eq!(scope.address_in(b"2001:db8::/64"), "2001:db8::".parse().ok());
        assert_eq!(scope.address_in(b"alice"), None);
        assert_eq!(Scope::new(policy("p", 1)).address_in(b"10.1.2.3"), None);
    }

    #[test]
    fn variants_that_the_store_lost_are_skipped() {
        let (scope, custom) = (scope(), Override::Limits(Arc::new(policy("p@custom", 2))));
        let found = |subject: Subject<'_>| {
            let found = scope.resolve(&subject.skips_variants(true));
            (found.policy.name().to_owned(), found.action)
        };
        let base = ("p".to_owned(), Action::Enforce);
        assert_eq!(found(Subject::new(b"own")), base);
        assert_eq!(found(Subject::new(b"alice").with_tier(Some("pro"))), base);
        assert_eq!(found(Subject::new(b"blocked")).1, Action::Block);
        assert_eq!(found(Subject::new(b"alice").with_tier(Some("staff"))).1, Action::Unlimited);
        assert_eq!(found(Subject::new(b"own").with_override(Some(&custom))).0, "p@custom");
    }

    #[test]
    fn variants_are_what_a_store_must_know() {
        let scope = scope();
        let mut names: Vec<&str> = scope.variants().map(|policy| policy.name()).collect();
        names.sort_unstable();
        assert_eq!(names, ["p@own", "p@own-exempt", "p@pro"]);
        assert_eq!(scope.tiers().map(|tier| tier.name()).collect::<Vec<_>>(), ["p@pro"]);
    }

    #[test]
    fn answers_without_a_store() {
        let (scope, cost) = (scope(), Cost::from(3));
        let answer = |subject: Subject<'_>| scope.resolve(&subject).answer(&cost);
        let blocked = answer(Subject::new(b"blocked")).unwrap();
        assert!(!blocked.decision.is_allowed());
        assert_eq!(blocked.limits[0].remaining, Some(0));
        let exempt = answer(Subject::new(b"exempt")).unwrap();
        assert_eq!((exempt.decision.is_allowed(), exempt.decision.granted()), (true, 3));
        assert!(answer(Subject::new(b"alice").with_tier(Some("staff"))).unwrap().limits.is_empty());
        assert_eq!(answer(Subject::new(b"alice")), None);
    }
}
