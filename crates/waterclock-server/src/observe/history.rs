//! Decisions of the last hour by the second and of the last day by the minute: in total, and of the busiest policies.
//!
//! A task samples the counters once a second, so a decision costs nothing more. The space does not grow with the number
//! of policies: [`MAX_POLICIES`] of them have a series, and one that is at least twice as busy as the least busy of these
//! takes its place. A restart begins anew; a reload changes nothing.

use std::collections::VecDeque;

use parking_lot::Mutex;

use super::durations::{self, FINE, quantile};
use super::tally::{Tally, Totals};
use super::{Face, Metrics};

/// Policies that have a series of their own.
pub(crate) const MAX_POLICIES: usize = 64;
/// An hour by the second.
pub(crate) const SECONDS: usize = 3_600;
/// A day by the minute.
pub(crate) const MINUTES: usize = 1_440;
const MINUTE: u64 = 60;

/// What all series take at most, in bytes.
#[cfg(test)]
const MAX_BYTES: usize = (1 + MAX_POLICIES) * (SECONDS + MINUTES) * size_of::<Decided>()
    + Face::ALL.len() * (SECONDS + MINUTES) * size_of::<Option<Quantiles>>();

/// Decisions in one second, or in one minute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Decided {
    pub(crate) allowed: u32,
    pub(crate) refused: u32,
    pub(crate) shadow_refused: u32,
    pub(crate) error: u32,
}

/// How long decisions took: half of them, and 99 of 100, at most the edge of these buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Quantiles {
    p50: u8,
    p99: u8,
}

impl Quantiles {
    fn of(counts: &[u64; FINE]) -> Option<Quantiles> {
        let bucket = |per_mille| quantile(counts, per_mille).and_then(|at| u8::try_from(at).ok());
        Some(Quantiles { p50: bucket(500)?, p99: bucket(990)? })
    }

    pub(crate) fn p50_us(self) -> f64 {
        durations::edge_us(self.p50.into())
    }

    pub(crate) fn p99_us(self) -> f64 {
        durations::edge_us(self.p99.into())
    }
}

/// What can be put together: points of several seconds become one of a longer time.
pub(crate) trait Point: Copy + Default {
    fn join(&mut self, other: Self);
}

impl Point for Decided {
    fn join(&mut self, other: Decided) {
        self.allowed = self.allowed.saturating_add(other.allowed);
        self.refused = self.refused.saturating_add(other.refused);
        self.shadow_refused = self.shadow_refused.saturating_add(other.shadow_refused);
        self.error = self.error.saturating_add(other.error);
    }
}

/// Of several seconds, the slowest.
impl Point for Option<Quantiles> {
    fn join(&mut self, other: Option<Quantiles>) {
        *self = match (*self, other) {
            (Some(one), Some(other)) => {
                Some(Quantiles { p50: one.p50.max(other.p50), p99: one.p99.max(other.p99) })
            }
            (one, other) => one.or(other),
        };
    }
}

/// The latest points, in a space that is taken at once.
struct Ring<P> {
    points: VecDeque<P>,
    most: usize,
}

impl<P: Point> Ring<P> {
    fn new(most: usize) -> Ring<P> {
        Ring { points: VecDeque::with_capacity(most), most }
    }

    fn push(&mut self, point: P) {
        if self.points.len() == self.most {
            self.points.pop_front();
        }
        self.points.push_back(point);
    }

    /// The latest groups of `step` points, oldest first, after leaving out the latest `skip` points. A group that is not
    /// complete is left out.
    fn groups(&self, step: usize, skip: usize, most: usize) -> Vec<P> {
        let step = step.max(1);
        let there = self.points.len().saturating_sub(skip);
        let groups = (there / step).min(most);
        let first = there - groups * step;
        let group = |number: usize| {
            let mut joined = P::default();
            let of_group = self.points.range(first + number * step..first + (number + 1) * step);
            of_group.for_each(|point| joined.join(*point));
            joined
        };
        (0..groups).map(group).collect()
    }
}

/// The points of one kind, by the second and by the minute.
struct Series<P> {
    seconds: Ring<P>,
    minutes: Ring<P>,
    /// What the minute that is not over yet has so far.
    minute: P,
}

