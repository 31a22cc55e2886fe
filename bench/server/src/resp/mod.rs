//! The Redis protocol: a few connections, one command at a time or many.

mod client;
mod command;
mod contestants;
mod reply;

use waterclock_bench::goal::server as goal;
use waterclock_bench::report::Report;

use self::client::{Connection, drive};
use self::contestants::{Asks, CELL, GET, THROTTLE, THROTTLECRAB};
use crate::Error;
use crate::field::{Field, Plan};
use crate::install::Installed;
use crate::keys::PROOF;
use crate::measured::{Measured, measure, warm_up};
use crate::process::Server;

const CONNECTIONS: usize = 4;

/// How many commands are under way on each connection.
const PIPELINES: [usize; 4] = [1, 16, 64, 256];

/// Which of them the goals are about: 16.
const TYPICAL: usize = 1;

pub fn compare(installed: &Installed, plan: &Plan, report: &mut Report<'_>) {
    let turn = async |server: &Server, asks: &Asks| take(server, asks, plan).await;
    let field = Field::run(contestants::all(installed), plan, turn);
    let by_pipeline = |what: &str, number: fn(&Measured) -> f64, report: &mut Report<'_>| {
        let columns = PIPELINES.map(|pipeline| pipeline.to_string());
        let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
        let rows = field.rows(|measured| measured.iter().map(number).collect());
        let title = format!("Redis protocol, {CONNECTIONS} connections: {what} by pipeline");
        report.table(&title, &columns, &rows);
    };
    by_pipeline("k commands/s", |m| m.rate, report);
    by_pipeline("server's CPU µs per command", |m| m.cpu, report);
    by_pipeline("client's CPU µs per command", |m| m.client, report);
    by_pipeline("p50 µs of a whole pipeline", |m| m.p50, report);
    by_pipeline("p99 µs of a whole pipeline", |m| m.p99, report);
    goals(&field, report);
}

fn goals(field: &Field, report: &mut Report<'_>) {
    let goals = [(goal::GET, GET), (goal::CELL, CELL), (goal::RESP_THROTTLECRAB, THROTTLECRAB)];
    for (goal, peer) in goals {
        report.goal(goal, field.ratio(|measured| measured.rate, TYPICAL, THROTTLE, peer));
    }
    let rates: Vec<f64> =
        (0..PIPELINES.len()).filter_map(|n| field.of(THROTTLE, n)).map(|m| m.rate).collect();
    let least = rates.windows(2).map(|pair| pair[1] / pair[0]).reduce(f64::min);
    report.goal(goal::LONGER_PIPELINE, least.unwrap_or(f64::NAN));
}

/// Shows first that it refuses what it should, then how fast it admits in pipelines of each length.
async fn take(server: &Server, asks: &Asks, plan: &Plan) -> Result<Vec<Measured>, Error> {
    let mut connections = vec![];
    for _ in 0..CONNECTIONS {
        connections.push(Connection::open(server.port).await?);
    }
    for exchange in &asks.before {
        connections[0].exchange(exchange, asks.admits).await?;
    }
    if let Some(narrow) = &asks.narrow {
        for passes in PROOF {
            if connections[0].exchange(narrow, asks.admits).await? != usize::from(passes) {
                return Err("it does not let exactly two pass where two may".into());
            }
        }
    }
    let mut all = vec![];
    for pipeline in PIPELINES {
        let exchanges = asks.in_pipelines_of(pipeline);
        connections = drive(connections, &exchanges, asks.admits, warm_up(plan.time)).await?.0;
        let mut kept = vec![];
        let load = async {
            let seen;
            (kept, seen) = drive(connections, &exchanges, asks.admits, plan.time).await?;
            Ok(seen)
        };
        all.push(measure(server, pipeline, load).await?);
        connections = kept;
    }
    Ok(all)
}
