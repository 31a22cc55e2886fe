//! What happens in a history: made of a seed alone, and shrunk when an oracle fails.

use std::fmt;
use std::time::Duration;

use waterclock::{Lease, Limit, OnStoreError, Policy, Serving};
use waterclock_core::{Concurrency, FixedWindow, Gcra, RollingWindow};

/// A whole history before it is run.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// What it was made of. Delays and jitter are drawn from it, too.
    pub seed: u64,
    /// How many nodes share the store.
    pub nodes: usize,
    /// How many servers: more than one are a cluster.
    pub servers: usize,
    /// How each policy is served, in the order of [`NAMES`].
    pub serving: [Serving; NAMES.len()],
    /// What callers do, in order of time.
    pub steps: Vec<Step>,
    /// What goes wrong, in order of time.
    pub faults: Vec<Fault>,
}

/// The policies.
pub const NAMES: [&str; 5] = ["rate", "quota", "window", "log", "held"];
/// By number.
pub const QUOTA: usize = 1;
/// By number: the one that only reservations hold.
pub const HELD: usize = 4;
/// The keys.
pub const KEYS: [&str; 3] = ["a", "b", "c"];
/// How long a reservation may take to be settled.
pub const HELD_FOR: Duration = Duration::from_millis(1_500);
/// How many places [`HELD`] has.
pub const PLACES: u64 = 3;

/// The policy of a number.
///
/// # Panics
///
/// If there is none.
#[must_use]
pub fn policy(number: usize) -> Policy {
    let days = |n: u64| Duration::from_secs(86_400 * n);
    let limit: Limit = match NAMES[number] {
        "rate" => Limit::per_second(20).with_capacity(8).into(),
        // So slow that nothing comes back while anybody looks.
        "quota" => Gcra::new(24, days(240)).expect("a limit").into(),
        "window" => FixedWindow::aligned(6, Duration::from_millis(500)).expect("a limit").into(),
        "log" => RollingWindow::new(5, Duration::from_millis(400)).expect("a limit").into(),
        _ => Concurrency::new(PLACES, Duration::from_secs(2)).expect("a limit").into(),
    };
    Policy::new(NAMES[number], [limit]).expect("a policy")
}

/// What one caller does.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// When.
    pub at_ms: u64,
    /// On which node.
    pub node: usize,
    /// What.
    pub action: Action,
    /// How often the call is polled before its caller leaves it.
    pub leaves_after: Option<u32>,
}

/// A policy, a key and a cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// By number.
    pub policy: usize,
    /// By number.
    pub key: usize,
    /// Units.
    pub cost: u64,
}

/// A call.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// All of them or none.
    Check(Vec<Line>),
    /// A check whose caller waits for so many milliseconds only.
    CheckWithin(Line, u64),
    /// What a check would say.
    Peek(Line),
    /// Charged whether or not there is room.
    Debit(Line),
    /// Units held under a name; given back when their time is over, if so.
    Reserve(u32, Vec<Line>, bool),
    /// What was used of each line, or nothing was: cancelled.
    Settle(u32, Option<Vec<u64>>),
}

/// What goes wrong.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// When it begins.
    pub at_ms: u64,
    /// For how long.
    pub for_ms: u64,
    /// What.
    pub kind: FaultKind,
}

/// A kind of fault. A node is one of them, or all.
#[derive(Clone, Debug, PartialEq)]
pub enum FaultKind {
    /// Nothing gets through, to the server, to the node, or both.
    Cut {
        /// Which.
        node: Option<usize>,
        /// To the server.
        up: bool,
        /// To the node.
        down: bool,
    },
    /// Connections break.
    Reset(Option<usize>),
    /// Packets take up to so many milliseconds.
    Slow(u64),
    /// Of a thousand packets, so many come a fifth of a second late.
    Lossy(u64),
    /// A server is stopped and goes on.
    Stopped(usize),
    /// A server ends and comes back, with what it kept or without.
    Restarted(usize, bool),
    /// A server forgets its scripts.
    ScriptsFlushed(usize),
    /// A server loses its keys.
    Flushed(usize),
    /// The clock of a server steps by so many milliseconds.
    ClockStep(usize, i64),
    /// A node's process ends and another takes its place.
    Crash(usize),
}

