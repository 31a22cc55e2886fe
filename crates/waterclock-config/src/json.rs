//! Policies as JSON: written by `validate --json` and `/v1/policies`, read by clients of the server.

use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;
use waterclock::{Detail, Limit, Mode, Policy, Rollout};

use super::error::Source;
use super::fields::{LimitFields, Percent};
use super::suggest::quoted;
use super::{Config, Invalid, PolicyConfig, TierConfig};

/// What `validate --json` prints: defaults filled in, durations in microseconds, nothing disabled.
#[derive(Serialize)]
pub struct PoliciesJson<'a> {
    #[serde(serialize_with = "by_name")]
    policies: &'a [PolicyConfig],
}

impl<'a> PoliciesJson<'a> {
    /// The policies of a configuration.
    #[must_use]
    pub fn new(config: &'a Config) -> PoliciesJson<'a> {
        PoliciesJson { policies: &config.policies }
    }
}

/// One policy, without its name.
#[derive(Serialize)]
pub struct PolicyJson<'a> {
    mode: &'static str,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    shadow: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    rollout: Option<String>,
    limits: Vec<LimitFields>,
    #[serde(skip_serializing_if = "<[TierConfig]>::is_empty", serialize_with = "tiers_by_name")]
    tiers: &'a [TierConfig],
    #[serde(skip_serializing_if = "Option::is_none")]
    default_tier: Option<&'a str>,
}

impl<'a> From<&'a PolicyConfig> for PolicyJson<'a> {
    fn from(config: &'a PolicyConfig) -> PolicyJson<'a> {
        let (policy, rollout) = (config.policy(), config.scope.rollout());
        PolicyJson {
            mode: policy.mode().name(),
            shadow: policy.is_shadow(),
            rollout: (!rollout.is_everybody()).then(|| percent(rollout)),
            limits: policy.limits().iter().map(LimitFields::from).collect(),
            tiers: &config.tiers,
            default_tier: config.scope.default_tier(),
        }
    }
}

/// A map in the order of the file.
fn by_name<S: Serializer>(policies: &&[PolicyConfig], serializer: S) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(policies.len()))?;
    for policy in *policies {
        map.serialize_entry(policy.name(), &PolicyJson::from(policy))?;
    }
    map.end()
}

fn tiers_by_name<S: Serializer>(tiers: &&[TierConfig], serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Tier {
        limits: Vec<LimitFields>,
    }
    let mut map = serializer.serialize_map(Some(tiers.len()))?;
    for tier in *tiers {
        let limits = tier.policy.limits().iter().map(LimitFields::from).collect();
        map.serialize_entry(&tier.name, &Tier { limits })?;
    }
    map.end()
}

/// A share of keys as a file has it: `"12.5%"`.
#[must_use]
pub fn percent(share: Rollout) -> String {
    Percent(share.hundredths().into()).to_string()
}

/// What `/v1/policies` answers, as a client reads it. Unknown fields are ignored.
#[derive(Debug, Deserialize)]
pub struct DescribedPolicies {
    policies: Vec<DescribedPolicy>,
}

#[derive(Debug, Deserialize)]
struct DescribedPolicy {
    name: String,
    mode: String,
    #[serde(default)]
    shadow: bool,
    limits: Vec<LimitFields>,
}

impl DescribedPolicies {
    /// Each policy's name, and the policy or why this client cannot use it.
    pub fn into_policies(self) -> impl Iterator<Item = (String, Result<Policy, Detail>)> {
        self.policies.into_iter().map(|described| {
            let policy = described.policy().map_err(|error| {
                let name = &described.name;
                let sentence =
                    format!("the server's policy `{name}` cannot be used by this client: {error}");
                Detail::from(sentence).caused_by(error)
            });
            (described.name, policy)
        })
    }
}

