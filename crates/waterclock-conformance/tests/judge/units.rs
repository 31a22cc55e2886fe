//! A policy that counts several units: each of its limits says what it would say alone, and all admit or none.

use std::time::Duration;

use fastrand::Rng;
use waterclock::{
    Answer, Charge, Cost, Limit, ManualClock, MemoryStore, Mode, Policy, Store, Timestamp, Verb,
};
use waterclock_conformance::now_or_never;
use waterclock_conformance::units::{draw_cost, draw_policy, draw_verb};

fn charge(policy: &str, cost: Cost) -> Charge<'_> {
    Charge::new(policy, b"alice", cost)
}

fn ask(store: &impl Store, verb: Verb, charge: Charge<'_>) -> Answer {
    now_or_never(store.apply(verb, &[charge])).unwrap().remove(0)
}

/// The same limits, each in a policy of its own that is asked for its own units.
struct Apart {
    store: MemoryStore<ManualClock>,
    limits: Vec<Limit>,
    uniform: bool,
}

impl Apart {
    fn new(clock: &ManualClock, limits: &[Limit], mode: Mode) -> Self {
        let store = MemoryStore::new(64, clock.clone());
        for limit in limits {
            let alone = limit.clone().with_shadow(false);
            let policy = Policy::new(limit.name(), [alone]).unwrap().with_mode(mode).unwrap();
            now_or_never(store.set_policy(policy.clone())).unwrap();
        }
        Self { store, limits: limits.to_vec(), uniform: mode == Mode::CountRefusals }
    }

    /// What each limit says: whether it admits, and then its numbers.
    fn apply(&self, verb: Verb, cost: &Cost) -> Vec<(bool, Answer)> {
        let of = |limit: &Limit| Cost::from(cost.of(limit.unit()));
        let mut admits = Vec::new();
        if !matches!(verb, Verb::Check | Verb::Peek) {
            for limit in &self.limits {
                ask(&self.store, verb, charge(limit.name(), of(limit)));
            }
        }
        for limit in &self.limits {
            let peek = ask(&self.store, Verb::Peek, charge(limit.name(), of(limit)));
            admits.push(peek.decision.is_allowed());
        }
        let all =
            self.limits.iter().zip(&admits).all(|(limit, admits)| *admits || limit.is_shadow());
        let mut said = Vec::new();
        for (limit, admits) in self.limits.iter().zip(admits) {
            let charges = (all || limit.is_shadow() || self.uniform) && verb == Verb::Check;
            if charges {
                ask(&self.store, Verb::Check, charge(limit.name(), of(limit)));
            }
            said.push((admits, ask(&self.store, Verb::Peek, charge(limit.name(), of(limit)))));
        }
        said
    }
}

/// The waits of a policy are those of its limits, unless one of them closes again by itself.
fn recurs(limits: &[Limit]) -> bool {
    let name = |limit: &Limit| limit.algorithm().name();
    limits.iter().any(|limit| matches!(name(limit), "quota" | "even-slots"))
}

#[test]
fn each_limit_says_what_it_would_say_alone() {
    let (mut refused, mut shadowed, mut admitted) = (0, 0, 0);
    for seed in 0..400 {
        let mut dice = Rng::with_seed(seed);
        let policy = draw_policy(&mut dice);
        let (limits, mode) = (policy.limits().to_vec(), policy.mode());
        let clock = ManualClock::default();
        let store = MemoryStore::new(16, clock.clone());
        now_or_never(store.set_policy(policy.clone())).unwrap();
        let apart = Apart::new(&clock, &limits, mode);
        let mut now_us = 1_794_000_000_000_000 + dice.u64(0..1 << 40);
        for call in 0..60 {
            now_us += dice.u64(0..300_000) * dice.u64(0..3);
            clock.set(Timestamp::from_micros(now_us));
            let verb = draw_verb(&mut dice);
            let cost = draw_cost(&mut dice, &policy);
            let about = format!("seed {seed}, call {call}: {verb:?} {cost} of {limits:#?}");
            let told = ask(&store, verb, charge("p", cost.clone()));
            let said = apart.apply(verb, &verb.price(&policy, Some(&cost)).unwrap());
            let live = || limits.iter().zip(&said).filter(|(limit, _)| !limit.is_shadow());
            let decision = &told.decision;
            assert_eq!(decision.is_allowed(), live().all(|(_, (admits, _))| *admits), "{about}");
            let by = |shadow: bool| {
                let no = |i: &usize| limits[*i].is_shadow() == shadow && !said[*i].0;
                (0..limits.len()).filter(no).collect::<Vec<_>>()
            };
            assert!(decision.refused_by().iter().eq(by(false)), "{about}");
            assert!(decision.shadow_refused_by().iter().eq(by(true)), "{about}");
            for (i, (admits, alone)) in said.iter().enumerate() {
                let (here, there) = (&told.limits[i], &alone.limits[0]);
                assert_eq!(here.allowed, *admits, "limit {i}, {about}");
                let numbers = |l: &waterclock::LimitDecision| {
                    (l.limit, l.remaining, l.next_unit, l.reset_after)
                };
                assert_eq!(numbers(here), numbers(there), "limit {i}, {about}");
                if !admits {
                    assert_eq!(here.retry_after, there.retry_after, "limit {i}, {about}");
                }
            }
            let numbers = || live().map(|(_, (_, alone))| &alone.decision);
            assert_eq!(decision.limit(), numbers().filter_map(|d| d.limit()).min(), "{about}");
            let remaining = numbers().filter_map(|d| d.remaining()).min();
            assert_eq!(decision.remaining(), remaining, "{about}");
            let reset = numbers().map(|d| d.reset_after()).max().unwrap_or_default();
            assert_eq!(decision.reset_after(), reset, "{about}");
            if !decision.is_allowed() && !recurs(&limits) {
                let of = |wait: Option<Duration>| wait.unwrap_or(Duration::MAX);
                let waits = live().map(|(_, (admits, alone))| match admits {
                    true if verb == Verb::Check && mode == Mode::CountRefusals => {
                        of(alone.decision.retry_after())
                    }
                    true => Duration::ZERO,
                    false => of(alone.decision.retry_after()),
                });
                assert_eq!(of(decision.retry_after()), waits.max().unwrap(), "{about}");
            }
            let granted = if verb == Verb::Check { decision.granted() } else { 0 };
            admitted += u64::from(decision.is_allowed() && granted > 0);
            refused += u64::from(!decision.is_allowed());
            shadowed += u64::from(!decision.shadow_refused_by().is_empty());
        }
    }
    assert!(
        refused > 1_000 && shadowed > 100 && admitted > 1_000,
        "{refused} {shadowed} {admitted}"
    );
}
