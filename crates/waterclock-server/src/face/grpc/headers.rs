//! Header fields that Envoy adds to its response, in the style of each policy.

use waterclock_http::{Fields, StyledAnswer};

use super::decide::Outcome;
use super::proto::HeaderValue;

/// One `Retry-After` for all, and each policy's own fields.
pub(super) fn headers(outcomes: &[Outcome<'_>]) -> Vec<HeaderValue> {
    let told: Vec<StyledAnswer<'_>> = outcomes
        .iter()
        .filter_map(|outcome| {
            let Outcome::Decided(decided) = outcome else { return None };
            if decided.gives_back {
                return None;
            }
            let style = decided.served.headers();
            let reply = &decided.reply;
            let (policy, answer) = (&*reply.policy, &reply.answer);
            Some(StyledAnswer { style, name: decided.served.name(), policy, answer })
        })
        .collect();
    let header = |(key, value): (&'static str, String)| HeaderValue {
        key: key.to_owned(),
        value,
        raw_value: Vec::new(),
    };
    Fields::for_check(told).into_iter().map(header).collect()
}