impl DescribedPolicy {
    fn policy(&self) -> Result<Policy, Detail> {
        let mode = Mode::parse(&self.mode)
            .ok_or_else(|| Detail::from(format!("unknown mode `{}`", self.mode)))?;
        let limit = |fields: &LimitFields| {
            fields.limit().map_err(|error| {
                Detail::from(format!("limit `{}`: {error}", fields.name)).caused_by(error)
            })
        };
        let limits = self.limits.iter().map(limit).collect::<Result<Vec<Limit>, Detail>>()?;
        let policy = Policy::new(&self.name, limits).and_then(|policy| policy.with_mode(mode));
        policy.map(|policy| policy.with_shadow(self.shadow)).map_err(Detail::of)
    }
}

/// Limits in JSON as a file has them: shorthand, or tables with the same keys.
///
/// # Errors
///
/// The first problem, without a place.
pub fn read_limits(limits: &[Value], mode: Mode) -> Result<Vec<Limit>, Invalid> {
    use std::fmt::Write as _;
    let mut text = format!("policies.it.mode = \"{}\"\npolicies.it.limits = [", mode.name());
    for limit in limits {
        write_toml(limit, &mut text)?;
        _ = text.write_char(',');
    }
    text.push(']');
    let config = parse_unseen("limits", text)?;
    Ok(config.policies.first().map(|policy| policy.limits().to_vec()).unwrap_or_default())
}

/// A policy in JSON as a file has it: an object with the keys of the policy's table.
///
/// # Errors
///
/// The first problem, without a place.
pub fn read_policy(name: &str, policy: &Value) -> Result<PolicyConfig, Invalid> {
    let Value::Object(entries) = policy else {
        return Err(format!(
            "policy {} must be an object with `limits`, as in the file",
            quoted(name)
        )
        .into());
    };
    let mut text = format!("[policies.{}]\n", Value::from(name));
    for (key, value) in entries {
        text.push_str(&format!("{} = ", Value::from(key.as_str())));
        write_toml(value, &mut text).map_err(|error| format!("{}: {error}", quoted(key)))?;
        text.push('\n');
    }
    let config = parse_unseen("policy", text)?;
    let policy = config.policies.into_iter().next();
    policy.ok_or_else(|| format!("policy {} is missing", quoted(name)).into())
}

/// Parses a text that the caller has not seen, so that places in it mean nothing. The first problem.
fn parse_unseen(name: &str, text: String) -> Result<Config, Invalid> {
    Config::parse(&Source::new(name, text)).map_err(|invalid| {
        let first = invalid.problems().first();
        Invalid::from(first.map(|problem| problem.message.clone()).unwrap_or_default())
    })
}