impl Plan {
    /// The plan of a seed.
    #[must_use]
    pub fn of(seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let random = &mut random;
        let nodes = random.usize(1..=3);
        let servers = if random.u8(0..3) == 0 { 3 } else { 1 };
        let mut serving = std::array::from_fn(|number| serving(random, number));
        let (span, count) = (random.u64(200..3_000), random.usize(4..40));
        // Checks over several slots, of which one refuses while others are on their way.
        let crosses = (servers > 1 && random.bool()).then(|| [0, 2][random.usize(0..2)]);
        let (span, count) =
            if crosses.is_some() { (span / 4 + 100, 16 + count / 2) } else { (span, count) };
        // One key, of which every answer is explained by the core.
        let is_alone = crosses.is_none() && random.u8(0..6) == 0;
        if let Some(number) = crosses.or(is_alone.then_some(0)) {
            serving[number] = Serving::new(OnStoreError::Deny);
        }
        // Some histories are about few keys, and some about one way to call.
        let (keys, flavour) = (random.usize(1..=KEYS.len()), random.u8(0..4));
        let mut reserved: Vec<(Vec<Line>, bool)> = Vec::new();
        let mut times: Vec<u64> = (0..count).map(|_| random.u64(0..span)).collect();
        times.sort_unstable();
        // Several callers at the same instant share an exchange.
        for i in 1..times.len() {
            if random.u8(0..4) == 0 {
                times[i] = times[i - 1];
            }
        }
        let favourite = random.usize(0..NAMES.len());
        let steps = times.into_iter().map(|at_ms| {
            let action = match crosses {
                Some(policy) => crossing(random, policy),
                None if is_alone => alone(random),
                None => action(random, flavour, favourite, keys, &mut reserved),
            };
            let leaves_after = (random.u8(0..12) == 0).then(|| random.u32(1..6));
            Step { at_ms, node: random.usize(0..nodes), action, leaves_after }
        });
        let steps = steps.collect();
        let count = [0, 0, 1, 1, 2, 3, 4][random.usize(0..7)];
        let mut faults: Vec<Fault> =
            (0..count).map(|_| fault(random, span, nodes, servers)).collect();
        if is_alone && random.bool() {
            let kind = FaultKind::ClockStep(0, [-3_000, -700][random.usize(0..2)]);
            faults = vec![Fault { at_ms: random.u64(0..span), for_ms: 1, kind }];
        }
        if crosses.is_some() {
            let kind = FaultKind::Slow(random.u64(3..25));
            faults.push(Fault { at_ms: 0, for_ms: span, kind });
        }
        faults.sort_by_key(|fault| fault.at_ms);
        Self { seed, nodes, servers, serving, steps, faults }
    }

    /// When the last thing of it is over.
    #[must_use]
    pub fn ends_ms(&self) -> u64 {
        let faults = self.faults.iter().map(|fault| fault.at_ms + fault.for_ms);
        faults.chain(self.steps.iter().map(|step| step.at_ms)).max().unwrap_or(0)
    }
}

fn serving(random: &mut fastrand::Rng, number: usize) -> Serving {
    let local_for = (random.u8(0..3) == 0).then(|| Duration::from_millis(random.u64(50..1_000)));
    let serving = match random.u8(0..3) {
        0 => Serving::new(OnStoreError::Deny),
        1 => Serving::new(OnStoreError::Local),
        _ => Serving::new(OnStoreError::Local).with_local_for(local_for),
    };
    let is_leased = number < HELD && random.u8(0..3) == 0;
    let ttl = Duration::from_millis(random.u64(50..800));
    serving.with_lease(is_leased.then(|| Lease::new(random.u64(1..=3), ttl)))
}

