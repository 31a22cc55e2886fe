//! What a server says of itself at one instant, as `/v1/live` has it.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};

use crate::visible::visible;

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Snapshot {
    /// Microseconds since the Unix epoch.
    pub(super) at_us: u64,
    pub(super) uptime_us: u64,
    #[serde(deserialize_with = "harmless")]
    pub(super) version: String,
    #[serde(deserialize_with = "harmless")]
    pub(super) phase: String,
    pub(super) store: StoreState,
    pub(super) config: Configuration,
    #[serde(deserialize_with = "harmless_map")]
    pub(super) connections: BTreeMap<String, i64>,
    pub(super) totals: Totals,
    pub(super) policies: Vec<PolicyTotals>,
    pub(super) refused: Refused,
}

impl Snapshot {
    /// What a policy has decided so far, if there is one of this name.
    pub(super) fn totals_of(&self, name: &str) -> Option<Totals> {
        self.policies.iter().find(|policy| policy.name == name).map(|policy| policy.totals)
    }

    /// How many keys a policy knows, which only a store in the server's own memory can tell.
    pub(super) fn keys_of(&self, policy: &PolicyTotals) -> String {
        if self.store.name == "memory" { policy.keys.to_string() } else { "–".to_owned() }
    }
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct StoreState {
    #[serde(deserialize_with = "harmless")]
    pub(super) name: String,
    pub(super) degraded: bool,
    /// Failures so far, by kind.
    #[serde(deserialize_with = "harmless_map")]
    pub(super) errors: BTreeMap<String, u64>,
    /// Charges of keys that found no place of their own.
    pub(super) overflowed: u64,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Configuration {
    #[serde(deserialize_with = "harmless")]
    pub(super) file: String,
    pub(super) generation: u64,
    pub(super) last_reload: LastReload,
    #[serde(deserialize_with = "harmless_list")]
    pub(super) needs_restart: Vec<String>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct LastReload {
    pub(super) success: bool,
    pub(super) at_us: u64,
    #[serde(deserialize_with = "harmless_list")]
    pub(super) problems: Vec<String>,
}

/// Decisions since the server started.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(super) struct Totals {
    pub(super) allow: u64,
    pub(super) deny: u64,
    pub(super) shadow_deny: u64,
    pub(super) error: u64,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct PolicyTotals {
    #[serde(deserialize_with = "harmless")]
    pub(super) name: String,
    pub(super) totals: Totals,
    pub(super) keys: u64,
    pub(super) reservations: u64,
    pub(super) limits: Vec<LimitSize>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct LimitSize {
    #[serde(deserialize_with = "harmless")]
    pub(super) name: String,
    pub(super) limit: Option<u64>,
}

/// The keys that are refused most.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Refused {
    #[serde(deserialize_with = "harmless")]
    pub(super) shown: String,
    pub(super) keys: Vec<RefusedKey>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct RefusedKey {
    #[serde(deserialize_with = "harmless")]
    pub(super) policy: String,
    #[serde(deserialize_with = "harmless")]
    pub(super) key: String,
    pub(super) refusals: u64,
}

/// Names and keys are others' words: clients choose keys, and terminals obey what they are told.
fn harmless<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Ok(visible(&String::deserialize(deserializer)?))
}

fn harmless_list<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let list: Vec<String> = Vec::deserialize(deserializer)?;
    Ok(list.iter().map(|text| visible(text)).collect())
}

fn harmless_map<'de, D, T>(deserializer: D) -> Result<BTreeMap<String, T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    let map: BTreeMap<String, T> = BTreeMap::deserialize(deserializer)?;
    Ok(map.into_iter().map(|(name, value)| (visible(&name), value)).collect())
}
