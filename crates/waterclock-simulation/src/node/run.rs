//! Runs a plan on virtual time, and writes down what happens in order.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Builder;
use tokio::sync::Notify;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use waterclock::{
    Charge, Cost, KeyOverride, OnExpiry, Override, Settlement, SimulatedTime, Store as _,
    StoreError, Timestamp, Verb,
};
use waterclock_server::Running;
use waterclock_server::engine::{ActivePolicy, Check, Engine, Reply, Terms};
use waterclock_server::observe::Face;
use waterclock_server::simulation::{NoDecision, Node, use_disk};

use super::disk::SimulatedDisk;
use super::plan::{
    Action, Down, HELD, HELD_FOR_MS, KEYS, Leaves, Line, NAMES, Numbers, Plan, QUOTA, Reserve,
    Rule, Step, What, text, wrong_text,
};
use super::plant::Plant;

/// After the last step, until nothing more happens by itself.
const QUIET_MS: u64 = 3_000;

/// What a caller was told about a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// Whether it passes.
    pub is_allowed: bool,
    /// What is left.
    pub remaining: Option<u64>,
    /// Whether it is refused by those in line.
    pub is_held_up: bool,
}

/// What a caller was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// One answer for each line.
    Replies(Vec<Told>),
    /// Whether it is held, and an answer for each line.
    Reserved(bool, Vec<Told>),
    /// It is settled, or the override is set.
    Done,
    /// Too many wait, or the server stops.
    Unavailable,
    /// An error.
    Failed(String),
    /// The caller left.
    Left,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Noted {
    /// A node starts: with these numbers, and a clock that is so much ahead.
    Started(Numbers, i64),
    /// A call is made.
    Called(usize),
    /// It is over.
    Returned(usize, Outcome),
    /// A file is being read; wrong, if there are no numbers.
    ReloadBegan(Option<Numbers>),
    /// Whether it is in force.
    ReloadEnded(bool),
    /// A snapshot is in the place of the one before.
    InPlace,
    /// It outlasts a power loss.
    Lasting,
    /// The clock has stepped.
    ClockStepped(i64),
    /// The node has crashed; with its machine, if so.
    Crashed(bool),
    /// The node has stopped.
    Stopped,
    /// The snapshot was spoilt.
    Spoilt,
    /// When all is over: callers in line, and reservations.
    Quiet(usize, usize),
    /// How many tasks outlive a server that has stopped.
    Tasks(usize),
}

/// What happened so far, in order. Clones are the same log.
#[derive(Clone, Default)]
pub(super) struct Log(Arc<Shared>);

#[derive(Default)]
struct Shared {
    noted: Mutex<Vec<(u64, Noted)>>,
    /// What was on the clock of the plan when tokio's showed this.
    life: Mutex<Option<(u64, Instant)>>,
    is_halted: Mutex<bool>,
    halted: Notify,
}

impl Log {
    fn now_ms(&self) -> u64 {
        let life = *self.0.life.lock();
        let (began, at) = life.expect("a life");
        began + u64::try_from(at.elapsed().as_millis()).unwrap_or(0)
    }

    /// Nothing is seen of a node that has crashed.
    pub(super) fn note(&self, what: Noted) {
        if !*self.0.is_halted.lock() {
            self.0.noted.lock().push((self.now_ms(), what));
        }
    }

    /// The machine ends at this very instant.
    pub(super) fn halt(&self) {
        *self.0.is_halted.lock() = true;
        self.0.halted.notify_one();
    }

    async fn halted(&self) {
        while !*self.0.is_halted.lock() {
            self.0.halted.notified().await;
        }
    }
}

/// A call that was made.
#[derive(Clone, Debug)]
pub struct Made {
    /// What.
    pub action: Action,
    /// Whether its caller may leave.
    pub leaves: Option<Leaves>,
}

/// A history: what was planned, and what became of it.
#[derive(Clone, Debug)]
pub struct History {
    /// What was planned.
    pub plan: Plan,
    /// The calls, by number.
    pub calls: Vec<Made>,
    /// What happened, and when, in order.
    pub noted: Vec<(u64, Noted)>,
}