/// A check or a peek of the only key.
fn alone(random: &mut fastrand::Rng) -> Action {
    let line = Line { policy: 0, key: 0, cost: random.u64(1..=4) };
    match random.u8(0..10) {
        0 => Action::Peek(line),
        1 => Action::CheckWithin(line, random.u64(1..30)),
        _ => Action::Check(vec![line]),
    }
}

/// A check whose first key has room, and whose second has none most of the time; or one of the first key alone.
fn crossing(random: &mut fastrand::Rng, policy: usize) -> Action {
    let line = |policy, key, cost| Line { policy, key, cost };
    let first = line(policy, 0, random.u64(1..=3));
    match random.u8(0..5) {
        0 | 1 => Action::Check(vec![first]),
        _ => Action::Check(vec![first, line(2, random.usize(1..KEYS.len()), 3)]),
    }
}

fn action(
    random: &mut fastrand::Rng,
    flavour: u8,
    favourite: usize,
    keys: usize,
    reserved: &mut Vec<(Vec<Line>, bool)>,
) -> Action {
    let number = if random.bool() { favourite } else { random.usize(0..NAMES.len()) };
    let checked = if number == HELD { QUOTA } else { number };
    let line = |random: &mut fastrand::Rng, policy| Line {
        policy,
        key: random.usize(0..keys),
        cost: random.u64(1..=3),
    };
    let several = |random: &mut fastrand::Rng, first: usize, least: usize| {
        let mut lines = vec![line(random, first)];
        for _ in 0..random.usize(least..=2) {
            let number = random.usize(0..HELD);
            let other = line(random, number);
            if !lines.iter().any(|one| (one.policy, one.key) == (other.policy, other.key)) {
                lines.push(other);
            }
        }
        lines
    };
    let settles = flavour == 3 || random.u8(0..5) == 0;
    if settles && !reserved.is_empty() && random.bool() {
        let which = random.usize(0..reserved.len());
        let id = u32::try_from(which).unwrap_or(0);
        let used = reserved[which].0.iter().map(|_| random.u64(0..=4)).collect();
        return Action::Settle(id, (random.u8(0..3) > 0).then_some(used));
    }
    if settles {
        // Now and then the same once more, as a caller does that got no answer.
        let again = !reserved.is_empty() && random.u8(0..6) == 0;
        if !again {
            reserved.push((several(random, number, 0), random.bool()));
        }
        let which = if again { random.usize(0..reserved.len()) } else { reserved.len() - 1 };
        let (lines, releases) = reserved[which].clone();
        return Action::Reserve(u32::try_from(which).unwrap_or(0), lines, releases);
    }
    match (flavour, random.u8(0..12)) {
        (1, 0..8) => Action::Check(several(random, checked, 1)),
        (_, 0) => Action::Peek(line(random, checked)),
        (_, 1) => Action::Debit(line(random, checked)),
        (_, 2) => Action::CheckWithin(line(random, checked), random.u64(1..30)),
        (_, 3) => Action::Check(several(random, checked, 1)),
        _ => Action::Check(vec![line(random, checked)]),
    }
}

fn fault(random: &mut fastrand::Rng, span: u64, nodes: usize, servers: usize) -> Fault {
    let node = random.bool().then(|| random.usize(0..nodes));
    let server = random.usize(0..servers);
    let step = [-3_000, -700, -40, 60, 500, 2_500][random.usize(0..6)];
    let kind = match random.u8(0..12) {
        0 => FaultKind::Cut { node, up: true, down: true },
        1 => FaultKind::Cut { node, up: true, down: false },
        2 => FaultKind::Cut { node, up: false, down: true },
        3 => FaultKind::Reset(node),
        4 => FaultKind::Slow(random.u64(3..120)),
        5 => FaultKind::Lossy(random.u64(20..300)),
        6 => FaultKind::Stopped(server),
        7 => FaultKind::Restarted(server, random.bool()),
        8 => FaultKind::ScriptsFlushed(server),
        9 => FaultKind::Flushed(server),
        10 => FaultKind::ClockStep(server, step),
        _ => FaultKind::Crash(random.usize(0..nodes)),
    };
    Fault { at_ms: random.u64(0..span), for_ms: random.u64(1..800), kind }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}/{}", self.cost, NAMES[self.policy], KEYS[self.key])
    }
}

