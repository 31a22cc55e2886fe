//! Assignments as Envoy understands them.
//!
//! Envoy 1.40 ignores requests per time unit, cuts fractions of seconds and then divides by them, never refills a bucket
//! without `tokens_per_fill`, and keeps the filled fraction of a bucket that is replaced by another. So only blanket rules
//! and token buckets are sent, every time in whole seconds, and a bucket after a rule that denies all: then it begins full.

use std::time::Duration;

use super::TTL;
use super::share::Assignment;
use crate::face::grpc::proto::rlqs::{
    AbandonAction, Action, BlanketRule, BucketAction, BucketId, QuotaAssignmentAction,
    RateLimitStrategy, Strategy, TokenBucket,
};

/// A lease does not refill: one token in a year is the least that Envoy can express.
const FILL_INTERVAL: Duration = Duration::from_secs(365 * 86_400);

/// What tells a proxy about its assignment of a bucket, to be sent in one response.
pub(super) fn actions(id: &BucketId, assignment: Assignment) -> Vec<BucketAction> {
    let action = |action| BucketAction { bucket_id: Some(id.clone()), bucket_action: Some(action) };
    let blanket = |rule: BlanketRule| action(assigned(Strategy::BlanketRule(rule.into())));
    match assignment {
        Assignment::AllowAll => vec![blanket(BlanketRule::AllowAll)],
        Assignment::DenyAll | Assignment::Units(0) => vec![blanket(BlanketRule::DenyAll)],
        Assignment::Units(max_tokens) => {
            let bucket = TokenBucket {
                max_tokens,
                tokens_per_fill: Some(1),
                fill_interval: Some(whole_seconds(FILL_INTERVAL)),
            };
            let bucket = action(assigned(Strategy::TokenBucket(bucket)));
            vec![blanket(BlanketRule::DenyAll), bucket]
        }
        Assignment::Abandon => vec![action(Action::AbandonAction(AbandonAction {}))],
    }
}

fn assigned(strategy: Strategy) -> Action {
    Action::QuotaAssignmentAction(QuotaAssignmentAction {
        assignment_time_to_live: Some(whole_seconds(TTL)),
        rate_limit_strategy: Some(RateLimitStrategy { strategy: Some(strategy) }),
    })
}

fn whole_seconds(duration: Duration) -> prost_types::Duration {
    prost_types::Duration {
        seconds: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        nanos: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What Envoy 1.40 misunderstands, or crashes on, is never sent.
    #[test]
    fn nothing_that_envoy_misunderstands() {
        let id = BucketId { bucket: [("user".to_owned(), b"a".to_vec())].into() };
        let all = [0, 1, 7, u32::MAX].map(Assignment::Units);
        let blankets = [Assignment::AllowAll, Assignment::DenyAll, Assignment::Abandon];
        for assignment in all.into_iter().chain(blankets) {
            let actions = actions(&id, assignment);
            assert!(actions.iter().all(|action| action.bucket_id.as_ref() == Some(&id)));
            let mut is_denied = false;
            for action in actions {
                let Some(Action::QuotaAssignmentAction(assigned)) = action.bucket_action else {
                    assert_eq!(assignment, Assignment::Abandon);
                    continue;
                };
                let lives = assigned.assignment_time_to_live.unwrap();
                assert!(lives.seconds >= 1 && lives.nanos == 0);
                match assigned.rate_limit_strategy.unwrap().strategy.unwrap() {
                    Strategy::BlanketRule(rule) => {
                        is_denied = rule == i32::from(BlanketRule::DenyAll);
                    }
                    Strategy::RequestsPerTimeUnit(_) => panic!("Envoy ignores it"),
                    Strategy::TokenBucket(bucket) => {
                        assert!(is_denied, "else it keeps a fraction");
                        assert!(bucket.max_tokens > 0 && bucket.tokens_per_fill == Some(1));
                        let fill = bucket.fill_interval.unwrap();
                        assert!(fill.seconds > 1_000_000 && fill.nanos == 0);
                    }
                }
            }
        }
    }
}
