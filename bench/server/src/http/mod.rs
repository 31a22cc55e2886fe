//! HTTP/1.1: 32 connections that are kept, one request at a time on each.

mod client;
mod contestants;
mod request;
mod response;

use waterclock_bench::report::{Bound, Report, Row};

use self::client::{Connection, drive};
use self::contestants::{Asks, BATCHES, CHECK, FLOOR, LAYERED, LIMITADOR, NGINX, THROTTLECRAB, batch};
use crate::Error;
use crate::field::{Field, Plan};
use crate::install::Installed;
use crate::keys::PROOF;
use crate::measured::{Measured, measure, warm_up};
use crate::process::Server;

const CONNECTIONS: usize = 32;

pub fn compare(installed: &Installed, plan: &Plan, report: &mut Report) {
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
    let rows = field.rows(columns.len(), |measured| {
        let m = measured[0];
        let (by_nginx, by_floor, cpu) = (m.rate / nginx, m.rate / floor, m.cpu / cpu);
        vec![m.rate, by_nginx, by_floor, m.p50, m.p99, m.cpu, cpu, m.busy, m.client]
    });
    report.table(&format!("HTTP, {CONNECTIONS} connections"), &columns, &rows);
    several(&field, report);
    targets(&field, report);
}

/// From one check in a request to many.
fn several(field: &Field, report: &mut Report) {
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

fn targets(field: &Field, report: &mut Report) {
    let rate: fn(&Measured) -> f64 = |measured| measured.rate;
    for (peer, least) in [(NGINX, 0.95), (THROTTLECRAB, 1.25), (LIMITADOR, 2.5)] {
        let what = format!("requests/s of /v1/check, × {peer}");
        report.target("S2", &what, Bound::AtLeast(least), field.ratio(rate, 0, CHECK, peer));
    }
    let what = "requests/s of axum behind the layer, × without it";
    report.target("S4", what, Bound::AtLeast(0.97), field.ratio(rate, 0, LAYERED, FLOOR));
    let cpu = |name: &str| field.of(name, 0).map_or(f64::NAN, |measured| measured.cpu);
    let what = "CPU µs that the layer adds to a request";
    report.target("S4", what, Bound::AtMost(1.0), cpu(LAYERED) - cpu(FLOOR));
    let most = BATCHES[BATCHES.len() - 1];
    let measured = field.ratio(rate, 0, &batch(most), CHECK) * most as f64;
    let what = format!("decisions/s in batches of {most}, × one at a time");
    report.target("S2", &what, Bound::AtLeast(10.0), measured);
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
