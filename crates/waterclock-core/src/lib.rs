//! The algorithms of Waterclock: a rate-limit decision is a pure function of (limit, state, now, cost).
//!
//! This crate owns that function and nothing else. It reads no clock, does no I/O, uses integers
//! only, and never panics. Stores (in the `waterclock` crate and its companions) only decide where
//! the state lives and how the function is applied atomically.
//!
//! | algorithm | state | published bound on cost admitted in any window of length D ≤ P |
//! |---|---|---|
//! | [`Gcra`] (token bucket) | 1–2 words | capacity + rate·D |
//! | [`LeakyBucket`] with drip > 1 | 2 words | capacity + drip·⌈D / every⌉ |
//! | [`FixedWindow`] | 2 words | 2·limit (first, epoch and calendar alignment) |
//! | [`SlidingWindow`] | 3 words | < 2·limit |
//! | [`RollingWindow`] | a log | limit — the only one that is exact per window |
//! | [`Quota`] | 2 words | limit + ⌈limit·D / P⌉ |
//! | [`EvenSlots`] | 1 word | ⌈limit·D / P + 1/2⌉ events |
//! | [`MinInterval`] | 1 word | ⌈D / every⌉ events |
//! | [`Concurrency`] | a log | limit held at any instant |
//! | [`ErrorRate`] | 2 words and a log | while open, one event in each cool-down; closed, anything |
//!
//! The proof of each bound is at the top of the algorithm's file.
#![no_std]
#![cfg_attr(docsrs, feature(doc_cfg))]

extern crate alloc;

mod algorithm;
mod arith;
mod bound;
mod cost;
#[cfg(feature = "serde")]
mod cost_text;
mod decimal;
mod decision;
mod error;
mod factor;
mod legacy;
mod limit;
mod limit_set;
mod numbers;
mod policy;
mod price;
mod rollout;
mod room;
mod scale;
mod share;
pub mod store;
mod time;

pub use algorithm::Algorithm;
pub use algorithm::concurrency::Concurrency;
pub use algorithm::error_rate::{ErrorRate, Outcome};
pub use algorithm::even_slots::EvenSlots;
pub use algorithm::fixed_window::{Align, Calendar, CalendarUnit, FixedWindow};
pub use algorithm::gcra::Gcra;
pub use algorithm::leaky_bucket::LeakyBucket;
pub use algorithm::min_interval::MinInterval;
pub use algorithm::quota::Quota;
pub use algorithm::rolling_window::RollingWindow;
pub use algorithm::sliding_window::SlidingWindow;
pub use cost::{Cost, CostError};
pub use decimal::{Decimal, DecimalError};
pub use decision::{Decision, DecisionParts, LimitDecision};
pub use error::{LimitError, PolicyError};
pub use factor::{Factor, FactorError};
pub use legacy::{LegacyBucket, LegacyLimit};
pub use limit::Limit;
pub use limit_set::LimitSet;
pub use policy::{Mode, Policy};
pub use rollout::Rollout;
pub use share::Share;
pub use time::Timestamp;

/// The largest number of units a limit may hold: 2^53 − 1, exact in JSON and in Lua too.
pub const MAX_UNITS: u64 = (1 << 53) - 1;
/// The longest period of a limit: 100 years.
pub const MAX_PERIOD: core::time::Duration = core::time::Duration::from_secs(36_525 * 86_400);
/// The most limits one policy may hold.
pub const MAX_LIMITS: usize = 16;
/// The largest limit an exact rolling window keeps a log for; above it, use buckets.
pub const MAX_LOG: u64 = 65_536;

/// Tests the examples of the page that registries show.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
