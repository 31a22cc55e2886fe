//! Dynamic metadata: for access logs and filters behind this one.
//!
//! `{"descriptors": [{"descriptor": 0, "policy": "login", "allowed": false, "refused_by": ["burst"],
//! "source": "authoritative"}]}`, an element for each descriptor that a policy has decided about;
//! `shadow_refused_by` where somebody would have been refused.

use prost_types::value::Kind;
use prost_types::{ListValue, Struct, Value};

use super::decide::{Decided, Outcome};

pub(super) fn metadata(outcomes: &[Outcome<'_>]) -> Option<Struct> {
    let element = |(at, outcome): (usize, &Outcome<'_>)| match outcome {
        Outcome::Decided(decided) => Some(of_decided(at, decided)),
        Outcome::Free | Outcome::Refused(_) => None,
    };
    let descriptors: Vec<Value> = outcomes.iter().enumerate().filter_map(element).collect();
    (!descriptors.is_empty()).then(|| fields([("descriptors", list(descriptors))]))
}

fn of_decided(at: usize, decided: &Decided<'_>) -> Value {
    let reply = &decided.reply;
    let (policy, decision) = (&reply.policy, &reply.answer.decision);
    let refused = decided.has_refused();
    let names = |set| list(policy.names(set).map(text).collect());
    let mut of_descriptor = fields([
        ("descriptor", number(at)),
        ("policy", text(decided.served.name())),
        ("allowed", value(Kind::BoolValue(!refused))),
        ("refused_by", if refused { names(decision.refused_by()) } else { list(Vec::new()) }),
        ("source", text(reply.answer.source.name())),
    ]);
    if !decision.shadow_refused_by().is_empty() {
        let shadows = names(decision.shadow_refused_by());
        of_descriptor.fields.insert("shadow_refused_by".to_owned(), shadows);
    }
    value(Kind::StructValue(of_descriptor))
}

fn fields<const N: usize>(pairs: [(&str, Value); N]) -> Struct {
    Struct { fields: pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect() }
}

fn value(kind: Kind) -> Value {
    Value { kind: Some(kind) }
}

fn text(text: &str) -> Value {
    value(Kind::StringValue(text.to_owned()))
}

fn list(values: Vec<Value>) -> Value {
    value(Kind::ListValue(ListValue { values }))
}

/// There are at most 32 descriptors.
fn number(small: usize) -> Value {
    value(Kind::NumberValue(u32::try_from(small).unwrap_or(u32::MAX).into()))
}
