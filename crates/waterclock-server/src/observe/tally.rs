//! `waterclock_decisions_total`: decisions by policy, outcome and protocol.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use prometheus_client::encoding::{EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use serde::Serialize;

use super::Face;
use crate::engine::Outcome;

const OUTCOMES: [&str; 4] = ["allow", "deny", "shadow_deny", "error"];

/// The counters of every policy that was ever in a file: what was decided stays decided when a policy goes. There may be
/// policies by the thousand, so labels are made only when they are written.
#[derive(Clone, Debug, Default)]
pub(super) struct Decisions {
    tallies: Arc<Mutex<HashMap<Box<str>, Tally>>>,
    /// Of policies that are forgotten.
    gone: Arc<Mutex<Totals>>,
}

impl Decisions {
    /// The counters of a policy; the same ones whenever it is asked for by name.
    pub(super) fn tally(&self, policy: &str) -> Tally {
        self.tallies.lock().entry(policy.into()).or_default().clone()
    }

    /// Forgets the counters of a policy; its decisions stay in the totals.
    pub(super) fn forget(&self, policy: &str) {
        let forgotten = self.tallies.lock().remove(policy);
        forgotten.iter().for_each(|tally| self.gone.lock().add(tally.totals()));
    }

    pub(super) fn each(&self, mut look: impl FnMut(&str, &Tally)) {
        self.tallies.lock().iter().for_each(|(policy, tally)| look(policy, tally));
    }

    pub(super) fn totals(&self) -> Totals {
        let mut totals = *self.gone.lock();
        self.tallies.lock().values().for_each(|tally| totals.add(tally.totals()));
        totals
    }
}

impl EncodeMetric for Decisions {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), std::fmt::Error> {
        for (policy, tally) in &*self.tallies.lock() {
            for (face, counts) in Face::ALL.into_iter().zip(&tally.counts.by_face) {
                for (outcome, count) in OUTCOMES.into_iter().zip(counts) {
                    let labels =
                        [("policy", &**policy), ("outcome", outcome), ("face", face.name())];
                    let count = ConstCounter::new(count.load(Ordering::Relaxed));
                    count.encode(encoder.encode_family(&labels)?)?;
                }
            }
        }
        Ok(())
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Counter
    }
}

/// The decisions of one policy, by face and outcome.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    by_face: [[AtomicU64; 4]; 3],
    /// Decisions when they were last sampled.
    sampled: AtomicU64,
    /// Decisions of about the last hour: an older one counts less.
    lately: AtomicU64,
}

impl Tally {
    #[inline]
    pub(crate) fn count(&self, face: Face, outcome: Outcome) {
        self.count_many(face, outcome, 1);
    }

    #[inline]
    pub(crate) fn count_many(&self, face: Face, outcome: Outcome, many: u64) {
        let outcome = match outcome {
            Outcome::Allow => 0,
            Outcome::Deny => 1,
            Outcome::ShadowDeny => 2,
            Outcome::Error => 3,
        };
        self.counts.by_face[face as usize][outcome].fetch_add(many, Ordering::Relaxed);
    }

    pub(crate) fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for of_face in &self.counts.by_face {
            let [allowed, refused, shadow_refused, error] =
                of_face.each_ref().map(|count| count.load(Ordering::Relaxed));
            totals.add(Totals { allowed, refused, shadow_refused, error });
        }
        totals
    }

    /// Brings [`lately`](Tally::lately) up to date. Returns how many decisions there were before this sample.
    pub(super) fn sample(&self, totals: Totals) -> u64 {
        let now = totals.sum();
        let before = self.counts.sampled.swap(now, Ordering::Relaxed);
        self.counts.lately.fetch_add(now.saturating_sub(before), Ordering::Relaxed);
        before
    }

    /// Makes older decisions count less; once a minute, so that they count half after 44 of them.
    pub(super) fn fade(&self) {
        let lately = self.counts.lately.load(Ordering::Relaxed);
        self.counts.lately.store(lately - lately.div_ceil(64), Ordering::Relaxed);
    }

    /// How busy the policy has been, to compare it with others.
    pub(super) fn lately(&self) -> u64 {
        self.counts.lately.load(Ordering::Relaxed)
    }
}

/// Decisions so far, of all faces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Totals {
    pub(crate) allowed: u64,
    pub(crate) refused: u64,
    pub(crate) shadow_refused: u64,
    pub(crate) error: u64,
}

impl Totals {
    pub(crate) fn add(&mut self, other: Totals) {
        self.allowed += other.allowed;
        self.refused += other.refused;
        self.shadow_refused += other.shadow_refused;
        self.error += other.error;
    }

    pub(super) fn sum(&self) -> u64 {
        self.allowed + self.refused + self.shadow_refused + self.error
    }

    pub(crate) fn is_zero(&self) -> bool {
        *self == Totals::default()
    }
}