struct Runner {
    plan: Plan,
    plant: Plant,
    log: Log,
    disk: SimulatedDisk,
    calls: Mutex<Vec<Made>>,
    /// The ids of reservations.
    ids: Mutex<HashMap<u32, String>>,
    /// What the file says.
    file: Mutex<Numbers>,
}

/// How far the history has come.
struct Progress {
    step: usize,
    at_ms: u64,
    ahead_ms: i64,
    /// Whether all was done, and the node has started once more.
    is_over: bool,
}

/// Runs a plan.
#[must_use]
pub fn run(plan: &Plan, plant: Plant) -> History {
    fastrand::seed(plan.seed);
    let log = Log::default();
    let disk = SimulatedDisk::new(log.clone(), plant);
    use_disk(Some(Arc::new(disk.clone())));
    let runner = Arc::new(Runner {
        plan: plan.clone(),
        plant,
        log,
        disk,
        calls: Mutex::default(),
        ids: Mutex::default(),
        file: Mutex::new(plan.numbers),
    });
    let mut random = fastrand::Rng::with_seed(plan.seed ^ 0xD15C);
    let mut progress = Progress { step: 0, at_ms: 0, ahead_ms: 0, is_over: false };
    loop {
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build();
        let runtime = runtime.expect("a runtime");
        let down = runtime.block_on(runner.live(&mut progress));
        drop(runtime);
        let Some(down) = down else { break };
        runner.disk.lose(down.is_power_loss, &mut random);
        if down.spoilt.is_some_and(|how| runner.disk.spoil(how)) {
            runner.log.0.noted.lock().push((progress.at_ms, Noted::Spoilt));
        }
        progress.at_ms += down.for_ms;
        progress.ahead_ms += down.step_ms;
    }
    use_disk(None);
    let noted = std::mem::take(&mut *runner.log.0.noted.lock());
    let calls = std::mem::take(&mut *runner.calls.lock());
    History { plan: plan.clone(), calls, noted }
}

/// What the clock shows.
fn shown(at_ms: u64, ahead_ms: i64) -> Timestamp {
    let ns = i64::try_from(at_ms).unwrap_or(0) + ahead_ms;
    let ns = SimulatedTime::START.as_nanos().checked_add_signed(ns * 1_000_000);
    Timestamp::from_nanos(ns.expect("an instant of this time"))
}

impl Runner {
    /// From a start to what ends it; `None` if the history is over.
    async fn live(self: &Arc<Self>, progress: &mut Progress) -> Option<Down> {
        let began = Instant::now();
        *self.log.0.life.lock() = Some((progress.at_ms, began));
        *self.log.0.is_halted.lock() = false;
        let time = SimulatedTime::begin_at(shown(progress.at_ms, progress.ahead_ms));
        let numbers = *self.file.lock();
        let (node, running) = Node::start(&text(&numbers, self.plan.snapshot_every_ms))
            .await
            .expect("a configuration that is right");
        let node = Arc::new(node);
        self.log.note(Noted::Started(numbers, progress.ahead_ms));
        let first_ms = progress.at_ms;
        while let Some(Step { at_ms, what }) = self.plan.steps.get(progress.step) {
            progress.step += 1;
            if *at_ms >= first_ms {
                sleep_until(began + Duration::from_millis(at_ms - first_ms)).await;
            } else if matches!(what, What::Call(..)) {
                // Nobody is there to answer.
                continue;
            }
            progress.at_ms = self.log.now_ms();
            match what {
                What::Call(action, leaves) => {
                    if self.plant == Plant::ClockIsFast {
                        progress.ahead_ms += 30;
                        time.step(shown(progress.at_ms, progress.ahead_ms));
                    }
                    if self.plant == Plant::ClockStandsStill {
                        time.step(shown(first_ms, progress.ahead_ms));
                    }
                    self.call(&node, action, *leaves);
                }
                What::Reload(numbers) => self.reload(&node, *numbers),
                What::Save => {
                    let node = Arc::clone(&node);
                    tokio::spawn(async move { node.save().await });
                }
                What::ClockStep(ms) => {
                    progress.ahead_ms += ms;
                    time.step(shown(progress.at_ms, progress.ahead_ms));
                    self.log.note(Noted::ClockStepped(*ms));
                }
                What::DiskFull(ms) => {
                    self.disk.set_full(true);
                    let (disk, ms) = (self.disk.clone(), *ms);
                    tokio::spawn(async move {
                        sleep(Duration::from_millis(ms)).await;
                        disk.set_full(false);
                    });
                }
                What::Crash(down) => {
                    self.crash(&node, down).await;
                    progress.at_ms = self.log.now_ms();
                    return Some(down.clone());
                }
                What::Stop(down) => {
                    self.stop(node, running, down).await;
                    progress.at_ms = self.log.now_ms();
                    return Some(down.clone());
                }
            }
        }
        sleep(Duration::from_millis(QUIET_MS)).await;
        self.examine(&node).await;
        if std::mem::replace(&mut progress.is_over, true) {
            return None;
        }
        let down = Down {
            polls: 0,
            at_disk: None,
            is_power_loss: false,
            for_ms: 1,
            step_ms: 0,
            spoilt: None,
        };
        self.stop(node, running, &down).await;
        progress.at_ms = self.log.now_ms();
        Some(down)
    }

