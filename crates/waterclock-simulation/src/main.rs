//! Runs seeds, and tells the shortest story of the first that fails.

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use waterclock_simulation::oracle::{Broken, judge};
use waterclock_simulation::plan::Plan;
use waterclock_simulation::plant::Plant;
use waterclock_simulation::run::run;
use waterclock_simulation::shrink::shrink;
use waterclock_simulation::told::told;

const USAGE: &str = "usage: scripts/seeds [--seed N [--history]] [--count N] [--from N] [--threads N] [--keep-going] [--plant NAME]";

struct Arguments {
    seed: Option<u64>,
    history: bool,
    count: u64,
    from: u64,
    threads: u64,
    keeps_going: bool,
    plant: Plant,
}

fn arguments() -> Option<Arguments> {
    let mut parsed = Arguments {
        seed: None,
        history: false,
        count: 20_000,
        from: 0,
        threads: thread::available_parallelism().map_or(1, |n| n.get() as u64),
        keeps_going: false,
        plant: Plant::None,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut number = || words.next()?.parse().ok();
        match &*word {
            "--seed" => parsed.seed = Some(number()?),
            "--count" => parsed.count = number()?,
            "--from" => parsed.from = number()?,
            "--threads" => parsed.threads = number()?,
            "--history" => parsed.history = true,
            "--keep-going" => parsed.keeps_going = true,
            "--plant" => parsed.plant = Plant::parse(&words.next()?)?,
            _ => return None,
        }
    }
    Some(parsed)
}

fn main() -> ExitCode {
    let Some(arguments) = arguments() else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    match arguments.seed {
        Some(seed) => replay(seed, &arguments),
        None => sweep(&arguments),
    }
}

fn replay(seed: u64, arguments: &Arguments) -> ExitCode {
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
    let next = AtomicU64::new(arguments.from);
    let (stops, calls) = (AtomicBool::new(false), AtomicU64::new(0));
    let found: Mutex<Vec<(u64, Broken)>> = Mutex::default();
    thread::scope(|scope| {
        for _ in 0..arguments.threads {
            scope.spawn(|| {
                while !stops.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= arguments.from + arguments.count {
                        return;
                    }
                    let history = run(&Plan::of(seed), arguments.plant);
                    calls.fetch_add(history.events.len() as u64, Ordering::Relaxed);
                    if let Some(broken) = judge(&history) {
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
    let ran = next.into_inner().min(arguments.from + arguments.count) - arguments.from;
    println!("{ran} seeds, {} calls, {} failures", calls.into_inner(), found.len());
    match found.first() {
        Some((seed, _)) => replay(*seed, arguments),
        None => ExitCode::SUCCESS,
    }
}
