//! What one waiter does next. No timers and no threads here: the caller sleeps.

use std::task::{Context, Poll};
use std::time::Duration;

use waterclock_core::{Decision, Timestamp};

use super::line::Place;
use super::{Options, WaitError};

/// A limiter and a key, as a waiter sees them.
pub(crate) trait Gate: Send + Sync {
    fn now(&self) -> Timestamp;
    fn peek(&self, cost: u64) -> Decision;
    /// Checks without standing back: the caller is the first in line.
    fn check(&self, cost: u64) -> Decision;
    fn refund(&self, cost: u64);
    fn join(&self, cost: u64, most: usize) -> Result<Place<'_>, WaitError>;
}

/// What to do until the next look.
#[derive(Debug)]
pub(crate) enum Step {
    Done(Result<(), WaitError>),
    /// Look again when woken, or after this long.
    Sleep(Option<Duration>),
}

pub(crate) struct Waiter<'a> {
    gate: &'a dyn Gate,
    cost: u64,
    options: Options,
    deadline: Option<Timestamp>,
    place: Option<Place<'a>>,
    /// Asleep until then, unless nudged.
    asleep_until: Option<Timestamp>,
}

impl<'a> Waiter<'a> {
    pub(crate) fn new(gate: &'a dyn Gate, cost: u64, options: Options) -> Self {
        Self { gate, cost, options, deadline: None, place: None, asleep_until: None }
    }

    /// Looks once. When it is done, its place is free again.
    pub(crate) fn step(&mut self, context: &Context<'_>) -> Step {
        let step = self.look(context).unwrap_or_else(|error| Step::Done(Err(error)));
        if let Step::Done(_) = step {
            self.place = None;
        }
        step
    }

    fn look(&mut self, context: &Context<'_>) -> Result<Step, WaitError> {
        if self.cost == 0 {
            return Ok(Step::Done(Ok(())));
        }
        let now = self.gate.now();
        if self.place.is_none() {
            self.enter(now)?;
        }
        let Some(place) = &self.place else { return Ok(Step::Sleep(None)) };
        if let Some(until) = self.asleep_until
            && now < until
            && place.poll_nudged(context).is_pending()
        {
            return Ok(Step::Sleep(Some(until.since(now))));
        }
        self.asleep_until = None;
        let late = self.deadline.is_some_and(|deadline| now > deadline);
        match place.poll_turn(context) {
            Poll::Pending if late => Err(WaitError::Deadline),
            Poll::Pending => {
                // One nanosecond late is late.
                let left = self.deadline.map(|deadline| deadline.since(now));
                Ok(Step::Sleep(left.map(|left| left + Duration::from_nanos(1))))
            }
            // What was promised in time is good even if this thread was woken a little late.
            Poll::Ready(()) => self.try_pass(now, context),
        }
    }

    /// Joins the queue, unless waiting is vain.
    fn enter(&mut self, now: Timestamp) -> Result<(), WaitError> {
        self.deadline = self.options.within.map(|within| now.after(within));
        self.in_time(now, self.gate.peek(self.cost))?;
        self.place = Some(self.gate.join(self.cost, self.options.backlog)?);
        Ok(())
    }

    /// First in line: pass, or sleep for as long as the limiter says.
    fn try_pass(&mut self, now: Timestamp, context: &Context<'_>) -> Result<Step, WaitError> {
        let mut decision = self.gate.peek(self.cost);
        if decision.is_allowed() {
            decision = self.gate.check(self.cost);
            if decision.is_allowed() {
                return Ok(Step::Done(Ok(())));
            }
            // Another check came between; a part of the cost is of no use here.
            self.gate.refund(decision.granted());
        }
        let wait = self.in_time(now, decision)?;
        let until = now.after(wait + self.jitter(now, wait));
        match self.place.as_ref().map(|place| place.poll_nudged(context)) {
            Some(Poll::Pending) => {
                self.asleep_until = Some(until);
                Ok(Step::Sleep(Some(until.since(now))))
            }
            _ => Ok(Step::Sleep(Some(Duration::ZERO))),
        }
    }

    /// The advised wait, if it ends and ends in time.
    fn in_time(&self, now: Timestamp, decision: Decision) -> Result<Duration, WaitError> {
        let wait = decision.retry_after().ok_or(WaitError::Never)?;
        if self.deadline.is_some_and(|deadline| now.after(wait) > deadline) {
            return Err(WaitError::Deadline);
        }
        Ok(wait)
    }

    /// Only ever added, and never beyond the deadline.
    fn jitter(&self, now: Timestamp, wait: Duration) -> Duration {
        let most = match self.deadline {
            Some(deadline) => self.options.jitter.min(deadline.since(now.after(wait))),
            None => self.options.jitter,
        };
        match u64::try_from(most.as_nanos()) {
            Ok(0) => Duration::ZERO,
            most => Duration::from_nanos(fastrand::u64(0..=most.unwrap_or(u64::MAX))),
        }
    }
}
