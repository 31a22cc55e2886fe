//! Proxies, servers, their streams and one store, step by step.

use std::collections::VecDeque;
use std::time::Duration;

use waterclock::store::now_or_never;
use waterclock::{
    Charge, Gcra, Limit, ManualClock, MemoryStore, Policy, Store as _, Timestamp, Verb,
};

use super::super::DELAY;
use super::super::answer::actions;
use super::super::keeps::Keeps;
use super::super::pool::{Divided, Pool, ShareId, Turn};
use super::super::share::{Assignment, Grant, Usage};
use super::oracle::Oracle;
use super::proxy::{Proxy, REPORTS, Verdict};
use super::schedule::{Bug, random_policy};
use crate::face::grpc::proto::rlqs::{BucketAction, BucketId};

pub(super) const STEP: Duration = Duration::from_millis(50);
pub(super) const PROXIES: usize = 4;

/// The longest that a report is under way, so that the next comes before the bucket is forgotten.
const LONGEST_STALL: Duration = Duration::from_secs(12);

/// Steady demand against a bucket.
pub(super) struct Scenario {
    pub(super) per_second: u64,
    pub(super) capacity: u64,
    pub(super) demand: [u64; PROXIES],
}

/// A server: a pool, and when its store call is done.
pub(super) struct Server {
    pub(super) pool: Pool,
    pub(super) divides_at: Option<(Duration, Grant)>,
    /// Open streams: number, proxy.
    pub(super) streams: Vec<(u64, usize)>,
}

/// What travels.
enum Message {
    Report { stream: u64, server: usize, usage: Usage },
    Response { stream: u64, proxy: usize, actions: Vec<BucketAction> },
}

pub(super) struct World {
    pub(super) random: fastrand::Rng,
    pub(super) bug: Option<Bug>,
    pub(super) now: Duration,
    pub(super) ends: Duration,
    pub(super) clock: ManualClock,
    pub(super) store: MemoryStore<ManualClock>,
    pub(super) policy: Policy,
    pub(super) oracle: Oracle,
    pub(super) proxies: Vec<Proxy>,
    /// Requests a second of each proxy, and what is due.
    pub(super) demand: Vec<(f64, f64)>,
    pub(super) servers: Vec<Server>,
    /// In order of arrival on each stream.
    messages: VecDeque<(Duration, Message)>,
    pub(super) next_stream: u64,
    pub(super) is_calm: bool,
    /// When servers notice that streams are gone.
    pub(super) closing: Vec<(Duration, u64)>,
    /// Units that each stream was given, for the bug that gives them back.
    pub(super) held: Vec<(u64, u64)>,
    pub(super) leased: u64,
    pub(super) direct: u64,
    pub(super) streams_lost: u64,
    pub(super) restarts: u64,
    pub(super) crashes: u64,
    /// Reports that were under way for longer than any assignment may be.
    pub(super) stalls: u64,
    pub(super) lapses: u64,
}

impl World {
    pub(super) fn new(seed: u64, bug: Option<Bug>) -> World {
        let mut random = fastrand::Rng::with_seed(seed);
        let (limit, oracle) = random_policy(&mut random);
        let servers = random.usize(1..=2);
        let is_calm = random.u8(..8) == 0;
        let mut world = World::with(random, limit, oracle, servers);
        world.ends = Duration::from_secs(90);
        (world.bug, world.is_calm) = (bug, is_calm);
        for proxy in &mut world.proxies {
            proxy.denies_without = world.random.bool();
        }
        world
    }

    /// Without losses and direct callers, with enough time to settle.
    pub(super) fn steady(scenario: Scenario) -> World {
        let Scenario { per_second, capacity, demand } = scenario;
        let second = Duration::from_secs(1);
        let limit = Gcra::new(per_second, second).unwrap().with_capacity(capacity);
        let oracle = Oracle::bucket(per_second, second, capacity);
        let mut world = World::with(fastrand::Rng::with_seed(7), limit.into(), oracle, 1);
        world.ends = Duration::from_secs(120);
        world.is_calm = true;
        #[expect(clippy::cast_precision_loss, reason = "small numbers")]
        let demands = demand.map(|demand| (demand as f64, 0.0));
        world.demand = demands.to_vec();
        world.restarts = u64::MAX;
        world
    }

