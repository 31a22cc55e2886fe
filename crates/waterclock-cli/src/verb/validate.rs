//! `waterclock validate`: what a file means, and what may surprise.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use serde_json::Value;
use waterclock_config::english::{Warning, budgets, describe, describe_rule, warnings};
use waterclock_config::{
    Config, LimitFields, Pattern, PolicyConfig, PolicyJson, RuleCharge, RuleConfig, RuleMatch, Then,
};
use waterclock_server::{Outside, examine};

use super::block_on;
use crate::configuration::load;
use crate::output::{Failure, described, print_json, warn};

/// Say in plain English what each policy of a file means, and warn about surprises.
///
/// What `serve` would refuse is refused here, with line and column. Exit code 0 if the file is valid, 2 if it is not,
/// and with --deny-warnings 1 if it is valid and there are warnings.
#[derive(clap::Args)]
pub(crate) struct Validate {
    /// The configuration [default: ./waterclock.toml]
    file: Option<PathBuf>,
    /// The same as FILE, as in the other commands
    #[arg(short, long, value_name = "FILE", conflicts_with = "file")]
    config: Option<PathBuf>,
    /// Also demand that the environment variables and files are there which the configuration names: secrets,
    /// certificates, the directory of the snapshot. Otherwise they are warnings, because the server may run elsewhere
    #[arg(long)]
    check_files: bool,
    /// Exit with code 1 if there are warnings
    #[arg(long)]
    deny_warnings: bool,
    /// Print the normalised policies and the rules as JSON
    #[arg(long)]
    json: bool,
}

impl Validate {
    pub(crate) fn run(&self) -> Result<ExitCode, Failure> {
        let config = load(self.file.as_deref().or(self.config.as_deref()))?;
        let outside = if self.check_files { Outside::Needed } else { Outside::Elsewhere };
        let not_checked = block_on(async { examine(&config, outside) })??;
        let mut warnings = warnings(&config);
        warnings.extend(not_checked);
        if self.json {
            print_json(&Account::new(&config, &warnings))?;
        } else {
            let mut out = anstream::stdout().lock();
            for policy in &config.policies {
                writeln!(out, "{}", described(&describe(policy)))?;
            }
            for rule in &config.rules {
                writeln!(out, "{}", described(&describe_rule(rule, &config.policies)))?;
            }
        }
        warnings.iter().for_each(|warning| warn(&warning.message));
        let is_denied = self.deny_warnings && !warnings.is_empty();
        Ok(if is_denied { ExitCode::from(1) } else { ExitCode::SUCCESS })
    }
}

#[derive(Serialize)]
/// A file for programs: the same facts as for people.
struct Account<'a> {
    policies: InOrder<'a, Policy<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    rules: Vec<Rule<'a>>,
    #[serde(skip_serializing_if = "<[Warning]>::is_empty")]
    warnings: &'a [Warning],
}

impl<'a> Account<'a> {
    fn new(config: &'a Config, warnings: &'a [Warning]) -> Account<'a> {
        let policy = |config: &'a PolicyConfig| (config.name(), Policy::new(config));
        Account {
            policies: InOrder(config.policies.iter().map(policy).collect()),
            rules: config.rules.iter().map(|rule| Rule::new(rule, &config.policies)).collect(),
            warnings,
        }
    }
}

/// A map in the order of the file.
struct InOrder<'a, T>(Vec<(&'a str, T)>);

impl<T> InOrder<'_, T> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<T: Serialize> Serialize for InOrder<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        self.0.iter().try_for_each(|(name, value)| map.serialize_entry(name, value))?;
        map.end()
    }
}

/// A policy without its name; settings and lists where they are not the default.
#[derive(Serialize)]
struct Policy<'a> {
    /// Modes, limits and tiers, with all defaults.
    #[serde(flatten)]
    numbers: Value,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    key: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    headers: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    jitter: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    on_store_error: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    on_full: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    local_for_us: Option<u128>,
    /// By which the limits have been multiplied already.
    #[serde(skip_serializing_if = "Option::is_none")]
    factor: Option<String>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    exempt: &'a [String],
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    block: &'a [String],
    #[serde(skip_serializing_if = "InOrder::is_empty")]
    overrides: InOrder<'a, Override>,
}

#[derive(Serialize)]
struct Override {
    limits: Vec<LimitFields>,
}

impl<'a> Policy<'a> {
    fn new(config: &'a PolicyConfig) -> Policy<'a> {
        let own = |(key, own): &'a (String, Arc<waterclock::Policy>)| {
            (&**key, Override { limits: own.limits().iter().map(LimitFields::from).collect() })
        };
        Policy {
            numbers: serde_json::to_value(PolicyJson::from(config)).unwrap_or_default(),
            key: &config.key,
            headers: Some(config.headers.name()).filter(|headers| *headers != "retry-after"),
            jitter: (!config.jitter.is_none()).then(|| config.jitter.to_string()),
            on_store_error: Some(config.serving.on_store_error.name())
                .filter(|then| *then != "local"),
            on_full: Some(config.serving.on_full.name()).filter(|then| *then != "evict"),
            local_for_us: config.serving.local_for.map(|time| time.as_micros()),
            factor: (!config.factor.is_one()).then(|| config.factor.to_string()),
            exempt: &config.exempt,
            block: &config.block,
            overrides: InOrder(config.overrides.iter().map(own).collect()),
        }
    }
}

/// A rule in the words of the file.
#[derive(Serialize)]
struct Rule<'a> {
    domain: &'a str,
    descriptor: Vec<Entry<'a>>,
    /// `contains`; left out where it is exact.
    #[serde(skip_serializing_if = "Option::is_none")]
    r#match: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<&'a str>,
    /// The entries that have a budget for each of their values.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<Vec<&'a str>>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    unlimited: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    refuse: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    charge: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unit: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    replaces: &'a [String],
}

#[derive(Serialize)]
struct Entry<'a> {
    key: &'a str,
    /// Any, if there is none; with a `*` at the end, all that begin so.
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
}

impl<'a> Rule<'a> {
    fn new(rule: &'a RuleConfig, policies: &'a [PolicyConfig]) -> Rule<'a> {
        let policy = match &rule.then {
            Then::Policy(name) => Some(&**name),
            Then::Unlimited | Then::Refuse => None,
        };
        let descriptor = rule.descriptor.iter().map(|entry| Entry {
            key: &entry.key,
            value: match &entry.value {
                Pattern::Any => None,
                Pattern::Exact(value) => Some(value.clone()),
                Pattern::Prefix(prefix) => Some(format!("{prefix}*")),
            },
        });
        Rule {
            domain: &rule.domain,
            descriptor: descriptor.collect(),
            r#match: (rule.matches != RuleMatch::Exact).then(|| rule.matches.name()),
            policy,
            key: policy.map(|policy| budgets(rule, policy, policies)),
            unlimited: rule.then == Then::Unlimited,
            refuse: rule.then == Then::Refuse,
            charge: (rule.charge != RuleCharge::Check).then(|| rule.charge.name()),
            unit: rule.unit.as_deref(),
            name: rule.name.as_deref(),
            replaces: &rule.replaces,
        }
    }
}
