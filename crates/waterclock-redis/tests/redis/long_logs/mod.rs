//! Logs of thousands of entries: random traces through Redis and through memory, with the same answers.

mod denied;
mod full;
mod steps_back;

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use tokio::task::JoinSet;
use waterclock::{
    Charge, Concurrency, Cost, ErrorRate, FixedWindow, Gcra, Hold, Limit, ManualClock, MemoryStore,
    Migration, Mode, OnExpiry, Outcome, Policy, RollingWindow, Settlement, SlidingWindow, Store,
    Timestamp, Verb,
};
use waterclock_conformance::real::RedisServer;
use waterclock_redis::RedisStore;

use crate::parity::decisions;
use crate::scene::{PATIENT, asking, store, units};

/// Traces under way at once.
const AT_ONCE: u64 = 4;
/// Microseconds between two events, on average.
const STEP_US: u64 = 2_000;

fn micros(n: u64) -> Duration {
    Duration::from_micros(n)
}

/// What a limit of a trace is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Exact,
    Bucketed(u64),
    Concurrency,
    Breaker,
    Fixed,
    Gcra,
    Sliding,
}

/// One limit of a trace, from which policies with other numbers are made.
#[derive(Clone, Debug)]
struct Part {
    kind: Kind,
    limit: u64,
    per_us: u64,
    gap_us: u64,
    shadow: bool,
}

impl Part {
    /// A limit of one of these kinds.
    fn draw(dice: &mut Rng, kinds: &[Kind]) -> Self {
        let kind = kinds[dice.usize(0..kinds.len())];
        let limit = size(dice, 50, 3_000);
        let gap_us = if dice.u8(0..8) == 0 { dice.u64(1..STEP_US) } else { 0 };
        let per_us = limit * STEP_US / 8 * dice.u64(2..20) + dice.u64(0..STEP_US);
        Self { kind, limit, per_us, gap_us, shadow: dice.u8(0..6) == 0 }
    }

    fn limit(&self, name: &str) -> Limit {
        let (n, per) = (self.limit, micros(self.per_us));
        let limit: Limit = match self.kind {
            Kind::Exact => RollingWindow::new(n, per).unwrap().into(),
            Kind::Bucketed(cells) => RollingWindow::bucketed(n, per, cells).unwrap().into(),
            Kind::Concurrency => Concurrency::new(n, per).unwrap().into(),
            Kind::Breaker => ErrorRate::new(5_000, per, n, micros(self.per_us / 7)).unwrap().into(),
            Kind::Fixed => FixedWindow::aligned(n, per).unwrap().into(),
            Kind::Gcra => Gcra::new(n, per).unwrap().into(),
            Kind::Sliding => SlidingWindow::new(n, per).unwrap().into(),
        };
        let limit = limit.with_name(name).with_shadow(self.shadow);
        if self.gap_us == 0 { limit } else { limit.with_min_interval(micros(self.gap_us)).unwrap() }
    }
}

/// A number between these, smaller ones as often as larger ones.
fn size(dice: &mut Rng, least: u64, most: u64) -> u64 {
    let scale = dice.u32(0..=(most / least).ilog2());
    (least + dice.u64(0..=least)).saturating_mul(1 << scale).min(most)
}

#[derive(Clone, Debug)]
struct Parts {
    parts: Vec<Part>,
    mode: Mode,
    shadow: bool,
}

impl Parts {
    /// One to three logs, and other limits before and between them.
    fn draw(dice: &mut Rng, logs: &[Kind]) -> Self {
        let others = [Kind::Fixed, Kind::Gcra, Kind::Sliding];
        let mut parts: Vec<Part> = (0..dice.usize(1..4)).map(|_| Part::draw(dice, logs)).collect();
        for _ in 0..dice.usize(0..3) {
            let other = Part::draw(dice, &others);
            parts.insert(dice.usize(0..=parts.len()), other);
        }
        let mode =
            [Mode::Binary, Mode::Binary, Mode::Partial, Mode::CountRefusals][dice.usize(0..4)];
        Self { parts, mode, shadow: dice.u8(0..12) == 0 }
    }

