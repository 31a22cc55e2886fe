//! Traffic under one policy, in virtual time.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use waterclock::{Action, Limit, Origin, StoreError};
use waterclock_config::{PolicyConfig, micros_up};

use super::arrivals::{Arrival, MOST};
use super::most::MostWithin;
use super::retries::Retries;
use super::traffic::Callers;
use crate::report::{Checked, LongestWait, Refusals};
use crate::stage::Stage;
use crate::timeline::Timeline;
use crate::trace::{Event, Op};

/// How many times the level is sampled, and how many bins the timeline has.
const SAMPLES: u64 = 600;
const BINS: usize = 160;

/// What became of the traffic.
pub(super) struct Played {
    pub(super) requests: u64,
    pub(super) allowed: u64,
    /// How many of those only in part.
    pub(super) in_part: u64,
    pub(super) units: u64,
    pub(super) largest_cost: u64,
    /// The unit of the first limit, which `units` and `most` count.
    pub(super) unit: Box<str>,
    /// Whether a tier or a factor applied.
    pub(super) has_tiers: bool,
    /// How many requests were repeated after a refusal.
    pub(super) retries: u64,
    /// How many requests were refused for good.
    pub(super) given_up: u64,
    pub(super) refused_by: Vec<u64>,
    /// How many requests shadow limits would have refused, whatever the others decided.
    pub(super) in_shadow: u64,
    pub(super) shadow_refused_by: Vec<u64>,
    /// Some of them, enough to draw.
    pub(super) refusals: Refusals,
    longest: LongestWait,
    pub(super) timeline: Timeline,
    /// The same requests; those that only a shadow limit would have refused are not allowed here.
    pub(super) in_shadow_over_time: Timeline,
    /// When the last request was allowed.
    pub(super) last_allowed_us: u64,
    /// What was left to the watched key.
    pub(super) level: Vec<(u64, f64)>,
    pub(super) most: MostWithin,
}

/// What is played, and for how long.
pub(super) struct Play<'a> {
    pub(super) callers: &'a Callers,
    pub(super) tiers: &'a [String],
    pub(super) from_us: u64,
    /// When the simulation ends.
    pub(super) until_us: u64,
    /// How often and when a refused client comes back.
    pub(super) retries: Retries,
}

impl Play<'_> {
    pub(super) fn run(
        &self,
        policy: &PolicyConfig,
        arrivals: &[Arrival],
        window: Duration,
    ) -> Result<Played, StoreError> {
        let stage = Stage::new(policy)?;
        let mut played = Played::new(policy.limits(), window);
        let mut samples = (0..=SAMPLES)
            .map(|sample| self.from_us + (self.until_us - self.from_us) * sample / SAMPLES)
            .peekable();
        // Time, request and attempt. At the same instant, first attempts come before repeated ones.
        let mut back: BinaryHeap<Reverse<(u64, usize, u32)>> = BinaryHeap::new();
        let mut next = 0;
        loop {
            let first = arrivals.get(next).map(|arrival| arrival.t_us);
            let returns =
                back.peek().filter(|Reverse((t_us, ..))| first.is_none_or(|first| *t_us < first));
            let (t_us, place, attempt) = match (returns, first) {
                (Some(Reverse(returning)), _) => *returning,
                (None, Some(first)) => (first, next, 0),
                (None, None) => break,
            };
            if attempt > 0 {
                back.pop();
            } else {
                next += 1;
            }
            while let Some(sample) = samples.next_if(|sample| *sample <= t_us) {
                played.sample(&stage, self.callers.watched_name(), sample)?;
            }
            let Arrival { cost, tier, factor, .. } = arrivals[place].clone();
            let key = self.callers.places[place];
            let tier = tier.map(|tier| Cow::Borrowed(&*self.tiers[tier]));
            let event =
                Event { tier, factor, cost, ..Event::check(t_us, &*self.callers.names[key]) };
            let (resolved, answer) = stage.play(&event)?;
            let checked =
                Checked { resolved: &resolved, t_us, key: &event.key, decision: &answer.decision };
            let resolution = resolved.resolution();
            played.has_tiers |= resolution.origin == Origin::Tier || resolution.factor.is_some();
            played.add(&checked, key, attempt);
            if !checked.is_refused() {
                continue;
            }
            let may_return = attempt < self.retries.most && played.requests < MOST as u64;
            let wait_us = self.retries.wait_us(answer.decision.retry_after().map(micros_up));
            let returns_us = wait_us.map(|wait_us| t_us.saturating_add(wait_us));
            match returns_us.filter(|returns_us| may_return && *returns_us < self.until_us) {
                Some(returns_us) => back.push(Reverse((returns_us, place, attempt + 1))),
                None => played.given_up += 1,
            }
        }
        for sample in samples {
            played.sample(&stage, self.callers.watched_name(), sample)?;
        }
        Ok(played)
    }
}