    async fn crash(&self, node: &Arc<Node>, down: &Down) {
        if down.at_disk.is_some() {
            self.disk.end_after(down.at_disk);
            let node = Arc::clone(node);
            tokio::spawn(async move { node.save().await });
        }
        for _ in 0..down.polls {
            yield_now().await;
        }
        self.crashed(down);
    }

    /// The last that is seen of a node.
    fn crashed(&self, down: &Down) {
        *self.log.0.is_halted.lock() = false;
        self.log.note(Noted::Crashed(down.is_power_loss));
        self.log.halt();
    }

    async fn stop(&self, node: Arc<Node>, running: Running, down: &Down) {
        drop(node);
        self.disk.end_after(down.at_disk);
        let has_stopped = tokio::select! {
            biased;
            () = self.log.halted() => false,
            () = running.stop() => !*self.log.0.is_halted.lock(),
        };
        if !has_stopped {
            return self.crashed(down);
        }
        self.log.note(Noted::Stopped);
        // What is dropped away from the workers, once no request uses it.
        sleep(Duration::from_millis(1_500)).await;
        let tasks = tokio::runtime::Handle::current().metrics().num_alive_tasks();
        self.log.note(Noted::Tasks(tasks));
    }

    fn reload(self: &Arc<Self>, node: &Arc<Node>, numbers: Option<Numbers>) {
        let (this, node) = (Arc::clone(self), Arc::clone(node));
        let every_ms = self.plan.snapshot_every_ms;
        let is_used = self.plant == Plant::WrongFileIsUsed;
        let text = match numbers {
            Some(numbers) => {
                *self.file.lock() = numbers;
                text(&numbers, every_ms)
            }
            None if is_used => text(&[Some(2); NAMES.len()], every_ms),
            None => wrong_text(),
        };
        tokio::spawn(async move {
            this.log.note(Noted::ReloadBegan(numbers));
            if this.plant == Plant::OldPlanIsKept {
                let old = Arc::clone(&node.engine().plan());
                tokio::spawn(async move {
                    std::future::pending::<()>().await;
                    drop(old);
                });
            }
            let reloaded = node.reload(text).await;
            if this.plant == Plant::ReloadRefills {
                for key in KEYS {
                    let charges = [Charge::new(NAMES[QUOTA], key.as_bytes(), 0)];
                    _ = node.engine().store().apply(Verb::Reset, &charges).await;
                }
            }
            this.log.note(Noted::ReloadEnded(reloaded.is_ok() && numbers.is_some()));
        });
    }

    fn call(self: &Arc<Self>, node: &Arc<Node>, action: &Action, leaves: Option<Leaves>) {
        let (this, node, action) = (Arc::clone(self), Arc::clone(node), action.clone());
        let number = {
            let mut calls = self.calls.lock();
            calls.push(Made { action: action.clone(), leaves });
            calls.len() - 1
        };
        tokio::spawn(async move {
            this.log.note(Noted::Called(number));
            let acting = Arc::clone(&this);
            let calling = Box::pin(async move { acting.act(&node, &action).await });
            let outcome = this.until_left(calling, leaves).await;
            this.log.note(Noted::Returned(number, outcome));
        });
    }

