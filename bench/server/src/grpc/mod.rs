//! Envoy's rate limit service: one connection, 64 calls at a time.

mod client;
mod contestants;
pub mod wire;

use waterclock_bench::goal::server as goal;
use waterclock_bench::report::Report;

use self::client::{Client, drive};
use self::contestants::{Asks, ECHO, LIMITADOR, WATERCLOCK};
use crate::Error;
use crate::field::{Field, Plan};
use crate::install::Installed;
use crate::keys::PROOF;
use crate::measured::{Measured, measure, warm_up};
use crate::process::Server;

const STREAMS: usize = 64;

pub fn compare(installed: &Installed, plan: &Plan, report: &mut Report<'_>) {
    let turn = async |server: &Server, asks: &Asks| take(server, asks, plan).await;
    let field = Field::run(contestants::all(installed), plan, turn);
    let columns = [
        "k calls/s",
        "× tonic echo",
        "p50 µs",
        "p99 µs",
        "CPU µs",
        "CPU, × tonic echo",
        "busy",
        "client CPU µs",
    ];
    let echo = |number: fn(&Measured) -> f64| field.of(ECHO, 0).map_or(f64::NAN, number);
    let (rate, cpu) = (echo(|m| m.rate), echo(|m| m.cpu));
    let rows = field.rows(|measured| {
        let m = measured[0];
        vec![m.rate, m.rate / rate, m.p50, m.p99, m.cpu, m.cpu / cpu, m.busy, m.client]
    });
    report.table(&format!("gRPC, {STREAMS} calls on one connection"), &columns, &rows);
    for (goal, peer) in [(goal::ECHO, ECHO), (goal::GRPC_LIMITADOR, LIMITADOR)] {
        report.goal(goal, field.ratio(|measured| measured.rate, 0, WATERCLOCK, peer));
    }
}

/// Shows first that it refuses what it should, then how fast it admits.
async fn take(server: &Server, asks: &Asks, plan: &Plan) -> Result<Vec<Measured>, Error> {
    let client = Client::open(server.port).await?;
    if let Some(narrow) = &asks.narrow {
        for passes in PROOF {
            if client.clone().admits(narrow.clone()).await? != passes {
                return Err("it does not let exactly two pass where two may".into());
            }
        }
    }
    drive(&client, STREAMS, &asks.wide, warm_up(plan.time)).await?;
    let load = drive(&client, STREAMS, &asks.wide, plan.time);
    Ok(vec![measure(server, 1, load).await?])
}
