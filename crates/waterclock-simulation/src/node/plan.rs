//! What happens to a node: made of a seed alone.

use std::fmt;
use std::time::Duration;

use waterclock::Limit;
use waterclock_core::{Concurrency, FixedWindow, Gcra, RollingWindow};

use crate::plan::joined;
pub use crate::plan::{HELD, KEYS, Line, NAMES, QUOTA};

/// How long a reservation may take to be settled.
pub const HELD_FOR_MS: u64 = 1_500;

/// Which numbers each policy has; none if the file does not have the policy.
pub type Numbers = [Option<usize>; NAMES.len()];

/// A whole history before it is run.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// What it was made of.
    pub seed: u64,
    /// The configuration at the start.
    pub numbers: Numbers,
    /// How often a snapshot is written.
    pub snapshot_every_ms: u64,
    /// What happens, in order of time.
    pub steps: Vec<Step>,
}

/// Something that happens.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// When.
    pub at_ms: u64,
    /// What.
    pub what: What,
}

/// A call.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// All of them or none.
    Check(Vec<Line>),
    /// What a check would say.
    Peek(Line),
    /// Gives units back.
    Refund(Line),
    /// Forgets a key.
    Reset(Line),
    /// Waits in line for at most so many milliseconds.
    Wait(Line, u64),
    /// Units held under a number.
    Reserve(Reserve),
    /// What was used of each line, or nothing was: cancelled.
    Settle(u32, Option<Vec<u64>>),
    /// A key is blocked, exempt, or neither.
    Override(Line, Option<Rule>),
}

/// A reservation.
#[derive(Clone, Debug, PartialEq)]
pub struct Reserve {
    /// Its number.
    pub id: u32,
    /// Whether the caller chose the id.
    pub is_own: bool,
    /// What is held.
    pub lines: Vec<Line>,
    /// Given back when its time is over.
    pub releases: bool,
}

/// What applies to a key in place of its policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// Nothing passes.
    Block,
    /// All passes.
    Exempt,
}

/// When a caller leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaves {
    /// After so many polls.
    Polls(u32),
    /// After so many milliseconds.
    Ms(u64),
}

/// What becomes of the snapshot while the node is down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spoilt {
    /// Cut off at so many thousandths of its length.
    Cut(u64),
    /// A bit is turned over there.
    Bit(u64),
}

/// How a node's life ends, and when the next begins.
#[derive(Clone, Debug, PartialEq)]
pub struct Down {
    /// After so many turns of the scheduler; of a graceful stop this means nothing.
    pub polls: u32,
    /// At the n-th thing that a snapshot asks of the disk.
    pub at_disk: Option<u32>,
    /// What was not synced is lost.
    pub is_power_loss: bool,
    /// Until it starts again.
    pub for_ms: u64,
    /// The clock of the machine is so much later then.
    pub step_ms: i64,
    /// What happens to the snapshot.
    pub spoilt: Option<Spoilt>,
}

/// What happens.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// A call, whose caller may leave.
    Call(Action, Option<Leaves>),
    /// The file is changed, to one that is wrong if there are no numbers.
    Reload(Option<Numbers>),
    /// A snapshot is written.
    Save,
    /// The clock steps.
    ClockStep(i64),
    /// Writing fails for so long.
    DiskFull(u64),
    /// The process ends.
    Crash(Down),
    /// The server stops as it is told to.
    Stop(Down),
}

/// The limit of a policy with these numbers.
///
/// # Panics
///
/// If there is none.
#[must_use]
pub fn limit(policy: usize, numbers: usize) -> Limit {
    let ms = Duration::from_millis;
    match NAMES[policy] {
        "rate" => {
            let (rate, capacity) = [(20, 8), (10, 4), (40, 16)][numbers];
            Limit::per_second(rate).with_capacity(capacity).into()
        }
        "quota" => {
            Gcra::new(capacity(policy, numbers), ms(240 * 86_400_000)).expect("a limit").into()
        }
        "window" => {
            FixedWindow::aligned(capacity(policy, numbers), ms(500)).expect("a limit").into()
        }
        "log" => RollingWindow::new(capacity(policy, numbers), ms(400)).expect("a limit").into(),
        _ => Concurrency::new(capacity(policy, numbers), ms(2_000)).expect("a limit").into(),
    }
}

/// The most that a fresh key admits.
#[must_use]
pub fn capacity(policy: usize, numbers: usize) -> u64 {
    [[8, 4, 16], [24, 12, 48], [6, 3, 12], [5, 3, 8], [3, 2, 5]][policy][numbers]
}

