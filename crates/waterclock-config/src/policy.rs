//! The policies of the file: limits, exceptions for some keys, and how the policy is served.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use sha2::{Digest, Sha256};
use waterclock::{
    Factor, HeaderStyle, Jitter, Lease, Limit, Mode, OnFull, OnStoreError, Policy, PolicyError,
    Rollout, Scope, Serving,
};

use super::duration::Micros;
use super::error::{Fault, Invalid};
use super::limit::{LimitList, read_list};
use super::schema::{Key, Shape, UNITS};
use super::shorthand;
use super::suggest::{quoted, shown};
use super::table::{Entry, Field, Table};
use super::tier::{
    DEFAULT_TIER, TIERS, TierConfig, names_of, one_of_tiers, read_default_tier, read_tiers,
};

const MODE: Key = Key::new(
    "mode",
    Shape::Word(&["binary", "nary", "uniform", "partial", "count-refusals"]),
    "`binary`: the whole cost or nothing. `partial` (or `nary`): as much as fits. `count-refusals` (or `uniform`): refused attempts count too.",
)
.default("\"binary\"");

const HEADERS: Key = Key::new(
    "headers",
    Shape::Word(&["none", "retry-after", "ietf", "draft-10", "draft-03", "github", "legacy"]),
    "Which response header fields clients get.",
)
.default("\"retry-after\"");

const JITTER: Key = Key::new(
    "jitter",
    Shape::Percent,
    "Spreads `Retry-After` upwards by a random share of the wait of up to this much.",
)
.default("\"0%\"");

const ON_STORE_ERROR: Key = Key::new(
    "on_store_error",
    Shape::Word(&["local", "allow", "deny"]),
    "What happens while the store is unreachable.",
)
.default("\"local\"");

const ON_FULL: Key = Key::new(
    "on_full",
    Shape::Word(&["evict", "refuse"]),
    "In memory, what happens to a new key when there is no place for it: others of which at most half is used are \
     forgotten, or it shares an entry with others that have none.",
)
.default("\"evict\"");

/// What policies inherit from `[defaults]`.
pub(crate) const DEFAULTS: &[Key] =
    &[MODE, HEADERS, JITTER, ON_STORE_ERROR, ON_FULL, TIERS, DEFAULT_TIER];

pub(crate) const KEYS: &[Key] = &[
    Key::new(
        "key",
        Shape::List(&Shape::Syntax(accept_field_name)),
        "Request fields that form the key; without it the caller passes the key.",
    ),
    MODE,
    HEADERS,
    JITTER,
    Key::new("shadow", Shape::Flag, "Decide and report, never refuse.").default("false"),
    Key::new(
        "rollout",
        Shape::Percent,
        "The share of keys that the policy applies to; the others run in shadow.",
    )
    .default("\"100%\""),
    ON_STORE_ERROR,
    Key::new(
        "local_for",
        Shape::Duration,
        "For how long `on_store_error = \"local\"` serves in one outage, before it denies; without it, always.",
    ),
    ON_FULL,
    Key::new("factor", Shape::Factor, "2: twice as strict, 0.5: half as strict, 0: no limit.")
        .default("1"),
    TIERS,
    DEFAULT_TIER,
    Key::new(
        "exempt",
        Shape::List(&Shape::Text),
        "Keys that are never limited; for address keys also networks.",
    ),
    Key::new(
        "block",
        Shape::List(&Shape::Text),
        "Keys that are always refused; for address keys also networks.",
    ),
    Key::new(
        "overrides",
        Shape::MapOf(&Shape::List(&Shape::Limit)),
        "Other limits for single keys.",
    ),
    Key::new(
        "lease",
        Shape::WordOrTable("auto", LEASE),
        "Lease mode on a shared store: `auto`, or a size and a time.",
    ),
    Key::new(
        "limits",
        Shape::List(&Shape::Limit),
        "1 to 16 limits; all admit, or nothing is charged.",
    )
    .such_as("[\"10/s\"]"),
];

const LEASE: &[Key] = &[
    Key::new("size", UNITS, "Units taken from the store at a time.").such_as("100"),
    Key::new("ttl", Shape::Duration, "How long a lease may be spent.").such_as("\"1s\""),
];

/// A policy and how it is served.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PolicyConfig {
    /// The policy, and which keys it treats differently.
    pub scope: Scope,
    /// The request fields that form the key; empty if the caller passes the key.
    pub key: Vec<String>,
    /// Which response header fields clients get.
    pub headers: HeaderStyle,
    /// By how much `Retry-After` is spread.
    pub jitter: Jitter,
    /// What a shared store leases, and what happens while it is unreachable.
    pub serving: Serving,
    /// The factor by which the limits have been scaled already.
    pub factor: Factor,
    /// The tiers, in the order of the file. The [`scope`](Self::scope) knows the default tier.
    pub tiers: Vec<TierConfig>,
    /// Keys and networks that are never limited, as the file has them.
    pub exempt: Vec<String>,
    /// Keys and networks that are always refused, as the file has them.
    pub block: Vec<String>,
    /// The policies of single keys, in the order of the file.
    pub overrides: Vec<(String, Arc<Policy>)>,
    /// The names of old limits that limit nothing.
    pub disabled: Vec<String>,
    places: Places,
}

