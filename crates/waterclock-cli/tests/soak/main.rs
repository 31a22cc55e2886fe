//! Real servers that share a real Redis, clients of all faces, and faults, for as long as one likes: half a minute, or
//! `WATERCLOCK_SOAK_SECONDS`. `scripts/soak` runs it for hours. Each round has a fault of its own; then no key was admitted
//! more than is published, no call stayed without an answer, reservations add up, and all that was taken is given back.

mod baseline;
mod caller;
mod fault;
mod history;
mod oracle;
mod plant;
mod planted;
mod round;
mod server;
mod stage;
mod work;

use std::collections::BTreeMap;
use std::thread::sleep;
use std::time::Duration;

use fastrand::Rng;
use waterclock::{Clock, MonotonicClock};

use crate::baseline::Baseline;
use crate::fault::{FAULTS, Fault};
use crate::history::Took;
use crate::stage::Stage;

/// How long what was taken may take to be given back: a little longer than the record of a key whose block was lifted.
const UNTIL_GIVEN_BACK: Duration = Duration::from_secs(75);

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|number| number.parse().ok()).unwrap_or(otherwise)
}

#[test]
fn soak() {
    let seconds = number("WATERCLOCK_SOAK_SECONDS", 30);
    let clock = MonotonicClock::default();
    let start = clock.now();
    let elapsed = || Duration::from_nanos(clock.now().as_nanos() - start.as_nanos());
    let seed = number("WATERCLOCK_SOAK_SEED", start.as_nanos());
    println!("soak of {seconds} s, WATERCLOCK_SOAK_SEED={seed}");
    let mut rng = Rng::with_seed(seed);
    let stage = Stage::new();
    // What the first callers need stays: buffers, scripts, connections.
    for _ in 0..2 {
        let warm_up = round::play(&stage, Fault::None, &mut rng, None);
        assert!(warm_up.complaints().is_empty(), "{:#?}", warm_up.complaints());
    }
    // Until the servers have closed what the clients closed.
    sleep(Duration::from_secs(1));
    let before = Baseline::of(&stage);
    println!("baseline: {before}");
    let (mut faults, mut summary) = (Vec::new(), Summary::default());
    while elapsed() < Duration::from_secs(seconds) {
        if faults.is_empty() {
            faults = FAULTS.to_vec();
            rng.shuffle(&mut faults);
        }
        let fault = faults.pop().expect("some are left");
        let history = round::play(&stage, fault, &mut rng, None);
        let (now, given_back) = before.regained(&stage, UNTIL_GIVEN_BACK);
        if let Err(why) = given_back {
            history.complain(&why);
        }
        summary.add(fault, &history);
        println!("{:>6} s {fault:?}: {now}", elapsed().as_secs());
        let logs: Vec<String> = stage.servers.iter().map(|server| server.log()).collect();
        let complaints = history.complaints();
        assert!(complaints.is_empty(), "{fault:?}: {complaints:#?}\n{}", logs.join("\n"));
    }
    println!("{summary}");
}

/// What came of all rounds.
#[derive(Default)]
struct Summary {
    /// By fault: how many rounds, and the longest that a call took.
    rounds: BTreeMap<String, (u32, Option<Took>)>,
    sources: BTreeMap<String, u64>,
    admitted: u64,
    took: Vec<Duration>,
}

impl Summary {
    fn add(&mut self, fault: Fault, history: &history::History) {
        let (rounds, longest) = self.rounds.entry(format!("{fault:?}")).or_default();
        *rounds += 1;
        let took = history.took();
        *longest = took.iter().copied().max().max(*longest);
        for call in history.calls() {
            self.admitted += call.granted;
            *self.sources.entry(call.source).or_default() += 1;
        }
        self.took.extend(took.iter().map(|took| took.lasted));
    }
}

impl std::fmt::Display for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut took = self.took.clone();
        took.sort();
        let part = |of: usize| took.get((took.len() * of / 1_000).min(took.len() - 1));
        for (fault, (rounds, longest)) in &self.rounds {
            write!(f, "{fault}: {rounds} rounds")?;
            if let Some(Took { lasted, invoked, what, face }) = longest {
                write!(
                    f,
                    ", longest call {lasted:?}: a {what} over {face:?}, {invoked:?} into the round"
                )?;
            }
            writeln!(f)?;
        }
        writeln!(f, "decisions by source: {:?}; {} units admitted", self.sources, self.admitted)?;
        let (count, middle, p99, most) = (took.len(), part(500), part(990), part(1_000));
        write!(f, "{count} calls answered: median {middle:?}, p99 {p99:?}, longest {most:?}")
    }
}
