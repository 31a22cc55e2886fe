//! A request of Envoy. Values of entries come from clients, and are taken as they are.

use std::time::Duration;

use tonic::Status;
use waterclock::MAX_UNITS;

use super::proto::{RateLimitDescriptor, RateLimitRequest, RateLimitUnit};
use crate::engine::Rate;
use crate::rules::{Entry, Rule};

/// Descriptors of one request; one with more is refused.
pub(super) const MAX_DESCRIPTORS: usize = 1_024;

/// Entries of all descriptors of one request; one with more is refused.
pub(super) const MAX_ENTRIES: usize = 16 * MAX_DESCRIPTORS;

/// The longest request, in bytes.
pub(super) const MAX_MESSAGE: usize = 1_024 * 1_024;

/// As the reference service has it, a month is 30 days and a year 365.
const DAY: u64 = 86_400;

/// One descriptor.
pub(super) struct Descriptor<'r> {
    pub(super) entries: Vec<Entry<'r>>,
    pub(super) hits: Hits,
    /// The rule that applies, where that is known already.
    pub(super) rule: Option<&'r Rule>,
    /// Rate in place of the configuration's.
    pub(super) limit: Option<LimitOverride>,
}

impl Descriptor<'_> {
    /// The rate that replaces the policy's.
    pub(super) fn rate(&self) -> Option<Rate> {
        match self.limit {
            Some(LimitOverride::Rate(rate)) => Some(rate),
            Some(LimitOverride::Zero) | None => None,
        }
    }
}

/// What to do, and with how many units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hits {
    Charge(u64),
    /// Charged whatever is left, under any rule.
    Bill(u64),
    Peek,
    Refund(u64),
}

/// A descriptor's own limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LimitOverride {
    /// Refuses everything.
    Zero,
    Rate(Rate),
}

/// One element for each descriptor, in their order.
pub(super) fn read(request: &RateLimitRequest) -> Result<Vec<Descriptor<'_>>, Status> {
    if request.domain.is_empty() {
        return Err(Status::invalid_argument("`domain` must not be empty"));
    }
    let descriptors = &request.descriptors;
    if descriptors.is_empty() {
        return Err(Status::invalid_argument("`descriptors` must hold at least one"));
    }
    let hits = u64::from(request.hits_addend.max(1));
    descriptors
        .iter()
        .enumerate()
        .map(|(at, descriptor)| read_descriptor(at, descriptor, hits))
        .collect()
}

fn read_descriptor(
    at: usize,
    descriptor: &RateLimitDescriptor,
    hits: u64,
) -> Result<Descriptor<'_>, Status> {
    // No limit admits more than that.
    let units = descriptor.hits_addend.unwrap_or(hits).min(MAX_UNITS);
    Ok(Descriptor {
        entries: descriptor.entries.iter().map(|entry| (&*entry.key, &*entry.value)).collect(),
        hits: match units {
            _ if descriptor.is_negative_hits => Hits::Refund(units),
            0 => Hits::Peek,
            _ => Hits::Charge(units),
        },
        rule: None,
        limit: limit_override(at, descriptor)?,
    })
}

fn limit_override(
    at: usize,
    descriptor: &RateLimitDescriptor,
) -> Result<Option<LimitOverride>, Status> {
    let Some(limit) = &descriptor.limit else { return Ok(None) };
    let Some(per) = period(limit.unit()) else {
        let reason = format!("`descriptors[{at}].limit.unit` must be from SECOND to YEAR");
        return Err(Status::invalid_argument(reason));
    };
    Ok(Some(match limit.requests_per_unit {
        0 => LimitOverride::Zero,
        requests => LimitOverride::Rate(Rate { limit: requests.into(), per }),
    }))
}

/// The period of an override; `None` if the unit is unknown.
fn period(unit: RateLimitUnit) -> Option<Duration> {
    let seconds = match unit {
        RateLimitUnit::Unknown => return None,
        RateLimitUnit::Second => 1,
        RateLimitUnit::Minute => 60,
        RateLimitUnit::Hour => 3_600,
        RateLimitUnit::Day => DAY,
        RateLimitUnit::Month => 30 * DAY,
        RateLimitUnit::Year => 365 * DAY,
    };
    Some(Duration::from_secs(seconds))
}
