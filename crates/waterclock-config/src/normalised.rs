//! Policies as numbers: defaults filled in, every duration in microseconds, nothing disabled.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use waterclock::Rollout;

use super::{AlgorithmSpec, Config, LimitSpec, Micros, PolicyConfig, TierConfig, Window};

/// What `validate --json` prints.
#[derive(Serialize)]
pub struct Normalised<'a> {
    policies: Policies<'a>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    warnings: &'a [String],
}

impl<'a> Normalised<'a> {
    /// The policies of a configuration, and what is odd about them.
    #[must_use]
    pub fn new(config: &'a Config, warnings: &'a [String]) -> Normalised<'a> {
        Normalised { policies: Policies(&config.policies), warnings }
    }
}

/// A map from names, in the order of the file.
struct Policies<'a>(&'a [PolicyConfig]);

impl Serialize for Policies<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for policy in self.0 {
            map.serialize_entry(&policy.name, &Policy::new(policy))?;
        }
        map.end()
    }
}

/// One policy, without its name.
#[derive(Serialize)]
pub struct Policy<'a> {
    mode: &'static str,
    #[serde(skip_serializing_if = "is_false")]
    shadow: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    rollout: Option<String>,
    limits: Vec<Limit<'a>>,
    #[serde(skip_serializing_if = "Tiers::is_empty")]
    tiers: Tiers<'a>,
}

impl<'a> Policy<'a> {
    /// As `/v1/policies` shows it.
    #[must_use]
    pub fn new(policy: &'a PolicyConfig) -> Policy<'a> {
        Policy {
            mode: policy.mode,
            shadow: policy.shadow,
            rollout: (!policy.rollout.is_everybody()).then(|| percent(policy.rollout)),
            limits: policy.limits.iter().map(Limit::new).collect(),
            tiers: Tiers(&policy.tiers),
        }
    }
}

/// A map from names to limits, in the order of the file.
struct Tiers<'a>(&'a [TierConfig]);

impl Tiers<'_> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Serialize for Tiers<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for tier in self.0 {
            let limits = tier.limits.iter().map(Limit::new).collect();
            map.serialize_entry(&tier.name, &Tier { limits })?;
        }
        map.end()
    }
}

/// One tier, without its name.
#[derive(Serialize)]
struct Tier<'a> {
    limits: Vec<Limit<'a>>,
}

/// A share as a file would have it.
#[must_use]
pub fn percent(share: Rollout) -> String {
    percent_of(share.hundredths().into())
}

/// So many hundredths of a percent as a file would have them.
#[must_use]
pub fn percent_of(hundredths: u64) -> String {
    let (whole, rest) = (hundredths / 100, hundredths % 100);
    match rest {
        0 => format!("{whole}%"),
        _ => format!("{}%", format!("{whole}.{rest:02}").trim_end_matches('0')),
    }
}

/// Only what the limit's algorithm has, and switches only when they are on.
#[derive(Serialize, Default)]
pub struct Limit<'a> {
    name: &'a str,
    algorithm: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    per_us: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    per: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    capacity: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    drip: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    every_us: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    buckets: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    threshold: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    min_samples: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cool_down_us: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lease_us: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    align: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timezone: Option<&'a str>,
    #[serde(skip_serializing_if = "is_false")]
    overdraft: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    min_interval_us: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unit: Option<&'a str>,
    #[serde(skip_serializing_if = "is_false")]
    shadow: bool,
}

impl<'a> Limit<'a> {
    /// As one of a policy's limits.
    #[must_use]
    pub fn new(spec: &'a LimitSpec) -> Limit<'a> {
        Limit {
            name: &spec.name,
            algorithm: spec.algorithm.word(),
            min_interval_us: spec.min_interval.map(|interval| interval.0),
            unit: Some(spec.unit.as_str()).filter(|unit| *unit != "requests"),
            shadow: spec.shadow,
            ..Limit::numbers(&spec.algorithm)
        }
    }

    fn numbers(algorithm: &'a AlgorithmSpec) -> Limit<'a> {
        let rate = |limit: u64, per: Micros| Limit {
            limit: Some(limit),
            per_us: Some(per.0),
            ..Limit::default()
        };
        match algorithm {
            AlgorithmSpec::Gcra { limit, per, capacity, overdraft } => {
                Limit { capacity: Some(*capacity), overdraft: *overdraft, ..rate(*limit, *per) }
            }
            AlgorithmSpec::LeakyBucket { capacity, drip, every, overdraft } => Limit {
                capacity: Some(*capacity),
                drip: Some(*drip),
                every_us: Some(every.0),
                overdraft: *overdraft,
                ..Limit::default()
            },
            AlgorithmSpec::FixedWindow { limit, window: Window::First(per) } => rate(*limit, *per),
            AlgorithmSpec::FixedWindow { limit, window: Window::Epoch(per) } => {
                Limit { align: Some("epoch"), ..rate(*limit, *per) }
            }
            AlgorithmSpec::FixedWindow { limit, window: Window::Calendar { per, timezone } } => {
                Limit {
                    limit: Some(*limit),
                    per: Some(per),
                    align: Some("calendar"),
                    timezone: Some(timezone),
                    ..Limit::default()
                }
            }
            AlgorithmSpec::RollingWindow { limit, per, buckets } => {
                Limit { buckets: *buckets, ..rate(*limit, *per) }
            }
            AlgorithmSpec::SlidingWindow { limit, per }
            | AlgorithmSpec::Quota { limit, per }
            | AlgorithmSpec::EvenSlots { limit, per } => rate(*limit, *per),
            AlgorithmSpec::MinInterval { every } => {
                Limit { every_us: Some(every.0), ..Limit::default() }
            }
            AlgorithmSpec::ErrorRate { threshold, per, min_samples, cool_down } => Limit {
                threshold: Some(percent_of(*threshold)),
                per_us: Some(per.0),
                min_samples: Some(*min_samples),
                cool_down_us: Some(cool_down.0),
                ..Limit::default()
            },
            AlgorithmSpec::Concurrency { limit, lease } => {
                Limit { limit: Some(*limit), lease_us: Some(lease.0), ..Limit::default() }
            }
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(flag: &bool) -> bool {
    !flag
}
