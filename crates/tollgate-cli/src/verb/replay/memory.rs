//! A trace through a limiter of this process.

use std::io::BufRead;

use tollgate::{Decision, KeyedLimiter, ManualClock, Policy, Timestamp};

use super::conclude;
use super::event::{Event, Op};
use super::report::Report;
use super::trace::Trace;
use crate::failure::Failure;

pub(super) fn play(
    policy: Policy,
    mut trace: Trace<impl BufRead>,
    mut report: impl Report,
) -> Result<(), Failure> {
    let stage = Stage::new(&policy);
    let mut is_empty = true;
    let complaint = loop {
        match trace.next_event() {
            Ok(Some(event)) => {
                is_empty = false;
                report.add(&policy, &event, &stage.decide(&event))?;
            }
            Ok(None) => break None,
            Err(failure) => break Some(failure),
        }
    };
    conclude(&policy, report, is_empty, complaint)
}

/// A limiter whose clock the trace turns.
struct Stage {
    limiter: KeyedLimiter<str, ManualClock>,
    clock: ManualClock,
}

impl Stage {
    fn new(policy: &Policy) -> Stage {
        let clock = ManualClock::default();
        // A bound on keys would make decisions depend on it.
        let limiter =
            KeyedLimiter::builder(policy.clone()).max_keys(usize::MAX).clock(clock.clone()).build();
        Stage { limiter, clock }
    }

    fn decide(&self, event: &Event<'_>) -> Decision {
        let (key, cost) = (event.key.as_ref(), event.cost);
        self.clock.set(Timestamp::from_micros(event.t_us));
        match event.op {
            Op::Check => return self.limiter.check_n(key, cost),
            Op::Peek => {}
            Op::Refund => self.limiter.refund(key, cost),
            Op::Reset => self.limiter.reset(key),
        }
        self.limiter.peek_n(key, cost)
    }
}