    fn policy(&self) -> Policy {
        self.policy_named("p")
    }

    fn policy_named(&self, name: &str) -> Policy {
        let names = ["a", "b", "c", "d", "e"];
        let limits = self.parts.iter().zip(names).map(|(part, name)| part.limit(name));
        let policy = Policy::new(name, limits).unwrap().with_shadow(self.shadow);
        policy.clone().with_mode(self.mode).unwrap_or(policy)
    }

    /// Other numbers for some of the limits, and now and then another algorithm.
    fn redraw(&mut self, dice: &mut Rng) {
        for part in &mut self.parts {
            match dice.u8(0..6) {
                0..3 => part.limit = (part.limit * dice.u64(1..12) / 4).clamp(20, 6_000),
                3 => {
                    // Redis keeps no instant off the grid, and no lease that is longer than those it gives.
                    part.per_us = match part.kind {
                        Kind::Bucketed(_) => part.per_us,
                        Kind::Concurrency => part.per_us * dice.u64(4..8) / 4,
                        _ => part.per_us * dice.u64(1..8) / 4 + 10_000,
                    };
                }
                4 if dice.u8(0..3) == 0 => {
                    part.kind = if part.kind == Kind::Fixed { Kind::Exact } else { Kind::Fixed };
                }
                _ => {}
            }
        }
    }
}

/// What a stretch of a trace is made of.
#[derive(Clone, Copy, Debug)]
enum Phase {
    /// One event after the other.
    Fill,
    /// Many at one instant.
    Burst,
    /// Part of a window passes.
    Pause,
    Debit,
    Refund,
    Hold,
    Settle,
    Report,
    Mixed,
}

#[derive(Debug)]
enum Step {
    Apply(Verb, u64),
    Hold(u64, u64),
    Settle(usize, Option<u64>),
}

/// What makes a trace harder than one policy and one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Twist {
    None,
    /// The policy changes.
    Change,
    /// The key is checked under a variant of its policy, too.
    Hop,
    /// Some calls are about several keys.
    Together,
}

struct Trace {
    dice: Rng,
    twist: Twist,
    parts: Parts,
    policy: Policy,
    clock: ManualClock,
    memory: MemoryStore<ManualClock>,
    redis: RedisStore,
    now_us: u64,
    /// By their ids, with what each charge asked for.
    held: Vec<(String, Vec<u64>)>,
    ids: u64,
    compared: u64,
    about: String,
}