/// Where the parts of a policy are in the file.
#[derive(Clone, Debug, Default)]
struct Places {
    name: usize,
    limits: Vec<usize>,
    lease: Option<usize>,
    overrides: Vec<usize>,
}

/// The part of a policy that an error points at.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum PolicyPart {
    /// Its name.
    Name,
    /// The limit at this place of [`PolicyConfig::limits`].
    Limit(usize),
    /// Its lease.
    Lease,
    /// The tier at this place of [`PolicyConfig::tiers`].
    Tier(usize),
    /// The override at this place of [`PolicyConfig::overrides`].
    Override(usize),
}

impl PolicyConfig {
    /// A policy with default settings.
    #[must_use]
    pub fn new(policy: Policy) -> PolicyConfig {
        PolicyConfig {
            scope: Scope::new(policy),
            key: Vec::new(),
            headers: HeaderStyle::default(),
            jitter: Jitter::NONE,
            serving: Serving::default(),
            factor: Factor::ONE,
            tiers: Vec::new(),
            exempt: Vec::new(),
            block: Vec::new(),
            overrides: Vec::new(),
            disabled: Vec::new(),
            places: Places::default(),
        }
    }

    /// A policy of one limit in shorthand, such as `10/s`.
    pub fn of_shorthand(name: &str, text: &str) -> Result<PolicyConfig, Invalid> {
        let fields = shorthand::parse(text)?.fields();
        let limit = fields.limit().map_err(|error| error.to_string())?;
        let limit = limit.with_name(&fields.algorithm);
        let policy = Policy::new(name, [limit]).map_err(|error| error.to_string())?;
        Ok(PolicyConfig::new(policy))
    }

    /// The policy of keys that nothing else applies to.
    #[must_use]
    pub fn policy(&self) -> &Arc<Policy> {
        self.scope.policy()
    }

    /// The policy's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.policy().name()
    }

    /// The policy's limits.
    #[must_use]
    pub fn limits(&self) -> &[Limit] {
        self.policy().limits()
    }

    /// A policy of other limits that decides in the same mode.
    pub fn variant(&self, name: &str, limits: &[Limit]) -> Result<Policy, PolicyError> {
        variant(self.policy(), name, limits)
    }

    /// The policy that decides about requests of a tier; the policy itself if it does not know the tier.
    #[must_use]
    pub fn under(&self, tier: Option<&str>) -> &Arc<Policy> {
        tier.and_then(|tier| self.scope.tier(tier)).unwrap_or(self.policy())
    }

    /// Where a part of it is in the file.
    pub(crate) fn place_of(&self, part: PolicyPart) -> usize {
        let Places { name, limits, lease, overrides, .. } = &self.places;
        let place = match part {
            PolicyPart::Name => None,
            PolicyPart::Limit(at) => limits.get(at).copied(),
            PolicyPart::Lease => *lease,
            PolicyPart::Tier(at) => self.tiers.get(at).map(|tier| tier.place),
            PolicyPart::Override(at) => overrides.get(at).copied(),
        };
        place.unwrap_or(*name)
    }

    /// Tiers that share keys with the policy: a store must know them.
    pub fn shared_tiers(&self) -> impl Iterator<Item = &TierConfig> {
        self.tiers.iter().filter(|tier| tier.is_shared())
    }
}

fn variant(of: &Policy, name: &str, limits: &[Limit]) -> Result<Policy, PolicyError> {
    let policy = Policy::new(name, limits.iter().cloned())?;
    Ok(policy.with_mode(of.mode())?.with_shadow(of.is_shadow()))
}

/// Reads `[defaults]`, and records every fault in it.
pub(crate) fn read_defaults<'doc>(field: &Field<'doc>) -> Result<Table<'doc>, Fault> {
    let table = field.table("`[defaults]`", DEFAULTS)?;
    table.verify();
    if table.field("tiers").is_some() {
        table.optional("default_tier", |field| one_of_tiers(field, &names_of(&table)));
    }
    Ok(table)
}

