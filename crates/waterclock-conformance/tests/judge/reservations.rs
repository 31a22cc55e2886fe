//! Holding and settling: the memory store says what a naive ledger beside the reference model says, and
//! nothing is lost or made on the way.

use waterclock::{
    Answer as Given, Charge, Hold, ManualClock, MemoryStore, OnExpiry, Policy, Reserved, Settled,
    Settlement, Store, StoreError, Timestamp, Verb,
};
use waterclock_conformance::reference::{Algorithm, Align, Answer, LimitSpec, Mode, PolicySpec};
use waterclock_conformance::reservations::{Action, Ledger, ReservationCase, Response, Step, run};
use waterclock_conformance::{Family, now_or_never, policy};

use crate::suites::cases;

fn on_memory(spec: &PolicySpec, steps: &[Step]) -> Vec<Response> {
    on(spec, steps, |store| store)
}

fn on<S: Store>(
    spec: &PolicySpec,
    steps: &[Step],
    wrap: impl Fn(MemoryStore<ManualClock>) -> S,
) -> Vec<Response> {
    let clock = ManualClock::default();
    let store = MemoryStore::new(16, clock.clone());
    now_or_never(store.set_policy(policy(spec))).expect("the memory store takes any policy");
    now_or_never(run(&wrap(store), steps, |at_ns| clock.set(Timestamp::from_nanos(at_ns))))
}

/// Where waits end after the last instant there is, model and engine give up in different places.
fn is_too_far(answer: &Answer) -> bool {
    let waits = [answer.retry_after_ns, answer.next_unit_ns, Some(answer.reset_after_ns)];
    let limits = answer.limits.iter().map(|limit| Some(limit.reset_after_ns));
    waits.into_iter().chain(limits).any(|wait| wait >= Some(1 << 62))
}

/// A reservation that is asked for again answers with the numbers of then; only what it holds is compared.
fn same(said: &Response, expected: &Response) -> bool {
    match (said, expected) {
        (Response::Answered(_), Response::Answered(answer)) if is_too_far(answer) => true,
        (Response::Reserved { .. }, Response::Reserved { answer: Some(answer), .. })
            if is_too_far(answer) =>
        {
            true
        }
        (
            Response::Reserved { held: a, expires_in_ns: b, .. },
            Response::Reserved { held: c, expires_in_ns: d, answer: None },
        ) => (a, b) == (c, d),
        _ => said == expected,
    }
}

/// The first step that is answered otherwise than by the ledger.
fn complaint(spec: &PolicySpec, steps: &[Step]) -> Option<String> {
    compare(spec, steps, &on_memory(spec, steps))
}

fn compare(spec: &PolicySpec, steps: &[Step], said: &[Response]) -> Option<String> {
    let mut ledger = Ledger::new(spec.clone());
    steps.iter().zip(said).enumerate().find_map(|(i, (step, said))| {
        let expected = ledger.apply(*step);
        (!same(said, &expected)).then(|| format!("step {i}: {said:#?}, not {expected:#?}"))
    })
}

fn hold(family: Family) {
    for seed in 0..cases() {
        let ReservationCase { spec, mut steps } = ReservationCase::draw(family, seed, 1);
        let Some(mut why) = complaint(&spec, &steps) else { continue };
        let mut i = 0;
        while i < steps.len() {
            let mut fewer = steps.clone();
            fewer.remove(i);
            match complaint(&spec, &fewer) {
                Some(other) => (steps, why, i) = (fewer, other, 0),
                None => i += 1,
            }
        }
        panic!("{family:?}, seed {seed}: {why}\n{spec:#?}\n{steps:#?}");
    }
}

crate::each_family!(hold; concurrency => Concurrency);

/// A store whose reservations are not settled as they should be.
struct Bugged(MemoryStore<ManualClock>, Bug);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bug {
    CancelIsLost,
    HeldForEver,
    SettledTwice,
}

impl Store for Bugged {
    async fn set_policy(&self, policy: Policy) -> Result<(), StoreError> {
        self.0.set_policy(policy).await
    }

