//! Waterclock's server and its peers, each a process of its own: prints tables, then the goals.

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
type Case = fn(&Installed, &Plan, &mut Report<'_>);

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
    let flags = &options.flags;
    println!("Medians of {} rounds.", flags.rounds);
    let plan = Plan { cores, rounds: flags.rounds, time: options.time };
    let mut report = Report::new("server", flags);
    let cases: [(&str, Case); 4] = [
        ("http", http::compare),
        ("layer", http::layer::compare),
        ("resp", resp::compare),
        ("grpc", grpc::compare),
    ];
    for (_, compare) in cases.iter().filter(|(name, _)| flags.selects(name)) {
        compare(&installed, &plan, &mut report);
    }
    Ok(report.finish()?)
}
