//! Runs a property over many cases and, where one fails, shows a small one that does.

use crate::property::Property;
use crate::{Case, Family, Subject};

/// Panics with a minimal counterexample if the property fails on any of `cases` cases.
pub fn judge<S: Subject>(subject: &S, family: Family, property: &Property<S>, cases: u64) {
    if let Err(complaint) = verdict(subject, family, property, cases) {
        panic!("{complaint}");
    }
}

/// The complaint about the first case that fails, made as small as it gets; `Ok` with the number of
/// cases to which the property applied.
pub fn verdict<S: Subject>(
    subject: &S,
    family: Family,
    property: &Property<S>,
    cases: u64,
) -> Result<u64, String> {
    let mut applied = 0;
    for seed in 0..cases {
        let case = Case::draw(family, seed, S::TICK_NS);
        match (property.holds)(subject, &case) {
            Ok(true) => applied += 1,
            Ok(false) => {}
            Err(_) => {
                let (case, reason) = smallest(subject, property, case);
                return Err(format!(
                    "{} fails for {family:?}, seed {seed}: {reason}\n{case:#?}",
                    property.name
                ));
            }
        }
    }
    Ok(applied)
}

/// Drops events for as long as the property still fails.
fn smallest<S: Subject>(subject: &S, property: &Property<S>, mut case: Case) -> (Case, String) {
    let mut reason = (property.holds)(subject, &case).err().unwrap_or_default();
    let mut i = 0;
    while i < case.trace.len() {
        let mut smaller = case.clone();
        smaller.trace.remove(i);
        match (property.holds)(subject, &smaller) {
            Err(why) => (case, reason, i) = (smaller, why, 0),
            Ok(_) => i += 1,
        }
    }
    (case, reason)
}