impl<P: Point> Series<P> {
    fn new() -> Series<P> {
        Series { seconds: Ring::new(SECONDS), minutes: Ring::new(MINUTES), minute: P::default() }
    }

    /// Adds a second, which is the given one since the start.
    fn push(&mut self, second: u64, point: P) {
        self.seconds.push(point);
        self.minute.join(point);
        if (second + 1).is_multiple_of(MINUTE) {
            self.minutes.push(std::mem::take(&mut self.minute));
        }
    }

    fn read(&self, asked: Asked, seconds: u64) -> Vec<P> {
        let (ring, now) = match asked.ring {
            Resolution::Second => (&self.seconds, seconds),
            Resolution::Minute => (&self.minutes, seconds / MINUTE),
        };
        // Groups begin at multiples of the step, so that a point is the same in every answer.
        let skip = usize::try_from(now % asked.step.max(1)).unwrap_or(usize::MAX);
        ring.groups(usize::try_from(asked.step).unwrap_or(usize::MAX), skip, asked.most)
    }
}

struct PolicySeries {
    name: Box<str>,
    tally: Tally,
    before: Totals,
    decided: Series<Decided>,
}

/// Which points are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) ring: Resolution,
    /// How many points of the ring become one.
    pub(crate) step: u64,
    /// How many to return at most.
    pub(crate) most: usize,
}

/// What is kept an hour, and what a day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resolution {
    Second,
    Minute,
}

/// What was decided, and how long that took. Points are oldest first, and all lists end at the same instant.
pub(crate) struct Told {
    /// The end of the last point, in seconds since the server started.
    pub(crate) end: u64,
    /// `None` for a policy that has no series.
    pub(crate) decided: Option<Vec<Decided>>,
    /// By protocol; none for one that has decided nothing.
    pub(crate) latency: [Option<Vec<Option<Quantiles>>>; 3],
}

/// The history of this process.
pub(crate) struct History {
    kept: Mutex<Kept>,
}

struct Kept {
    /// Whole seconds since the start that are recorded.
    seconds: u64,
    before: Totals,
    totals: Series<Decided>,
    /// At most [`MAX_POLICIES`], in no order.
    policies: Vec<PolicySeries>,
    latency: [Option<Latency>; 3],
}

struct Latency {
    before: [u64; FINE],
    series: Series<Option<Quantiles>>,
}

impl Default for History {
    fn default() -> History {
        let (before, totals) = (Totals::default(), Series::new());
        let kept =
            Kept { seconds: 0, before, totals, policies: Vec::new(), latency: [const { None }; 3] };
        History { kept: Mutex::new(kept) }
    }
}

impl History {
    /// Records what happened since the last sample; `seconds` is how many have passed since the start.
    pub(crate) fn sample(&self, metrics: &Metrics, seconds: u64) {
        self.kept.lock().sample(metrics, seconds);
    }

    /// What all policies decided, or one of them.
    pub(crate) fn read(&self, policy: Option<&str>, asked: Asked) -> Told {
        let kept = self.kept.lock();
        let decided = match policy {
            None => Some(kept.totals.read(asked, kept.seconds)),
            Some(name) => {
                let found = kept.policies.iter().find(|series| &*series.name == name);
                found.map(|series| series.decided.read(asked, kept.seconds))
            }
        };
        let of_face = |latency: &Option<Latency>| {
            latency.as_ref().map(|latency| latency.series.read(asked, kept.seconds))
        };
        Told { end: kept.end(asked), decided, latency: kept.latency.each_ref().map(of_face) }
    }

    /// Whether a policy has a series.
    pub(crate) fn knows(&self, policy: &str) -> bool {
        self.kept.lock().policies.iter().any(|series| &*series.name == policy)
    }

    /// What each policy that has a series decided, by name.
    pub(crate) fn by_policy(&self, asked: Asked) -> Vec<(Box<str>, Vec<Decided>)> {
        let kept = self.kept.lock();
        let read =
            |series: &PolicySeries| (series.name.clone(), series.decided.read(asked, kept.seconds));
        let mut policies: Vec<_> = kept.policies.iter().map(read).collect();
        policies.sort_by(|(one, _), (other, _)| one.cmp(other));
        policies
    }

