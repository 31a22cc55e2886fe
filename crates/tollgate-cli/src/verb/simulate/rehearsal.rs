//! A policy meets traffic, in virtual time.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use tollgate::StoreError;
use tollgate_server::decision_line::micros_up;

use super::arrivals::Arrival;
use super::most::Most;
use crate::picture::Refusal;
use crate::report::Checked;
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

/// Who plays, and how long is looked.
pub(super) struct Play<'a> {
    pub(super) names: &'a [String],
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
        let mut rehearsal = Rehearsal::new(ruling.spec().built.limits().len(), window);
        let mut looks = (0..=LOOKS)
            .map(|look| self.from_us + (self.until_us - self.from_us) * look / LOOKS)
            .peekable();
        // Those who come back stand behind those who come for the first time at the same instant.
        let mut back: BinaryHeap<Reverse<(u64, u64, u32, usize)>> = BinaryHeap::new();
        let mut arrivals = arrivals.iter().copied().peekable();
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
            while let Some(look) = looks.next_if(|look| *look <= arrival.t_us) {
                rehearsal.look(&stage, &self.names[0], look)?;
            }
            let event = event(arrival.t_us, &self.names[arrival.key], arrival.cost, Op::Check);
            let (turn, decision) = stage.play(&event)?;
            let (t_us, key, cost) = (arrival.t_us, &*event.key, arrival.cost);
            let checked = Checked { turn: &turn, t_us, key, cost, decision: &decision };
            rehearsal.add(&checked, arrival.key, attempt);
            if !checked.is_refused() {
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
        for look in looks {
            rehearsal.look(&stage, &self.names[0], look)?;
        }
        Ok(rehearsal)
    }
}

fn event(t_us: u64, key: &str, cost: u64, op: Op) -> Event<'_> {
    Event { t_us, key: Cow::Borrowed(key), cost, op, tier: None }
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

    fn add(&mut self, checked: &Checked<'_>, key: usize, attempt: u32) {
        let (is_refused, decision) = (checked.is_refused(), checked.decision);
        self.requests += 1;
        self.largest_cost = self.largest_cost.max(checked.cost);
        self.retries += u64::from(attempt > 0);
        self.timeline.add(checked.t_us, !is_refused);
        if is_refused {
            let by = decision.refused_by();
            for limit in by.iter().filter(|_| !checked.turn.is_particular()) {
                self.refused_by[limit] += 1;
            }
            self.refusals.push(checked.refusal());
        } else {
            self.admitted += 1;
            self.in_part += u64::from(!decision.is_allowed());
            self.units += decision.granted();
            if !checked.turn.is_particular() {
                self.most.add(key, checked.t_us, decision.granted());
            }
        }
    }

    /// What is left to the first key, as a share of its limit.
    fn look(&mut self, stage: &Stage<'_>, key: &str, t_us: u64) -> Result<(), StoreError> {
        let (_, peek) = stage.play(&event(t_us, key, 1, Op::Peek))?;
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

    pub(super) fn longest_wait_us(&self) -> Option<u64> {
        self.refusals.iter().filter_map(|refusal| refusal.wait_us).max()
    }
}
