//! What a policy says once it is read: defaults filled in, durations in microseconds.

#![allow(missing_docs, reason = "the names are those of the keys in the file")]

use sha2::{Digest, Sha256};
use waterclock::{Factor, Policy, Rollout, Scope};

use super::build;
use super::duration::Micros;

/// A policy as the file describes it.
#[derive(Debug, Clone)]
pub struct PolicyConfig {
    pub name: String,
    pub key: Vec<String>,
    pub mode: &'static str,
    pub headers: &'static str,
    pub on_store_error: &'static str,
    pub shadow: bool,
    /// The share of keys that is limited; the others are in shadow.
    pub rollout: Rollout,
    /// By which the limits have been multiplied already.
    pub factor: Factor,
    pub limits: Vec<LimitSpec>,
    /// Who is limited by other numbers, in the order of the file.
    pub tiers: Vec<TierConfig>,
    /// Old three-number limits that say nothing, by the name they would have had.
    pub disabled: Vec<String>,
    /// Keys, or networks of address keys, that are never limited.
    pub exempt: Vec<String>,
    /// Keys, or networks of address keys, that are always refused.
    pub block: Vec<String>,
    /// Limits of their own for single keys, in the order of the file.
    pub overrides: Vec<(String, Vec<LimitSpec>)>,
    /// Units taken from a shared store at a time, and for how long.
    pub lease: Option<(u64, Micros)>,
    /// What decides.
    pub built: Policy,
}

impl PolicyConfig {
    /// What decides about a caller of a tier: the policy itself if it does not know the tier.
    #[must_use]
    pub fn under(&self, tier: Option<&str>) -> &Policy {
        let named =
            |known: &&TierConfig| Some(known.name.as_str()) == tier && !known.factor.is_one();
        self.tiers.iter().find(named).map_or(&self.built, |tier| &tier.built)
    }

    /// Which of the policy's numbers apply to which keys. The error is a sentence.
    pub fn scope(&self) -> Result<Scope, String> {
        let mut scope = Scope::new(self.built.clone())
            .with_rollout(self.rollout)
            .with_exempt(&self.exempt)
            .with_block(&self.block);
        for tier in self.tiers.iter().filter(|tier| !tier.factor.is_one()) {
            scope = scope.with_tier(&tier.name, tier.built.clone());
        }
        for (key, limits) in &self.overrides {
            let name = format!("{}@key:{:x}", self.name, Sha256::digest(key));
            let policy = build::policy(&name, limits, self.mode, self.shadow)?;
            scope = scope.with_override(key, policy);
        }
        Ok(scope)
    }

    /// Tiers that share keys with the policy: a store has to know them.
    pub fn shared_tiers(&self) -> impl Iterator<Item = &TierConfig> {
        self.tiers.iter().filter(|tier| tier.is_shared())
    }

    /// Whether a key is limited, or in shadow until the policy is rolled out to it.
    #[must_use]
    pub fn enrols(&self, key: &[u8]) -> bool {
        self.rollout.enrols(&self.name, key)
    }
}

/// A tier as the file describes it.
#[derive(Debug, Clone)]
pub struct TierConfig {
    pub name: String,
    pub factor: Factor,
    /// The policy's limits by its factor and this one.
    pub limits: Vec<LimitSpec>,
    /// What decides.
    pub built: Policy,
}

impl TierConfig {
    /// Whether it shares keys with the policy under numbers of its own.
    pub fn is_shared(&self) -> bool {
        !self.factor.is_one() && !self.limits.is_empty()
    }
}

/// A limit as the file describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitSpec {
    pub name: String,
    pub algorithm: AlgorithmSpec,
    pub min_interval: Option<Micros>,
    pub unit: String,
    pub shadow: bool,
}

/// An algorithm with its numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AlgorithmSpec {
    Gcra {
        limit: u64,
        per: Micros,
        capacity: u64,
        overdraft: bool,
    },
    LeakyBucket {
        capacity: u64,
        drip: u64,
        every: Micros,
        overdraft: bool,
    },
    FixedWindow {
        limit: u64,
        window: Window,
    },
    SlidingWindow {
        limit: u64,
        per: Micros,
    },
    RollingWindow {
        limit: u64,
        per: Micros,
        buckets: Option<u64>,
    },
    Quota {
        limit: u64,
        per: Micros,
    },
    EvenSlots {
        limit: u64,
        per: Micros,
    },
    MinInterval {
        every: Micros,
    },
    /// The threshold in hundredths of a percent.
    ErrorRate {
        threshold: u64,
        per: Micros,
        min_samples: u64,
        cool_down: Micros,
    },
    Concurrency {
        limit: u64,
        lease: Micros,
    },
}

/// Where the windows of a fixed window start and how long they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Window {
    /// With the first admitted cost.
    First(Micros),
    /// At multiples of the period since the Unix epoch.
    Epoch(Micros),
    /// With the day, week, month or year of a time zone.
    Calendar { per: &'static str, timezone: String },
}

impl AlgorithmSpec {
    /// The one name under which normalised policies know it.
    pub fn word(&self) -> &'static str {
        match self {
            AlgorithmSpec::Gcra { .. } => "gcra",
            AlgorithmSpec::LeakyBucket { .. } => "leaky-bucket",
            AlgorithmSpec::FixedWindow { .. } => "fixed-window",
            AlgorithmSpec::SlidingWindow { .. } => "sliding-window",
            AlgorithmSpec::RollingWindow { .. } => "rolling-window",
            AlgorithmSpec::Quota { .. } => "quota",
            AlgorithmSpec::EvenSlots { .. } => "even-slots",
            AlgorithmSpec::MinInterval { .. } => "min-interval",
            AlgorithmSpec::ErrorRate { .. } => "error-rate",
            AlgorithmSpec::Concurrency { .. } => "concurrency",
        }
    }

    /// Whether it can record what it refuses, as `mode = "uniform"` asks.
    pub fn records_refusals(&self) -> bool {
        matches!(
            self,
            AlgorithmSpec::FixedWindow { .. }
                | AlgorithmSpec::SlidingWindow { .. }
                | AlgorithmSpec::RollingWindow { .. }
        )
    }
}