fn joined(lines: &[Line]) -> String {
    lines.iter().map(Line::to_string).collect::<Vec<_>>().join(" and ")
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Check(lines) => write!(f, "checks {}", joined(lines)),
            Self::CheckWithin(line, ms) => write!(f, "checks {line} within {ms} ms"),
            Self::Peek(line) => write!(f, "peeks at {line}"),
            Self::Debit(line) => write!(f, "debits {line}"),
            Self::Reserve(id, lines, releases) => {
                let on_expiry = if *releases { ", to be released" } else { "" };
                write!(f, "reserves {} as r{id}{on_expiry}", joined(lines))
            }
            Self::Settle(id, Some(used)) => write!(f, "commits {used:?} of r{id}"),
            Self::Settle(id, None) => write!(f, "cancels r{id}"),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {} {}", self.node, self.action)?;
        self.leaves_after.map_or(Ok(()), |polls| write!(f, ", and leaves at poll {polls}"))
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let who = |node: &Option<usize>| match node {
            Some(node) => format!("node {node}"),
            None => "all nodes".into(),
        };
        match self {
            Self::Cut { node, up, down } => {
                let what = match (up, down) {
                    (true, true) => "nothing gets through between it and the servers",
                    (true, false) => "nothing gets through to the servers",
                    _ => "no reply gets through",
                };
                write!(f, "{}: {what}", who(node))
            }
            Self::Reset(node) => write!(f, "{}: connections break", who(node)),
            Self::Slow(ms) => write!(f, "packets take up to {ms} ms"),
            Self::Lossy(lost) => write!(f, "{lost} of 1000 packets are lost"),
            Self::Stopped(server) => write!(f, "server {server} stops"),
            Self::Restarted(server, true) => write!(f, "server {server} restarts with its keys"),
            Self::Restarted(server, false) => {
                write!(f, "server {server} restarts without its keys")
            }
            Self::ScriptsFlushed(server) => write!(f, "server {server} forgets its scripts"),
            Self::Flushed(server) => write!(f, "server {server} loses its keys"),
            Self::ClockStep(server, ms) => {
                write!(f, "the clock of server {server} steps by {ms} ms")
            }
            Self::Crash(node) => write!(f, "node {node} crashes, and another takes its place"),
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let servers = if self.servers == 1 { "a server" } else { "a cluster of 3" };
        writeln!(f, "{} nodes share {servers}", self.nodes)?;
        for (name, serving) in NAMES.iter().zip(&self.serving) {
            write!(
                f,
                "policy {name}: {} while the store does not answer",
                serving.on_store_error.name()
            )?;
            if let Some(time) = serving.local_for {
                write!(f, ", for {time:?}")?;
            }
            match serving.lease {
                Some(Lease::Units { size, ttl }) => {
                    writeln!(f, "; leased {size} at a time for {ttl:?}")?;
                }
                _ => writeln!(f)?,
            }
        }
        let faults = self
            .faults
            .iter()
            .map(|fault| (fault.at_ms, format!("{}, for {} ms", fault.kind, fault.for_ms)));
        let steps = self.steps.iter().map(|step| (step.at_ms, step.to_string()));
        let mut lines: Vec<(u64, String)> = faults.chain(steps).collect();
        lines.sort_by_key(|(at, _)| *at);
        lines.iter().try_for_each(|(at, line)| writeln!(f, "{at:>6} ms  {line}"))
    }
}
