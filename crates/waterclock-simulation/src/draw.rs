//! Draws plans from seeds. Most are of any kind; of every eight seeds, three are about what the others rarely meet.

use std::time::Duration;

use waterclock::{Lease, OnStoreError, Serving};

use crate::plan::{Action, Fault, FaultKind, HELD, KEYS, Line, NAMES, Plan, QUOTA, Step, Topology};

impl Plan {
    /// The plan of a seed.
    #[must_use]
    pub fn of(seed: u64) -> Self {
        match seed % 8 {
            4 => Self::undone(seed),
            5 => Self::failing_over(seed),
            6 => Self::moving(seed),
            _ => Self::draft(seed, None),
        }
    }

    /// A replica is promoted, once or twice.
    fn failing_over(seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed ^ 0xFA11);
        let waits = random.bool();
        let lag_ms = random.u64(0..if waits { 12 } else { 300 });
        let mut plan = Self::draft(seed, Some(Topology::Sentinels { lag_ms, waits }));
        if random.bool() {
            return plan.split(&mut random);
        }
        // Long enough to find out.
        let slower = random.u64(1..4);
        plan.steps.iter_mut().for_each(|step| step.at_ms *= slower);
        let last_ms = plan.ends_ms().max(1);
        for _ in 0..random.usize(1..=2) {
            let (at_ms, for_ms) = (random.u64(0..last_ms), random.u64(1..4_000));
            plan.faults.push(Fault { at_ms, for_ms, kind: FaultKind::Failover });
        }
        plan.sorted()
    }

    /// Two nodes ask for one key again and again, also while there are two primaries.
    fn split(mut self, random: &mut fastrand::Rng) -> Self {
        let policy = [0, 2, 3][random.usize(0..3)];
        self.nodes = 2;
        self.serving[policy] = Serving::new(OnStoreError::Deny);
        // Nothing but the second primary admits more.
        self.ahead_us.fill(0);
        let mut times: Vec<u64> =
            (0..random.usize(100..160)).map(|_| random.u64(0..3_500)).collect();
        times.sort_unstable();
        let step = |at_ms| {
            let line = Line { policy, key: 0, cost: random.u64(1..=3) };
            let node = random.usize(0..2);
            Step { at_ms, node, action: Action::Check(vec![line]), leaves_after: None }
        };
        self.steps = times.into_iter().map(step).collect();
        let (at_ms, for_ms) = (random.u64(50..300), random.u64(1_000..3_500));
        self.faults = vec![Fault { at_ms, for_ms, kind: FaultKind::Failover }];
        self
    }

    /// Slots move between the servers of a cluster.
    fn moving(seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed ^ 0x510);
        let mut plan = Self::draft(seed, Some(Topology::Cluster));
        if random.bool() {
            plan.ahead_us = plan.ahead_us.iter().map(|ahead| ahead % 1_000).collect();
        }
        let last_ms = plan.ends_ms().max(1);
        for _ in 0..random.usize(1..=4) {
            let kind = FaultKind::SlotMoves(random.usize(0..KEYS.len()), random.usize(0..3));
            let (at_ms, for_ms) = (random.u64(0..last_ms), random.u64(1..400));
            plan.faults.push(Fault { at_ms, for_ms, kind });
        }
        plan.sorted()
    }

    /// Two checks of a bucket that another slot refuses: the first is taken back at once, the second only when its node
    /// reaches the servers again. Meanwhile others charge the bucket.
    fn undone(seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed ^ 0x0D0);
        let mut plan = Self::draft(seed, Some(Topology::Cluster));
        plan.nodes = 2;
        plan.serving = [Serving::new(OnStoreError::Deny); NAMES.len()];
        // In the order of their slots.
        let (bucket, full) = ((0, 1), (2, 0));
        let line = |(policy, key), cost| Line { policy, key, cost };
        let mut steps: Vec<(u64, usize, Vec<Line>)> =
            (0..2).map(|at_ms| (at_ms, 0, vec![line(full, 3)])).collect();
        for node in 0..2 {
            let lines = vec![line(bucket, random.u64(2..=3)), line(full, 3)];
            steps.push((10 + 2 * node as u64, node, lines));
        }
        for _ in 0..random.usize(8..20) {
            let lines = vec![line(bucket, random.u64(1..=3))];
            steps.push((random.u64(100..300), 0, lines));
        }
        steps.sort_by_key(|(at_ms, ..)| *at_ms);
        let step = |(at_ms, node, lines)| Step {
            at_ms,
            node,
            action: Action::Check(lines),
            leaves_after: None,
        };
        plan.steps = steps.into_iter().map(step).collect();
        // What is sent to take it back arrives late.
        let kind = FaultKind::Cut { node: Some(1), up: true, down: false };
        let (at_ms, for_ms) = (random.u64(15..22), random.u64(90..240));
        plan.faults = vec![Fault { at_ms, for_ms, kind }];
        plan
    }

    fn sorted(mut self) -> Self {
        self.faults.sort_by_key(|fault| fault.at_ms);
        self
    }

    fn draft(seed: u64, topology: Option<Topology>) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let random = &mut random;
        let nodes = random.usize(1..=3);
        let drawn = if random.u8(0..3) == 0 { Topology::Cluster } else { Topology::One };
        let topology = topology.unwrap_or(drawn);
        let (servers, is_cluster) = (topology.servers(), topology == Topology::Cluster);
        let mut serving = std::array::from_fn(|number| serving(random, number));
        let (span, count) = (random.u64(200..3_000), random.usize(4..40));
        // Checks over several slots, of which one refuses while others are on their way.
        let crosses = (is_cluster && random.bool()).then(|| [0, 2][random.usize(0..2)]);
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
        let mut clocks = fastrand::Rng::with_seed(seed ^ 0xC10C);
        let ahead_us = (0..servers).map(|_| i64::from(clocks.u32(0..1_000_000))).collect();
        Self { seed, nodes, topology, ahead_us, serving, steps, faults }.sorted()
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
