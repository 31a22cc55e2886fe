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

    pub(super) fn totals(&self) -> Totals {
        let mut totals = *self.gone.lock();
        self.tallies.lock().values().for_each(|tally| totals.add(tally.totals()));
        totals
    }
}

impl EncodeMetric for Decisions {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), std::fmt::Error> {
        for (policy, tally) in &*self.tallies.lock() {
            for (face, counts) in Face::ALL.into_iter().zip(&*tally.counts) {
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
    counts: Arc<[[AtomicU64; 4]; 3]>,
}

impl Tally {
    #[inline]
    pub(crate) fn count(&self, face: Face, outcome: Outcome) {
        let outcome = match outcome {
            Outcome::Allow => 0,
            Outcome::Deny => 1,
            Outcome::ShadowDeny => 2,
            Outcome::Error => 3,
        };
        self.counts[face as usize][outcome].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for of_face in &*self.counts {
            let [allowed, refused, shadow_refused, error] =
                of_face.each_ref().map(|count| count.load(Ordering::Relaxed));
            totals.add(Totals { allowed, refused, shadow_refused, error });
        }
        totals
    }
}

/// Decisions so far, of all faces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Totals {
    allowed: u64,
    refused: u64,
    shadow_refused: u64,
    error: u64,
}

impl Totals {
    pub(crate) fn add(&mut self, other: Totals) {
        self.allowed += other.allowed;
        self.refused += other.refused;
        self.shadow_refused += other.shadow_refused;
        self.error += other.error;
    }

    pub(crate) fn is_zero(&self) -> bool {
        *self == Totals::default()
    }
}