impl Trace {
    async fn start(url: &str, seed: u64, logs: &[Kind], twist: Twist) -> Self {
        let mut dice = Rng::with_seed(seed);
        let mut parts = Parts::draw(&mut dice, logs);
        if twist == Twist::Hop {
            // The answer to a refused check tells what a shadow limit would have counted under its own policy.
            parts.parts.iter_mut().for_each(|part| part.shadow = false);
        }
        let policy = parts.policy();
        let clock = ManualClock::default();
        let memory = MemoryStore::new(20_000, clock.clone());
        memory.set_policy(policy.clone()).await.unwrap();
        let builder = asking(url).deadline(PATIENT).prefix(&format!("{logs:?}{seed}"));
        let redis = store(builder, policy.clone()).await;
        if twist == Twist::Hop {
            let mut other = parts.clone();
            for part in &mut other.parts {
                part.limit = (part.limit * dice.u64(1..12) / 4).max(20);
            }
            let other = other.policy_named("q");
            memory.set_variant("p", other.clone(), Migration::Units).await.unwrap();
            redis.set_variant("p", other, Migration::Units).await.unwrap();
        }
        let now_us = 1_794_000_000_000_000 + dice.u64(0..1 << 40);
        let (held, ids, compared) = (Vec::new(), 0, 0);
        let about = format!("{logs:?}, {twist:?}, seed {seed}");
        Self {
            dice,
            twist,
            parts,
            policy,
            clock,
            memory,
            redis,
            now_us,
            held,
            ids,
            compared,
            about,
        }
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.now_us)
    }

    fn largest(&self) -> u64 {
        self.parts.parts.iter().map(|part| part.limit).max().unwrap()
    }

    /// A cost: mostly small, sometimes above every limit.
    fn cost(&mut self) -> u64 {
        let most = self.largest();
        match self.dice.u8(0..20) {
            0..14 => 1,
            14..17 => self.dice.u64(1..10),
            17 => self.dice.u64(1..=most / 8 + 1),
            18 => self.dice.u64(1..=most),
            _ => self.dice.u64(most..3 * most),
        }
    }

    /// Who is charged so much.
    fn charges(&mut self, cost: u64) -> Vec<Charge<'static>> {
        let charge = |policy, key, cost: u64| Charge::new(policy, key, cost);
        let alice = b"alice".as_slice();
        match self.twist {
            Twist::Hop if self.dice.u8(0..4) == 0 => vec![charge("q", alice, cost)],
            Twist::Together if self.dice.u8(0..4) == 0 => {
                let keys = [alice, b"bob", b"carol", alice];
                let all = keys[..self.dice.usize(1..5)].iter().rev();
                all.map(|key| charge("p", key, if *key == alice { cost } else { 1 })).collect()
            }
            _ => vec![charge("p", alice, cost)],
        }
    }

    async fn step(&mut self, step: Step) {
        self.clock.set(self.now());
        self.compared += 1;
        let now = self.now();
        let about = |trace: &Self| {
            format!(
                "{}, step {}, {step:?} at {now:?}: {:#?}",
                trace.about, trace.compared, trace.policy
            )
        };
        match step {
            Step::Apply(verb, cost) => {
                let charges = self.charges(cost);
                let here = self.memory.apply(verb, &charges).await;
                let there = self.redis.apply_at(now, verb, &charges).await;
                assert_eq!(there, here, "{charges:?} {}", about(self));
            }
            Step::Hold(cost, ttl_us) => {
                let charges = self.charges(cost);
                self.ids += 1;
                let id = format!("r{}", self.ids);
                let ttl = Some(micros(ttl_us));
                let on_expiry = OnExpiry::Keep;
                let hold = Hold { id: Some(&id), ttl, charges: &charges, on_expiry };
                let here = self.memory.reserve(&hold).await;
                let there = self.redis.reserve_at(now, &hold).await;
                assert_eq!(there, here, "{charges:?} {}", about(self));
                if here.is_ok_and(|reserved| reserved.id.is_some()) {
                    let costs = charges.iter().map(|charge| charge.cost.most()).collect();
                    self.held.push((id, costs));
                }
            }
            Step::Settle(which, used) => {
                let (id, costs) = self.held.swap_remove(which);
                let used = used.map(|used| vec![Cost::from(used); costs.len()]);
                let with = used.as_ref().map_or(Settlement::Cancel, |u| Settlement::Commit(u));
                let here = self.memory.settle(&id, with).await;
                let there = self.redis.settle_at(now, &id, with).await;
                assert_eq!(there, here, "{id} {}", about(self));
            }
        }
    }

    fn draw_settle(&mut self) -> Step {
        if self.held.is_empty() {
            return Step::Apply(Verb::Peek, 1);
        }
        let which = match self.dice.u8(0..3) {
            0 => 0,
            1 => self.held.len() - 1,
            _ => self.dice.usize(0..self.held.len()),
        };
        let cost = self.held[which].1[0];
        let used = match self.dice.u8(0..6) {
            0 => None,
            1 => Some(0),
            2 => Some(cost),
            3 => Some(cost + self.dice.u64(0..5)),
            _ => Some(self.dice.u64(0..=cost)),
        };
        Step::Settle(which, used)
    }

    fn draw_hold(&mut self) -> Step {
        let lease = self.policy.shortest_lease().unwrap_or(Duration::from_secs(60));
        let most = u64::try_from(lease.as_micros()).unwrap();
        let least = 1_000.min(most);
        // In whole milliseconds, as leases are settled by.
        let ttl = match self.dice.u8(0..4) {
            0 => most,
            1 => self.dice.u64(least..=(most / 10).max(least)),
            _ => self.dice.u64(least..=most),
        };
        Step::Hold(self.cost(), ttl)
    }

    fn draw(&mut self, phase: Phase) -> Step {
        use Outcome::{Error, Ok};
        let any = self.dice.u64(0..=2 * self.largest());
        let times = if self.dice.u8(0..30) == 0 { any } else { self.dice.u64(1..4) };
        match phase {
            // In memory a report moves a key to the variant, even if nothing there takes reports.
            Phase::Report if self.twist == Twist::Hop => Step::Apply(Verb::Peek, any),
            Phase::Fill | Phase::Burst | Phase::Pause if self.policy.reserves_only() => {
                self.draw_hold()
            }
            Phase::Fill | Phase::Burst | Phase::Pause => Step::Apply(Verb::Check, self.cost()),
            Phase::Debit => {
                let huge = self.dice.u8(0..200) == 0;
                let units = if huge { self.dice.u64(0..1 << 51) } else { self.cost() };
                Step::Apply(Verb::Debit, units)
            }
            Phase::Refund if self.dice.u8(0..20) == 0 => Step::Apply(Verb::Refund, any),
            Phase::Refund => Step::Apply(Verb::Refund, self.cost()),
            Phase::Hold => self.draw_hold(),
            Phase::Settle => self.draw_settle(),
            Phase::Report => {
                let outcome = if self.dice.u8(0..3) == 0 { Error } else { Ok };
                Step::Apply(Verb::Report(outcome), times)
            }
            Phase::Mixed => match self.dice.u8(0..20) {
                0..6 => Step::Apply(Verb::Check, self.cost()),
                6..8 => Step::Apply(Verb::Peek, any),
                8 => Step::Apply(Verb::Peek, 0),
                9 => Step::Apply(Verb::Debit, self.cost()),
                10 => Step::Apply(Verb::Refund, self.cost()),
                11..14 => self.draw_hold(),
                14..17 => self.draw_settle(),
                17..19 if self.twist == Twist::Hop => Step::Apply(Verb::Peek, any),
                17 => Step::Apply(Verb::Report(Ok), times),
                18 => Step::Apply(Verb::Report(Error), times),
                _ if self.dice.u8(0..20) == 0 => Step::Apply(Verb::Reset, 1),
                _ => Step::Apply(Verb::Check, any),
            },
        }
    }

    /// Asks for costs of all sizes, so that every depth of a log shows.
    async fn look(&mut self) {
        let most = self.largest();
        for part in 0..8 {
            let cost = most * part / 7 + self.dice.u64(0..3);
            self.step(Step::Apply(Verb::Peek, cost)).await;
        }
    }

    async fn phase(&mut self) {
        use Phase::{Burst, Debit, Fill, Hold, Mixed, Pause, Refund, Report, Settle};
        let phases = [
            Fill, Fill, Fill, Burst, Pause, Debit, Refund, Hold, Hold, Settle, Report, Mixed, Mixed,
        ];
        let phase = phases[self.dice.usize(0..phases.len())];
        let longest = if self.dice.u8(0..6) == 0 { 1_500 } else { 150 };
        let steps = match phase {
            Pause => self.dice.u64(1..10),
            Refund => self.dice.u64(1..longest / 5),
            _ => self.dice.u64(1..longest),
        };
        let most_us = match self.dice.u8(0..4) {
            0 => 1,
            1 => STEP_US / 10,
            _ => 2 * STEP_US,
        };
        for _ in 0..steps {
            self.now_us += match phase {
                Burst => u64::from(self.dice.u8(0..40) == 0),
                Pause => {
                    let part = &self.parts.parts[self.dice.usize(0..self.parts.parts.len())];
                    part.per_us * self.dice.u64(0..10) / 8
                }
                _ => self.dice.u64(0..=most_us),
            };
            let step = self.draw(phase);
            self.step(step).await;
        }
        self.look().await;
    }

    /// Another policy of the same name. What is kept is decided by the first call that charges.
    async fn change(&mut self) {
        self.parts.redraw(&mut self.dice);
        self.policy = self.parts.policy();
        self.clock.set(self.now());
        self.memory.set_policy(self.policy.clone()).await.unwrap();
        self.redis.set_policy(self.policy.clone()).await.unwrap();
        let first = if self.policy.reserves_only() {
            self.draw_hold()
        } else {
            Step::Apply(Verb::Check, 1)
        };
        self.step(first).await;
        self.look().await;
    }
}

