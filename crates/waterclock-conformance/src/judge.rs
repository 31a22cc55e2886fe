//! Runs properties over many cases and, where one fails, shows a small one that does.

use crate::property::Property;
use crate::{Case, Family, Subject};

/// Panics with a minimal counterexample if a property fails on any of `cases` cases.
pub fn judge<S: Subject>(subject: &S, family: Family, properties: &[Property<S>], cases: u64) {
    if let Err(complaint) = verdict(subject, family, properties, cases) {
        panic!("{complaint}");
    }
}

/// The complaint about the first case that fails, made as small as it gets. Also if a property
/// applied to no case at all.
pub fn verdict<S: Subject>(
    subject: &S,
    family: Family,
    properties: &[Property<S>],
    cases: u64,
) -> Result<(), String> {
    let mut applied = vec![0_u64; properties.len()];
    for seed in 0..cases {
        let case = Case::draw(family, seed, S::TICK_NS);
        let answers = subject.run(&case.spec, &case.trace, false);
        for (property, applied) in properties.iter().zip(&mut applied) {
            match (property.holds)(subject, &case, &answers) {
                Ok(held) => *applied += u64::from(held),
                Err(_) => return Err(complaint(subject, family, property, seed, case)),
            }
        }
    }
    match properties.iter().zip(applied).find(|(property, n)| *n == 0 && property.applies(family)) {
        Some((property, _)) => Err(format!("{} applied to no case of {family:?}", property.name)),
        None => Ok(()),
    }
}

fn complaint<S: Subject>(
    subject: &S,
    family: Family,
    property: &Property<S>,
    seed: u64,
    mut case: Case,
) -> String {
    let fails = |case: &Case| {
        let answers = subject.run(&case.spec, &case.trace, false);
        (property.holds)(subject, case, &answers).err()
    };
    let mut reason = fails(&case).unwrap_or_default();
    // Drop events for as long as the property still fails.
    let mut i = 0;
    while i < case.trace.len() {
        let mut smaller = case.clone();
        smaller.trace.remove(i);
        match fails(&smaller) {
            Some(why) => (case, reason, i) = (smaller, why, 0),
            None => i += 1,
        }
    }
    format!("{} fails for {family:?}, seed {seed}: {reason}\n{case:#?}", property.name)
}
