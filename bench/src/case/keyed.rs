//! M2, M3, M4 and M7: many keys, asked about in random order.

use crate::contestant::{Contestant, addresses, filled, governor, numbers, strings, waterclock};
use crate::field::{COLUMNS, Field, machine_scaling};
use crate::keys::{Key, drawn};
use crate::options::Options;
use crate::report::{Bound, Report};

pub fn run(options: &Options, report: &mut Report) {
    println!("\nTwo threads that share nothing scale by {:.2} here.", machine_scaling(options));
    for &keys in &options.keys {
        let field = time(strings(), keys, options, report, "String");
        string_targets(&field, keys, report);
    }
    let keys = options.most_keys();
    let field = time(numbers(), keys, options, report, "u64");
    if keys >= 10_000_000 {
        let best = field.best_peer().lone;
        let ratio = |name| best / field.of(name).lone;
        report.target("M4", "10 M u64 keys, lone", Bound::AtLeast(4.0), ratio(waterclock::DEFAULT));
        report.target("M4", "10 M u64 keys, batch", Bound::AtLeast(10.0), ratio(waterclock::BATCH));
    }
    time(addresses(), options.fewest_keys(), options, report, "IpAddr");
}

fn time<K: Key>(
    contestants: Vec<Contestant<K>>,
    keys: usize,
    options: &Options,
    report: &mut Report,
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

fn string_targets(field: &Field, keys: usize, report: &mut Report) {
    let best = field.best_peer();
    let (ours, batch) = (field.of(waterclock::DEFAULT), field.of(waterclock::BATCH));
    let (id, lone, batched) = match keys {
        10_000 => ("M2", 3.0, f64::NAN),
        1_000_000 => ("M3", 5.0, 15.0),
        10_000_000 => ("M4", 7.0, 20.0),
        _ => return,
    };
    let what = |what| format!("{keys} String keys, {what}");
    report.target(id, &what("lone"), Bound::AtLeast(lone), best.lone / ours.lone);
    if id == "M2" {
        let instant = field.of(governor::MONOTONIC).lone / field.of(waterclock::MONOTONIC).lone;
        report.target(id, &what("lone, both Instant"), Bound::AtLeast(lone), instant);
        report.target(id, &what("2 threads"), Bound::AtLeast(5.0), ours.pair / best.pair);
    } else {
        report.target(id, &what("batch"), Bound::AtLeast(batched), best.lone / batch.lone);
    }
    report.target("M7", &what("2 threads against 1"), Bound::AtLeast(1.8), ours.scaling());
}
