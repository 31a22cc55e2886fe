//! Runs a plan on virtual time, and writes down what every caller was told.

use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Builder;
use tokio::time::{Instant, sleep, sleep_until};
use waterclock::{
    Answer, Charge, Cost, Hold, OnExpiry, Reserved, Settled, Settlement, SimulatedTime, Source,
    Store as _, StoreError, Verb,
};
use waterclock_redis::{RedisStore, SimulatedNetwork};

use crate::cluster::{Slots, host};
use crate::network::{Network, World};
use crate::plan::{Action, HELD_FOR, KEYS, Line, NAMES, Plan, QUOTA, Topology, policy};
use crate::plant::Plant;
use crate::sentinels::{Pair, SERVICE};
use crate::server::{Execution, Server};

/// What a caller was told.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// Answers, one for each line.
    Answers(Vec<Answer>),
    /// Whether it is held, and what was said.
    Reserved(Reserved),
    /// How it was settled.
    Settled(Settled),
    /// An error.
    Failed(StoreError),
    /// The caller left, or its node ended.
    Left,
}

/// One call.
#[derive(Clone, Debug)]
pub struct Event {
    /// Of which step.
    pub step: usize,
    /// By which process: each node that takes another's place has a new number.
    pub process: usize,
    /// When it was made.
    pub called_ms: u64,
    /// When it was over.
    pub returned_ms: u64,
    /// How it ended.
    pub outcome: Outcome,
}

/// What was found when all was over.
#[derive(Clone, Debug, Default)]
pub struct Ending {
    /// What each process was told about a check after everything was well again.
    pub recovered: Vec<(usize, Result<Source, String>)>,
    /// What is used of each key of [`QUOTA`] and how many places of [`HELD`](crate::plan::HELD) are free, of each key.
    pub used: Vec<u64>,
    /// See above.
    pub free: Vec<u64>,
    /// Keys that never expire, or far too late.
    pub lasting: Vec<String>,
    /// Tasks that did not end with their stores.
    pub tasks: usize,
}

/// A history: what was planned, and what became of it.
#[derive(Clone, Debug)]
pub struct History {
    /// What was planned.
    pub plan: Plan,
    /// In the order in which they ended.
    pub events: Vec<Event>,
    /// What the servers executed, by server.
    pub executed: Vec<Vec<Execution>>,
    /// The key of the record of each policy and key.
    pub records: Vec<Vec<Vec<u8>>>,
    /// What was found when all was over.
    pub ending: Ending,
}

/// Runs a plan.
#[must_use]
pub fn run(plan: &Plan, plant: Plant) -> History {
    fastrand::seed(plan.seed);
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.expect("a runtime");
    let history = runtime.block_on(history(plan, plant));
    <dyn SimulatedNetwork>::of_this_thread(None);
    history
}

/// The process that is a node now.
pub(crate) struct Process {
    pub(crate) number: usize,
    store: RedisStore,
    pub(crate) calls: Vec<tokio::task::AbortHandle>,
}

pub(crate) struct Runner {
    pub(crate) plan: Plan,
    plant: Plant,
    pub(crate) network: Network,
    origin: Instant,
    pub(crate) processes: Mutex<Vec<Process>>,
    events: Mutex<Vec<Event>>,
    started: Mutex<usize>,
    /// The key of the record of each policy and key.
    pub(crate) records: OnceLock<Vec<Vec<Vec<u8>>>>,
}

async fn history(plan: &Plan, plant: Plant) -> History {
    let _time = SimulatedTime::begin();
    let servers: Vec<Server> =
        plan.ahead_us.iter().map(|ahead| Server::new(*ahead, plant)).collect();
    let (mut slots, mut pair) = (None, None);
    match plan.topology {
        Topology::One => {}
        Topology::Cluster => {
            let is_stale = plant == Plant::MovedIsServed;
            slots = Some(Slots::new(servers.len(), is_stale));
        }
        Topology::Sentinels { lag_ms, .. } => {
            let is_stale = plant == Plant::FailoverIsMissed;
            pair = Some(Pair::new(lag_ms, is_stale));
        }
    }
    let network = Network::new(servers, (slots, pair), plan.seed, plant);
    network.change(World::demote);
    <dyn SimulatedNetwork>::of_this_thread(Some(Arc::new(network.clone())));
    let runner = Arc::new(Runner {
        plan: plan.clone(),
        plant,
        network,
        origin: Instant::now(),
        processes: Mutex::default(),
        events: Mutex::default(),
        started: Mutex::new(0),
        records: OnceLock::new(),
    });
    let records = runner.find_records().await;
    _ = runner.records.set(records.clone());
    for _ in 0..plan.nodes {
        let process = runner.start().await;
        runner.processes.lock().push(process);
    }
    let origin = Instant::now();
    runner.carry_out(origin).await;
    let ending = runner.end().await;
    let executed = runner.network.change(|world| {
        world.servers.iter_mut().map(|server| std::mem::take(&mut server.executed)).collect()
    });
    let events = std::mem::take(&mut *runner.events.lock());
    History { plan: plan.clone(), events, executed, records, ending }
}

