//! One bucket of Envoy's filter, as version 1.40 treats it.

use std::time::Duration;

use super::super::share::Usage;
use crate::face::grpc::proto::rlqs::{Action, BlanketRule, BucketAction, Strategy};

/// How often Envoy reports, and tries to open a stream again.
pub(super) const REPORTS: Duration = Duration::from_secs(5);

/// What is in force.
#[derive(Clone, Copy, Debug)]
enum Rule {
    Allow,
    Deny,
    /// What is left of so many tokens.
    Bucket {
        tokens: f64,
        max: u32,
    },
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// By an assignment.
    Admitted,
    Refused,
    /// By the behaviour without an assignment, which is to admit everything.
    Free,
}

/// A proxy with one bucket.
#[derive(Default)]
pub(super) struct Proxy {
    /// None until the first request, and after the bucket was abandoned.
    known_since: Option<Duration>,
    assigned: Option<(Rule, Duration)>,
    allowed: u64,
    denied: u64,
    reported_at: Duration,
    /// The stream, by number.
    pub(super) stream: Option<u64>,
    /// Whether it refuses everything while it has no assignment.
    pub(super) denies_without: bool,
    pub(super) admitted: u64,
    /// Assignments that ran out.
    pub(super) lapses: u64,
}

impl Proxy {
    /// Forgets everything but what tests count.
    pub(super) fn start_again(&mut self) {
        let Proxy { denies_without, admitted, lapses, .. } = *self;
        *self = Proxy { denies_without, admitted, lapses, ..Proxy::default() };
    }

    /// Decides about a request. The second value is a report that goes out at once.
    pub(super) fn request(&mut self, now: Duration) -> (Verdict, Option<Usage>) {
        if let Some((_, ends)) = self.assigned
            && now >= ends
        {
            self.assigned = None;
            self.lapses += 1;
        }
        let verdict = match self.assigned.as_mut().map(|(rule, _)| rule) {
            None if self.denies_without => Verdict::Refused,
            None => Verdict::Free,
            Some(Rule::Allow) => Verdict::Admitted,
            Some(Rule::Bucket { tokens, .. }) if *tokens >= 1.0 => {
                *tokens -= 1.0;
                Verdict::Admitted
            }
            Some(Rule::Deny | Rule::Bucket { .. }) => Verdict::Refused,
        };
        match verdict {
            Verdict::Refused => self.denied += 1,
            Verdict::Admitted | Verdict::Free => {
                self.allowed += 1;
                self.admitted += 1;
            }
        }
        let is_first = self.known_since.is_none();
        self.known_since.get_or_insert(now);
        (verdict, is_first.then(|| self.report(now)).flatten())
    }

    /// The report of the bucket, if there is one. Counters start again, whether or not the report arrives.
    pub(super) fn report(&mut self, now: Duration) -> Option<Usage> {
        let since = self.known_since?.max(self.reported_at);
        self.reported_at = now;
        let elapsed = Duration::from_secs((now - since).as_secs());
        let usage = Usage { elapsed, allowed: self.allowed, denied: self.denied };
        (self.allowed, self.denied) = (0, 0);
        Some(usage)
    }

    /// Applies the actions of a response, in order.
    pub(super) fn receive(&mut self, now: Duration, actions: &[BucketAction]) {
        for action in actions {
            if self.known_since.is_none() {
                // An unknown bucket is skipped.
                return;
            }
            match action.bucket_action.as_ref().unwrap() {
                Action::AbandonAction(_) => (self.known_since, self.assigned) = (None, None),
                Action::QuotaAssignmentAction(assigned) => {
                    let lives = assigned.assignment_time_to_live.as_ref().unwrap().seconds;
                    let ends = now + Duration::from_secs(lives.unsigned_abs());
                    let strategy = assigned.rate_limit_strategy.as_ref().unwrap();
                    let rule = self.replaced(now, strategy.strategy.as_ref().unwrap());
                    self.assigned = Some((rule, ends));
                }
            }
        }
    }

    /// A bucket keeps the fraction of the one before, and begins full after anything else.
    fn replaced(&self, now: Duration, strategy: &Strategy) -> Rule {
        match strategy {
            Strategy::BlanketRule(rule) if *rule == i32::from(BlanketRule::AllowAll) => Rule::Allow,
            Strategy::BlanketRule(_) => Rule::Deny,
            Strategy::TokenBucket(bucket) => {
                let fraction = match self.assigned {
                    Some((Rule::Bucket { tokens, max }, ends)) if now < ends => {
                        tokens / f64::from(max)
                    }
                    _ => 1.0,
                };
                let max = bucket.max_tokens;
                Rule::Bucket { tokens: fraction * f64::from(max), max }
            }
            Strategy::RequestsPerTimeUnit(_) => panic!("Envoy ignores it"),
        }
    }
}