/// The text of a configuration.
#[must_use]
pub fn text(numbers: &Numbers, snapshot_every_ms: u64) -> String {
    let mut text = format!(
        "[store]\nsnapshot = \"/simulated/state\"\nsnapshot_every = \"{snapshot_every_ms}ms\"\n"
    );
    for (policy, name) in NAMES.iter().enumerate() {
        let Some(numbers) = numbers[policy] else { continue };
        let most = capacity(policy, numbers);
        let limit = match *name {
            "rate" => {
                let rate = [20, 10, 40][numbers];
                format!("algorithm = \"gcra\", limit = {rate}, per = \"1s\", capacity = {most}")
            }
            "quota" => format!("algorithm = \"gcra\", limit = {most}, per = \"240d\""),
            "window" => format!(
                "algorithm = \"fixed-window\", limit = {most}, per = \"500ms\", align = \"epoch\""
            ),
            "log" => format!("algorithm = \"rolling-window\", limit = {most}, per = \"400ms\""),
            _ => format!("algorithm = \"concurrency\", limit = {most}, lease = \"2s\""),
        };
        text += &format!("[policies.{name}]\nlimits = [{{ {limit} }}]\n");
    }
    text
}

/// A file that is wrong in its last line.
#[must_use]
pub fn wrong_text() -> String {
    text(&[Some(2); NAMES.len()], 1_000) + "[policies.more]\nlimits = [\"7/fortnight\"]\n"
}

impl Plan {
    /// The plan of a seed.
    #[must_use]
    pub fn of(seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let random = &mut random;
        let (span, count) = (random.u64(200..4_000), random.usize(6..50));
        let mut drawn = Drawn {
            keys: random.usize(1..=KEYS.len()),
            favourite: random.usize(0..NAMES.len()),
            flavour: random.u8(0..4),
            reserved: Vec::new(),
        };
        let mut times: Vec<u64> = (0..count).map(|_| random.u64(0..span)).collect();
        times.sort_unstable();
        for i in 1..times.len() {
            if random.u8(0..4) == 0 {
                times[i] = times[i - 1];
            }
        }
        let calls = times.into_iter().map(|at_ms| {
            let action = drawn.action(random);
            let leaves = match (random.u8(0..12), &action) {
                (0, _) => Some(Leaves::Polls(random.u32(1..8))),
                (1..=3, Action::Wait(..)) => Some(Leaves::Ms(random.u64(0..600))),
                _ => None,
            };
            Step { at_ms, what: What::Call(action, leaves) }
        });
        let mut steps: Vec<Step> = calls.collect();
        let numbers = [Some(0); NAMES.len()];
        let mut after = numbers;
        for _ in 0..[0, 1, 1, 2, 3, 4, 6][random.usize(0..7)] {
            let at_ms = random.u64(0..span);
            steps.push(Step { at_ms, what: happening(random, &mut after) });
        }
        steps.sort_by_key(|step| step.at_ms);
        let snapshot_every_ms = [50, 200, 1_000, 60_000][random.usize(0..4)];
        Self { seed, numbers, snapshot_every_ms, steps }
    }
}

/// What calls are drawn from.
struct Drawn {
    keys: usize,
    favourite: usize,
    flavour: u8,
    reserved: Vec<Vec<Line>>,
}

impl Drawn {
    fn line(&self, random: &mut fastrand::Rng, policy: usize) -> Line {
        Line { policy, key: random.usize(0..self.keys), cost: random.u64(1..=3) }
    }

    fn lines(&self, random: &mut fastrand::Rng, first: usize) -> Vec<Line> {
        let mut lines = vec![self.line(random, first)];
        for _ in 0..random.usize(0..=2) {
            let policy = random.usize(0..HELD);
            let other = self.line(random, policy);
            if !lines.iter().any(|one| (one.policy, one.key) == (other.policy, other.key)) {
                lines.push(other);
            }
        }
        lines
    }