impl Runner {
    fn at_ms(&self) -> u64 {
        u64::try_from(self.origin.elapsed().as_millis()).unwrap_or(0)
    }

    fn url(&self, number: usize) -> String {
        let (servers, hosts) = (self.plan.topology.servers(), self.plan.topology.hosts());
        let of = |range: std::ops::Range<usize>| {
            let each: Vec<String> =
                range.map(|server| format!("{}:6379", host(number, server))).collect();
            each.join(",")
        };
        match self.plan.topology {
            Topology::One => format!("redis://{}", of(0..servers)),
            Topology::Cluster => format!("redis-cluster://{}", of(0..servers)),
            Topology::Sentinels { .. } => {
                format!("redis-sentinel://{}/{SERVICE}", of(servers..hosts))
            }
        }
    }

    /// Another process, with all policies.
    pub(crate) async fn start(&self) -> Process {
        let number = {
            let mut started = self.started.lock();
            *started += 1;
            *started
        };
        let nodes = if self.plant == Plant::WholeLimitPerNode { 1 } else { self.plan.nodes };
        let deadline = if self.plant == Plant::NoDeadline { 500 } else { 50 };
        let builder = RedisStore::builder(&self.url(number)).nodes(nodes as u64);
        let waits = matches!(self.plan.topology, Topology::Sentinels { waits: true, .. });
        let builder = builder.deadline(Duration::from_millis(deadline)).replicas(u64::from(waits));
        let store = builder.key_secret("simulated").start().expect("valid settings");
        for (number, serving) in self.plan.serving.iter().enumerate() {
            store.set_policy_as(policy(number), *serving).await.expect("a policy");
        }
        Process { number, store, calls: Vec::new() }
    }

    /// Asks for every key once, to learn under which key its record is.
    async fn find_records(&self) -> Vec<Vec<Vec<u8>>> {
        let observer = self.start().await.store;
        let mut records = Vec::new();
        for name in NAMES {
            let mut of_policy = Vec::new();
            for key in KEYS {
                _ = observer.peek(name, key).await.expect("a store that answers");
                let found = |world: &mut World| {
                    let executed = world.servers.iter().filter_map(|server| server.executed.last());
                    // Of one instant there may be several: the one that was asked now has this key.
                    executed.max_by_key(|one| one.at_ms).and_then(|one| one.keys.first().cloned())
                };
                of_policy.push(self.network.change(found).unwrap_or_default());
                sleep(Duration::from_millis(1)).await;
            }
            records.push(of_policy);
        }
        observer.close().await;
        self.network.change(|world| {
            world.servers.iter_mut().for_each(|server| server.executed.clear());
        });
        records
    }

    async fn carry_out(self: &Arc<Self>, origin: Instant) {
        let mut due: Vec<(u64, Result<usize, usize>)> = Vec::new();
        due.extend(self.plan.faults.iter().enumerate().map(|(i, fault)| (fault.at_ms, Err(i))));
        due.extend(self.plan.steps.iter().enumerate().map(|(i, step)| (step.at_ms, Ok(i))));
        due.sort_by_key(|(at, _)| *at);
        for (at, what) in due {
            sleep_until(origin + Duration::from_millis(at)).await;
            match what {
                Ok(step) => self.call(step),
                Err(fault) => {
                    let (this, fault) = (Arc::clone(self), self.plan.faults[fault].clone());
                    tokio::spawn(async move { this.strike(fault).await });
                }
            }
        }
        sleep_until(origin + Duration::from_millis(self.plan.ends_ms() + 2)).await;
    }

    fn call(self: &Arc<Self>, step: usize) {
        let this = Arc::clone(self);
        let mut processes = self.processes.lock();
        let process = &mut processes[self.plan.steps[step].node];
        let (number, store) = (process.number, process.store.clone());
        let event = Event {
            step,
            process: number,
            called_ms: self.at_ms(),
            returned_ms: u64::MAX,
            outcome: Outcome::Left,
        };
        let call = tokio::spawn(async move {
            // Also if the task ends with its process.
            let mut noted = Noted(Arc::clone(&this), Some(event));
            let planned = &this.plan.steps[step];
            let mut polls = planned.leaves_after;
            let mut calling = pin!(act(&store, &planned.action));
            let outcome = std::future::poll_fn(|cx| match calling.as_mut().poll(cx) {
                Poll::Ready(outcome) => Poll::Ready(outcome),
                Poll::Pending => match &mut polls {
                    Some(left @ 2..) => {
                        *left -= 1;
                        Poll::Pending
                    }
                    Some(_) => Poll::Ready(Outcome::Left),
                    None => Poll::Pending,
                },
            });
            let outcome = outcome.await;
            if let Some(event) = &mut noted.1 {
                event.outcome = outcome;
            }
        });
        process.calls.push(call.abort_handle());
    }

