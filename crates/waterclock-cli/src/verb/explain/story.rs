//! What happens to a fresh key that is checked until it is refused and retries after the advised wait.

use std::time::Duration;

use serde::Serialize;
use waterclock::{Clock, Decision, KeyedLimiter, MAX_LOG, ManualClock, Outcome, Policy, Timestamp};

use waterclock_config::micros_up;

/// How many retries after the advised wait are shown.
const RETRIES: usize = 5;

/// What happened, in numbers.
#[derive(Serialize)]
pub(super) struct Story {
    /// Checks never pass: only reservations hold places.
    pub(super) reserves_only: bool,
    /// Whether any number passes at once.
    pub(super) unbounded: bool,
    /// Each check is for one of each unit.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) counts_several: bool,
    /// What passed and when; the first is the fresh key at 0.
    pub(super) steps: Vec<Step>,
    /// When the key is fresh again without further requests; `None` if that is out of range.
    pub(super) fresh_at_us: Option<u64>,
    /// The largest cost that can ever pass whole, if there is one.
    pub(super) most_at_once: Option<u64>,
    /// What reports of errors lead to, where the policy takes them.
    pub(super) errors: Option<Errors>,
}

/// How much passed at one instant, and the answer to the next unit.
#[derive(Serialize)]
pub(super) struct Step {
    pub(super) at_us: u64,
    pub(super) passed: u64,
    pub(super) refused_by: Vec<String>,
    /// `null` is never, and where nothing was refused.
    pub(super) retry_after_us: Option<u64>,
}

/// After so many reports of errors, nothing passes.
#[derive(Serialize)]
pub(super) struct Errors {
    pub(super) reported: u64,
    pub(super) refused_by: Vec<String>,
    pub(super) retry_after_us: Option<u64>,
}

impl Story {
    pub(super) fn of(policy: Policy) -> Story {
        let mut story = Story {
            reserves_only: policy.reserves_only(),
            unbounded: false,
            counts_several: policy.counts_several(),
            steps: Vec::new(),
            fresh_at_us: None,
            most_at_once: None,
            errors: None,
        };
        if !story.reserves_only {
            Caller::new(policy).live(&mut story);
        }
        story
    }
}

/// One key, fresh at 0s, and a clock that moves as the story does.
struct Caller {
    policy: Policy,
    limiter: KeyedLimiter<str, ManualClock>,
    clock: ManualClock,
    elapsed: Duration,
}

impl Caller {
    fn new(policy: Policy) -> Caller {
        let clock = ManualClock::default();
        let limiter =
            KeyedLimiter::builder(policy.clone()).max_keys(1).clock(clock.clone()).build();
        Caller { policy, limiter, clock, elapsed: Duration::ZERO }
    }

    fn live(mut self, story: &mut Story) {
        let mut last = self.take_all(story);
        if last.is_allowed() {
            story.unbounded = true;
            story.errors = self.errors();
            return;
        }
        for _ in 0..RETRIES {
            let Some(wait) = last.retry_after() else { break };
            if !self.pass(wait) {
                break;
            }
            last = self.take_all(story);
        }
        if self.pass(last.reset_after()) {
            story.fresh_at_us = Some(micros_up(self.elapsed));
        }
        let most_at_once = last.limit().filter(|most| self.never_passes(most + 1));
        // Of several units there is not one number that is too much.
        story.most_at_once = most_at_once.filter(|_| !story.counts_several);
    }

    /// Whether a cost is more than there can ever be: one that may overdraw is not, however large.
    fn never_passes(&self, cost: u64) -> bool {
        self.limiter.peek_n("", cost).retry_after().is_none()
    }

    fn take_all(&mut self, story: &mut Story) -> Decision {
        let (passed, next) = self.burst();
        story.steps.push(Step {
            at_us: micros_up(self.elapsed),
            passed,
            refused_by: self.refusers(&next),
            retry_after_us: next.retry_after().filter(|_| !next.is_allowed()).map(micros_up),
        });
        next
    }

    /// Takes all there is, then asks for one more: how many passed, and the last answer.
    fn burst(&mut self) -> (u64, Decision) {
        let first = self.limiter.check_n("", 1);
        if !first.is_allowed() {
            return (0, first);
        }
        // What only shadow limits refuse passes, and is not in their numbers.
        let rest = first.remaining().unwrap_or(0);
        if rest > 0 {
            let _ = self.limiter.check_n("", rest);
        }
        (1 + rest, self.limiter.peek_n("", 1))
    }

    /// What becomes of reports of errors, if anything does.
    fn errors(&mut self) -> Option<Errors> {
        if !self.policy.takes_reports() {
            return None;
        }
        (1..=MAX_LOG).find_map(|reported| {
            self.limiter.report("", Outcome::Error);
            let next = self.limiter.peek_n("", 1);
            (!next.is_allowed()).then(|| Errors {
                reported,
                refused_by: self.refusers(&next),
                retry_after_us: next.retry_after().map(micros_up),
            })
        })
    }

    fn refusers(&self, decision: &Decision) -> Vec<String> {
        self.policy.names(decision.refused_by()).map(str::to_owned).collect()
    }

    /// Lets time pass, unless that is beyond the last instant there is.
    fn pass(&mut self, wait: Duration) -> bool {
        let left = Timestamp::MAX.as_nanos() - self.clock.now().as_nanos();
        let is_told = wait <= Duration::from_nanos(left);
        if is_told {
            self.clock.advance(wait);
            self.elapsed += wait;
        }
        is_told
    }
}