impl Played {
    fn new(limits: &[Limit], window: Duration) -> Played {
        Played {
            requests: 0,
            allowed: 0,
            in_part: 0,
            units: 0,
            largest_cost: 0,
            unit: limits.first().map_or("requests", Limit::unit).into(),
            has_tiers: false,
            retries: 0,
            given_up: 0,
            refused_by: vec![0; limits.len()],
            in_shadow: 0,
            shadow_refused_by: vec![0; limits.len()],
            refusals: Refusals::default(),
            longest: LongestWait::default(),
            timeline: Timeline::new(BINS),
            in_shadow_over_time: Timeline::new(BINS),
            last_allowed_us: 0,
            level: Vec::new(),
            most: MostWithin::new(window),
        }
    }

    fn add(&mut self, checked: &Checked<'_>, key: usize, attempt: u32) {
        let (is_refused, decision) = (checked.is_refused(), checked.decision);
        self.requests += 1;
        let cost = checked.resolved.cost();
        self.largest_cost = self.largest_cost.max(cost.of(&self.unit));
        self.retries += u64::from(attempt > 0);
        self.timeline.add(checked.t_us, !is_refused);
        let is_listed =
            matches!(checked.resolved.resolution().action, Action::Block | Action::Exempt);
        let by_shadow = decision.shadow_refused_by();
        let is_in_shadow = !is_listed && !by_shadow.is_empty();
        self.in_shadow += u64::from(is_in_shadow);
        self.in_shadow_over_time.add(checked.t_us, is_refused || !is_in_shadow);
        if is_in_shadow && !checked.resolved.is_by_key() {
            by_shadow.iter().for_each(|limit| self.shadow_refused_by[limit] += 1);
        }
        if is_refused {
            let by = decision.refused_by();
            for limit in by.iter().filter(|_| !checked.resolved.is_by_key()) {
                self.refused_by[limit] += 1;
            }
            self.longest.add(decision.retry_after().map(micros_up));
            self.refusals.add(|| checked.refusal());
        } else {
            self.allowed += 1;
            self.last_allowed_us = self.last_allowed_us.max(checked.t_us);
            self.in_part += u64::from(!decision.is_allowed());
            let granted = cost.granted(decision.granted()).of(&self.unit);
            self.units = self.units.saturating_add(granted);
            if !checked.resolved.is_by_key() {
                self.most.add(key, checked.t_us, granted);
            }
        }
    }

    /// Samples what is left to a key, as a share of its limit.
    fn sample(&mut self, stage: &Stage<'_>, key: &str, t_us: u64) -> Result<(), StoreError> {
        let peek = Event { op: Op::Peek, ..Event::check(t_us, key) };
        let peek = stage.play(&peek)?.1.decision;
        let level = match (peek.remaining(), peek.limit()) {
            (Some(remaining), Some(limit)) if limit > 0 => remaining as f64 / limit as f64,
            // Without a number, all or nothing.
            _ => f64::from(u8::from(peek.is_allowed())),
        };
        self.level.push((t_us, level));
        Ok(())
    }

    pub(super) fn refused(&self) -> u64 {
        self.requests - self.allowed
    }

    /// The longest advised wait, if a request was refused.
    pub(super) fn longest_wait(&self) -> Option<LongestWait> {
        (self.refused() > 0).then_some(self.longest)
    }
}