/// Reads a policy. `None` if there was a fault.
pub(crate) fn read<'doc>(
    entry: &Entry<'doc>,
    defaults: Option<&Table<'doc>>,
    max_sharing: Option<usize>,
) -> Option<PolicyConfig> {
    let faults = entry.field.faults;
    let name = faults.keep(accept_name(entry));
    let what = format!("policy `{}`", entry.key);
    let table = faults.keep(entry.field.table(what.as_str(), KEYS).map_err(|_| {
        let found = shown(entry.field.value.get_ref());
        let message = format!("{what} must be a table with `limits`; found {found}");
        Fault::at(entry.field.at(), message)
    }))?;
    let table = table.inheriting(defaults);
    table.verify();
    let mode = table.verified("mode", Field::word).and_then(Mode::parse).unwrap_or_default();
    table.needs("limits");
    let LimitList { limits, places, disabled } = read_list(&table.field("limits")?, mode)?;
    let shadow = table.verified("shadow", Field::flag).unwrap_or(false);
    let factor = table.verified("factor", Field::factor).unwrap_or(Factor::ONE);
    let at = |key: &str| table.field(key).map_or(table.at, |field| field.at());
    let fault = |key: &str, error: PolicyError| Fault::at(at(key), error.to_string());
    let written = Policy::new(entry.key, limits).and_then(|policy| policy.with_mode(mode));
    let written = written.map(|policy| policy.with_shadow(shadow));
    let written = faults.keep(written.map_err(|error| fault("limits", error)))?;
    let scaled = written.scaled(entry.key, factor).map_err(|error| fault("factor", error));
    let policy = Arc::new(faults.keep(scaled)?);
    let tiers = read_tiers(&table, &written, factor, &policy);
    let (override_places, overrides): (Vec<usize>, Vec<_>) =
        read_overrides(&table, &policy).into_iter().unzip();
    let lease = read_lease(&table);
    if policy.counts_several() && lease.is_some() {
        let message = "`lease` takes units of one kind from the store, but these limits count several; remove one of them";
        table.fault_at(at("lease"), message);
    }
    refuse_too_many(&table, &tiers, overrides.len(), max_sharing);
    let (exempt, block) = (table.texts("exempt"), table.texts("block"));
    let rollout = table.verified("rollout", Field::percent).unwrap_or(Rollout::EVERYBODY);
    let mut scope =
        Scope::new(policy).with_rollout(rollout).with_exempt(&exempt).with_block(&block);
    for tier in &tiers {
        scope = scope.with_tier(&tier.name, Arc::clone(&tier.policy));
        scope = scope.with_tier_factor(&tier.name, tier.factor);
    }
    if let Some(name) = read_default_tier(&table) {
        scope = scope.with_default_tier(name);
    }
    for (key, policy) in &overrides {
        scope = scope.with_override(key, Arc::clone(policy));
    }
    let on_store_error = table.verified("on_store_error", Field::word);
    let on_store_error = on_store_error.and_then(OnStoreError::parse).unwrap_or_default();
    let on_full =
        table.verified("on_full", Field::word).and_then(OnFull::parse).unwrap_or_default();
    let local_for = table.verified("local_for", Field::micros).map(Micros::duration);
    if local_for.is_some() && on_store_error != OnStoreError::Local {
        let choice = on_store_error.name();
        let message = format!(
            "`local_for` belongs to `on_store_error = \"local\"`, which is {choice:?} here; remove one of them"
        );
        table.fault_at(at("local_for"), message);
    }
    name.map(|()| PolicyConfig {
        scope,
        key: table.texts("key"),
        headers: table
            .verified("headers", Field::word)
            .and_then(HeaderStyle::parse)
            .unwrap_or_default(),
        jitter: table.verified("jitter", Field::jitter).unwrap_or_default(),
        serving: Serving::new(on_store_error)
            .with_local_for(local_for)
            .with_lease(lease)
            .with_on_full(on_full),
        factor,
        tiers,
        exempt,
        block,
        places: Places {
            name: entry.at,
            limits: places,
            lease: table.own_field("lease").map(|field| field.at()),
            overrides: override_places,
        },
        overrides,
        disabled,
    })
}

/// The longest name of a policy.
const MAX_NAME: usize = 64;

fn accept_name(entry: &Entry<'_>) -> Result<(), Fault> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_./:-".contains(&byte);
    let is_plain = (1..=MAX_NAME).contains(&entry.key.len()) && entry.key.bytes().all(plain);
    // No client sends `/v1/policies/..`.
    if is_plain && ![".", ".."].contains(&entry.key) {
        return Ok(());
    }
    let message = format!(
        "the name of a policy must be 1 to {MAX_NAME} of A-Z, a-z, 0-9, `_`, `.`, `/`, `:` and `-`, and not `.` or `..`; found {}",
        quoted(entry.key)
    );
    Err(Fault::at(entry.at, message))
}

