//! S4: what a tower layer adds to an application of axum's.

use waterclock_bench::goal::server as goal;
use waterclock_bench::report::{Report, Row};

use super::calls;
use super::contestants::{Asks, FLOOR, floor, layered};
use super::take;
use crate::field::{Field, Plan};
use crate::install::Installed;
use crate::measured::Measured;
use crate::process::Server;
use crate::role::Peer;

const OURS: &str = "axum 204 behind waterclock";
const TOWER_GOVERNOR: &str = "axum 204 behind tower_governor";

pub fn compare(installed: &Installed, plan: &Plan, report: &mut Report<'_>) {
    let contestants = vec![
        floor(installed),
        layered(OURS, Peer::Layered, installed),
        layered(TOWER_GOVERNOR, Peer::TowerGovernor, installed),
    ];
    let turn = async |server: &Server, asks: &Asks| take(server, asks, plan).await;
    let field = Field::run(contestants, plan, turn);
    let columns = ["k requests/s", "× bare", "p50 µs", "p99 µs", "CPU µs", "CPU µs added", "busy"];
    let bare = |number: fn(&Measured) -> f64| field.of(FLOOR, 0).map_or(f64::NAN, number);
    let (rate, cpu) = (bare(|m| m.rate), bare(|m| m.cpu));
    let rows = field.rows(|measured| {
        let m = measured[0];
        vec![m.rate, m.rate / rate, m.p50, m.p99, m.cpu, m.cpu - cpu, m.busy]
    });
    report.table("Tower layer around axum", &columns, &rows);
    report.goal(goal::LAYER, field.ratio(|measured| measured.rate, 0, OURS, FLOOR));
    report.goal(goal::LAYER_CPU, field.of(OURS, 0).map_or(f64::NAN, |m| m.cpu) - cpu);
    without_sockets(plan, report);
}

fn without_sockets(plan: &Plan, report: &mut Report<'_>) {
    let names = [FLOOR, OURS, TOWER_GOVERNOR];
    let (rows, added): (Vec<Row>, f64) = match calls::measure(plan) {
        Ok(micros) => {
            let cells = micros.map(|each| [each, each - micros[0]]);
            let rows = names.into_iter().zip(cells).map(|(name, cells)| Row::new(name, cells));
            (rows.collect(), cells[1][1])
        }
        Err(why) => (names.map(|name| Row::absent(name, why.to_string())).into(), f64::NAN),
    };
    let columns = ["CPU µs", "CPU µs added"];
    report.table("Tower layer around axum, called without sockets", &columns, &rows);
    report.goal(goal::LAYER_CALL, added);
}
