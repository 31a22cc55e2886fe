//! The files of the reference service as that service decides by them, for `waterclock ratelimit`.

use serde_saphyr::Spanned;
use waterclock_server::reference::{Descriptor, Domain, Limit, Unit};

use super::super::source::Source;
use super::tree::{self, RateLimit};
use crate::output::Failure;

/// The domains of files, given by name and text. What is wrong with limits is found later, with the rest.
pub(in super::super::super) fn reference_domains(
    files: &[(String, String)],
) -> Result<Vec<Domain>, Failure> {
    let mut domains = Vec::new();
    for (name, text) in files {
        for document in tree::read(&Source { name: name.clone(), text: text.clone() })? {
            let root = document.root;
            let below = root.descriptors.unwrap_or_default();
            domains.push(Domain { name: root.domain.value, descriptors: descriptors(below) });
        }
    }
    Ok(domains)
}

fn descriptors(found: Vec<Spanned<tree::Descriptor>>) -> Vec<Descriptor> {
    let descriptor = |found: Spanned<tree::Descriptor>| {
        let found = found.value;
        Descriptor {
            key: found.key.unwrap_or_default(),
            value: found.value.unwrap_or_default(),
            limit: found.rate_limit.map(|limit| limit_of(limit.value)),
            below: descriptors(found.descriptors.unwrap_or_default()),
            shadow: found.shadow_mode,
            quota: found.quota_mode,
            shares_budget: found.share_threshold,
            metadata: None,
        }
    };
    found.into_iter().map(descriptor).collect()
}

fn limit_of(limit: RateLimit) -> Limit {
    let unit = limit.unit.unwrap_or_default().to_ascii_uppercase();
    let replaces = limit.replaces.unwrap_or_default();
    Limit {
        unit: Unit::from_str_name(&unit).unwrap_or(Unit::Unknown),
        requests: limit.requests_per_unit.unwrap_or(0),
        unlimited: limit.unlimited,
        name: limit.name.unwrap_or_default(),
        replaces: replaces.into_iter().map(|replaced| replaced.name).collect(),
    }
}