fn write_toml(value: &Value, text: &mut String) -> Result<(), String> {
    match value {
        // JSON strings and keys, with their escapes, are TOML as well.
        Value::String(_) | Value::Number(_) | Value::Bool(_) => text.push_str(&value.to_string()),
        Value::Object(entries) => {
            text.push('{');
            for (index, (key, value)) in entries.iter().enumerate() {
                text.push_str(if index == 0 { "" } else { "," });
                text.push_str(&Value::String(key.clone()).to_string());
                text.push_str(" = ");
                write_toml(value, text)?;
            }
            text.push('}');
        }
        Value::Array(values) => {
            text.push('[');
            for value in values {
                write_toml(value, text)?;
                text.push(',');
            }
            text.push(']');
        }
        Value::Null => return Err("null is no value here; leave the key out".to_owned()),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const EVERY_KIND: &str = r#"
policies.p.limits = [
  { algorithm = "gcra", limit = 3, per = "1s", capacity = 5 },
  { name = "fast", algorithm = "gcra", limit = 1_000_000, per = "1s", overdraft = true },
  { algorithm = "leaky-bucket", capacity = 10, every = "70ms" },
  { name = "gush", algorithm = "leaky-bucket", capacity = 10, drip = 3, every = "1s", overdraft = true },
  { algorithm = "fixed-window", limit = 7, per = "1s", min_interval = "7us" },
  { name = "epoch", algorithm = "fixed-window", limit = 7, per = "1s", align = "epoch" },
  { name = "month", algorithm = "fixed-window", limit = 7, per = "month", align = "calendar" },
  "5/s sliding-window", "5/s rolling-window", "5/s quota", "5/s even-slots",
  { name = "cells", algorithm = "rolling-window", limit = 100_000, per = "1h", buckets = 60 },
  { algorithm = "min-interval", every = "13us" },
  { algorithm = "error-rate", threshold = "12.5%", per = "1m", min_samples = 9, cool_down = "5s" },
  { algorithm = "concurrency", limit = 5, lease = "30s" },
]
"#;

    /// Text, policy, JSON, policy: the same at every factor.
    #[test]
    fn json_is_read_as_it_is_written() {
        for factor in ["0.001", "0.3", "0.5", "1", "1.1", "2", "7.77", "1000"] {
            let text = format!("{EVERY_KIND}\npolicies.p.factor = {factor}");
            let config = Config::read("test", &text).unwrap();
            let written = &config.policies[0];
            let mut json = json!(PolicyJson::from(written));
            json["name"] = json!("p");
            let answer = json!({ "policies": [json] }).to_string();
            let described: DescribedPolicies = serde_json::from_str(&answer).unwrap();
            let (name, read) = described.into_policies().next().unwrap();
            assert_eq!((&*name, &read.unwrap()), ("p", &**written.policy()), "{factor}");
            assert_eq!(written.limits().len(), 15);
        }
    }

    #[test]
    fn a_policy_in_json_is_that_of_a_file() {
        let given = json!({
            "key": ["user", "api"], "mode": "nary", "headers": "ietf", "rollout": "50%", "on_store_error": "deny",
            "tiers": { "pro": { "factor": 0.5 } }, "exempt": ["a\u{7}\"b\\", "ü"], "overrides": { "k y": ["1/s"] },
            "limits": ["5/m", { "algorithm": "quota", "limit": 5, "per": "1h" }],
        });
        let file = r#"
            [policies.p]
            key = ["user", "api"]
            mode = "nary"
            headers = "ietf"
            rollout = "50%"
            on_store_error = "deny"
            tiers.pro.factor = 0.5
            exempt = ["a\u0007\"b\\", "ü"]
            overrides."k y" = ["1/s"]
            limits = ["5/m", { algorithm = "quota", limit = 5, per = "1h" }]
        "#;
        let read = read_policy("p", &given).unwrap();
        let written = &Config::read("f", file).unwrap().policies[0];
        assert_eq!(json!(PolicyJson::from(&read)), json!(PolicyJson::from(written)));
        assert_eq!((read.policy(), &read.overrides), (written.policy(), &written.overrides));
        assert_eq!((&read.key, read.headers), (&written.key, written.headers));
        assert_eq!((&read.exempt, read.serving), (&written.exempt, written.serving));
    }

    #[test]
    fn a_bad_policy_in_json_is_one_sentence() {
        let refused = [
            (json!([]), "must be an object"),
            (json!({}), "`limits`"),
            (json!({ "limits": ["5/m"], "mod": "nary" }), "unknown key `mod`"),
            (json!({ "limits": ["5/m"], "mode": null }), "\"mode\": null"),
            (json!({ "limits": ["5/x"] }), "unknown period"),
            (json!({ "limits": ["5/m"], "x\"] [server] http": 1 }), "unknown key"),
        ];
        for (policy, part) in refused {
            let error = read_policy("p", &policy).unwrap_err().to_string();
            assert!(error.contains(part) && !error.contains('\n'), "{policy}: {error}");
        }
        let bad_name = read_policy("a\nb", &json!({ "limits": ["5/m"] })).unwrap_err().to_string();
        assert!(bad_name.contains("name of a policy"), "{bad_name}");
    }

    #[test]
    fn reads_what_a_file_would_say() {
        let limits = [json!("100/s"), json!({"algorithm": "quota", "limit": 5, "per": "1m"})];
        assert_eq!(read_limits(&limits, Mode::Binary).unwrap().len(), 2);
        let misspelt = json!({"algorithm": "quota", "limt": 5, "per": "1m"});
        let error = read_limits(&[misspelt], Mode::Binary).unwrap_err().to_string();
        assert!(error.starts_with("unknown key `limt`"), "{error}");
        assert!(read_limits(&[json!(null)], Mode::Binary).is_err());
        assert!(read_limits(&[json!("1/s\"]\nx=1")], Mode::Binary).is_err());
    }
}
