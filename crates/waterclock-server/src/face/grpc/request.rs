//! What a request asks, within bounds.

use tonic::Status;
use waterclock::MAX_UNITS;

use super::proto::{RateLimitDescriptor, RateLimitRequest};
use super::unit::period;
use crate::engine::Rate;
use crate::rules::Entry;
use waterclock_config::{MAX_ENTRIES, MAX_TEXT};

/// Descriptors that a request may have.
pub(super) const MAX_DESCRIPTORS: usize = 32;

/// The longest request, in bytes.
pub(super) const MAX_MESSAGE: usize = 64 * 1_024;

/// What one descriptor asks.
pub(super) struct Asked<'r> {
    pub(super) entries: Vec<Entry<'r>>,
    pub(super) hits: Hits,
    /// Rate in place of the configuration's.
    pub(super) limit: Option<Instead>,
}

/// What to do, and with how many units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hits {
    Charge(u64),
    Peek,
    Refund(u64),
}

/// What stands in for the configuration's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Instead {
    /// None per any unit.
    Nothing,
    Rate(Rate),
}

/// One element for each descriptor, in their order.
pub(super) fn read(request: &RateLimitRequest) -> Result<Vec<Asked<'_>>, Status> {
    if request.domain.is_empty() {
        return Err(Status::invalid_argument("`domain` must not be empty"));
    }
    at_most(MAX_TEXT, request.domain.len(), || "`domain`".to_owned())?;
    let descriptors = &request.descriptors;
    if descriptors.is_empty() {
        return Err(Status::invalid_argument("`descriptors` must hold at least one"));
    }
    if descriptors.len() > MAX_DESCRIPTORS {
        return Err(Status::invalid_argument(format!(
            "`descriptors` must hold at most {MAX_DESCRIPTORS}; found {}",
            descriptors.len()
        )));
    }
    let hits = u64::from(request.hits_addend.max(1));
    descriptors.iter().enumerate().map(|(at, descriptor)| asked(at, descriptor, hits)).collect()
}

fn asked(at: usize, descriptor: &RateLimitDescriptor, hits: u64) -> Result<Asked<'_>, Status> {
    let entries = &descriptor.entries;
    if entries.len() > MAX_ENTRIES {
        return Err(Status::invalid_argument(format!(
            "`descriptors[{at}].entries` must hold at most {MAX_ENTRIES}; found {}",
            entries.len()
        )));
    }
    for (place, entry) in entries.iter().enumerate() {
        let field = |name| move || format!("`descriptors[{at}].entries[{place}].{name}`");
        at_most(MAX_TEXT, entry.key.len(), field("key"))?;
        at_most(MAX_TEXT, entry.value.len(), field("value"))?;
    }
    // No limit admits more, so nobody can tell the difference.
    let units = descriptor.hits_addend.unwrap_or(hits).min(MAX_UNITS);
    Ok(Asked {
        entries: entries.iter().map(|entry| (&*entry.key, &*entry.value)).collect(),
        hits: match units {
            _ if descriptor.is_negative_hits => Hits::Refund(units),
            0 => Hits::Peek,
            _ => Hits::Charge(units),
        },
        limit: instead(at, descriptor)?,
    })
}

fn instead(at: usize, descriptor: &RateLimitDescriptor) -> Result<Option<Instead>, Status> {
    let Some(limit) = &descriptor.limit else { return Ok(None) };
    let Some(per) = period(limit.unit()) else {
        let reason = format!("`descriptors[{at}].limit.unit` must be from SECOND to YEAR");
        return Err(Status::invalid_argument(reason));
    };
    Ok(Some(match limit.requests_per_unit {
        0 => Instead::Nothing,
        requests => Instead::Rate(Rate { limit: requests.into(), per }),
    }))
}

fn at_most(most: usize, length: usize, field: impl FnOnce() -> String) -> Result<(), Status> {
    if length <= most {
        return Ok(());
    }
    let field = field();
    Err(Status::invalid_argument(format!(
        "{field} must be at most {most} bytes long; found {length}"
    )))
}