    /// The outcome of a call, unless its caller leaves before.
    async fn until_left(
        &self,
        mut calling: std::pin::Pin<Box<dyn Future<Output = Outcome> + Send>>,
        leaves: Option<Leaves>,
    ) -> Outcome {
        let outcome = match leaves {
            None => return calling.await,
            Some(Leaves::Ms(ms)) => {
                timeout(Duration::from_millis(ms), &mut calling).await.unwrap_or(Outcome::Left)
            }
            Some(Leaves::Polls(mut polls)) => {
                let poll = std::future::poll_fn(|context| {
                    if polls == 0 {
                        return Poll::Ready(Outcome::Left);
                    }
                    polls -= 1;
                    // Polled at each turn, whether or not it was woken.
                    context.waker().wake_by_ref();
                    calling.as_mut().poll(context)
                });
                pin!(poll).await
            }
        };
        if outcome == Outcome::Left && self.plant == Plant::PlaceIsKept {
            tokio::spawn(calling);
        }
        outcome
    }

    /// What is left when nothing more happens by itself, and what is known of each key.
    async fn examine(self: &Arc<Self>, node: &Arc<Node>) {
        for policy in [QUOTA, HELD] {
            for key in 0..KEYS.len() {
                self.call(node, &Action::Peek(Line { policy, key, cost: 1 }), None);
            }
        }
        sleep(Duration::from_millis(1)).await;
        let waiting = NAMES.iter().map(|name| node.waiting(name)).sum();
        let reservations = NAMES.iter().map(|name| node.reservations(name)).sum();
        self.log.note(Noted::Quiet(waiting, reservations));
    }

    async fn act(&self, node: &Node, action: &Action) -> Outcome {
        let engine = node.engine();
        let verb = match action {
            Action::Peek(_) => Verb::Peek,
            Action::Refund(_) => Verb::Refund,
            Action::Reset(_) => Verb::Reset,
            _ => Verb::Check,
        };
        let plan = Arc::clone(&engine.plan());
        let mut checks = Vec::new();
        for line in lines_of(action) {
            let Ok(policy) = plan.find(NAMES[line.policy]) else {
                return Outcome::Failed("unknown policy".into());
            };
            checks.push(check(policy, line, verb));
        }
        match action {
            Action::Wait(_, ms) => {
                let late = if self.plant == Plant::AnswerIsLate { 300 } else { 0 };
                match node.wait(&checks[0], Duration::from_millis(ms + late)).await {
                    Ok(reply) => Outcome::Replies(vec![told(&reply)]),
                    Err(NoDecision::Store(error)) => failed(&error),
                    Err(_) => Outcome::Unavailable,
                }
            }
            Action::Reserve(reserve) => self.reserve(engine, reserve, &checks).await,
            Action::Settle(id, used) => self.settle(engine, *id, used.as_deref()).await,
            Action::Override(line, rule) => {
                let policy = checks[0].policy;
                let rule = rule.map(|rule| match rule {
                    Rule::Block => Override::Block,
                    Rule::Exempt => Override::Exempt,
                });
                let set = match rule {
                    Some(rule) => {
                        engine.set_override(policy, &KeyOverride::new(KEYS[line.key], rule)).await
                    }
                    None => engine.clear_override(policy, &checks[0].key).await.map(drop),
                };
                set.map_or_else(|error| failed(&error), |()| Outcome::Done)
            }
            _ => self.apply(engine, verb, &checks).await,
        }
    }

