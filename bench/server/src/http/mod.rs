//! HTTP/1.1: 32 connections that are kept, one request at a time on each.

mod calls;
mod client;
mod contestants;
pub mod layer;
mod request;
mod response;

use waterclock_bench::goal::server as goal;
use waterclock_bench::report::{Report, Row};

use self::client::{Connection, drive};
use self::contestants::{
    AUTHORIZE, Asks, BATCHES, CHECK, FLOOR, LIMITADOR, NGINX, THROTTLECRAB, batch,
};
use crate::Error;
use crate::field::{Field, Plan};
use crate::install::Installed;
use crate::keys::PROOF;
use crate::measured::{Measured, measure, warm_up};
use crate::process::Server;

const CONNECTIONS: usize = 32;

pub fn compare(installed: &Installed, plan: &Plan, report: &mut Report<'_>) {
    let turn = async |server: &Server, asks: &Asks| take(server, asks, plan).await;
    let field = Field::run(contestants::all(installed), plan, turn);
    let columns = [
        "k requests/s",
        "× nginx",
        "× axum 204",
        "p50 µs",
        "p99 µs",
        "CPU µs",
        "CPU, × nginx",
        "busy",
        "client CPU µs",
    ];
    let rate = |name: &str| field.of(name, 0).map_or(f64::NAN, |measured| measured.rate);
    let (nginx, floor) = (rate(NGINX), rate(FLOOR));
    let cpu = field.of(NGINX, 0).map_or(f64::NAN, |measured| measured.cpu);
    let rows = field.rows(|measured| {
        let m = measured[0];
        let (by_nginx, by_floor, cpu) = (m.rate / nginx, m.rate / floor, m.cpu / cpu);
        vec![m.rate, by_nginx, by_floor, m.p50, m.p99, m.cpu, cpu, m.busy, m.client]
    });
    report.table(&format!("HTTP, {CONNECTIONS} connections"), &columns, &rows);
    several(&field, report);
    goals(&field, report);
}

/// From one check in a request to many.
fn several(field: &Field, report: &mut Report<'_>) {
    let lone = field.of(CHECK, 0).map_or(f64::NAN, |measured| measured.rate);
    let row = |(name, each): (String, usize)| {
        let cells = field.of(&name, 0).map_or(vec![f64::NAN; 3], |m| {
            let each = each as f64;
            vec![m.rate * each, m.rate * each / lone, m.cpu / each]
        });
        Row::new(name, cells)
    };
    let rows = [(CHECK.to_owned(), 1)].into_iter().chain(BATCHES.map(|each| (batch(each), each)));
    let columns = ["k decisions/s", "× one at a time", "CPU µs per decision"];
    report.table("HTTP, several checks in a request", &columns, &rows.map(row).collect::<Vec<_>>());
}

fn goals(field: &Field, report: &mut Report<'_>) {
    let times = |ours: &str, peer| field.ratio(|measured| measured.rate, 0, ours, peer);
    report.goal(goal::CHECK_NGINX, times(CHECK, NGINX));
    report.goal(goal::CHECK_THROTTLECRAB, times(CHECK, THROTTLECRAB));
    report.goal(goal::CHECK_LIMITADOR, times(CHECK, LIMITADOR));
    report.goal(goal::AUTHORIZE_NGINX, times(AUTHORIZE, NGINX));
    let most = BATCHES[BATCHES.len() - 1];
    report.goal(goal::BATCH, times(&batch(most), CHECK) * most as f64);
}

/// Shows first that it refuses what it should, then how fast it admits.
async fn take(server: &Server, asks: &Asks, plan: &Plan) -> Result<Vec<Measured>, Error> {
    if let Some(narrow) = &asks.narrow {
        let mut lone = Connection::open(server.port).await?;
        for passes in PROOF {
            if lone.ask(narrow, &asks.admits).await? != passes {
                return Err("it does not let exactly two pass where two may".into());
            }
        }
    }
    let mut connections = vec![];
    for _ in 0..CONNECTIONS {
        connections.push(Connection::open(server.port).await?);
    }
    let (connections, _) = drive(connections, asks, warm_up(plan.time)).await?;
    let load = async { Ok(drive(connections, asks, plan.time).await?.1) };
    Ok(vec![measure(server, 1, load).await?])
}
