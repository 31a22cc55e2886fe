//! Waterclock and its peers in one process: prints a table per question, then the goals.

use std::io;
use std::process::ExitCode;

use waterclock_bench::case::{algorithms, child, flood, keyed, memory, one, pauses};
use waterclock_bench::options::{Options, USAGE};
use waterclock_bench::report::Report;

type Case = fn(&Options, &mut Report<'_>);

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|first| first == child::CHILD) {
        child::answer(&args[1..]);
        return ExitCode::SUCCESS;
    }
    match Options::parse(args.into_iter()).map(|options| run(&options)) {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(problem)) => {
            eprintln!("the file of --json cannot be written: {problem}");
            ExitCode::FAILURE
        }
        Err(problem) => {
            eprintln!("{problem}\n{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn run(options: &Options) -> io::Result<()> {
    let cases: [(&str, Case); 6] = [
        ("one", one::run),
        ("keyed", keyed::run),
        ("algorithms", algorithms::run),
        ("memory", memory::run),
        ("pauses", pauses::run),
        ("flood", flood::run),
    ];
    let flags = &options.flags;
    let mut report = Report::new("in-process", flags);
    println!("Medians of {} rounds; time is processor time of the thread.", flags.rounds);
    if cfg!(not(feature = "heavy")) {
        println!("Not built: trypema and limitador (feature `heavy`).");
    }
    for (_, case) in cases.iter().filter(|(name, _)| flags.selects(name)) {
        case(options, &mut report);
    }
    report.finish()
}
