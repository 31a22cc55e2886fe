//! Dynamic metadata of a response, for access logs and later filters: `{"descriptors": [{"descriptor": 0, "policy":
//! "login", "allowed": false, "refused_by": ["burst"], "source": "authoritative"}]}`, an element for each descriptor that a
//! policy has decided about, with `shadow_refused_by` where a shadow limit would have refused.
//!
//! With `metadata`, that of the reference service's limits that admit.
//!
//! Written as bytes: as messages, these are a dozen maps, lists and strings for each call, and took longer than the decision.

use prost::Message;
use waterclock::{LimitSet, Policy};

use super::descriptors::{Decided, Outcome};

/// `dynamic_metadata` in a `RateLimitResponse`.
const METADATA: u8 = 6 << 3 | LENGTH;
/// `fields` in a `Struct`: a map, of which each entry is a message of a key and a value.
const FIELDS: u8 = 1 << 3 | LENGTH;
const ENTRY_KEY: u8 = 1 << 3 | LENGTH;
const ENTRY_VALUE: u8 = 2 << 3 | LENGTH;
/// The kinds of a `Value`.
const NUMBER: u8 = 2 << 3 | FIXED_64;
const STRING: u8 = 3 << 3 | LENGTH;
const BOOL: u8 = 4 << 3;
const STRUCT: u8 = 5 << 3 | LENGTH;
const LIST: u8 = 6 << 3 | LENGTH;
/// `values` in a `ListValue`.
const VALUES: u8 = 1 << 3 | LENGTH;
/// Wire types.
const LENGTH: u8 = 2;
const FIXED_64: u8 = 1;

/// Writes the field of a response, if a policy has decided about any descriptor; `of_limits`: with what the
/// configuration has to say about limits that admit.
pub(super) fn write(outcomes: &[Outcome<'_>], of_limits: bool, to: &mut Vec<u8>) {
    let mut decided = outcomes.iter().enumerate().filter_map(|(at, outcome)| match outcome {
        Outcome::Decided(decided) => Some((at, &**decided)),
        Outcome::Unlimited | Outcome::Refused(_) => None,
    });
    let Some(first) = decided.next() else { return };
    nested(METADATA, to, |to| {
        entry("descriptors", to, |to| {
            nested(LIST, to, |to| {
                for (at, decided) in std::iter::once(first).chain(decided) {
                    nested(VALUES, to, |to| nested(STRUCT, to, |to| write_fields(at, decided, to)));
                }
            });
        });
        if of_limits {
            write_limits(outcomes, to);
        }
    });
}

/// What is said of several limits is one object, in which the last one wins.
fn write_limits(outcomes: &[Outcome<'_>], to: &mut Vec<u8>) {
    let mut passed = outcomes.iter().filter_map(|outcome| match outcome {
        Outcome::Decided(decided) if !decided.has_refused() => {
            decided.rule.reference()?.metadata.as_ref()
        }
        _ => None,
    });
    let Some(first) = passed.next() else { return };
    entry("metadata", to, |to| {
        nested(STRUCT, to, |to| {
            std::iter::once(first).chain(passed).for_each(|fields| fields.encode_raw(to));
        });
    });
}

/// In the order of their names, as maps are sent.
fn write_fields(at: usize, decided: &Decided<'_>, to: &mut Vec<u8>) {
    let reply = &decided.reply;
    let (policy, decision) = (&reply.policy, &reply.answer.decision);
    let refused = decided.has_refused();
    let refused_by = if refused { decision.refused_by() } else { LimitSet::default() };
    let in_shadow = decision.shadow_refused_by();
    entry("allowed", to, |to| to.extend([BOOL, u8::from(!refused)]));
    entry("descriptor", to, |to| {
        let at = f64::from(u32::try_from(at).unwrap_or(u32::MAX));
        to.push(NUMBER);
        to.extend(at.to_le_bytes());
    });
    entry("policy", to, |to| text(STRING, decided.policy.name(), to));
    entry("refused_by", to, |to| names(policy, refused_by, to));
    if !in_shadow.is_empty() {
        entry("shadow_refused_by", to, |to| names(policy, in_shadow, to));
    }
    entry("source", to, |to| text(STRING, reply.answer.source.name(), to));
}

fn names(policy: &Policy, set: LimitSet, to: &mut Vec<u8>) {
    nested(LIST, to, |to| {
        for name in policy.names(set) {
            nested(VALUES, to, |to| text(STRING, name, to));
        }
    });
}

/// An entry of a `Struct`.
fn entry(name: &str, to: &mut Vec<u8>, value: impl FnOnce(&mut Vec<u8>)) {
    nested(FIELDS, to, |to| {
        text(ENTRY_KEY, name, to);
        nested(ENTRY_VALUE, to, value);
    });
}

fn text(tag: u8, text: &str, to: &mut Vec<u8>) {
    to.push(tag);
    prost::encoding::encode_varint(text.len() as u64, to);
    to.extend_from_slice(text.as_bytes());
}

/// A message in another: its tag, its length, and what `write` writes.
fn nested(tag: u8, to: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    to.push(tag);
    let at = to.len();
    // One byte is enough for the length of most messages.
    to.push(0);
    write(to);
    let length = to.len() - at - 1;
    match u8::try_from(length) {
        Ok(short) if short < 0x80 => to[at] = short,
        _ => {
            let mut bytes = Vec::with_capacity(5);
            prost::encoding::encode_varint(length as u64, &mut bytes);
            to.splice(at..=at, bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use prost_types::value::Kind;
    use prost_types::{ListValue, Struct, Value};

    use super::super::proto::RateLimitResponse;
    use super::*;

    fn value(kind: Kind) -> Value {
        Value { kind: Some(kind) }
    }

    fn object(pairs: Vec<(String, Value)>) -> Struct {
        Struct { fields: pairs.into_iter().collect() }
    }

    /// As prost writes the same values, however long.
    #[test]
    fn the_bytes_of_messages() {
        for long in [0, 1, 100, 127, 128, 300, 20_000] {
            let name = "n".repeat(long);
            let mut bytes = Vec::new();
            nested(METADATA, &mut bytes, |to| {
                entry("a", to, |to| {
                    nested(LIST, to, |to| {
                        nested(VALUES, to, |to| text(STRING, &name, to));
                        nested(VALUES, to, |to| {
                            nested(STRUCT, to, |to| {
                                entry("b", to, |to| to.extend([BOOL, 0]));
                                entry("c", to, |to| {
                                    to.push(NUMBER);
                                    to.extend(0.0_f64.to_le_bytes());
                                });
                            });
                        });
                    });
                });
            });
            let inner = vec![
                ("b".to_owned(), value(Kind::BoolValue(false))),
                ("c".to_owned(), value(Kind::NumberValue(0.0))),
            ];
            let values =
                vec![value(Kind::StringValue(name)), value(Kind::StructValue(object(inner)))];
            let list = value(Kind::ListValue(ListValue { values }));
            let response = RateLimitResponse {
                dynamic_metadata: Some(object(vec![("a".to_owned(), list)])),
                ..RateLimitResponse::default()
            };
            assert_eq!(bytes, response.encode_to_vec());
        }
    }
}
