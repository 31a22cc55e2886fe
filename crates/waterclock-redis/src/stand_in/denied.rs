//! Refusals that still hold.
//!
//! A key that was refused stays refused until its wait is over, unless somebody gives units back.
//! Others can only use it up further. So the state that was refused answers for the store meanwhile,
//! for at most a second: after that, what was given back elsewhere must show.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use waterclock::store::Decide as _;
use waterclock::{Answer, Cost, Limit, Mode, Source, Verb};

use crate::decide::{Found, Line};
use crate::entry::Entry;
use crate::held::Held;

/// How long a refusal is believed, whatever it said.
const LONGEST: Duration = Duration::from_secs(1);
/// Two clocks differ by less than a thousandth.
const DRIFT: u32 = 1_000;

#[derive(Debug)]
pub(crate) struct Denied {
    most: usize,
    refusals: Mutex<HashMap<Vec<u8>, Refusal>>,
}

#[derive(Debug)]
struct Refusal {
    held: Held,
    /// Refused was this much; a smaller cost may pass.
    cost: Cost,
    /// When the question was sent, which is before it was decided.
    sent: Instant,
    holds: Duration,
}

impl Refusal {
    /// How long ago it may have been decided at most, by the server's clock.
    fn age(&self, now: Instant) -> Duration {
        let age = now.duration_since(self.sent);
        age + age / DRIFT
    }
}

impl Denied {
    pub(crate) fn new(most: usize) -> Self {
        Self { most, refusals: Mutex::default() }
    }

    /// The refusal of a line, if it is still certain.
    pub(crate) fn answer(&self, line: &Line, now: Instant) -> Option<Answer> {
        if !lasts(&line.entry) {
            return None;
        }
        let mut refusals = self.refusals.lock();
        let refusal = refusals.get(&line.record.bytes)?;
        let age = refusal.age(now);
        if age >= refusal.holds {
            refusals.remove(&line.record.bytes);
            return None;
        }
        if !line.cost.covers(&refusal.cost) {
            return None;
        }
        let mut held = refusal.held.clone();
        drop(refusals);
        held.now = held.now.after(age);
        let answer = held.answer(&line.entry.policy, Verb::Peek, &line.cost);
        let refused = !answer.decision.is_allowed();
        refused.then_some(Answer { source: Source::DeniedCache, ..answer })
    }

    /// Remembers a refusal. Uniform policies record every attempt, so the store must see it.
    pub(crate) fn note(&self, line: &Line, found: &Found, answer: &Answer, sent: Instant) {
        if self.most == 0 || answer.decision.is_allowed() || !lasts(&line.entry) {
            return;
        }
        let holds = answer.decision.retry_after().unwrap_or(LONGEST).min(LONGEST);
        let refusal = Refusal { held: found.held.clone(), cost: line.cost.clone(), sent, holds };
        let mut refusals = self.refusals.lock();
        if refusals.len() >= self.most {
            refusals.retain(|_, refusal| refusal.age(sent) < refusal.holds);
        }
        if refusals.len() < self.most {
            refusals.insert(line.record.bytes.clone(), refusal);
        }
    }

    /// Something was given back: ask again.
    pub(crate) fn forget(&self, lines: &[Line]) {
        let mut refusals = self.refusals.lock();
        for line in lines {
            refusals.remove(&line.record.bytes);
        }
    }
}

/// Whether a refusal changes nothing, so that the next one need not be told to the store. Uniform
/// policies and shadow limits record attempts; and logs are too long to keep.
fn lasts(entry: &Entry) -> bool {
    let policy = &entry.policy;
    // Under another policy of its family a key may be free sooner.
    entry.family.is_none()
        && policy.mode() == Mode::Binary
        && !policy.keeps_logs()
        && !policy.limits().iter().any(Limit::is_shadow)
}
