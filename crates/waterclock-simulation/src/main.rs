//! Runs seeds, and tells the shortest story of the first that fails.

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use waterclock_simulation::node::{self, FIRST_SEED};
use waterclock_simulation::oracle::{Broken, judge};
use waterclock_simulation::plan::Plan;
use waterclock_simulation::plant::Plant;
use waterclock_simulation::run::run;
use waterclock_simulation::shrink::shrink;
use waterclock_simulation::told::told;

const USAGE: &str = "usage: scripts/seeds [--seed N [--history]] [--count N] [--from N] [--nodes] [--threads N] [--keep-going] [--plant NAME]";

/// Of the seeds of a run that chooses none, one of so many is of a whole server.
const NODES: u64 = 20;

struct Arguments {
    seed: Option<u64>,
    history: bool,
    count: u64,
    /// The first; none for some of both kinds.
    from: Option<u64>,
    nodes: bool,
    threads: u64,
    keeps_going: bool,
    plant: Plant,
    node_plant: node::plant::Plant,
}

impl Arguments {
    /// The n-th seed of a run.
    fn seed(&self, n: u64) -> u64 {
        match (self.from, self.nodes) {
            (from, true) => FIRST_SEED + from.unwrap_or(0) % FIRST_SEED + n,
            (Some(from), false) => from + n,
            (None, false) if n.is_multiple_of(NODES) => FIRST_SEED + n / NODES,
            (None, false) => n - n / NODES - 1,
        }
    }

    /// How many calls a history has, and which promise it breaks.
    fn judge(&self, seed: u64) -> (u64, Option<Broken>) {
        if seed >= FIRST_SEED {
            let history = node::run::run(&node::plan::Plan::of(seed), self.node_plant);
            return (history.calls.len() as u64, node::oracle::judge(&history));
        }
        let history = run(&Plan::of(seed), self.plant);
        (history.events.len() as u64, judge(&history))
    }
}

fn arguments() -> Option<Arguments> {
    let mut parsed = Arguments {
        seed: None,
        history: false,
        count: 20_000,
        from: None,
        nodes: false,
        threads: thread::available_parallelism().map_or(1, |n| n.get() as u64),
        keeps_going: false,
        plant: Plant::None,
        node_plant: node::plant::Plant::None,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut number = || words.next()?.parse().ok();
        match &*word {
            "--seed" => parsed.seed = Some(number()?),
            "--count" => parsed.count = number()?,
            "--from" => parsed.from = Some(number()?),
            "--nodes" => parsed.nodes = true,
            "--threads" => parsed.threads = number()?,
            "--history" => parsed.history = true,
            "--keep-going" => parsed.keeps_going = true,
            "--plant" => {
                let name = words.next()?;
                match Plant::parse(&name) {
                    Some(plant) => parsed.plant = plant,
                    None => {
                        (parsed.nodes, parsed.node_plant) =
                            (true, node::plant::Plant::parse(&name)?);
                    }
                }
            }
            _ => return None,
        }
    }
    // Servers know nothing of a bug that is planted in stores.
    let is_meant = !(parsed.nodes && parsed.plant != Plant::None);
    is_meant.then_some(parsed)
}

fn main() -> ExitCode {
    let Some(arguments) = arguments() else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    match arguments.seed {
        Some(seed) if arguments.nodes => replay(FIRST_SEED + seed % FIRST_SEED, &arguments),
        Some(seed) => replay(seed, &arguments),
        None => sweep(&arguments),
    }
}

fn replay(seed: u64, arguments: &Arguments) -> ExitCode {
    if seed >= FIRST_SEED { replay_node(seed, arguments) } else { replay_stores(seed, arguments) }
}

fn replay_node(seed: u64, arguments: &Arguments) -> ExitCode {
    let plan = node::plan::Plan::of(seed);
    let history = node::run::run(&plan, arguments.node_plant);
    if arguments.history {
        print!("{plan}\n{}", history.text());
    }
    let Some(broken) = node::oracle::judge(&history) else {
        println!("seed {seed}: every oracle holds, of {} calls", history.calls.len());
        return ExitCode::SUCCESS;
    };
    println!("seed {seed}: {broken}\n");
    let (shortest, broken) = node::shrink::shrink(&plan, arguments.node_plant, &broken);
    println!("{}\n{}\n{broken}", shortest.plan, shortest.text());
    ExitCode::FAILURE
}

fn replay_stores(seed: u64, arguments: &Arguments) -> ExitCode {
    let plan = Plan::of(seed);
    let history = run(&plan, arguments.plant);
    if arguments.history {
        print!("{plan}\n{}", history.text());
    }
    let Some(broken) = judge(&history) else {
        println!("seed {seed}: every oracle holds, of {} calls", history.events.len());
        return ExitCode::SUCCESS;
    };
    println!("seed {seed}: {broken}\n");
    let (shortest, broken) = shrink(&plan, arguments.plant, &broken);
    print!("{}", shortest.plan);
    println!("\nwhat callers were told:");
    for event in &shortest.events {
        let action = &shortest.plan.steps[event.step].action;
        let (called, returned) = (event.called_ms, event.returned_ms);
        println!(
            "{called:>6}–{returned} ms  process {} {action}: {}",
            event.process,
            told(&event.outcome)
        );
    }
    println!("\n{broken}");
    ExitCode::FAILURE
}

fn sweep(arguments: &Arguments) -> ExitCode {
    let next = AtomicU64::new(0);
    let (stops, calls) = (AtomicBool::new(false), AtomicU64::new(0));
    let found: Mutex<Vec<(u64, Broken)>> = Mutex::default();
    thread::scope(|scope| {
        for _ in 0..arguments.threads {
            scope.spawn(|| {
                while !stops.load(Ordering::Relaxed) {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    if n >= arguments.count {
                        return;
                    }
                    let seed = arguments.seed(n);
                    let (made, broken) = arguments.judge(seed);
                    calls.fetch_add(made, Ordering::Relaxed);
                    if let Some(broken) = broken {
                        println!("seed {seed}: {broken}");
                        found.lock().expect("no thread panics").push((seed, broken));
                        stops.fetch_or(!arguments.keeps_going, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let mut found = found.into_inner().expect("no thread panics");
    found.sort_by_key(|(seed, _)| *seed);
    let ran = next.into_inner().min(arguments.count);
    println!("{ran} seeds, {} calls, {} failures", calls.into_inner(), found.len());
    match found.first() {
        Some((seed, _)) => replay(*seed, arguments),
        None => ExitCode::SUCCESS,
    }
}
