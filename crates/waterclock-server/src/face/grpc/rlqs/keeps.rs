//! How much of what was charged for a lease the store still counts.

use std::time::Duration;

use waterclock::{Algorithm, Limit, LimitDecision, Policy, Timestamp};

/// The clocks of the server and of a shared store run apart by less than this while a lease lasts.
const MARGIN: Duration = Duration::from_secs(1);

/// How fast the store forgets a charge. Units come back by themselves: a bucket drains, a window ends. To give back what
/// came back already would admit more than the limit.
///
/// A refund of [`Keeps::left`] never makes a key better than it would be without the charge. For a bucket: let Δ be how
/// much higher its level is than without the charge of k units at t₀. Δ begins with k and falls by at most the rate, so
/// at t it is at least k − rate·(t − t₀). The same holds for the sum of several leases, each of which counts the rate
/// for itself. A window that is the same at t and t₀ has forgotten nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Keeps {
    /// Units that drain in a time, at most.
    drain: (u64, Duration),
    /// When a window ends.
    until: Timestamp,
}

impl Keeps {
    /// Nothing can be given back.
    pub(super) const NOTHING: Keeps = Keeps { until: Timestamp::from_nanos(0), ..Keeps::ALL };

    /// Nothing comes back by itself.
    pub(super) const ALL: Keeps =
        Keeps { drain: (0, Duration::from_secs(1)), until: Timestamp::from_nanos(u64::MAX) };

    /// What a charge at `taken` leaves, of which `limits` are the store's numbers.
    pub(super) fn new(policy: &Policy, limits: &[LimitDecision], taken: Timestamp) -> Keeps {
        Keeps::of(policy, limits, taken).unwrap_or(Keeps::NOTHING)
    }

    fn of(policy: &Policy, limits: &[LimitDecision], taken: Timestamp) -> Option<Keeps> {
        let mut keeps = Keeps::ALL;
        let live = policy.limits().iter().zip(limits).filter(|(limit, _)| !limit.is_shadow());
        for (limit, decided) in live {
            let period = limit.period().unwrap_or_default();
            match limit.algorithm() {
                Algorithm::Gcra(_) => {
                    let (units, per) = drain(limit)?;
                    keeps.drains(units, per);
                }
                Algorithm::FixedWindow(_) => keeps.ends(taken.after(decided.reset_after)),
                Algorithm::SlidingWindow(_) => {
                    keeps.ends(taken.after(decided.reset_after.saturating_sub(period)));
                }
                // Logs and stairs: what a refund takes away is not what was charged.
                _ => return None,
            }
        }
        Some(keeps)
    }

    fn drains(&mut self, units: u64, per: Duration) {
        let faster = |(a, b): (u64, Duration), (c, d): (u64, Duration)| {
            u128::from(a) * d.as_nanos() > u128::from(c) * b.as_nanos()
        };
        let per = per.max(Duration::from_nanos(1));
        if faster((units, per), self.drain) {
            self.drain = (units, per);
        }
    }

    fn ends(&mut self, at: Timestamp) {
        self.until = self.until.min(at);
    }

    /// How many of `units`, charged since `taken`, can be given back now.
    pub(super) fn left(&self, units: u64, taken: Timestamp, now: Timestamp) -> u64 {
        if now.after(MARGIN) >= self.until {
            return 0;
        }
        let age = (now.since(taken) + MARGIN).as_nanos();
        let (drain, per) = self.drain;
        let drained = (u128::from(drain) * age).div_ceil(per.as_nanos());
        units.saturating_sub(u64::try_from(drained).unwrap_or(u64::MAX))
    }

    /// What holds for both.
    pub(super) fn and(mut self, other: Keeps) -> Keeps {
        self.drains(other.drain.0, other.drain.1);
        self.ends(other.until);
        self
    }
}

/// What leaves a bucket in a time; none for other algorithms.
pub(super) fn drain(limit: &Limit) -> Option<(u64, Duration)> {
    limit.capacity()?;
    Some((limit.limit().or(limit.drip())?, limit.period().or(limit.every())?))
}

#[cfg(test)]
mod tests {
    use waterclock::{
        Charge, Clock as _, Gcra, ManualClock, MemoryStore, Store as _, Verb, store::now_or_never,
    };

    use super::*;