    fn with(random: fastrand::Rng, limit: Limit, oracle: Oracle, servers: usize) -> World {
        let clock = ManualClock::default();
        let store = MemoryStore::new(16, clock.clone());
        let policy = Policy::new("p", [limit]).unwrap();
        now_or_never(store.set_policy(policy.clone())).unwrap().unwrap();
        let mut world = World {
            random,
            bug: None,
            now: Duration::ZERO,
            ends: Duration::ZERO,
            clock,
            store,
            policy,
            oracle,
            proxies: (0..PROXIES).map(|_| Proxy::default()).collect(),
            demand: vec![(0.0, 0.0); PROXIES],
            servers: Vec::new(),
            messages: VecDeque::new(),
            next_stream: 0,
            is_calm: false,
            closing: Vec::new(),
            held: Vec::new(),
            leased: 0,
            direct: 0,
            streams_lost: 0,
            restarts: 0,
            crashes: 0,
            stalls: 0,
            lapses: 0,
        };
        world.servers = (0..servers).map(|_| world.fresh_server()).collect();
        world
    }

    pub(super) fn fresh_server(&self) -> Server {
        let limit = &self.policy.limits()[0];
        let refills = super::super::target::refills(limit);
        Server { pool: Pool::new(limit.max_cost(), refills), divides_at: None, streams: Vec::new() }
    }

    /// Requests admitted in a second, of the second half.
    pub(super) fn admitted_a_second(&self) -> Vec<f64> {
        let seconds = (self.ends / 2).as_secs_f64();
        #[expect(clippy::cast_precision_loss, reason = "small numbers")]
        let rate = |proxy: &Proxy| proxy.admitted as f64 / seconds;
        self.proxies.iter().map(rate).collect()
    }

    fn is_steady(&self) -> bool {
        self.restarts == u64::MAX
    }

    pub(super) fn run(&mut self) -> Result<(), String> {
        let mut is_halfway = false;
        while self.now < self.ends {
            self.now += STEP;
            self.clock.set(self.at());
            self.close_streams();
            self.deliver();
            self.serve();
            self.requests()?;
            self.ticks();
            if !self.is_steady() {
                self.trouble()?;
            } else if !is_halfway && self.now >= self.ends / 2 {
                is_halfway = true;
                self.proxies.iter_mut().for_each(|proxy| proxy.admitted = 0);
            }
        }
        self.lapses = self.proxies.iter().map(|proxy| proxy.lapses).sum();
        if self.bug == Some(Bug::NotRenewed) && self.lapses > 0 && self.streams_lost == 0 {
            return Err("an assignment has lapsed".to_owned());
        }
        Ok(())
    }

    fn at(&self) -> Timestamp {
        Timestamp::from_nanos(0).after(Duration::from_secs(1_000) + self.now)
    }

    /// Stays in order: nothing on a stream overtakes what was sent before.
    fn send(&mut self, message: Message) {
        // The call of the store before it takes the rest.
        let most = if self.is_calm { STEP } else { DELAY * 9 / 10 };
        let mut at = self.now + most * self.random.u32(0..=16) / 16;
        if let (false, Message::Report { .. }) = (self.is_calm, &message)
            && self.random.u8(..20) == 0
        {
            // The network loses what goes one way, and what comes after waits for it.
            self.stalls += 1;
            at += LONGEST_STALL * self.random.u32(1..=16) / 16;
        }
        let same = |other: &Message| match (&message, other) {
            (Message::Report { stream, .. }, Message::Report { stream: other, .. })
            | (Message::Response { stream, .. }, Message::Response { stream: other, .. }) => {
                stream == other
            }
            _ => false,
        };
        let before = self.messages.iter().filter(|(_, other)| same(other)).map(|(at, _)| *at).max();
        at = at.max(before.unwrap_or_default());
        self.messages.push_back((at, message));
    }

    fn deliver(&mut self) {
        let (now, waiting) = (self.now, std::mem::take(&mut self.messages));
        let (due, later): (VecDeque<_>, _) = waiting.into_iter().partition(|(at, _)| *at <= now);
        self.messages = later;
        for (_, message) in due {
            match message {
                Message::Report { stream, server, usage } => {
                    let at = self.at();
                    let server = &mut self.servers[server];
                    if !server.streams.iter().any(|(open, _)| *open == stream) {
                        continue;
                    }
                    let id = ShareId(stream);
                    let spent = usage.allowed;
                    if !server.pool.report(at, id, usage) {
                        server.pool.join(at, id);
                        assert!(server.pool.report(at, id, usage));
                    }
                    if self.bug == Some(Bug::SpentGivenBack) {
                        self.charge(Verb::Refund, spent);
                    }
                }
                Message::Response { stream, proxy, actions } => {
                    let proxy = &mut self.proxies[proxy];
                    if proxy.stream == Some(stream) {
                        proxy.receive(now, &actions);
                    }
                }
            }
        }
    }