/// No key is without a time to live, reservations and registries included.
fn none_is_kept_for_ever(server: &RedisServer) {
    let script = "for _, key in ipairs(redis.call('KEYS', '*')) do
        if redis.call('PTTL', key) == -1 then return key end
    end";
    let kept = server.command(&["EVAL", script, "0"]);
    assert!(kept.is_nil(), "{} never expires", kept.as_text());
}

/// Traces until so many decisions were compared.
async fn same_as_memory(logs: &'static [Kind], twist: Twist) {
    let server = Arc::new(RedisServer::start());
    let wanted = decisions() / 10;
    let (mut seed, mut compared) = (0, 0);
    while compared < wanted {
        let mut under_way = JoinSet::new();
        for seed in seed..seed + AT_ONCE {
            let server = Arc::clone(&server);
            under_way.spawn(async move {
                let mut trace = Trace::start(&server.url(), seed, logs, twist).await;
                while trace.compared < 2_500 {
                    trace.phase().await;
                    none_is_kept_for_ever(&server);
                    if twist == Twist::Change && trace.dice.u8(0..4) == 0 {
                        trace.change().await;
                    }
                }
                trace.redis.clear().await.unwrap();
                trace.compared
            });
        }
        seed += AT_ONCE;
        while let Some(done) = under_way.join_next().await {
            compared += done.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
        }
    }
    println!("{logs:?}, {twist:?}: {compared} decisions, the same");
}

