//! A cache of refusals that still hold.
//!
//! A refused key stays refused until its wait is over, unless units are given back; other callers can only use it up
//! further. Meanwhile this cache answers from the refused state, without calling Redis, for at most a second: so units that
//! were given back elsewhere count after a second at the latest.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use waterclock::{Answer, Cost, Limit, Mode, Source, Verb};

use crate::call::KeyCharge;
use crate::keyspace::RecordKey;
use crate::policies::Entry;
use crate::state::KeyState;

/// How long a refusal is used at most.
const LONGEST: Duration = Duration::from_secs(1);
/// Two clocks are assumed to run at rates that differ by less than a thousandth.
const DRIFT: u32 = 1_000;

#[derive(Debug)]
pub(crate) struct DeniedKeys {
    most: usize,
    refusals: Mutex<HashMap<Vec<u8>, Refusal>>,
}

#[derive(Debug)]
struct Refusal {
    /// The policy that refused: another one may mean something else by the same state.
    entry: Arc<Entry>,
    state: KeyState,
    /// The cost that was refused; a smaller one may pass.
    cost: Cost,
    /// When the call was sent, which is before it was decided.
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

impl DeniedKeys {
    pub(crate) fn new(most: usize) -> Self {
        Self { most, refusals: Mutex::default() }
    }

    /// The refusal of a check of this cost, if it is still certain.
    pub(crate) fn answer(&self, key: &KeyCharge, cost: &Cost, now: Instant) -> Option<Answer> {
        if !lasts(&key.entry) {
            return None;
        }
        let mut refusals = self.refusals.lock();
        let refusal = refusals.get(&key.record.bytes)?;
        let age = refusal.age(now);
        if age >= refusal.holds || !Arc::ptr_eq(&refusal.entry, &key.entry) {
            refusals.remove(&key.record.bytes);
            return None;
        }
        // What matters of a log depends on the cost that was asked for.
        let is_certain = if key.entry.shape.keeps_logs() {
            *cost == refusal.cost
        } else {
            cost.covers(&refusal.cost)
        };
        if !is_certain {
            return None;
        }
        let mut state = refusal.state.clone();
        drop(refusals);
        state.now = state.now.after(age);
        let answer = state.answer(&key.entry.policy, Verb::Peek, cost);
        let refused = !answer.decision.is_allowed();
        refused.then_some(answer.with_source(Source::DeniedCache))
    }

    /// Remembers a refusal.
    pub(crate) fn note(&self, key: &KeyCharge, state: &KeyState, answer: &Answer, sent: Instant) {
        if self.most == 0 || answer.decision.is_allowed() || !lasts(&key.entry) {
            return;
        }
        let mut holds = answer.decision.retry_after().unwrap_or(LONGEST).min(LONGEST);
        if key.entry.shape.keeps_logs() {
            // Of a log the state tells no more than when the next unit is free.
            let next = answer.limits.iter().filter_map(|limit| limit.next_unit);
            holds = next.fold(holds, Duration::min);
        }
        let (entry, state, cost) = (Arc::clone(&key.entry), state.clone(), key.cost.clone());
        let refusal = Refusal { entry, state, cost, sent, holds };
        let mut refusals = self.refusals.lock();
        if refusals.len() >= self.most {
            refusals.retain(|_, refusal| refusal.age(sent) < refusal.holds);
        }
        if refusals.len() < self.most {
            refusals.insert(key.record.bytes.clone(), refusal);
        }
    }

    /// Removes a key that has another override.
    pub(crate) fn remove_record(&self, record: &RecordKey) {
        self.refusals.lock().remove(&record.bytes);
    }

    /// Removes keys that were given something back.
    pub(crate) fn remove(&self, keys: &[KeyCharge]) {
        let mut refusals = self.refusals.lock();
        for key in keys {
            refusals.remove(&key.record.bytes);
        }
    }
}

/// Whether a refusal changes nothing, so that Redis need not see the next one. Policies that count refusals and shadow
/// limits record attempts.
fn lasts(entry: &Entry) -> bool {
    let policy = &entry.policy;
    // Under another policy of its family a key may be free sooner.
    entry.family.is_none()
        && policy.mode() == Mode::Binary
        && !policy.limits().iter().any(Limit::is_shadow)
}
