//! Waterclock and its peers over one real Redis: prints tables, then the goals.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use waterclock_bench::remote::build::{self, Built};
use waterclock_bench::remote::contestant::{Contestant, all, local};
use waterclock_bench::remote::cores::Cores;
use waterclock_bench::remote::drive::Keys;
use waterclock_bench::remote::field::Field;
use waterclock_bench::remote::options::{Options, USAGE};
use waterclock_bench::remote::server::Server;
use waterclock_bench::remote::turn::Plan;
use waterclock_bench::remote::{Error, goals, table};
use waterclock_bench::report::Report;

const HOT: u64 = 100;

fn main() -> ExitCode {
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(problem) => {
            eprintln!("{problem}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<(), Error> {
    let mut built = Built { cell: build::cell(), node: build::node() };
    let known: Vec<&str> = all(&built).iter().chain(&local()).map(|c| c.id).collect();
    options.flags.expect_only(&known)?;
    let server = start(&mut built)?;
    println!("Redis {}; medians of {} rounds.", server.version, options.flags.rounds);
    Ok(ask(options, &built, server.port).finish()?)
}

/// Starts the server on a core of its own and leaves this thread on another.
fn start(built: &mut Built) -> Result<Server, Error> {
    let cores = Cores::find();
    if let Some(cores) = cores {
        cores.enter_server();
    } else {
        println!("One core only: the server and its clients take time from each other.");
    }
    let server = match Server::start(built.cell.as_deref().ok()) {
        Err(_) if built.cell.is_ok() => {
            built.cell = Err("built, but this redis-server does not load it".to_owned());
            Server::start(None)
        }
        started => started,
    };
    if let Some(cores) = cores {
        cores.enter_clients();
    }
    server
}

fn ask<'a>(options: &'a Options, built: &Built, port: u16) -> Report<'a> {
    let Options { flags, time, keys, .. } = options;
    let (keys, time, rounds) = (*keys, *time, flags.rounds);
    let mut report = Report::new("redis", flags);
    let entered = |mut all: Vec<Contestant>| {
        all.retain(|contestant| flags.selects(contestant.id));
        all
    };
    if options.measures("spread") {
        let plan = Plan { filled: keys, keys: Keys::drawn(keys), time, timed: 1 };
        let field = Field::run(entered(all(built)), port, &plan, rounds);
        table::print(&field, &format!("{keys} keys"), table::STRICT, &mut report);
        goals::spread(&field, &mut report);
    }
    // Where most answers come from memory, reading the clock for each would be felt.
    let timed = 16;
    if options.measures("hot") {
        let plan = Plan { filled: 0, keys: Keys::drawn(HOT), time, timed };
        let field = Field::run(entered(local()), port, &plan, rounds);
        table::print(&field, &format!("{HOT} hot keys"), table::LOCAL, &mut report);
        goals::hot(&field, &mut report);
    }
    if options.measures("cold") {
        let plan = Plan { filled: 0, keys: Keys::New(Arc::new(AtomicU64::new(0))), time, timed };
        let field = Field::run(entered(local()), port, &plan, rounds);
        table::print(&field, "Keys that never come again", table::LOCAL, &mut report);
        goals::cold(&field, &mut report);
    }
    report
}
