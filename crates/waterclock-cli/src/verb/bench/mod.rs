//! `waterclock bench`: load for a running server, and how long its answers take.

mod caller;
mod drive;
mod grpc;
mod load;
mod report;
mod resp;
mod schedule;
mod tally;

use std::io::Write;
use std::process::ExitCode;

use tokio::runtime::Builder;
use waterclock::Cost;

use self::load::Load;
use crate::output::{Failure, print_json, warn};
use crate::server::Access;

/// Load a running server and measure how fast it answers.
///
/// Examples: waterclock bench http://127.0.0.1:8080, grpc://127.0.0.1:8081 or redis://127.0.0.1:6380;
/// with TLS https://…, grpcs://… or rediss://…
///
/// Every connection sends its next request when it has an answer. With --rate, requests are due at fixed times instead,
/// and latency counts from the time a request was due, so that a server that stalls cannot hide it. Checks are real and
/// charge real keys (bench-0, bench-1, …) of the policy. Ctrl-C stops early and still reports. Rates are computed up
/// to the last answer.
///
/// In the Redis protocol a partial grant (mode partial) counts as refused, because the reply cannot express it.
#[derive(clap::Args)]
pub(crate) struct Bench {
    /// The server's address; the scheme chooses the protocol
    #[arg(value_name = "URL", default_value = "http://127.0.0.1:8080")]
    url: String,
    /// The protocol, if the address has no scheme
    #[arg(long, value_enum)]
    face: Option<load::Protocol>,
    /// The policy to check (HTTP and Redis protocol) [default: the only one of the server, or demo]
    #[arg(short, long, value_name = "NAME")]
    policy: Option<String>,
    /// How many keys to check, chosen uniformly
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    keys: u64,
    /// The cost of each check; for a policy that counts several units: requests=1,tokens=800 [default: 1]
    #[arg(long, value_name = "N")]
    cost: Option<Cost>,
    /// Concurrent connections
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=1_024))]
    connections: u64,
    /// Redis protocol: checks in flight per connection
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1_024))]
    pipeline: u64,
    /// HTTP: checks per request, each decided on its own
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=512))]
    batch: u64,
    /// gRPC: the domain of the descriptors
    #[arg(long, value_name = "NAME")]
    domain: Option<String>,
    /// gRPC: an entry of the descriptor, such as user={key}, where {key} stands for the key; can be repeated
    #[arg(long, value_name = "NAME=VALUE")]
    descriptor: Vec<String>,
    /// Requests per second, due at fixed times; without it, as fast as the server answers
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    rate: Option<u64>,
    /// How long to run, such as 30s [default: 5s, or until --requests are done]
    #[arg(long, value_name = "TIME")]
    duration: Option<String>,
    /// How many requests to send; stops at --duration or --requests, whichever comes first
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    requests: Option<u64>,
    /// Allow an address that is not loopback; make sure that you may load that server
    #[arg(long)]
    remote: bool,
    #[command(flatten)]
    access: Access,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

impl Bench {
    pub(crate) fn run(&self) -> Result<ExitCode, Failure> {
        let load = Load::new(self)?;
        let runtime = Builder::new_multi_thread()
            .enable_all()
            .build()
            .map_err(|error| format!("the network cannot be used: {error}"))?;
        let driven = runtime.block_on(drive::drive(load, !self.json));
        // Pending requests are not waited for.
        runtime.shutdown_background();
        let report = driven?;
        for warning in report.warnings() {
            warn(&warning);
        }
        if self.json {
            print_json(&report)?;
        } else {
            let mut out = anstream::stdout().lock();
            report.lines().iter().try_for_each(|line| writeln!(out, "{line}"))?;
        }
        report.problem().map_or(Ok(ExitCode::SUCCESS), |problem| Err(problem.into()))
    }
}