    fn action(&mut self, random: &mut fastrand::Rng) -> Action {
        let number = if random.bool() { self.favourite } else { random.usize(0..NAMES.len()) };
        let checked = if number == HELD { QUOTA } else { number };
        let line = self.line(random, checked);
        if self.flavour == 1 && random.u8(0..3) > 0 || random.u8(0..10) == 0 {
            // Those of the quota are answered at once.
            let checked = random.usize(0..HELD);
            let checked = if self.flavour == 1 { self.favourite % 2 * 2 } else { checked };
            return Action::Wait(self.line(random, checked), random.u64(0..1_500));
        }
        if self.flavour == 2 && random.bool() || random.u8(0..6) == 0 {
            if !self.reserved.is_empty() && random.bool() {
                let id = random.usize(0..self.reserved.len());
                // Debts of other policies would make callers wait for longer than a window.
                let most = |line: &Line| if line.policy == QUOTA { 4 } else { line.cost };
                let used = self.reserved[id].iter().map(|line| random.u64(0..=most(line)));
                let used = used.collect();
                let id = u32::try_from(id).unwrap_or(0);
                return Action::Settle(id, (random.u8(0..3) > 0).then_some(used));
            }
            let id = u32::try_from(self.reserved.len()).unwrap_or(0);
            let lines = self.lines(random, number);
            self.reserved.push(lines.clone());
            return Action::Reserve(Reserve {
                id,
                is_own: random.bool(),
                lines,
                releases: random.bool(),
            });
        }
        match random.u8(0..20) {
            0 => Action::Peek(line),
            1 | 2 => Action::Refund(line),
            3 => Action::Reset(line),
            4 => {
                let rule = [None, Some(Rule::Block), Some(Rule::Exempt)][random.usize(0..3)];
                Action::Override(Line { policy: QUOTA, ..line }, rule)
            }
            5..=8 => Action::Check(self.lines(random, checked)),
            _ => Action::Check(vec![line]),
        }
    }
}

/// Something other than a call. `numbers` is the configuration of the file so far.
fn happening(random: &mut fastrand::Rng, numbers: &mut Numbers) -> What {
    match random.u8(0..12) {
        0..=2 => {
            for one in numbers.iter_mut() {
                if random.bool() {
                    *one = (random.u8(0..6) > 0).then(|| random.usize(0..3));
                }
            }
            What::Reload(Some(*numbers))
        }
        3 => What::Reload(None),
        4 => What::Save,
        5 => What::ClockStep([-3_000, -700, -40, 60, 500, 2_500][random.usize(0..6)]),
        6 => What::DiskFull(random.u64(1..500)),
        7 | 8 => What::Stop(down(random)),
        _ => What::Crash(down(random)),
    }
}

fn down(random: &mut fastrand::Rng) -> Down {
    let place = random.u64(0..1_000);
    Down {
        polls: random.u32(0..8),
        at_disk: (random.u8(0..3) == 0).then(|| random.u32(0..8)),
        is_power_loss: random.u8(0..3) == 0,
        for_ms: random.u64(1..900),
        step_ms: [0, 0, 0, -3_000, -40, 60, 2_500][random.usize(0..7)],
        spoilt: (random.u8(0..12) == 0)
            .then(|| if random.bool() { Spoilt::Cut(place) } else { Spoilt::Bit(place) }),
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Check(lines) => write!(f, "checks {}", joined(lines)),
            Self::Peek(line) => write!(f, "peeks at {line}"),
            Self::Refund(line) => write!(f, "refunds {line}"),
            Self::Reset(line) => write!(f, "resets {}/{}", NAMES[line.policy], KEYS[line.key]),
            Self::Wait(line, ms) => write!(f, "waits for {line} within {ms} ms"),
            Self::Reserve(Reserve { id, is_own, lines, releases }) => {
                let on_expiry = if *releases { ", to be released" } else { "" };
                let own = if *is_own { "of the caller's own " } else { "" };
                write!(f, "reserves {} as r{id} {own}{on_expiry}", joined(lines))
            }
            Self::Settle(id, Some(used)) => write!(f, "commits {used:?} of r{id}"),
            Self::Settle(id, None) => write!(f, "cancels r{id}"),
            Self::Override(line, rule) => {
                write!(f, "overrides {}/{}: {rule:?}", NAMES[line.policy], KEYS[line.key])
            }
        }
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Call(action, None) => write!(f, "a caller {action}"),
            Self::Call(action, Some(Leaves::Polls(polls))) => {
                write!(f, "a caller {action}, and leaves at poll {polls}")
            }
            Self::Call(action, Some(Leaves::Ms(ms))) => {
                write!(f, "a caller {action}, and leaves after {ms} ms")
            }
            Self::Reload(Some(numbers)) => write!(f, "the file changes to {numbers:?}"),
            Self::Reload(None) => write!(f, "the file changes to one that is wrong"),
            Self::Save => write!(f, "a snapshot is written"),
            Self::ClockStep(ms) => write!(f, "the clock steps by {ms} ms"),
            Self::DiskFull(ms) => write!(f, "the disk is full for {ms} ms"),
            Self::Crash(down) => write!(f, "the node crashes: {down:?}"),
            Self::Stop(down) => write!(f, "the node stops: {down:?}"),
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "a node that writes a snapshot every {} ms", self.snapshot_every_ms)?;
        self.steps.iter().try_for_each(|step| writeln!(f, "{:>6} ms  {}", step.at_ms, step.what))
    }
}
