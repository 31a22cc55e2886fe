//! M2, M3, M4 and M7: many keys, asked about in random order.

use crate::contestant::{Contestant, addresses, filled, governor, numbers, strings, waterclock};
use crate::field::{COLUMNS, Field, machine_scaling};
use crate::goal::in_process::*;
use crate::keys::{Key, drawn};
use crate::options::Options;
use crate::report::Report;

pub fn run(options: &Options, report: &mut Report<'_>) {
    println!("\nTwo threads that share nothing scale by {:.2} here.", machine_scaling(options));
    for &keys in &options.keys {
        let field = time(strings(), keys, options, report, "String");
        string_goals(&field, keys, report);
    }
    let keys = options.most_keys();
    let field = time(numbers(), keys, options, report, "u64");
    if keys == 10_000_000 {
        let times = |ours| field.of(governor::TSC).lone / field.of(ours).lone;
        report.goal(NUMBERS_10M, times(waterclock::DEFAULT));
        report.goal(NUMBERS_10M_BATCH, times(waterclock::BATCH));
    }
    time(addresses(), options.fewest_keys(), options, report, "IpAddr");
}

fn time<K: Key>(
    contestants: Vec<Contestant<K>>,
    keys: usize,
    options: &Options,
    report: &mut Report<'_>,
    kind: &str,
) -> Field {
    // Few keys are drawn often enough that the sequence itself stays in the cache.
    let len = if keys <= 10_000 { 1 << 16 } else { 1 << 21 };
    let sequence = drawn::<K>(keys, len);
    let (run, left_out): (Vec<_>, Vec<_>) =
        contestants.into_iter().partition(|contestant| keys <= contestant.most_keys);
    let entrants = run.iter().map(|c| (c.name, c.kind, filled(c, keys))).collect();
    let field = Field::time(entrants, &sequence, options, true);
    report.table(&format!("{keys} {kind} keys"), COLUMNS, &field.rows());
    if field.was_disturbed() {
        println!(
            "\nThe machine was busy: two threads rarely ran at once, so that peers did not contend."
        );
    }
    for contestant in left_out {
        println!("\nNot run: {}, at most {} keys.", contestant.name, contestant.most_keys);
    }
    field
}

fn string_goals(field: &Field, keys: usize, report: &mut Report<'_>) {
    let (ours, theirs) = (field.of(waterclock::DEFAULT), field.of(governor::TSC));
    let lone = theirs.lone / ours.lone;
    let batch = theirs.lone / field.of(waterclock::BATCH).lone;
    match keys {
        10_000 => {
            let instant = field.of(governor::MONOTONIC).lone / field.of(waterclock::MONOTONIC).lone;
            report.goal(STRINGS_10K, lone);
            report.goal(STRINGS_10K_INSTANT, instant);
            report.goal(STRINGS_10K_PAIR, ours.pair / theirs.pair);
        }
        1_000_000 => {
            report.goal(STRINGS_1M, lone);
            report.goal(STRINGS_1M_BATCH, batch);
        }
        10_000_000 => {
            report.goal(STRINGS_10M, lone);
            report.goal(STRINGS_10M_BATCH, batch);
        }
        _ => return,
    }
    report.goal(SCALING.of(&format!("{keys} String keys")), ours.scaling());
}
