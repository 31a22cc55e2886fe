//! A policy meets traffic, in virtual time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use tollgate::{Decision, KeyedLimiter, ManualClock, Timestamp};
use tollgate_server::config::PolicySpec;
use tollgate_server::decision_line::micros_up;

use super::arrivals::Arrival;
use super::most::Most;
use crate::picture::Refusal;
use crate::timeline::Timeline;

/// How finely what is left is looked at, and time is counted.
const LOOKS: u64 = 600;
const BINS: usize = 160;

/// What became of the traffic.
pub(super) struct Rehearsal {
    pub(super) requests: u64,
    pub(super) admitted: u64,
    /// Of those, how many only in part.
    pub(super) in_part: u64,
    pub(super) units: u64,
    pub(super) largest_cost: u64,
    /// Of the refused, how many came back as they were told, and how often.
    pub(super) retries: u64,
    /// Who was never admitted, however often they came.
    pub(super) given_up: u64,
    pub(super) refused_by: Vec<u64>,
    pub(super) refusals: Vec<Refusal>,
    pub(super) timeline: Timeline,
    /// What was left to the first key.
    pub(super) level: Vec<(u64, f64)>,
    pub(super) most: Most,
}

/// How traffic is played.
pub(super) struct Stage<'a> {
    pub(super) names: &'a [String],
    pub(super) from_us: u64,
    /// The time after the last request that is still looked at.
    pub(super) until_us: u64,
    /// How often somebody who is refused comes back when told.
    pub(super) retries: u32,
}

impl Stage<'_> {
    pub(super) fn play(
        &self,
        spec: &PolicySpec,
        arrivals: &[Arrival],
        window: Duration,
    ) -> Rehearsal {
        let clock = ManualClock::default();
        let limiter: KeyedLimiter<usize, ManualClock> = KeyedLimiter::builder(spec.built.clone())
            .max_keys(self.names.len())
            .clock(clock.clone())
            .build();
        let mut rehearsal = Rehearsal::new(spec.built.limits().len(), window);
        let mut looks = (0..=LOOKS)
            .map(|look| self.from_us + (self.until_us - self.from_us) * look / LOOKS)
            .peekable();
        // Those who come back stand behind those who come for the first time at the same instant.
        let mut back: BinaryHeap<Reverse<(u64, u64, u32, usize)>> = BinaryHeap::new();
        let mut arrivals = arrivals.iter().copied().peekable();
        let mut turn = 0;
        loop {
            let returns = back.peek().is_some_and(|Reverse((t_us, ..))| {
                arrivals.peek().is_none_or(|first| *t_us < first.t_us)
            });
            let (arrival, attempt) = match (returns, arrivals.peek().copied()) {
                (true, _) => match back.pop() {
                    Some(Reverse((t_us, cost, attempt, key))) => {
                        (Arrival { t_us, key, cost }, attempt)
                    }
                    None => break,
                },
                (false, Some(arrival)) => {
                    arrivals.next();
                    (arrival, 0)
                }
                (false, None) => break,
            };
            turn += 1;
            while let Some(look) = looks.next_if(|look| *look <= arrival.t_us) {
                rehearsal.look(&limiter, &clock, look);
            }
            clock.set(Timestamp::from_micros(arrival.t_us));
            let decision = spec_decision(spec, &limiter, &self.names[arrival.key], arrival);
            rehearsal.add(spec, &self.names[arrival.key], arrival, attempt, &decision);
            if !spec.built.refuses(&decision) {
                continue;
            }
            match decision.retry_after().map(micros_up) {
                Some(wait) if attempt < self.retries && arrival.t_us + wait < self.until_us => {
                    back.push(Reverse((
                        arrival.t_us + wait,
                        arrival.cost,
                        attempt + 1,
                        arrival.key,
                    )));
                }
                _ => rehearsal.given_up += 1,
            }
        }
        looks.for_each(|look| rehearsal.look(&limiter, &clock, look));
        debug_assert_eq!(turn, rehearsal.requests);
        rehearsal
    }
}

/// Keys that the policy is not rolled out to are in shadow.
fn spec_decision(
    spec: &PolicySpec,
    limiter: &KeyedLimiter<usize, ManualClock>,
    name: &str,
    arrival: Arrival,
) -> Decision {
    let decision = limiter.check_n(&arrival.key, arrival.cost);
    if spec.enrols(name.as_bytes()) { decision } else { decision.in_shadow(arrival.cost) }
}

impl Rehearsal {
    fn new(limits: usize, window: Duration) -> Rehearsal {
        Rehearsal {
            requests: 0,
            admitted: 0,
            in_part: 0,
            units: 0,
            largest_cost: 0,
            retries: 0,
            given_up: 0,
            refused_by: vec![0; limits],
            refusals: Vec::new(),
            timeline: Timeline::new(BINS),
            level: Vec::new(),
            most: Most::within(window),
        }
    }

    fn add(
        &mut self,
        spec: &PolicySpec,
        name: &str,
        arrival: Arrival,
        attempt: u32,
        decision: &Decision,
    ) {
        let policy = &spec.built;
        let is_refused = policy.refuses(decision);
        self.requests += 1;
        self.largest_cost = self.largest_cost.max(arrival.cost);
        self.retries += u64::from(attempt > 0);
        self.timeline.add(arrival.t_us, !is_refused);
        if is_refused {
            let wait_us = decision.retry_after().map(micros_up);
            decision.refused_by().iter().for_each(|limit| self.refused_by[limit] += 1);
            let by = policy.names(decision.refused_by()).collect::<Vec<&str>>().join(" and ");
            self.refusals.push(Refusal { t_us: arrival.t_us, key: name.to_owned(), by, wait_us });
        } else {
            self.admitted += 1;
            self.in_part += u64::from(!decision.is_allowed());
            self.units += decision.granted();
            self.most.add(arrival.key, arrival.t_us, decision.granted());
        }
    }

    /// What is left to the first key, as a share of its limit.
    fn look(&mut self, limiter: &KeyedLimiter<usize, ManualClock>, clock: &ManualClock, t_us: u64) {
        clock.set(Timestamp::from_micros(t_us));
        let peek = limiter.peek(&0);
        let level = match (peek.remaining(), peek.limit()) {
            (Some(remaining), Some(limit)) if limit > 0 => remaining as f64 / limit as f64,
            // What has no number is open or closed.
            _ => f64::from(u8::from(peek.is_allowed())),
        };
        self.level.push((t_us, level));
    }

    pub(super) fn refused(&self) -> u64 {
        self.requests - self.admitted
    }

    pub(super) fn longest_wait_us(&self) -> Option<u64> {
        self.refusals.iter().filter_map(|refusal| refusal.wait_us).max()
    }
}
