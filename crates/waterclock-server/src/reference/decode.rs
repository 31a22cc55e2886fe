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

/// Resources and descriptors of one configuration, names that they replace and values of their metadata, all together.
/// Decoded, one takes up to a hundred times its bytes on the wire, so they are counted before that.
pub(crate) const MAX_PARTS: usize = 50_000;

/// Prost stops at a depth of 100.
const DEEPEST: usize = 100;

/// How many of these parts a message holds, as far as it can be read. Nothing is allocated.
pub(crate) fn count_parts(response: &[u8]) -> usize {
    let mut count = 0;
    each_message(response, 2, |any| {
        count += 1;
        each_message(any, 2, |config| {
            each_message(config, 3, |below| count_descriptor(below, 0, &mut count));
        });
    });
    count
}

fn count_descriptor(descriptor: &[u8], depth: usize, count: &mut usize) {
    *count += 1;
    if depth >= DEEPEST || *count > MAX_PARTS {
        return;
    }
    each_message(descriptor, 3, |limit| each_message(limit, 5, |_| *count += 1));
    each_message(descriptor, 4, |below| count_descriptor(below, depth + 1, count));
    each_message(descriptor, 8, |metadata| count_struct(metadata, depth + 1, count));
}

fn count_struct(fields: &[u8], depth: usize, count: &mut usize) {
    each_message(fields, 1, |entry| {
        *count += 1;
        each_message(entry, 2, |value| count_below(value, depth + 1, count));
    });
}

/// The values within a value: a struct or a list.
fn count_below(value: &[u8], depth: usize, count: &mut usize) {
    if depth >= DEEPEST || *count > MAX_PARTS {
        return;
    }
    each_message(value, 5, |fields| count_struct(fields, depth, count));
    each_message(value, 6, |list| {
        each_message(list, 1, |value| {
            *count += 1;
            count_below(value, depth + 1, count);
        });
    });
}

/// Visits the messages in a field.
fn each_message<'m>(message: &'m [u8], field: u32, mut visit: impl FnMut(&'m [u8])) {
    _ = each_field(message, |number, bytes| {
        if let (true, Some(bytes)) = (number == field, bytes) {
            visit(bytes);
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
    use prost_types::value::Kind;
    use prost_types::{Any, ListValue, Struct, Value};

    use super::*;
    use crate::face::grpc::proto::reference::RateLimitReplace;

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

    /// Two bytes each on the wire.
    #[test]
    fn names_and_values_are_counted_too() {
        let many = 3;
        let value = |kind| Value { kind: Some(kind) };
        let list = ListValue { values: vec![Value::default(); many] };
        let inner = Struct { fields: [("b".to_owned(), value(Kind::ListValue(list)))].into() };
        let metadata =
            Struct { fields: [("a".to_owned(), value(Kind::StructValue(inner)))].into() };
        let descriptor = RateLimitDescriptor {
            key: "k".to_owned(),
            rate_limit: Some(RateLimitPolicy {
                replaces: vec![RateLimitReplace::default(); many],
                ..RateLimitPolicy::default()
            }),
            metadata: Some(metadata),
            ..RateLimitDescriptor::default()
        };
        let config =
            RateLimitConfig { descriptors: vec![descriptor], ..RateLimitConfig::default() };
        let bytes = response(&[config]).encode_to_vec();
        assert_eq!(count_parts(&bytes), 2 + many + 2 + many);
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
        assert_eq!(count_parts(&response.encode_to_vec()), 2 + 4);
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