    pub(super) fn charge(&self, verb: Verb, units: u64) -> (bool, u64, Keeps) {
        let charges = [Charge::new("p", b"k", units)];
        let answers = now_or_never(self.store.apply(verb, &charges)).unwrap().unwrap();
        let answer = &answers[0];
        let keeps = Keeps::new(&self.policy, &answer.limits, self.at());
        let remaining = answer.decision.remaining().unwrap();
        (answer.decision.is_allowed(), remaining, keeps)
    }

    fn take_up_to(&self, units: u64) -> (u64, Keeps) {
        let (is_allowed, remaining, keeps) = self.charge(Verb::Check, units);
        if is_allowed {
            return (units, keeps);
        }
        let (is_allowed, _, keeps) = self.charge(Verb::Check, remaining);
        (if is_allowed { remaining } else { 0 }, keeps)
    }

    fn serve(&mut self) {
        for at in 0..self.servers.len() {
            let now = self.at();
            if let Some((ready, grant)) = self.servers[at].divides_at
                && self.now >= ready
            {
                self.servers[at].divides_at = None;
                let divided = self.servers[at].pool.divide(now, grant);
                self.tell(at, divided);
            }
            let server = &mut self.servers[at];
            if server.divides_at.is_some() || server.pool.due_at().is_none_or(|due| due > now) {
                continue;
            }
            if self.bug == Some(Bug::NotRenewed) && self.random.u8(..200) > 0 {
                continue;
            }
            let Turn { refund, ask } = server.pool.turn(now);
            if refund > 0 {
                self.charge(Verb::Refund, refund);
            }
            let (mut units, mut keeps) = (0, Keeps::NOTHING);
            let is_refill = self.bug == Some(Bug::Refilled) && !self.held.is_empty();
            if ask > 0 && !is_refill {
                (units, keeps) = self.take_up_to(ask);
            }
            match self.bug {
                Some(Bug::CountedTwice) => units *= 2,
                Some(Bug::ChargedOnReports) => {
                    // Whatever is wanted is lent, and charged if there is room.
                    units = ask;
                }
                Some(Bug::Refilled) if is_refill => units = ask,
                _ => {}
            }
            let took = if self.is_calm { Duration::ZERO } else { STEP * self.random.u32(..3) };
            let grant = Grant { units, taken: now, keeps };
            self.servers[at].divides_at = Some((self.now + took, grant));
        }
    }

    fn tell(&mut self, server: usize, Divided { assignments, left }: Divided) {
        if left > 0 && self.bug.is_none() {
            self.charge(Verb::Refund, left);
        }
        let id = BucketId::default();
        for (ShareId(stream), assignment) in assignments {
            let open = self.servers[server].streams.iter().find(|(open, _)| *open == stream);
            let Some((_, proxy)) = open.copied() else { continue };
            if let Assignment::Units(units) = assignment {
                self.held.retain(|(other, _)| *other != stream);
                self.held.push((stream, units.into()));
            }
            let actions = actions(&id, assignment);
            self.send(Message::Response { stream, proxy, actions });
        }
    }

    fn requests(&mut self) -> Result<(), String> {
        for at in 0..PROXIES {
            let (rate, due) = &mut self.demand[at];
            *due += *rate * STEP.as_secs_f64();
            while self.demand[at].1 >= 1.0 {
                self.demand[at].1 -= 1.0;
                let (verdict, report) = self.proxies[at].request(self.now);
                if verdict == Verdict::Admitted {
                    self.leased += 1;
                    self.oracle.admit(self.now)?;
                }
                if let Some(usage) = report {
                    self.report(at, usage, true);
                }
            }
        }
        Ok(())
    }

    /// Sends a report, on a new stream if there is none: that begins with all buckets, and mostly without what they have
    /// counted meanwhile.
    fn report(&mut self, proxy: usize, mut usage: Usage, is_first: bool) {
        let server = proxy % self.servers.len();
        if self.proxies[proxy].stream.is_none() {
            if !is_first && self.random.u8(..4) > 0 {
                (usage.allowed, usage.denied) = (0, 0);
            }
            self.next_stream += 1;
            self.proxies[proxy].stream = Some(self.next_stream);
            self.servers[server].streams.push((self.next_stream, proxy));
        }
        if let Some(stream) = self.proxies[proxy].stream {
            self.send(Message::Report { stream, server, usage });
        }
    }

    fn ticks(&mut self) {
        for at in 0..PROXIES {
            // Each at its own time of the five seconds.
            let tick = self.now + Duration::from_millis(700) * u32::try_from(at).unwrap();
            if tick.as_nanos() % REPORTS.as_nanos() >= STEP.as_nanos() {
                continue;
            }
            if let Some(usage) = self.proxies[at].report(self.now) {
                self.report(at, usage, false);
            }
        }
    }
}
