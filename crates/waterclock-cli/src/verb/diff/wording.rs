//! What two files say differently, policy by policy, in plain English.

use waterclock_config::{Config, PolicyConfig};

use waterclock_config::english::describe;

/// A policy that one file describes otherwise than the other.
pub(super) struct Rewording {
    pub(super) policy: String,
    /// Lines that only the old file says.
    pub(super) removed: Vec<String>,
    /// Lines that only the new one says.
    pub(super) added: Vec<String>,
    is_in: (bool, bool),
}

impl Rewording {
    pub(super) fn kind(&self) -> &'static str {
        match self.is_in {
            (true, false) => "removed",
            (false, _) => "added",
            (true, true) => "changed",
        }
    }
}

/// In the order of the old file, then of the new.
pub(super) fn rewordings(old: &Config, new: &Config) -> Vec<Rewording> {
    let find = |config: &Config, name: &str| {
        config.policies.iter().find(|policy| policy.name == name).map(said)
    };
    let only_new = new.policies.iter().filter(|policy| find(old, &policy.name).is_none());
    let names = old.policies.iter().chain(only_new).map(|policy| &policy.name);
    let reword = |name: &String| {
        let (was, is) = (find(old, name), find(new, name));
        let is_in = (was.is_some(), is.is_some());
        let (was, is) = (was.unwrap_or_default(), is.unwrap_or_default());
        let only = |one: &[String], other: &[String]| -> Vec<String> {
            one.iter().filter(|line| !other.contains(line)).cloned().collect()
        };
        Rewording { policy: name.clone(), removed: only(&was, &is), added: only(&is, &was), is_in }
    };
    let differs = |one: &Rewording| !one.removed.is_empty() || !one.added.is_empty();
    names.map(reword).filter(differs).collect()
}

/// All that a policy says.
fn said(policy: &PolicyConfig) -> Vec<String> {
    let mut lines: Vec<String> = describe(policy).lines().map(str::to_owned).collect();
    if let Some((size, ttl)) = policy.lease {
        lines.push(format!("  leases of {size} for {ttl}"));
    }
    lines
}
