//! `waterclock_decision_duration_seconds`: how long decisions took, by protocol.
//!
//! The buckets are finer than the ones that are exported, so that a quantile is at most half above the truth.

use std::array;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

use super::Face;
use super::metrics::BUCKETS;
use crate::otlp::in_digits;

/// Buckets in a factor of ten.
const STEPS: [u64; 9] = [1_000, 1_500, 2_000, 2_500, 3_000, 4_000, 5_000, 6_000, 8_000];
/// From 1 µs to 8 s.
const DECADES: usize = 7;
const EDGES: usize = STEPS.len() * DECADES;
/// One more, for what took longer than all edges.
pub(super) const FINE: usize = EDGES + 1;

/// The largest duration of each bucket, in nanoseconds; the last one has none.
const EDGES_NS: [u64; EDGES] = {
    let mut edges = [0; EDGES];
    let (mut at, mut scale) = (0, 1);
    while at < EDGES {
        edges[at] = STEPS[at % STEPS.len()] * scale;
        at += 1;
        if at % STEPS.len() == 0 {
            scale *= 10;
        }
    }
    edges
};

/// How many decisions took how long, by protocol.
#[derive(Clone, Debug, Default)]
pub(super) struct Durations {
    of: Arc<[OfFace; 3]>,
    /// The last decision of a sampled caller in each exported bucket, by protocol.
    exemplars: Arc<Mutex<BTreeMap<(usize, usize), Exemplar>>>,
}

/// A decision as an example of its bucket.
#[derive(Debug)]
struct Exemplar {
    trace: [u8; 16],
    seconds: f64,
}

#[derive(Debug)]
struct OfFace {
    counts: [AtomicU64; FINE],
    sum_ns: AtomicU64,
}

impl Default for OfFace {
    fn default() -> OfFace {
        OfFace { counts: array::from_fn(|_| AtomicU64::new(0)), sum_ns: AtomicU64::new(0) }
    }
}

/// How many decisions of one protocol are in each bucket.
pub(super) type Counts = [u64; FINE];

impl Durations {
    #[inline]
    pub(super) fn observe(&self, face: Face, took: Duration) {
        let took = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let bucket = EDGES_NS.partition_point(|edge| *edge < took);
        let of = &self.of[face as usize];
        of.counts[bucket].fetch_add(1, Ordering::Relaxed);
        of.sum_ns.fetch_add(took, Ordering::Relaxed);
    }

    /// Remembers the trace of a decision.
    pub(super) fn note_exemplar(&self, face: Face, took: Duration, trace: [u8; 16]) {
        let seconds = took.as_secs_f64();
        let bucket = BUCKETS.iter().position(|edge| seconds <= *edge).unwrap_or(BUCKETS.len());
        self.exemplars.lock().insert((face as usize, bucket), Exemplar { trace, seconds });
    }

    /// The text of all metrics with the exemplars of this one, which has its buckets in the order of protocols.
    pub(super) fn with_exemplars(&self, text: String) -> String {
        const BUCKET: &str = "waterclock_decision_duration_seconds_bucket";
        let exemplars = self.exemplars.lock();
        if exemplars.is_empty() {
            return text;
        }
        let (mut with, mut place) = (String::with_capacity(text.len()), 0);
        for line in text.lines() {
            with.push_str(line);
            if line.starts_with(BUCKET) {
                let of = (place / (BUCKETS.len() + 1), place % (BUCKETS.len() + 1));
                place += 1;
                if let Some(Exemplar { trace, seconds }) = exemplars.get(&of) {
                    with.push_str(&format!(" # {{trace_id=\"{}\"}} {seconds}", in_digits(trace)));
                }
            }
            with.push('\n');
        }
        with
    }

    pub(super) fn counts(&self, face: Face) -> Counts {
        let of = &self.of[face as usize];
        of.counts.each_ref().map(|count| count.load(Ordering::Relaxed))
    }
}

/// The bucket below or at whose edge this share of the decisions lies; `None` if there are none.
pub(super) fn quantile(counts: &Counts, per_mille: u64) -> Option<usize> {
    let all: u64 = counts.iter().sum();
    let rank = (u128::from(all) * u128::from(per_mille)).div_ceil(1_000).max(1);
    let mut below = 0;
    let at = counts.iter().position(|count| {
        below += u128::from(*count);
        below >= rank
    });
    at.filter(|_| all > 0)
}

