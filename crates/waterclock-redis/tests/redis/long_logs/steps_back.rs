//! The clock steps back in the middle of a long log: what was used stays used, and nothing waits for the clock to catch
//! up. In trace time a step back is a smaller instant.

use fastrand::Rng;
use waterclock::{Hold, Mode, OnExpiry, Outcome, Policy, Settlement, Timestamp, Verb};
use waterclock_conformance::real::RedisServer;
use waterclock_core::store::{Decide as _, Logs, State};

use super::{Kind, Part, STEP_US, micros, size};
use crate::parity::decisions;
use crate::scene::{PATIENT, asking, store, units};

/// The core with a clock that may step back: what a call writes is re-dated, as `redate` promises.
struct Model {
    policy: Policy,
    words: Vec<u64>,
    logs: Logs,
}

impl Model {
    fn new(policy: Policy) -> Self {
        let words = vec![0; policy.words()];
        Self { policy, words, logs: Logs::new() }
    }

    fn apply(&mut self, now: Timestamp, verb: Verb, cost: u64) -> Seen {
        let before = (self.words.clone(), self.logs.clone());
        let cost = cost.into();
        let mut state = State::new(&mut self.words, &mut self.logs);
        self.policy.redate(&mut state, now);
        let verdict = match verb {
            Verb::Check => {
                let verdict = self.policy.judge(state.view(), now, &cost);
                self.policy.record(&mut state, now, &cost, verdict);
                verdict
            }
            Verb::Debit => {
                self.policy.debit(&mut state, now, &cost);
                self.policy.judge(state.view(), now, &cost)
            }
            Verb::Refund => {
                self.policy.refund(&mut state, now, &cost);
                self.policy.judge(state.view(), now, &cost)
            }
            Verb::Report(outcome) => {
                self.policy.report(&mut state, now, outcome, &cost);
                self.policy.judge(state.view(), now, &cost)
            }
            _ => self.policy.judge(state.view(), now, &cost),
        };
        let decision = self.policy.answer(state.view(), now, &cost, verdict);
        if verb == Verb::Peek {
            (self.words, self.logs) = before;
        } else {
            // Whatever is written is without what has expired.
            self.policy.refund(&mut State::new(&mut self.words, &mut self.logs), now, &0.into());
        }
        seen(&decision)
    }
}

/// Whether it is allowed, what is granted and left, and how long until it is, until one more is, and until all is.
type Seen = (
    bool,
    u64,
    Option<u64>,
    Option<std::time::Duration>,
    Option<std::time::Duration>,
    std::time::Duration,
);

fn seen(decision: &waterclock::Decision) -> Seen {
    (
        decision.is_allowed(),
        decision.granted(),
        decision.remaining(),
        decision.retry_after(),
        decision.next_unit(),
        decision.reset_after(),
    )
}

async fn trace(server: &RedisServer, seed: u64, kind: Kind) -> u64 {
    let mut dice = Rng::with_seed(seed);
    let part = Part { shadow: false, gap_us: 0, ..Part::draw(&mut dice, &[kind]) };
    let mode = if dice.bool() { Mode::Binary } else { Mode::CountRefusals };
    let policy = Policy::new("p", [part.limit("a")]).unwrap();
    let policy = policy.clone().with_mode(mode).unwrap_or(policy);
    let mut model = Model::new(policy.clone());
    let builder = asking(&server.url()).deadline(PATIENT).prefix(&format!("{kind:?}{seed}"));
    let redis = store(builder, policy.clone()).await;
    let mut now_us = 1_794_000_000_000_000 + dice.u64(0..1 << 40);
    let rarely = dice.u64(100..600);
    let mut stepped = false;
    for step in 0..1_500 {
        now_us += match dice.u8(0..100) {
            0 => part.per_us * dice.u64(0..5) / 8,
            1..20 => 0,
            _ => dice.u64(0..STEP_US),
        };
        let steps_back = dice.u64(0..rarely) == 0;
        if steps_back {
            now_us -= size(&mut dice, 1, 3 * part.per_us);
        }
        stepped |= steps_back;
        let cost = if dice.u8(0..20) == 0 { dice.u64(0..=part.limit + 5) } else { 1 };
        // The first call after a step writes.
        let verb = match dice.u8(0..20) {
            _ if kind == Kind::Breaker && stepped => Verb::Report(Outcome::Ok),
            _ if stepped => Verb::Check,
            0..3 => Verb::Peek,
            3 if kind != Kind::Breaker => Verb::Debit,
            4 if kind != Kind::Breaker => Verb::Refund,
            0..12 if kind == Kind::Breaker => Verb::Report(Outcome::Ok),
            12..19 if kind == Kind::Breaker => Verb::Report(Outcome::Error),
            _ => Verb::Check,
        };
        let cost = if stepped { cost.max(1) } else { cost };
        stepped = false;
        let now = Timestamp::from_micros(now_us);
        let here = model.apply(now, verb, cost);
        let there = redis.apply_at(now, verb, &[units("key", cost)]).await.unwrap();
        assert_eq!(
            seen(&there[0].decision),
            here,
            "{kind:?}, seed {seed}, step {step}, {verb:?} of {cost} at {now_us}, stepped back: {steps_back}: {policy:#?}"
        );
    }
    redis.clear().await.unwrap();
    1_500
}

