//! Traffic under one policy, in virtual time.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::time::Duration;

use waterclock::{Limit, Origin, StoreError};
use waterclock_config::{PolicyConfig, micros_up};

use super::arrivals::{Arrival, MOST};
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
    /// Some of them, enough to draw.
    pub(super) refusals: Refusals,
    longest: LongestWait,
    pub(super) timeline: Timeline,
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
    /// How often a refused client comes back.
    pub(super) retries: u32,
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
            let may_return = attempt < self.retries && played.requests < MOST as u64;
            let returns_us =
                answer.decision.retry_after().map(|wait| t_us.saturating_add(micros_up(wait)));
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
            refusals: Refusals::default(),
            longest: LongestWait::default(),
            timeline: Timeline::new(BINS),
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
        if is_refused {
            let by = decision.refused_by();
            for limit in by.iter().filter(|_| !checked.resolved.is_by_key()) {
                self.refused_by[limit] += 1;
            }
            self.longest.add(decision.retry_after().map(micros_up));
            self.refusals.add(|| checked.refusal());
        } else {
            self.allowed += 1;
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

/// The most units that one key was allowed in any time span of some length.
pub(super) struct MostWithin {
    window_us: u64,
    recent: HashMap<usize, Recent>,
    most: u128,
}

#[derive(Default)]
struct Recent {
    allowed: VecDeque<(u64, u64)>,
    units: u128,
}

impl MostWithin {
    fn new(window: Duration) -> MostWithin {
        let window_us = u64::try_from(window.as_micros()).unwrap_or(u64::MAX);
        MostWithin { window_us, recent: HashMap::new(), most: 0 }
    }

    /// Counts units in the order of time.
    fn add(&mut self, key: usize, t_us: u64, units: u64) {
        let recent = self.recent.entry(key).or_default();
        recent.allowed.push_back((t_us, units));
        recent.units += u128::from(units);
        // A span includes its start and not its end.
        while let Some(&(first, units)) = recent.allowed.front()
            && t_us - first >= self.window_us
        {
            recent.units -= u128::from(units);
            recent.allowed.pop_front();
        }
        self.most = self.most.max(recent.units);
    }

    pub(super) fn units(&self) -> u64 {
        u64::try_from(self.most).unwrap_or(u64::MAX)
    }

    pub(super) fn window_us(&self) -> u64 {
        self.window_us
    }
}
