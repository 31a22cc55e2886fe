//! `waterclock`, the command line of an exact rate limiter.

mod configuration;
mod output;
mod progress;
mod server;
mod verb;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use clap::Parser;

/// An exact rate limiter: serve, check, replay and explain its policies.
#[derive(Parser)]
#[command(name = "waterclock", version, arg_required_else_help = true, styles = output::HELP)]
struct Waterclock {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    Serve(verb::serve::Serve),
    Ratelimit(verb::ratelimit::Ratelimit),
    Replay(verb::replay::Replay),
    Simulate(verb::simulate::Simulate),
    Diff(verb::diff::Diff),
    Compare(verb::compare::Compare),
    Check(verb::check::Check),
    Validate(verb::validate::Validate),
    Explain(verb::explain::Explain),
    Schema(verb::schema::Schema),
    Import(verb::import::Import),
    Top(verb::top::Top),
    Policy(verb::policy::Policy),
    Keys(verb::keys::Keys),
    #[command(name = "override")]
    Overrides(verb::overrides::Overrides),
    Bench(verb::bench::Bench),
    Completions(verb::completions::Completions),
    Man(verb::man::Man),
}

fn main() -> ExitCode {
    let done = match Waterclock::parse_from(arguments()).verb {
        Verb::Serve(serve) => serve.run(),
        Verb::Ratelimit(ratelimit) => ratelimit.run(),
        Verb::Replay(replay) => replay.run(),
        Verb::Simulate(simulate) => simulate.run(),
        Verb::Diff(diff) => diff.run(),
        Verb::Compare(compare) => compare.run(),
        Verb::Check(check) => check.run(),
        Verb::Validate(validate) => validate.run(),
        Verb::Explain(explain) => explain.run(),
        Verb::Schema(schema) => schema.run(),
        Verb::Import(import) => import.run(),
        Verb::Top(top) => top.run(),
        Verb::Policy(policy) => policy.run(),
        Verb::Keys(keys) => keys.run(),
        Verb::Overrides(overrides) => overrides.run(),
        Verb::Bench(bench) => bench.run(),
        Verb::Completions(completions) => completions.run(),
        Verb::Man(man) => man.run(),
    };
    done.unwrap_or_else(|failure| failure.report())
}

/// A link of the name `ratelimit` is the command of that name: images of Envoy's reference service start it so.
fn arguments() -> Vec<OsString> {
    let mut arguments: Vec<OsString> = std::env::args_os().collect();
    let is_link = arguments.first().is_some_and(|program| {
        Path::new(program).file_name().is_some_and(|name| name == "ratelimit")
    });
    if is_link {
        arguments.insert(1, "ratelimit".into());
    }
    arguments
}
