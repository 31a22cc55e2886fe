//! A policy of the configuration, ready to be asked.

use std::borrow::Cow;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::RwLock;
use sha2::{Digest, Sha256};
use waterclock::{Cost, CostError, Crossing, Policy, StoreError, Verb};
use waterclock_http::{HeaderStyle, compose_key};

use super::address::{ADDRESS_FIELD, address_key, read_address};
use super::key::{BadKey, Key, Standing, is_composed};
use super::numbers::Numbers;
use super::particular::Particular;
use super::place::Place;
use crate::observe::Tally;
use waterclock_config::{PolicyConfig, TierConfig, policy_of};

/// Numbers that came with calls, at most so many per policy.
const MOST_NUMBERS: usize = 1_000;

/// The field of a request, or the entry of a descriptor, that picks a tier.
pub const TIER: &str = "tier";

/// A policy with everything the configuration says about it.
pub struct Served {
    spec: PolicyConfig,
    policy: Arc<Policy>,
    headers: HeaderStyle,
    particular: Particular,
    /// Those that are not the policy itself under another name.
    tiers: HashMap<Box<str>, Arc<Policy>>,
    with: RwLock<HashMap<Numbers, Arc<Policy>>>,
    /// The same policies in shadow, by their names, for reservations of keys they are not rolled out to.
    in_shadow: RwLock<HashMap<Box<str>, Arc<Policy>>>,
    tally: Tally,
}

impl Served {
    pub(super) fn new(spec: PolicyConfig, tally: Tally) -> Result<Served, String> {
        Ok(Served {
            policy: Arc::new(spec.built.clone()),
            headers: HeaderStyle::parse(spec.headers).unwrap_or_default(),
            tiers: tiers(&spec),
            particular: Particular::new(&spec)?,
            with: RwLock::default(),
            in_shadow: RwLock::default(),
            spec,
            tally,
        })
    }

