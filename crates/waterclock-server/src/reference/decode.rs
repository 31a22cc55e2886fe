//! From messages of xDS to [`Domain`]s.

use prost::Message;

use super::{Descriptor, Domain, Limit};
use crate::face::grpc::each_field;
use crate::face::grpc::proto::DiscoveryResponse;
use crate::face::grpc::proto::reference::{
    RateLimitConfig, RateLimitDescriptor, RateLimitPolicy, RateLimitUnit,
};

/// What a resource must be.
pub(crate) const TYPE_URL: &str =
    "type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig";

/// Resources and descriptors of one configuration, together. Decoded, one takes up to a hundred times its bytes on the
/// wire, so they are counted before that.
pub(crate) const MAX_DESCRIPTORS: usize = 50_000;

/// How many resources and descriptors a message holds, as far as it can be read. Nothing is allocated.
pub(crate) fn count_descriptors(response: &[u8]) -> usize {
    let mut count = 0;
    _ = each_field(response, |number, any| {
        if let (2, Some(any)) = (number, any) {
            count += 1;
            _ = each_field(any, |number, value| {
                if let (2, Some(config)) = (number, value) {
                    count_below(config, 3, 0, &mut count);
                }
                Some(())
            });
        }
        Some(())
    });
    count
}

fn count_below(message: &[u8], list: u32, depth: usize, count: &mut usize) {
    _ = each_field(message, |number, descriptor| {
        if let (Some(descriptor), true) = (descriptor, number == list) {
            *count += 1;
            // Prost stops at a depth of 100.
            if depth < 100 && *count <= MAX_DESCRIPTORS {
                count_below(descriptor, 4, depth + 1, count);
            }
        }
        Some(())
    });
}

/// The domains of a response.
///
/// # Errors
///
/// A sentence for the server that sent it.
pub(crate) fn decode(response: &DiscoveryResponse) -> Result<Vec<Domain>, String> {
    let url = &response.type_url;
    if url != TYPE_URL {
        return Err(format!("the response is of type {}, not {TYPE_URL}", shown(url)));
    }
    let mut domains = Vec::with_capacity(response.resources.len());
    for any in &response.resources {
        if any.type_url != TYPE_URL {
            return Err(format!("a resource is of type {}, not {TYPE_URL}", shown(&any.type_url)));
        }
        let config = RateLimitConfig::decode(&*any.value)
            .map_err(|error| format!("a resource is no RateLimitConfig: {error}"))?;
        domains.push(Domain {
            name: config.domain,
            descriptors: config.descriptors.into_iter().map(descriptor).collect(),
        });
    }
    Ok(domains)
}

/// As much of a text as an error needs.
fn shown(text: &str) -> String {
    format!("{:?}", text.chars().take(100).collect::<String>())
}

fn descriptor(message: RateLimitDescriptor) -> Descriptor {
    Descriptor {
        limit: message.rate_limit.map(limit),
        below: message.descriptors.into_iter().map(descriptor).collect(),
        shadow: message.shadow_mode,
        quota: message.quota_mode,
        shares_budget: false,
        metadata: message.metadata,
        key: message.key,
        value: message.value,
    }
}

fn limit(message: RateLimitPolicy) -> Limit {
    Limit {
        // A unit that is not known here is no unit.
        unit: RateLimitUnit::try_from(message.unit).unwrap_or(RateLimitUnit::Unknown),
        requests: message.requests_per_unit,
        unlimited: message.unlimited,
        replaces: message.replaces.into_iter().map(|replaced| replaced.name).collect(),
        name: message.name,
    }
}

#[cfg(test)]
mod tests {
    use prost_types::Any;

    use super::*;

    fn response(configs: &[RateLimitConfig]) -> DiscoveryResponse {
        let any = |config: &RateLimitConfig| Any {
            type_url: TYPE_URL.to_owned(),
            value: config.encode_to_vec(),
        };
        DiscoveryResponse {
            type_url: TYPE_URL.to_owned(),
            resources: configs.iter().map(any).collect(),
            ..DiscoveryResponse::default()
        }
    }

    #[test]
    fn descriptors_are_counted_as_decoded() {
        let leaf = RateLimitDescriptor { key: "k".to_owned(), ..Default::default() };
        let two = RateLimitDescriptor { descriptors: vec![leaf.clone(); 2], ..leaf.clone() };
        let config = RateLimitConfig {
            domain: "d".to_owned(),
            descriptors: vec![leaf, two],
            ..RateLimitConfig::default()
        };
        let response = response(&[config, RateLimitConfig::default()]);
        assert_eq!(count_descriptors(&response.encode_to_vec()), 2 + 4);
        let domains = decode(&response).unwrap();
        assert_eq!((domains.len(), domains[0].descriptors[1].below.len()), (2, 2));
    }

    #[test]
    fn other_types_are_rejected() {
        let mut other = response(&[RateLimitConfig::default()]);
        other.resources[0].type_url = "type.googleapis.com/other".to_owned();
        assert!(decode(&other).unwrap_err().contains("a resource is of type"));
        other.type_url = "x".repeat(1_000);
        let error = decode(&other).unwrap_err();
        assert!(error.contains("the response is of type") && error.len() < 300, "{error}");
    }
}