    async fn apply(&self, engine: &Engine, verb: Verb, checks: &[Check<'_>]) -> Outcome {
        let charge = |check: &Check<'_>| {
            let key = KEYS.iter().find(|key| key.as_bytes() == check.key.bytes());
            let name = NAMES.iter().find(|name| **name == check.policy.name());
            Charge::new(name.expect("a name"), key.expect("a key").as_bytes(), check.cost.clone())
        };
        if self.plant == Plant::LineIsOvertaken && verb == Verb::Check {
            let charges: Vec<Charge<'_>> = checks.iter().map(charge).collect();
            let answers = engine.store().apply(verb, &charges).await;
            let told = |answer: &waterclock::Answer| Told {
                is_allowed: answer.decision.is_allowed(),
                remaining: answer.decision.remaining(),
                is_held_up: false,
            };
            return match answers {
                Ok(answers) => Outcome::Replies(answers.iter().map(told).collect()),
                Err(error) => failed(&error),
            };
        }
        match engine.apply(Face::Http, verb, checks).await {
            Ok(replies) => {
                let is_refused = replies.iter().any(|reply| !reply.answer.decision.is_allowed());
                if self.plant == Plant::PartIsCharged && is_refused && checks.len() > 1 {
                    _ = engine.store().apply(Verb::Debit, &[charge(&checks[0])]).await;
                }
                Outcome::Replies(replies.iter().map(told).collect())
            }
            Err(error) => failed(&error),
        }
    }

    async fn reserve(&self, engine: &Engine, reserve: &Reserve, checks: &[Check<'_>]) -> Outcome {
        let own = format!("r{}", reserve.id);
        let releases = reserve.releases && self.plant != Plant::ExpiryIsLost;
        let terms = Terms {
            id: reserve.is_own.then_some(&*own),
            ttl: Some(Duration::from_millis(HELD_FOR_MS)),
            on_expiry: if releases { OnExpiry::Release } else { OnExpiry::Keep },
        };
        match engine.reserve(Face::Http, terms, checks).await {
            Ok(holding) => {
                let is_held = holding.reservation.is_some();
                if let Some((id, _)) = holding.reservation {
                    self.ids.lock().insert(reserve.id, id);
                }
                Outcome::Reserved(is_held, holding.replies.iter().map(told).collect())
            }
            Err(error) => failed(&error),
        }
    }

    async fn settle(&self, engine: &Engine, id: u32, used: Option<&[u64]>) -> Outcome {
        let Some(id) = self.ids.lock().get(&id).cloned() else {
            return Outcome::Failed("never reserved".into());
        };
        let used = used.filter(|_| self.plant != Plant::CommitIsFree);
        let costs: Option<Vec<Cost>> =
            used.map(|used| used.iter().map(|units| Cost::from(*units)).collect());
        let with = costs.as_deref().map_or(Settlement::Cancel, Settlement::Commit);
        match engine.settle(&id, with).await {
            Ok(_) => Outcome::Done,
            Err(StoreError::UnknownReservation(_)) => Outcome::Failed("unknown reservation".into()),
            Err(error) => failed(&error),
        }
    }
}

fn check<'a>(policy: &'a ActivePolicy, line: &Line, verb: Verb) -> Check<'a> {
    let key = policy.key(KEYS[line.key].as_bytes()).expect("a key");
    Check::new(policy, key, verb, Some(&line.cost.into())).expect("a cost")
}

fn told(reply: &Reply) -> Told {
    let decision = reply.answer.decision;
    Told {
        is_allowed: decision.is_allowed(),
        remaining: decision.remaining(),
        is_held_up: reply.is_held_up,
    }
}

fn failed(error: &StoreError) -> Outcome {
    Outcome::Failed(error.to_string())
}

/// The lines of a call.
pub(super) fn lines_of(action: &Action) -> &[Line] {
    match action {
        Action::Check(lines) | Action::Reserve(Reserve { lines, .. }) => lines,
        Action::Peek(line)
        | Action::Refund(line)
        | Action::Reset(line)
        | Action::Wait(line, _)
        | Action::Override(line, _) => std::slice::from_ref(line),
        Action::Settle(..) => &[],
    }
}

impl History {
    /// What was noted, in words.
    #[must_use]
    pub fn line(&self, at_ms: u64, noted: &Noted) -> String {
        match noted {
            Noted::Called(call) => format!("{at_ms:>6} ms  #{call} {}", self.calls[*call].action),
            Noted::Returned(call, outcome) => format!("{at_ms:>6} ms  #{call} is told {outcome:?}"),
            other => format!("{at_ms:>6} ms  {other:?}"),
        }
    }

    /// All of it as text, the same for the same seed in every process.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = format!("seed {}\n", self.plan.seed);
        for (at_ms, noted) in &self.noted {
            _ = writeln!(text, "{}", self.line(*at_ms, noted));
        }
        text
    }
}