    async fn apply(&self, verb: Verb, charges: &[Charge<'_>]) -> Result<Vec<Given>, StoreError> {
        self.0.apply(verb, charges).await
    }

    async fn reserve(&self, hold: &Hold<'_>) -> Result<Reserved, StoreError> {
        let keeps = Hold { on_expiry: OnExpiry::Keep, ..*hold };
        self.0.reserve(if self.1 == Bug::HeldForEver { &keeps } else { hold }).await
    }

    async fn settle(&self, id: &str, with: Settlement<'_>) -> Result<Settled, StoreError> {
        let settled = match with {
            Settlement::Cancel if self.1 == Bug::CancelIsLost => {
                self.0.settle(id, Settlement::Commit(&[u64::MAX.into()])).await
            }
            with => self.0.settle(id, with).await,
        };
        if let (Ok(settled), Bug::SettledTwice) = (&settled, self.1) {
            let again = Charge::new("policy", b"alice", settled.held[0].clone());
            self.0.apply(Verb::Refund, &[again]).await?;
        }
        settled
    }
}

#[test]
fn planted_bugs_are_caught() {
    for bug in [Bug::CancelIsLost, Bug::HeldForEver, Bug::SettledTwice] {
        let is_caught = (0..2_000).any(|seed| {
            let ReservationCase { spec, steps } = ReservationCase::draw(Family::Sliding, seed, 1);
            let said = on(&spec, &steps, |store| Bugged(store, bug));
            compare(&spec, &steps, &said).is_some()
        });
        assert!(is_caught, "{bug:?}");
    }
}

/// A window that outlasts every trace forgets nothing, so what is in it can be counted.
fn unforgetting() -> PolicySpec {
    let per_ns = 36_525 * 86_400_000_000_000;
    let algorithm = Algorithm::FixedWindow { limit: 1 << 40, per_ns, align: Align::Epoch };
    let limits = vec![LimitSpec { algorithm, min_interval_ns: None, shadow: false }];
    PolicySpec { mode: Mode::Binary, shadow: false, limits }
}

#[test]
fn never_more_is_held_at_once_than_the_limit() {
    for seed in 0..cases() {
        let ReservationCase { mut spec, steps } =
            ReservationCase::draw(Family::Concurrency, seed, 1);
        spec.limits.truncate(1);
        spec.shadow = false;
        let Algorithm::Concurrency { limit, .. } = spec.limits[0].algorithm else { unreachable!() };
        let said = on_memory(&spec, &steps);
        let mut ledger = Ledger::new(spec.clone());
        for (step, said) in steps.iter().zip(&said) {
            ledger.apply(*step);
            let held = ledger.outstanding();
            assert!(held <= limit.into(), "{held} held at once: {spec:?} {steps:#?}");
            if let Response::Answered(answer) = said
                && spec.limits[0].min_interval_ns.is_none()
            {
                assert_eq!(u128::from(limit - answer.remaining.unwrap()), held);
            }
        }
    }
}

#[test]
fn grants_and_what_is_outstanding_and_refunds_are_debits() {
    let spec = unforgetting();
    for seed in 0..cases() {
        let ReservationCase { mut steps, .. } = ReservationCase::draw(Family::FixedEpoch, seed, 1);
        // Only holders, some of which crash: they settle late or never.
        steps.retain(|step| !matches!(step.action, Action::Check(_) | Action::Debit(_)));
        let last = steps.last().map_or(0, |step| step.at_ns);
        steps.push(Step { at_ns: last, action: Action::Peek(0) });
        let mut ledger = Ledger::new(spec.clone());
        steps.iter().for_each(|step| _ = ledger.apply(*step));
        let totals = ledger.totals();
        assert_eq!(totals.debits, totals.grants + totals.outstanding + totals.refunds);
        let Some(Response::Answered(answer)) = on_memory(&spec, &steps).pop() else {
            unreachable!()
        };
        let used = u128::from(answer.limit.unwrap() - answer.remaining.unwrap());
        assert_eq!(used, totals.debits - totals.refunds, "seed {seed}: {steps:#?}");
    }
}

/// Holding and giving up leaves no trace: with windows, whatever is debited in between; with buckets and
/// quotas, of which time takes its share meanwhile, if it is done at once.
#[test]
fn cancelled_is_as_if_never_reserved() {
    let families = [Family::Gcra, Family::FixedEpoch, Family::Sliding, Family::RollingExact];
    for family in families.into_iter().chain([Family::Quota, Family::LeakyStaircase]) {
        let mut compared = 0;
        for seed in 0..cases() {
            let ReservationCase { mut spec, steps } = ReservationCase::draw(family, seed, 1);
            if spec.limits.iter().any(|limit| limit.min_interval_ns.is_some()) {
                continue; // The event took place, and its gap is kept.
            }
            spec.mode = Mode::Binary;
            let debits = |action| matches!(action, Action::Debit(units) if units < 1 << 30);
            let mut others: Vec<Step> =
                steps.into_iter().filter(|step| debits(step.action)).collect();
            let Some(&Step { at_ns, .. }) = others.first() else { continue };
            if matches!(family, Family::Gcra | Family::LeakyStaircase | Family::Quota) {
                others.iter_mut().for_each(|step| step.at_ns = at_ns);
            }
            let last = others.last().map_or(0, |step| step.at_ns);
            for (i, cost) in [(0, 0), (1, 1)] {
                others.push(Step { at_ns: last + i * 1_000, action: Action::Peek(cost) });
            }
            let ttl_ns = 86_400_000_000_000;
            let reserve = Action::Reserve { name: 0, cost: 1, ttl_ns, releases: false };
            let mut held = others.clone();
            held.insert(0, Step { at_ns, action: reserve });
            held.insert(held.len() - 2, Step { at_ns: last, action: Action::Cancel { name: 0 } });
            let (with, without) = (on_memory(&spec, &held), on_memory(&spec, &others));
            if last - at_ns >= ttl_ns
                || !matches!(with[0], Response::Reserved { held: Some(_), .. })
            {
                continue;
            }
            assert_eq!(with[with.len() - 2..], without[without.len() - 2..], "{spec:?} {held:#?}");
            compared += 1;
        }
        assert!(compared > 0, "{family:?} was never compared");
    }
}
