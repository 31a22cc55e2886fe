//! Waterclock's server and its peers, each a process of its own: prints tables, then the targets.

mod contestant;
mod field;
mod grpc;
mod http;
mod install;
mod keys;
mod measured;
mod options;
mod process;
mod resp;
mod role;
mod spent;
mod waterclock;

use std::process::ExitCode;

use waterclock_bench::remote::cores::Cores;
use waterclock_bench::report::Report;

use self::field::Plan;
use self::install::Installed;
use self::options::{Options, USAGE};

type Error = Box<dyn std::error::Error + Send + Sync>;

fn main() -> ExitCode {
    let done = match role::of_this_process() {
        Some(role) => role::play(&role),
        None => match Options::parse(std::env::args().skip(1)) {
            Ok(options) => compare(&options),
            Err(problem) => {
                eprintln!("{problem}\n{USAGE}");
                return ExitCode::from(2);
            }
        },
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::FAILURE
        }
    }
}

fn compare(options: &Options) -> Result<(), Error> {
    let installed = Installed::all()?;
    let cores = Cores::find();
    if cores.is_none() {
        println!("One core only: servers and their client take time from each other.");
    }
    installed.print_versions();
    println!("Medians of {} rounds.", options.rounds);
    let plan = Plan { cores, rounds: options.rounds, time: options.time };
    let mut report = Report::default();
    if options.asks("http") {
        http::compare(&installed, &plan, &mut report);
    }
    if options.asks("resp") {
        resp::compare(&installed, &plan, &mut report);
    }
    if options.asks("grpc") {
        grpc::compare(&installed, &plan, &mut report);
    }
    report.print_targets();
    if let Some(path) = &options.json {
        std::fs::write(path, format!("{:#}\n", report.json()))?;
    }
    Ok(())
}