    /// Drops the series of a policy that is gone for good.
    pub(crate) fn forget(&self, policy: &str) {
        self.kept.lock().policies.retain(|series| &*series.name != policy);
    }

    #[cfg(test)]
    fn bytes(&self) -> usize {
        let kept = self.kept.lock();
        fn of<P>(series: &Series<P>) -> usize {
            (series.seconds.points.capacity() + series.minutes.points.capacity()) * size_of::<P>()
        }
        let policies: usize = kept.policies.iter().map(|series| of(&series.decided)).sum();
        let latency: usize = kept.latency.iter().flatten().map(|of_face| of(&of_face.series)).sum();
        of(&kept.totals) + policies + latency
    }
}

impl Kept {
    fn end(&self, asked: Asked) -> u64 {
        let unit = match asked.ring {
            Resolution::Second => 1,
            Resolution::Minute => MINUTE,
        };
        let length = unit * asked.step.max(1);
        self.seconds / length * length
    }

    fn sample(&mut self, metrics: &Metrics, seconds: u64) {
        // After a pause of the whole process, what it decided is spread evenly: nobody knows better.
        let first = self.seconds.max(seconds.saturating_sub(MINUTES as u64 * MINUTE));
        if first >= seconds {
            return;
        }
        let span = first..seconds;
        let totals = metrics.totals();
        record(&mut self.totals, &span, self.before, totals);
        self.before = totals;
        for series in &mut self.policies {
            let totals = series.tally.totals();
            record(&mut series.decided, &span, series.before, totals);
            series.before = totals;
        }
        self.admit(metrics, &span);
        for (face, latency) in Face::ALL.into_iter().zip(&mut self.latency) {
            let counts = metrics.durations(face);
            if latency.is_none() && counts.iter().any(|count| *count > 0) {
                *latency = Some(Latency { before: [0; FINE], series: Series::new() });
            }
            if let Some(latency) = latency {
                latency.push(&span, counts);
            }
        }
        self.seconds = seconds;
    }

    /// Gives a series to a policy that has none, where there is room, or where it is much busier than another.
    fn admit(&mut self, metrics: &Metrics, span: &std::ops::Range<u64>) {
        let is_new_minute = span.start / MINUTE != span.end / MINUTE;
        let mut busiest: Option<(Box<str>, Tally)> = None;
        metrics.each_tally(|name, tally| {
            let totals = tally.totals();
            let before = tally.sample(totals);
            if is_new_minute {
                tally.fade();
            }
            // Requests without a policy are counted under no name.
            let is_idle = name.is_empty() || tally.lately() == 0;
            if is_idle || self.policies.iter().any(|series| &*series.name == name) {
                return;
            }
            if self.policies.len() < MAX_POLICIES {
                let mut decided = Series::new();
                // What it decided before it had a series is not of this second.
                let from = if before == 0 { Totals::default() } else { totals };
                record(&mut decided, &(span.end - 1..span.end), from, totals);
                let (name, tally) = (name.into(), tally.clone());
                self.policies.push(PolicySeries { name, tally, before: totals, decided });
            } else if busiest.as_ref().is_none_or(|(_, most)| most.lately() < tally.lately()) {
                busiest = Some((name.into(), tally.clone()));
            }
        });
        let quietest = self.policies.iter_mut().min_by_key(|series| series.tally.lately());
        if let (Some((name, tally)), Some(quietest)) = (busiest, quietest)
            && tally.lately() > 2 * quietest.tally.lately()
        {
            let before = tally.totals();
            *quietest = PolicySeries { name, tally, before, decided: Series::new() };
        }
    }
}

impl Latency {
    fn push(&mut self, span: &std::ops::Range<u64>, counts: [u64; FINE]) {
        let mut took = counts;
        for (count, before) in took.iter_mut().zip(self.before) {
            *count = count.saturating_sub(before);
        }
        self.before = counts;
        let last = span.end - 1;
        for second in span.clone() {
            self.series.push(second, if second == last { Quantiles::of(&took) } else { None });
        }
    }
}