    /// The keeps of a charge of 10 at 100 s.
    fn keeps(limit: impl Into<Limit>) -> Keeps {
        let clock = ManualClock::default();
        clock.set(Timestamp::from_micros(100_000_000));
        let store = MemoryStore::new(16, clock.clone());
        let policy = Policy::new("p", [limit.into()]).unwrap();
        now_or_never(store.set_policy(policy.clone())).unwrap().unwrap();
        let charges = [Charge::new("p", b"k", 10)];
        let answers = now_or_never(store.apply(Verb::Check, &charges)).unwrap().unwrap();
        Keeps::new(&policy, &answers[0].limits, clock.now())
    }

    fn left(keeps: Keeps, after: u64) -> u64 {
        let taken = Timestamp::from_micros(100_000_000);
        keeps.left(10, taken, taken.after(Duration::from_secs(after)))
    }

    #[test]
    fn buckets_drain_and_windows_end() {
        let hourly = keeps(Limit::per_hour(3_600).with_capacity(50));
        assert_eq!([0, 1, 5, 7, 8, 60].map(|after| left(hourly, after)), [9, 8, 4, 2, 1, 0]);
        let daily = keeps(Gcra::new(100, Duration::from_secs(86_400)).unwrap());
        assert_eq!([0, 600].map(|after| left(daily, after)), [9, 9]);
        let window = keeps("100/m fixed-window".parse_limit());
        assert_eq!([0, 30, 58, 59, 60].map(|after| left(window, after)), [10, 10, 10, 0, 0]);
        let sliding = keeps("100/m sliding-window".parse_limit());
        assert_eq!([0, 18, 19, 30].map(|after| left(sliding, after)), [10, 10, 0, 0]);
        let rolling = keeps("100/m rolling-window".parse_limit());
        assert_eq!(left(rolling, 0), 0);
        assert_eq!(left(hourly.and(window), 5), 4);
        assert_eq!(left(window.and(Keeps::NOTHING), 0), 0);
    }

    /// A key of which some charges are given back later never has more left than one that was never charged with them.
    #[test]
    fn a_refund_leaves_no_key_better_off() {
        let worse = |keeps_all: bool| {
            let mut random = fastrand::Rng::with_seed(3);
            (0..2_000).any(|_| !is_no_better_off(&mut random, keeps_all))
        };
        assert!(!worse(false));
        assert!(worse(true), "what has drained is given back again");
    }

    fn is_no_better_off(random: &mut fastrand::Rng, keeps_all: bool) -> bool {
        let (limit, capacity) = (random.u64(1..50), random.u64(1..100));
        let clock = ManualClock::default();
        let per = Duration::from_secs(random.u64(1..30));
        let limit = Gcra::new(limit, per).unwrap().with_capacity(capacity);
        let policy = Policy::new("p", [Limit::from(limit)]).unwrap();
        let stores = [(); 2].map(|()| MemoryStore::new(16, clock.clone()));
        for store in &stores {
            now_or_never(store.set_policy(policy.clone())).unwrap().unwrap();
        }
        let apply = |store: usize, verb: Verb, units: u64| {
            let charges = [Charge::new("p", b"k", units)];
            let answers = now_or_never(stores[store].apply(verb, &charges)).unwrap().unwrap();
            answers.into_iter().next().unwrap()
        };
        let mut leases: Vec<(u64, Timestamp, Keeps)> = Vec::new();
        clock.set(Timestamp::from_micros(1_000_000_000));
        for _ in 0..60 {
            clock.advance(Duration::from_millis(random.u64(..2_000)));
            let (now, units) = (clock.now(), random.u64(1..=capacity));
            match random.u8(..4) {
                0 => {
                    let answer = apply(0, Verb::Check, units);
                    if answer.decision.is_allowed() {
                        let keeps = Keeps::new(&policy, &answer.limits, now);
                        leases.push((units, now, keeps));
                    }
                }
                1 if !leases.is_empty() => {
                    let (units, taken, keeps) = leases.swap_remove(random.usize(..leases.len()));
                    let keeps = if keeps_all { Keeps::ALL } else { keeps };
                    apply(0, Verb::Refund, keeps.left(units, taken, now));
                }
                _ => {
                    // Spent: in both.
                    if apply(0, Verb::Check, units).decision.is_allowed() {
                        apply(1, Verb::Debit, units);
                    }
                }
            }
            let left = |store| apply(store, Verb::Peek, 0).decision.remaining();
            if left(0) > left(1) {
                return false;
            }
        }
        true
    }

    trait ParseLimit {
        fn parse_limit(self) -> Limit;
    }

    impl ParseLimit for &str {
        fn parse_limit(self) -> Limit {
            let config = format!("[policies.p]\nlimits = [\"{self}\"]\n");
            let config = waterclock_config::Config::read("t.toml", &config).unwrap();
            config.policies[0].limits()[0].clone()
        }
    }
}
