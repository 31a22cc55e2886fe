//! Descriptors that several rules apply to: taken apart before they are decided, and put together in the answer.

use super::proto::{Code, DescriptorStatus};
use super::request::Descriptor;
use crate::rules::Rules;

/// Adds a descriptor for each rule whose entries one of them contains. Returns where each of these belongs.
pub(super) fn take_apart<'r>(
    rules: &'r Rules,
    domain: &str,
    descriptors: &mut Vec<Descriptor<'r>>,
) -> Vec<usize> {
    let Some(contained) = rules.contained(domain) else { return Vec::new() };
    let found = contained.find(descriptors.iter().map(|descriptor| &*descriptor.entries));
    let places = found.iter().map(|found| found.at).collect();
    for found in found {
        let Descriptor { hits, limit, .. } = descriptors[found.at];
        let (entries, rule) = (found.entries, Some(found.rule));
        descriptors.push(Descriptor { entries, hits, rule, limit });
    }
    places
}

/// One status for each descriptor of the request: that of the rule which binds.
pub(super) fn put_together(statuses: &mut Vec<DescriptorStatus>, places: &[usize]) {
    let more = statuses.split_off(statuses.len().saturating_sub(places.len()));
    for (status, at) in more.into_iter().zip(places) {
        if let Some(kept) = statuses.get_mut(*at)
            && binds_more(&status, kept)
        {
            *kept = status;
        }
    }
}

fn binds_more(one: &DescriptorStatus, other: &DescriptorStatus) -> bool {
    let rank = |status: &DescriptorStatus| {
        let left =
            status.current_limit.as_ref().map_or(u64::MAX, |_| status.limit_remaining.into());
        (status.code() != Code::OverLimit, left)
    };
    rank(one) < rank(other)
}