/// Adds the decisions between two counts to a series, evenly over some seconds; what is left over goes to the last one.
fn record(series: &mut Series<Decided>, span: &std::ops::Range<u64>, from: Totals, to: Totals) {
    let seconds = (span.end - span.start).max(1);
    let part = |from: u64, to: u64, is_last: bool| {
        let all = to.saturating_sub(from);
        let rest = if is_last { all % seconds } else { 0 };
        u32::try_from(all / seconds + rest).unwrap_or(u32::MAX)
    };
    for second in span.clone() {
        let is_last = second + 1 == span.end;
        let decided = Decided {
            allowed: part(from.allowed, to.allowed, is_last),
            refused: part(from.refused, to.refused, is_last),
            shadow_refused: part(from.shadow_refused, to.shadow_refused, is_last),
            error: part(from.error, to.error, is_last),
        };
        series.push(second, decided);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::engine::Outcome;

    const ALL: Asked = Asked { ring: Resolution::Second, step: 1, most: SECONDS };

    fn allow(metrics: &Metrics, policy: &str, times: u32) {
        let tally = metrics.tally(policy);
        (0..times).for_each(|_| tally.count(Face::Http, Outcome::Allow));
    }

    fn allowed(points: &[Decided]) -> Vec<u32> {
        points.iter().map(|point| point.allowed).collect()
    }

    fn of(history: &History, policy: &str, asked: Asked) -> Option<Vec<u32>> {
        history.read(Some(policy), asked).decided.map(|points| allowed(&points))
    }

    #[test]
    fn seconds_become_minutes_and_both_end() {
        let (metrics, history) = (Metrics::default(), History::default());
        let (day, more) = (86_400, 7_261);
        for second in 1..=day + more {
            allow(&metrics, "p", u32::from(second % 2 == 0));
            history.sample(&metrics, second);
        }
        let told = history.read(None, ALL);
        assert_eq!((told.end, told.decided.as_ref().map(Vec::len)), (day + more, Some(SECONDS)));
        assert_eq!(allowed(&told.decided.unwrap())[SECONDS - 3..], [0, 1, 0]);
        let minutes = Asked { ring: Resolution::Minute, step: 1, most: usize::MAX };
        let told = history.read(Some("p"), minutes);
        assert_eq!(told.end, (day + more) / 60 * 60, "the minute that is not over is not told");
        assert_eq!(allowed(&told.decided.unwrap()), [30; MINUTES]);
        let hours = Asked { step: 60, most: 5, ..minutes };
        let told = history.read(Some("p"), hours);
        assert_eq!((told.end, allowed(&told.decided.unwrap())), (26 * 3_600, vec![1_800; 5]));
    }

    #[test]
    fn nothing_is_lost_and_nothing_is_counted_twice() {
        let (metrics, history) = (Metrics::default(), History::default());
        let mut random = fastrand::Rng::with_seed(5);
        let (mut second, mut all) = (0, 0);
        while second < 3_000 {
            second += random.u64(0..4);
            let some = random.u32(0..50);
            all += some;
            allow(&metrics, if random.bool() { "a" } else { "b" }, some);
            history.sample(&metrics, second);
        }
        // What came in the second that is not over yet.
        history.sample(&metrics, second + 1);
        for step in [1, 2, 3] {
            let asked = Asked { step, ..ALL };
            let sum = |points: Vec<u32>| points.iter().sum::<u32>();
            let told = history.read(None, asked);
            let left_out = u32::try_from((second + 1) % step).unwrap() * 50 * 4;
            let told = sum(allowed(&told.decided.unwrap()));
            assert!(told <= all && told + left_out >= all, "{told} of {all}");
            let parts =
                sum(of(&history, "a", asked).unwrap()) + sum(of(&history, "b", asked).unwrap());
            assert!(parts <= all && parts + left_out >= told, "{parts} of {told}");
        }
    }

    /// A process that was stopped for a while.
    #[test]
    fn a_pause_is_filled_evenly() {
        let (metrics, history) = (Metrics::default(), History::default());
        history.sample(&metrics, 10);
        allow(&metrics, "p", 11);
        history.sample(&metrics, 15);
        let told = allowed(&history.read(None, ALL).decided.unwrap());
        assert_eq!(told[10..], [2, 2, 2, 2, 3]);
        history.sample(&metrics, 15);
        history.sample(&metrics, 3);
        assert_eq!(
            allowed(&history.read(None, ALL).decided.unwrap()),
            told,
            "time does not go back"
        );
        history.sample(&metrics, 1_000_000_000);
        assert_eq!(history.read(None, ALL).end, 1_000_000_000);
    }

    #[test]
    fn thousands_of_policies_take_no_more_than_a_few() {
        let (metrics, history) = (Metrics::default(), History::default());
        for second in 1..=180 {
            for policy in 0..5_000 {
                // Those that come last are the busy ones.
                allow(&metrics, &format!("p{policy:04}"), if policy >= 4_990 { 20 } else { 1 });
            }
            metrics.decided_in(Face::Resp, Duration::from_micros(second));
            history.sample(&metrics, second);
        }
        assert!(history.bytes() <= MAX_BYTES, "{} of {MAX_BYTES}", history.bytes());
        const { assert!(MAX_BYTES < 6 << 20) };
        let known = history.by_policy(ALL);
        assert_eq!(known.len(), MAX_POLICIES);
        for policy in 4_990..5_000 {
            assert!(history.knows(&format!("p{policy}")), "{policy} is busy");
        }
        let total = history.read(None, Asked { most: 1, ..ALL }).decided.unwrap();
        assert_eq!(total[0].allowed, 4_990 + 10 * 20, "the sum has all of them");
        // Policies that are about as busy do not take places from each other.
        let names = |history: &History| -> Vec<Box<str>> {
            history.by_policy(ALL).into_iter().map(|(name, _)| name).collect()
        };
        let before = names(&history);
        for second in 181..=400 {
            for policy in 0..5_000 {
                allow(&metrics, &format!("p{policy:04}"), 1);
            }
            history.sample(&metrics, second);
        }
        assert_eq!(names(&history), before);
    }

    #[test]
    fn a_policy_that_is_gone_has_no_history() {
        let metrics = Metrics::default();
        allow(&metrics, "p", 3);
        metrics.history().sample(&metrics, 1);
        assert_eq!(of(metrics.history(), "p", ALL), Some(vec![3]));
        metrics.forget_policy("p");
        assert_eq!(of(metrics.history(), "p", ALL), None);
        allow(&metrics, "p", 5);
        metrics.history().sample(&metrics, 2);
        assert_eq!(of(metrics.history(), "p", ALL), Some(vec![5]), "and begins anew");
        let told = allowed(&metrics.history().read(None, ALL).decided.unwrap());
        assert_eq!(told, [3, 5], "what it decided stays in the sum");
    }

    #[test]
    fn latency_is_told_by_protocol_and_second() {
        let metrics = Metrics::default();
        let took = |face, ms| metrics.decided_in(face, Duration::from_millis(ms));
        (0..98).for_each(|_| took(Face::Http, 1));
        (0..2).for_each(|_| took(Face::Http, 40));
        metrics.history().sample(&metrics, 1);
        metrics.history().sample(&metrics, 2);
        took(Face::Http, 5);
        metrics.history().sample(&metrics, 3);
        let told = metrics.history().read(None, ALL);
        let http = told.latency[Face::Http as usize].as_ref().unwrap();
        let us: Vec<_> = http.iter().map(|at| at.map(|at| (at.p50_us(), at.p99_us()))).collect();
        assert_eq!(us, [Some((1e3, 4e4)), None, Some((5e3, 5e3))]);
        assert!(told.latency[Face::Grpc as usize].is_none());
        let all = metrics.history().read(None, Asked { step: 3, ..ALL });
        let slowest = all.latency[Face::Http as usize].as_ref().unwrap()[0].unwrap();
        assert_eq!((slowest.p50_us(), slowest.p99_us()), (5e3, 4e4), "the slowest second");
    }
}