/// The largest duration of a bucket, in microseconds; infinite for the last one.
pub(super) fn edge_us(bucket: usize) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "at most 8 s in nanoseconds")]
    EDGES_NS.get(bucket).map_or(f64::INFINITY, |edge| *edge as f64 / 1e3)
}

impl EncodeMetric for Durations {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), std::fmt::Error> {
        for face in Face::ALL {
            let counts = self.counts(face);
            let mut exported = BUCKETS.map(|edge| (edge, 0)).to_vec();
            exported.push((f64::MAX, 0));
            for (bucket, count) in counts.iter().enumerate() {
                let edge = edge_us(bucket) / 1e6;
                // Every exported edge is one of the fine ones; the tolerance is for their last binary digit.
                let into = exported.iter().position(|(upper, _)| edge <= upper * (1.0 + 1e-9));
                let into = into.unwrap_or(BUCKETS.len());
                exported[into].1 += count;
            }
            let sum_ns = self.of[face as usize].sum_ns.load(Ordering::Relaxed);
            let sum = Duration::from_nanos(sum_ns).as_secs_f64();
            let labels = [("face", face.name())];
            let mut of_face = encoder.encode_family(&labels)?;
            of_face.encode_histogram::<NoLabelSet>(sum, counts.iter().sum(), &exported, None)?;
        }
        Ok(())
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Histogram
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;
    use prometheus_client::metrics::family::Family;
    use prometheus_client::metrics::histogram::Histogram;
    use prometheus_client::registry::{Registry, Unit};

    use super::*;

    fn text(metric: impl prometheus_client::registry::Metric) -> String {
        let mut registry = Registry::default();
        registry.register_with_unit("took", "help", Unit::Seconds, metric);
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        let mut lines: Vec<&str> = text.lines().filter(|line| !line.contains("_sum")).collect();
        lines.sort_unstable();
        lines.join("\n")
    }

    /// What Prometheus reads is what a plain histogram of the exported buckets would say.
    #[test]
    fn exported_as_a_plain_histogram() {
        let ours = Durations::default();
        let plain = Family::<[(&str, String); 1], Histogram>::new_with_constructor(|| {
            Histogram::new(BUCKETS)
        });
        for face in Face::ALL {
            drop(plain.get_or_create(&[("face", face.name().to_owned())]));
        }
        let mut random = fastrand::Rng::with_seed(3);
        for _ in 0..10_000 {
            // The edges themselves, and a nanosecond beside them.
            let edge = EDGES_NS[random.usize(..EDGES)];
            let took = Duration::from_nanos(edge + random.u64(..3) - 1);
            let face = Face::ALL[random.usize(..3)];
            ours.observe(face, took);
            let labels = [("face", face.name().to_owned())];
            plain.get_or_create(&labels).observe(took.as_secs_f64());
        }
        ours.observe(Face::Http, Duration::from_secs(100));
        plain.get_or_create(&[("face", "http".to_owned())]).observe(100.0);
        assert_eq!(text(ours), text(plain));
    }

    #[test]
    fn a_quantile_is_never_below_the_truth_and_hardly_above() {
        let mut random = fastrand::Rng::with_seed(4);
        for _ in 0..200 {
            let durations = Durations::default();
            let mut truth: Vec<u64> = (0..random.usize(1..500))
                .map(|_| 1_000 + random.u64(..10_000) * random.u64(..10_000))
                .collect();
            truth.iter().for_each(|ns| durations.observe(Face::Grpc, Duration::from_nanos(*ns)));
            truth.sort_unstable();
            for per_mille in [1, 500, 990, 1_000] {
                let rank = (truth.len() * per_mille).div_ceil(1_000);
                let exact = truth[rank - 1] as f64 / 1e3;
                let counts = durations.counts(Face::Grpc);
                let told = edge_us(quantile(&counts, per_mille as u64).unwrap());
                assert!(exact <= told && told <= exact * 1.51, "{exact} {told}");
            }
        }
        assert_eq!(quantile(&[0; FINE], 500), None);
    }
}