    /// When all is well again: whether the nodes are, and what is left behind.
    async fn end(&self) -> Ending {
        let mut ending = Ending::default();
        // Longer than any call, and than it takes to find out that a server is back; or that the sentinels are, which a node
        // asks every four seconds at most if none of them answered.
        let finds_out_within_ms = match self.plan.topology {
            Topology::Sentinels { .. } => 5_000,
            Topology::One | Topology::Cluster => 1_000,
        };
        sleep(Duration::from_millis(finds_out_within_ms)).await;
        let processes = std::mem::take(&mut *self.processes.lock());
        for process in &processes {
            let told = process.store.check(NAMES[QUOTA], format!("fresh {}", process.number)).await;
            let charge = Charge::new(NAMES[QUOTA], b"well", 0);
            let answers = process.store.apply(Verb::Peek, &[charge]).await;
            let source = told.and(answers).map(|answers| answers[0].source);
            ending.recovered.push((process.number, source.map_err(|error| error.to_string())));
        }
        for process in &processes {
            process.store.close().await;
        }
        // Until what is given back by itself has been.
        sleep(Duration::from_millis(5_000)).await;
        drop(processes);
        let observer = self.start().await.store;
        for key in KEYS {
            let decision = observer.peek(NAMES[QUOTA], key).await.expect("a store that answers");
            // More than the limit may be owed.
            let limits = decision.limit().unwrap_or(0);
            ending.used.push(limits - decision.remaining().unwrap_or(0));
            let places = observer.peek(NAMES[crate::plan::HELD], key).await;
            ending.free.push(places.expect("a store that answers").remaining().unwrap_or(0));
        }
        observer.close().await;
        drop(observer);
        // Background work looks now and then whether its store is still there.
        sleep(Duration::from_secs(2 * 86_400)).await;
        ending.tasks = tokio::runtime::Handle::current().metrics().num_alive_tasks();
        ending.lasting = self.network.change(|world| world.lasting());
        ending
    }
}

impl World {
    /// Records that outlive whatever they can be about.
    fn lasting(&self) -> Vec<String> {
        let at_ms = self.at_ms();
        let year_ms = 365 * 86_400_000;
        let each = self.servers.iter().flat_map(|server| {
            let now_us = server.now_us(at_ms);
            server.keyspace.lasting(now_us).filter(move |(key, until)| {
                !key.starts_with(b"wc:policy:")
                    && until.is_none_or(|until| until > now_us / 1_000 + year_ms)
            })
        });
        each.map(|(key, _)| String::from_utf8_lossy(key).into_owned()).collect()
    }
}

/// An event that is written down when its call is over, however it ends.
struct Noted(Arc<Runner>, Option<Event>);

impl Drop for Noted {
    fn drop(&mut self) {
        if let Some(mut event) = self.1.take() {
            event.returned_ms = self.0.at_ms();
            self.0.events.lock().push(event);
        }
    }
}

fn charge(line: &Line) -> Charge<'static> {
    Charge::new(NAMES[line.policy], KEYS[line.key].as_bytes(), line.cost)
}

async fn act(store: &RedisStore, action: &Action) -> Outcome {
    let answers = |answers: Result<Vec<Answer>, StoreError>| match answers {
        Ok(answers) => Outcome::Answers(answers),
        Err(error) => Outcome::Failed(error),
    };
    match action {
        Action::Check(lines) => {
            let charges: Vec<Charge<'_>> = lines.iter().map(charge).collect();
            answers(store.apply(Verb::Check, &charges).await)
        }
        Action::CheckWithin(line, ms) => {
            let patience = Duration::from_millis(*ms);
            answers(store.apply_within(patience, Verb::Check, &[charge(line)]).await)
        }
        Action::Peek(line) => answers(store.apply(Verb::Peek, &[charge(line)]).await),
        Action::Debit(line) => answers(store.apply(Verb::Debit, &[charge(line)]).await),
        Action::Reserve(id, lines, releases) => {
            let charges: Vec<Charge<'_>> = lines.iter().map(charge).collect();
            let id = format!("r{id}");
            let on_expiry = if *releases { OnExpiry::Release } else { OnExpiry::Keep };
            let hold = Hold { id: Some(&id), ttl: Some(HELD_FOR), charges: &charges, on_expiry };
            store.reserve(&hold).await.map_or_else(Outcome::Failed, Outcome::Reserved)
        }
        Action::Settle(id, used) => {
            let costs: Option<Vec<Cost>> =
                used.as_ref().map(|used| used.iter().map(|n| Cost::from(*n)).collect());
            let with = costs.as_deref().map_or(Settlement::Cancel, Settlement::Commit);
            let settled = store.settle(&format!("r{id}"), with).await;
            settled.map_or_else(Outcome::Failed, Outcome::Settled)
        }
    }
}
