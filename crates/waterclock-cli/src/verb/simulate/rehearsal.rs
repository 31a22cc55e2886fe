//! A policy meets traffic, in virtual time.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use waterclock::{Cost, Limit, StoreError};
use waterclock_server::decision_line::micros_up;

use super::arrivals::{Arrival, MOST};
use super::callers::Callers;
use super::most::Most;
use crate::report::{Checked, Longest, Refusals};
use crate::stage::{Ruling, Stage};
use crate::timeline::Timeline;
use crate::trace::{Event, Op};

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
    /// What is counted: of several units that of the first limit.
    pub(super) unit: Box<str>,
    /// Whether somebody had other numbers than the policy's own.
    pub(super) has_tiers: bool,
    /// Of the refused, how many came back as they were told, and how often.
    pub(super) retries: u64,
    /// Who was never admitted, however often they came.
    pub(super) given_up: u64,
    pub(super) refused_by: Vec<u64>,
    /// Some of them, enough to draw.
    pub(super) refusals: Refusals,
    longest: Longest,
    pub(super) timeline: Timeline,
    /// What was left to the one who is watched.
    pub(super) level: Vec<(u64, f64)>,
    pub(super) most: Most,
}

/// Who plays, and how long is looked.
pub(super) struct Play<'a> {
    pub(super) callers: &'a Callers,
    pub(super) tiers: &'a [String],
    pub(super) from_us: u64,
    /// The time after the last request that is still looked at.
    pub(super) until_us: u64,
    /// How often somebody who is refused comes back when told.
    pub(super) retries: u32,
}

impl Play<'_> {
    pub(super) fn rehearse(
        &self,
        ruling: &Ruling,
        arrivals: &[Arrival],
        window: Duration,
    ) -> Result<Rehearsal, StoreError> {
        let stage = Stage::set(ruling)?;
        let mut rehearsal = Rehearsal::new(ruling.spec().built.limits(), window);
        let mut looks = (0..=LOOKS)
            .map(|look| self.from_us + (self.until_us - self.from_us) * look / LOOKS)
            .peekable();
        // When, whose, and for the how many-th time. Those who come back stand behind those who come for the
        // first time at the same instant.
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
            while let Some(look) = looks.next_if(|look| *look <= t_us) {
                rehearsal.look(&stage, self.callers.watched_name(), look)?;
            }
            let Arrival { cost, tier, .. } = arrivals[place].clone();
            let key = self.callers.places[place];
            let tier = tier.map(|tier| Cow::Borrowed(&*self.tiers[tier]));
            let event = Event { tier, ..event(t_us, &self.callers.names[key], cost, Op::Check) };
            let (turn, decision) = stage.play(&event)?;
            let checked = Checked { turn: &turn, t_us, key: &event.key, decision: &decision };
            rehearsal.has_tiers |=
                !turn.is_particular() && turn.policy().name() != ruling.spec().built.name();
            rehearsal.add(&checked, key, attempt);
            if !checked.is_refused() {
                continue;
            }
            let may_return = attempt < self.retries && rehearsal.requests < MOST as u64;
            let returns_us =
                decision.retry_after().map(|wait| t_us.saturating_add(micros_up(wait)));
            match returns_us.filter(|returns_us| may_return && *returns_us < self.until_us) {
                Some(returns_us) => back.push(Reverse((returns_us, place, attempt + 1))),
                None => rehearsal.given_up += 1,
            }
        }
        for look in looks {
            rehearsal.look(&stage, self.callers.watched_name(), look)?;
        }
        Ok(rehearsal)
    }
}

fn event(t_us: u64, key: &str, cost: Option<Cost>, op: Op) -> Event<'_> {
    let other_keys = Cow::Borrowed(&[][..]);
    Event { t_us, key: Cow::Borrowed(key), cost, op, tier: None, other_keys }
}

impl Rehearsal {
    fn new(limits: &[Limit], window: Duration) -> Rehearsal {
        Rehearsal {
            requests: 0,
            admitted: 0,
            in_part: 0,
            units: 0,
            largest_cost: 0,
            unit: limits.first().map_or("requests", Limit::unit).into(),
            has_tiers: false,
            retries: 0,
            given_up: 0,
            refused_by: vec![0; limits.len()],
            refusals: Refusals::default(),
            longest: Longest::default(),
            timeline: Timeline::new(BINS),
            level: Vec::new(),
            most: Most::within(window),
        }
    }

    fn add(&mut self, checked: &Checked<'_>, key: usize, attempt: u32) {
        let (is_refused, decision) = (checked.is_refused(), checked.decision);
        self.requests += 1;
        let cost = checked.turn.cost();
        self.largest_cost = self.largest_cost.max(cost.of(&self.unit));
        self.retries += u64::from(attempt > 0);
        self.timeline.add(checked.t_us, !is_refused);
        if is_refused {
            let by = decision.refused_by();
            for limit in by.iter().filter(|_| !checked.turn.is_particular()) {
                self.refused_by[limit] += 1;
            }
            self.longest.add(decision.retry_after().map(micros_up));
            self.refusals.add(|| checked.refusal());
        } else {
            self.admitted += 1;
            self.in_part += u64::from(!decision.is_allowed());
            let granted = cost.granted(decision.granted()).of(&self.unit);
            self.units = self.units.saturating_add(granted);
            if !checked.turn.is_particular() {
                self.most.add(key, checked.t_us, granted);
            }
        }
    }

    /// What is left to a key, as a share of its limit.
    fn look(&mut self, stage: &Stage<'_>, key: &str, t_us: u64) -> Result<(), StoreError> {
        let (_, peek) = stage.play(&event(t_us, key, None, Op::Peek))?;
        let level = match (peek.remaining(), peek.limit()) {
            (Some(remaining), Some(limit)) if limit > 0 => remaining as f64 / limit as f64,
            // What has no number is open or closed.
            _ => f64::from(u8::from(peek.is_allowed())),
        };
        self.level.push((t_us, level));
        Ok(())
    }

    pub(super) fn refused(&self) -> u64 {
        self.requests - self.admitted
    }

    /// What was advised, if anybody was refused.
    pub(super) fn longest_wait(&self) -> Option<Longest> {
        (self.refused() > 0).then_some(self.longest)
    }
}