    /// The name that callers use.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.spec.name
    }

    /// What the file says.
    #[must_use]
    pub fn spec(&self) -> &PolicyConfig {
        &self.spec
    }

    /// What decides about keys without an exception.
    #[must_use]
    pub fn policy(&self) -> Arc<Policy> {
        Arc::clone(&self.policy)
    }

    /// How much something costs, as the policy counts: a request, where nobody says.
    pub fn price(&self, verb: Verb, cost: Option<&Cost>) -> Result<Cost, CostError> {
        verb.price(&self.spec.built, cost)
    }

    /// How much clients are told.
    #[must_use]
    pub fn headers(&self) -> HeaderStyle {
        self.headers
    }

    /// The policies of single keys and of tiers: they share their keys with this one.
    pub(super) fn variants(&self) -> impl Iterator<Item = &Arc<Policy>> {
        // What limits nothing remembers nothing, so that what was spent must be remembered elsewhere.
        let tiers = self.tiers.values().filter(|tier| !tier.limits().is_empty());
        self.particular.policies().chain(tiers)
    }

    /// What goes for a tier, if that is anything else than what goes for everybody. Roles come and go: one
    /// that the policy does not know is nothing special.
    pub(super) fn tier(&self, name: Option<&str>) -> Option<&Arc<Policy>> {
        self.tiers.get(name?)
    }

    /// The name of the tier that one of a descriptor's entries picks, if the policy knows it.
    #[must_use]
    pub fn tier_among(&self, entries: &[(&str, &str)]) -> Option<&str> {
        let (_, picked) = entries.iter().find(|(key, _)| *key == TIER)?;
        self.tiers.get_key_value(*picked).map(|(name, _)| &**name)
    }

    /// Whether a tier can be named at all.
    #[must_use]
    pub fn has_tiers(&self) -> bool {
        !self.spec.tiers.is_empty()
    }

    /// Whether a key is limited, or only looked at until the policy is rolled out to it.
    #[inline]
    pub(super) fn enrols(&self, key: &Key<'_>) -> bool {
        let rollout = self.spec.rollout;
        rollout.is_everybody() || rollout.enrols(&self.spec.name, key.bytes())
    }

    pub(crate) fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Whether the store need not be told of the other, because it decides the same.
    pub(super) fn decides_as(&self, other: &Served) -> bool {
        let (a, b) = (&self.spec, &other.spec);
        let how = |spec: &PolicyConfig| (spec.mode, spec.shadow, spec.on_store_error, spec.lease);
        let tiers = |spec: &PolicyConfig| {
            let shared = spec.tiers.iter().filter(|tier| tier.is_shared());
            shared.map(|tier| (tier.name.clone(), tier.limits.clone())).collect::<Vec<_>>()
        };
        let limits =
            |spec: &PolicyConfig| (spec.limits.clone(), spec.overrides.clone(), tiers(spec));
        limits(a) == limits(b) && how(a) == how(b)
    }

    /// A key that the caller has formed.
    pub fn key<'a>(&self, text: &'a [u8]) -> Result<Key<'a>, BadKey> {
        if self.spec.key.len() > 1 && !is_composed(text, self.spec.key.len()) {
            let reason = format!(
                "policy `{}` forms its key from {}; send `fields`",
                self.name(),
                self.spec.key.join(" and ")
            );
            return Err(BadKey::new("fields", reason));
        }
        let address = if self.has_lists() { read_address(text) } else { None };
        let bytes = match std::str::from_utf8(text) {
            Ok(text) if self.spec.key == [ADDRESS_FIELD] => match address_key(text.into()) {
                Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
                Cow::Owned(text) => Cow::Owned(text.into_bytes()),
            },
            _ => Cow::Borrowed(text),
        };
        let standing = self.standing(&bytes, address);
        Key::new(bytes, standing)
    }

    /// The key of a client whose address is all that is known.
    pub fn key_of_client(&self, client: IpAddr) -> Result<Key<'static>, BadKey> {
        let text = address_key(client.to_string().into()).into_owned().into_bytes();
        let standing = self.standing(&text, Some(client.to_canonical()));
        Key::new(Cow::Owned(text), standing)
    }

    /// The key of a request with these fields.
    pub fn key_of_fields<'f>(
        &self,
        field: impl Fn(&str) -> Option<Cow<'f, str>>,
    ) -> Result<Key<'static>, BadKey> {
        let mut values: Vec<Cow<'f, str>> = Vec::with_capacity(self.spec.key.len());
        let mut address = None;
        for name in &self.spec.key {
            let value = field(name).ok_or_else(|| {
                let reason = format!("policy `{}` needs the field `{name}`", self.name());
                BadKey::new(name, reason)
            })?;
            if name == ADDRESS_FIELD {
                // Lists are about addresses, budgets about groups of them.
                address = read_address(value.as_bytes());
                values.push(address_key(value));
            } else {
                values.push(value);
            }
        }
        let bytes = match &*values {
            [] => {
                let reason = format!("policy `{}` has no key fields; send `key`", self.name());
                return Err(BadKey::new("key", reason));
            }
            [one] => one.as_bytes().to_vec(),
            several => compose_key(several.iter().map(|value| value.as_bytes())),
        };
        let standing = self.standing(&bytes, address);
        Key::new(Cow::Owned(bytes), standing)
    }

    fn has_lists(&self) -> bool {
        !self.spec.exempt.is_empty() || !self.spec.block.is_empty()
    }

    pub(super) fn standing(&self, key: &[u8], address: Option<IpAddr>) -> Standing {
        self.particular.standing(key, address)
    }

    /// The policy with other numbers. Keys are shared: what was spent under one is spent under all.
    pub(super) async fn with(
        &self,
        numbers: Numbers,
        place: &Place,
    ) -> Result<Arc<Policy>, StoreError> {
        if let Some(policy) = self.with.read().get(&numbers) {
            return Ok(Arc::clone(policy));
        }
        if self.with.read().len() >= MOST_NUMBERS {
            let reason = format!(
                "policy `{}` was asked with more than {MOST_NUMBERS} different limits",
                self.name()
            );
            return Err(StoreError::Unfit(reason));
        }
        let name = format!("{}@{numbers}", self.name());
        let mut limits = self.spec.limits.clone();
        // The first limit is the one that numbers can be said for; the others stay as they are.
        if let Some(first) = limits.first_mut() {
            *first = numbers.instead_of(first);
        }
        let policy = policy_of(&name, &limits, self.spec.mode, self.spec.shadow)
            .map_err(StoreError::Unfit)?;
        place.set_variant(self.name(), policy.clone(), Crossing::Units).await?;
        let policy = Arc::new(policy);
        self.with.write().insert(numbers, Arc::clone(&policy));
        Ok(policy)
    }

    /// One of its policies, never refusing. Keys are shared, so that a larger share finds what was spent.
    pub(super) async fn in_shadow(
        &self,
        policy: &Policy,
        place: &Place,
    ) -> Result<Arc<Policy>, StoreError> {
        if let Some(known) = self.in_shadow.read().get(policy.name()) {
            return Ok(Arc::clone(known));
        }
        let name = format!("{}@shadow", policy.name());
        let shadow = Policy::new(&name, policy.limits().iter().cloned())
            .and_then(|shadow| shadow.with_mode(policy.mode()))
            .map_err(|error| StoreError::Unfit(error.to_string()))?
            .with_shadow(true);
        place.set_variant(self.name(), shadow.clone(), Crossing::Units).await?;
        let shadow = Arc::new(shadow);
        self.in_shadow.write().insert(policy.name().into(), Arc::clone(&shadow));
        Ok(shadow)
    }

    /// Limits of its own for one key, from the administrators.
    pub async fn with_limits(
        &self,
        key: &Key<'_>,
        limits: &[waterclock_config::LimitSpec],
        place: &Place,
    ) -> Result<Arc<Policy>, StoreError> {
        // Names get into logs; keys do not.
        let hash = Sha256::digest(key.bytes());
        let name = format!("{}@admin:{:x}", self.name(), hash);
        let policy = policy_of(&name, limits, self.spec.mode, self.spec.shadow)
            .map_err(StoreError::Unfit)?;
        place.set_variant(self.name(), policy.clone(), Crossing::Units).await?;
        Ok(Arc::new(policy))
    }
}

fn tiers(spec: &PolicyConfig) -> HashMap<Box<str>, Arc<Policy>> {
    let named = |tier: &TierConfig| (tier.name.as_str().into(), Arc::new(tier.built.clone()));
    spec.tiers.iter().filter(|tier| !tier.factor.is_one()).map(named).collect()
}