async fn as_the_core_redates(kind: Kind) {
    let server = RedisServer::start();
    let (mut seed, mut compared) = (0, 0);
    while compared < decisions() / 25 {
        compared += trace(&server, seed, kind).await;
        seed += 1;
    }
    println!("{kind:?}, steps back: {compared} decisions, as the core re-dates");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exact_windows() {
    as_the_core_redates(Kind::Exact).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bucketed_windows() {
    as_the_core_redates(Kind::Bucketed(97)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn breakers() {
    as_the_core_redates(Kind::Breaker).await;
}

/// Leases end when they would have by the new clock, at the latest after one lease; each is given back once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases() {
    let server = RedisServer::start();
    for seed in 0..4 {
        let mut dice = Rng::with_seed(seed);
        let part = Part { shadow: false, gap_us: 0, ..Part::draw(&mut dice, &[Kind::Concurrency]) };
        let policy = Policy::new("p", [part.limit("a")]).unwrap();
        let builder = asking(&server.url()).deadline(PATIENT).prefix(&format!("leases{seed}"));
        let redis = store(builder, policy).await;
        let mut now_us = 1_794_000_000_000_000 + dice.u64(0..1 << 40);
        let left = async |now_us| {
            let now = Timestamp::from_micros(now_us);
            let answers = redis.apply_at(now, Verb::Peek, &[units("key", 1)]).await.unwrap();
            let decision = &answers[0].decision;
            assert!(decision.reset_after() <= micros(part.per_us), "{decision:?}");
            decision.remaining().unwrap()
        };
        let mut held = Vec::new();
        for number in 0..900 {
            now_us += dice.u64(0..STEP_US);
            if dice.u8(0..100) == 0 {
                let before = left(now_us).await;
                now_us -= size(&mut dice, 1, 3 * part.per_us);
                let after = left(now_us).await;
                assert!(after <= before, "seed {seed}, {number}: {before} were left, now {after}");
            }
            let now = Timestamp::from_micros(now_us);
            let id = format!("r{number}");
            if dice.u8(0..3) > 0 {
                let charges = [units("key", dice.u64(1..4))];
                let ttl = Some(micros(dice.u64(1_000..=part.per_us)));
                let on_expiry = OnExpiry::Keep;
                let hold = Hold { id: Some(&id), ttl, charges: &charges, on_expiry };
                held.extend(redis.reserve_at(now, &hold).await.unwrap().id);
            } else if !held.is_empty() {
                let id = held.swap_remove(dice.usize(0..held.len()));
                let before = left(now_us).await;
                // Its time may be over.
                _ = redis.settle_at(now, &id, Settlement::Cancel).await;
                assert!(
                    (before..before + 4).contains(&left(now_us).await),
                    "seed {seed}, {number}"
                );
            }
        }
        assert_eq!(left(now_us + part.per_us).await, part.limit, "seed {seed}");
        redis.clear().await.unwrap();
    }
}
