//! What a field did, as tables.

use super::contestant::{Contestant, HYBRID, cell, lua};
use super::field::Field;
use super::turn::Turn;
use crate::report::{Report, Row};

/// Speed, what it costs Redis, memory where it was measured, and what is asked of Redis.
pub fn print(field: &Field, title: &str, compared: &[(&str, &str)], report: &mut Report<'_>) {
    let rates: Vec<f64> =
        compared.iter().map(|(id, _)| field.of(id).map_or(f64::NAN, |turn| turn.rate)).collect();
    let ratios: Vec<String> = compared.iter().map(|(_, name)| format!("× {name}")).collect();
    let mut columns = vec!["k decisions/s"];
    columns.extend(ratios.iter().map(String::as_str));
    columns.extend(["p50 µs", "p99 µs", "p50 µs, 1 caller", "p99 µs, 1 caller", "client CPU µs"]);
    let speed = rows(field, |turn| {
        let ratios = rates.iter().map(|rate| turn.rate / rate);
        let rest = [turn.p50, turn.p99, turn.lone_p50, turn.lone_p99, turn.client];
        [turn.rate].into_iter().chain(ratios).chain(rest).collect()
    });
    report.table(&format!("{title}: speed"), &columns, &speed);

    numbers(field, &format!("{title}: what it costs Redis"), COST, report);
    if field.iter().any(|(_, turn)| turn.is_ok_and(|turn| turn.bytes.is_finite())) {
        numbers(field, &format!("{title}: memory in Redis"), MEMORY, report);
    }

    if field.was_disturbed() {
        println!(
            "\nThe machine was busy with something else: trust processor times, counts and bytes, but \
             neither rates nor latencies."
        );
    }
    println!("\nWhat each asks of Redis per decision:\n");
    for (contestant, turn) in field.iter() {
        if let Ok(turn) = turn {
            println!("- {} ({}): {}", contestant.name, contestant.how, commands(turn));
        }
    }
}

type Column = (&'static str, fn(&Turn) -> f64);

/// Per decision.
const COST: &[Column] = &[
    ("CPU µs", |turn| turn.cpu),
    ("busy", |turn| turn.busy),
    ("commands", |turn| turn.commands.values().sum()),
    ("round trips, 1 caller", |turn| turn.trips),
    ("passed of 200, right is 10", |turn| turn.crowd),
];

const MEMORY: &[Column] = &[
    ("bytes per key", |turn| turn.bytes),
    ("in use per key", |turn| turn.used),
    ("more per decision", |turn| turn.growth),
];

fn numbers(field: &Field, title: &str, columns: &[Column], report: &mut Report<'_>) {
    let names: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
    let cells = |turn: &Turn| columns.iter().map(|(_, cell)| cell(turn)).collect();
    report.table(title, &names, &rows(field, cells));
}

/// The rows of the table; a contestant that did not run has a row with the reason.
fn rows(field: &Field, cells: impl Fn(&Turn) -> Vec<f64>) -> Vec<Row> {
    let row = |(contestant, turn): (&Contestant, Result<&Turn, &str>)| match turn {
        Ok(turn) => Row::new(contestant.name, cells(turn)),
        Err(why) => Row::absent(contestant.name, why),
    };
    field.iter().map(row).collect()
}

/// Those that are made for at least one decision in a thousand.
fn commands(turn: &Turn) -> String {
    let often = turn.commands.iter().filter(|(_, calls)| **calls >= 0.001);
    let each = often.map(|(name, calls)| match format!("{calls:.3}") {
        calls if calls == "1.000" => name.clone(),
        calls => format!("{calls} {name}"),
    });
    let each: Vec<String> = each.collect();
    if each.is_empty() { "hardly anything".to_owned() } else { each.join(", ") }
}

/// Whom those that always ask Redis are compared with.
pub const STRICT: &[(&str, &str)] = &[(lua::ID, "plain Lua"), (cell::ID, "redis-cell")];

/// Whom those with memory of their own are compared with.
pub const LOCAL: &[(&str, &str)] = &[(lua::ID, "plain Lua"), (HYBRID, "trypema hybrid")];