macro_rules! traces {
    ($($test:ident: $logs:expr, $twist:ident;)*) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $test() {
            same_as_memory(&$logs, Twist::$twist).await;
        }
    )*};
}

const WINDOWS: [Kind; 4] = [Kind::Exact, Kind::Exact, Kind::Bucketed(97), Kind::Bucketed(2_048)];
const ALL: [Kind; 5] =
    [Kind::Exact, Kind::Bucketed(97), Kind::Bucketed(2_048), Kind::Concurrency, Kind::Breaker];

traces! {
    windows: WINDOWS, None;
    leases: [Kind::Concurrency], None;
    breakers: [Kind::Breaker], None;
    all_together: ALL, Together;
    windows_that_change: WINDOWS, Change;
    all_that_change: ALL, Change;
    windows_with_variants: WINDOWS, Hop;
}

/// By the server's clock: whatever a call does to a record, the record has a time to live after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_record_expires() {
    let server = RedisServer::start();
    for seed in 0..6 {
        let mut dice = Rng::with_seed(seed);
        let mut parts = Parts::draw(&mut dice, &ALL);
        parts.parts.iter_mut().for_each(|part| part.shadow |= part.kind == Kind::Concurrency);
        let builder = asking(&server.url()).deadline(PATIENT).prefix(&format!("expires{seed}"));
        let redis = store(builder, parts.policy()).await;
        let (ttl, on_expiry) = (None, OnExpiry::Keep);
        for call in 0..120 {
            let charges = [units("key", size(&mut dice, 1, 4_000))];
            let id = format!("r{}", dice.u8(0..60));
            match dice.u8(0..10) {
                0..3 => _ = redis.apply(Verb::Check, &charges).await.unwrap(),
                3 => _ = redis.apply(Verb::Debit, &charges).await.unwrap(),
                4 => _ = redis.apply(Verb::Refund, &charges).await.unwrap(),
                5 => _ = redis.apply(Verb::Report(Outcome::Ok), &charges).await.unwrap(),
                6..8 => {
                    // The id may be in use for another cost.
                    let hold = Hold { id: Some(&id), ttl, charges: &charges, on_expiry };
                    _ = redis.reserve(&hold).await;
                }
                8 => _ = redis.settle(&id, Settlement::Cancel).await,
                _ if call % 4 == 0 => {
                    parts.redraw(&mut dice);
                    redis.set_policy(parts.policy()).await.unwrap();
                }
                _ => _ = redis.apply(Verb::Peek, &charges).await.unwrap(),
            }
            none_is_kept_for_ever(&server);
        }
    }
}