/// Response headers and problems call a limit `policy.limit`, and both may have dots.
pub(crate) fn refuse_twins(entries: &[Entry<'_>], policies: &[PolicyConfig]) {
    let mut seen = HashMap::new();
    for policy in policies {
        for limit in policy.limits() {
            let full = format!("{}.{}", policy.name(), limit.name());
            let Some(other) = seen.insert(full, policy.name()) else { continue };
            let Some(entry) = entries.iter().find(|entry| entry.key == policy.name()) else {
                continue;
            };
            let message = format!(
                "limit `{}` of policy `{}` and a limit of policy `{other}` are both `{}.{}` in response headers; rename one of them",
                limit.name(),
                policy.name(),
                policy.name(),
                limit.name(),
            );
            entry.field.faults.push(Fault::at(entry.at, message));
        }
    }
}

fn accept_field_name(name: &str) -> Result<(), String> {
    if name.is_empty() {
        Err("must name request fields; found an empty name".to_owned())
    } else {
        Ok(())
    }
}

fn read_lease(table: &Table<'_>) -> Option<Lease> {
    if table.is_text("lease", "auto") {
        return Some(Lease::Auto);
    }
    let lease = table.verified("lease", |field| field.table("`lease`", LEASE))?;
    lease.needs("size");
    lease.needs("ttl");
    let (size, ttl) = (lease.verified("size", Field::whole), lease.verified("ttl", Field::micros));
    Some(Lease::new(size?, ttl?.duration()))
}

/// In the order of the file; without those that have a fault.
fn read_overrides(table: &Table<'_>, policy: &Policy) -> Vec<(usize, (String, Arc<Policy>))> {
    let entries = table.verified("overrides", Field::entries).unwrap_or_default();
    let own = |entry: &Entry<'_>| {
        let LimitList { limits, .. } = read_list(&entry.field, policy.mode())?;
        if let Some(message) = other_units(&limits, policy.limits()) {
            entry.field.faults.push(Fault::at(entry.field.at(), message));
        }
        // Names get into logs; keys must not.
        let name = format!("{}@key:{:x}", policy.name(), Sha256::digest(entry.key));
        let own = variant(policy, &name, &limits)
            .map_err(|error| Fault::at(entry.field.at(), error.to_string()));
        Some((entry.at, (entry.key.to_owned(), Arc::new(entry.field.faults.keep(own)?))))
    };
    entries.iter().filter_map(own).collect()
}

/// Why the limits of an override cannot replace those of the policy: they must count the same units, because callers
/// state costs in the policy's units.
#[must_use]
pub fn other_units(limits: &[Limit], instead_of: &[Limit]) -> Option<String> {
    let units = |limits: &[Limit]| -> BTreeSet<String> {
        limits.iter().map(|limit| limit.unit().to_owned()).collect()
    };
    let (own, of_policy) = (units(limits), units(instead_of));
    let differ = own != of_policy && (own.len() > 1 || of_policy.len() > 1);
    differ.then(|| {
        let list = |units: BTreeSet<String>| {
            units.iter().map(|unit| format!("`{unit}`")).collect::<Vec<_>>().join(" and ")
        };
        format!(
            "the limits of an override must count the same units as the policy, {}; found {}",
            list(of_policy),
            list(own)
        )
    })
}

/// Redis bounds how many policies share their keys.
fn refuse_too_many(
    table: &Table<'_>,
    tiers: &[TierConfig],
    overrides: usize,
    max_sharing: Option<usize>,
) {
    let needed = tiers.iter().filter(|tier| tier.is_shared()).count();
    let key = if needed > 0 { "tiers" } else { "overrides" };
    if let (Some(most), Some(field)) = (max_sharing, table.field(key))
        && 1 + overrides + needed > most
    {
        let message = format!(
            "`tiers` and `overrides` are too many: in Redis at most {most} policies share their keys, which are this \
             one, {overrides} of `overrides` and {needed} of `tiers` (those with a factor of 0 or 1 \
             need none); remove some"
        );
        table.fault_at(field.at(), message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(key: &str) -> &'static [&'static str] {
        match KEYS.iter().find(|known| known.name == key).map(|key| &key.shape) {
            Some(Shape::Word(words)) => words,
            _ => panic!("`{key}` is no word"),
        }
    }

    /// The words of the schema are those that the library knows.
    #[test]
    fn words_are_those_of_the_library() {
        let styles: Vec<&str> = HeaderStyle::ALL.iter().map(|style| style.name()).collect();
        assert_eq!(words("headers"), styles);
        let choices = OnStoreError::ALL.map(OnStoreError::name);
        assert_eq!(words("on_store_error"), choices);
        assert_eq!(words("on_full"), OnFull::ALL.map(OnFull::name));
        let modes = [Mode::Binary, Mode::Partial, Mode::CountRefusals].map(Mode::name);
        assert_eq!(words("mode")[..3], modes);
        assert!(words("mode").iter().all(|word| Mode::parse(word).is_some()));
    }
}
