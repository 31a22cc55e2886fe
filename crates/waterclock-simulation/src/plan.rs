//! What happens in a history: made of a seed alone, and shrunk when an oracle fails.

use std::fmt;
use std::time::Duration;

use crate::sentinels::SENTINELS;
use waterclock::{Lease, Limit, Policy, Serving};
use waterclock_core::{Concurrency, FixedWindow, Gcra, RollingWindow};

/// A whole history before it is run.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// What it was made of. Delays and jitter are drawn from it, too.
    pub seed: u64,
    /// How many nodes share the store.
    pub nodes: usize,
    /// How the servers belong together.
    pub topology: Topology,
    /// By how many microseconds the clock of each server is ahead.
    pub ahead_us: Vec<i64>,
    /// How each policy is served, in the order of [`NAMES`].
    pub serving: [Serving; NAMES.len()],
    /// What callers do, in order of time.
    pub steps: Vec<Step>,
    /// What goes wrong, in order of time.
    pub faults: Vec<Fault>,
}

/// Servers, and how nodes find them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topology {
    /// A single one.
    One,
    /// Three, each with a third of the slots.
    Cluster,
    /// A primary and its replica, which three sentinels know.
    Sentinels {
        /// By how many milliseconds the replica is behind.
        lag_ms: u64,
        /// Whether a call is answered only when the replica has it.
        waits: bool,
    },
}

impl Topology {
    /// How many servers there are.
    #[must_use]
    pub fn servers(self) -> usize {
        match self {
            Self::One => 1,
            Self::Cluster => 3,
            Self::Sentinels { .. } => 2,
        }
    }

    /// How many servers and sentinels there are.
    #[must_use]
    pub fn hosts(self) -> usize {
        let sentinels = matches!(self, Self::Sentinels { .. });
        self.servers() + if sentinels { SENTINELS } else { 0 }
    }
}

/// The policies.
pub const NAMES: [&str; 5] = ["rate", "quota", "window", "log", "held"];
/// By number: so slow that nothing returns during a history.
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
    /// The slot of a key moves to a server, key by key, and all that while.
    SlotMoves(usize, usize),
    /// The replica is promoted. The primary before it goes on all that while, and then becomes its replica.
    Failover,
}

impl Plan {
    /// How often keys may lose what was charged.
    #[must_use]
    pub fn losses(&self) -> u64 {
        let is_loss = |fault: &&Fault| match fault.kind {
            FaultKind::Flushed(_) | FaultKind::Restarted(_, false) => true,
            FaultKind::Failover => self.loses_writes(),
            _ => false,
        };
        self.faults.iter().filter(is_loss).count() as u64
    }

    /// Whether a replica that is promoted may lack what callers were told.
    #[must_use]
    pub fn loses_writes(&self) -> bool {
        matches!(self.topology, Topology::Sentinels { waits: false, .. })
    }

    /// By how much the clocks of servers differ at most.
    #[must_use]
    pub fn clocks_apart_ms(&self) -> u64 {
        let (first, last) = (self.ahead_us.iter().min(), self.ahead_us.iter().max());
        let apart = first.zip(last).map_or(0, |(first, last)| last.abs_diff(*first));
        let step = |fault: &Fault| match fault.kind {
            FaultKind::ClockStep(_, ms) => ms.unsigned_abs(),
            _ => 0,
        };
        apart.div_ceil(1_000) + self.faults.iter().map(step).sum::<u64>()
    }

    /// When the last thing of it is over.
    #[must_use]
    pub fn ends_ms(&self) -> u64 {
        let faults = self.faults.iter().map(|fault| fault.at_ms + fault.for_ms);
        faults.chain(self.steps.iter().map(|step| step.at_ms)).max().unwrap_or(0)
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}/{}", self.cost, NAMES[self.policy], KEYS[self.key])
    }
}

pub(crate) fn joined(lines: &[Line]) -> String {
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
            Self::SlotMoves(key, to) => {
                write!(f, "the slot of {} moves to server {to}", KEYS[*key])
            }
            Self::Failover => {
                write!(f, "the replica is promoted; the primary before it does not know")
            }
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let servers = match self.topology {
            Topology::One => "a server".into(),
            Topology::Cluster => "a cluster of 3".into(),
            Topology::Sentinels { lag_ms, waits } => {
                let waits =
                    if waits { ", which must have a call before it is answered" } else { "" };
                format!("a primary and a replica that is {lag_ms} ms behind{waits}")
            }
        };
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
