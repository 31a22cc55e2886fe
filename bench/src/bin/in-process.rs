//! Waterclock and its peers in one process: prints a table per question, then the targets.

use std::process::ExitCode;

use waterclock_bench::case::{algorithms, child, flood, keyed, memory, one, pauses};
use waterclock_bench::options::{Options, USAGE};
use waterclock_bench::report::Report;

type Case = fn(&Options, &mut Report);

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|first| first == child::CHILD) {
        child::answer(&args[1..]);
        return ExitCode::SUCCESS;
    }
    match Options::parse(args.into_iter()) {
        Ok(options) => run(&options),
        Err(problem) => {
            eprintln!("{problem}\n{USAGE}");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}

fn run(options: &Options) {
    let cases: [(&str, Case); 6] = [
        ("one", one::run),
        ("keyed", keyed::run),
        ("algorithms", algorithms::run),
        ("memory", memory::run),
        ("pauses", pauses::run),
        ("flood", flood::run),
    ];
    let mut report = Report::default();
    println!("Medians of {} rounds; time is processor time of the thread.", options.rounds);
    if cfg!(not(feature = "heavy")) {
        println!("Not built: trypema and limitador (feature `heavy`).");
    }
    for (_, case) in cases.iter().filter(|(name, _)| options.runs(name)) {
        case(options, &mut report);
    }
    report.print_targets();
    if let Some(path) = &options.json {
        std::fs::write(path, format!("{:#}\n", report.json())).expect("the path can be written");
    }
}
