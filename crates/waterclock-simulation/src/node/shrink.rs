//! Makes a story that fails shorter: whatever can be left out while the same oracle still fails is left out.

use super::oracle::judge;
use super::plan::{Plan, What};
use super::plant::Plant;
use super::run::{History, run};
use crate::oracle::Broken;

/// The shortest plan found, its history, and how it fails.
#[must_use]
pub fn shrink(plan: &Plan, plant: Plant, broken: &Broken) -> (History, Broken) {
    let fails = |plan: &Plan| {
        let history = run(plan, plant);
        judge(&history).filter(|found| found.oracle == broken.oracle).map(|found| (history, found))
    };
    let mut best = fails(plan).unwrap_or_else(|| (run(plan, plant), broken.clone()));
    let mut length = best.0.plan.steps.len().div_ceil(2);
    while length > 0 {
        let mut at = 0;
        while at < best.0.plan.steps.len() {
            let mut shorter = best.0.plan.clone();
            let end = (at + length).min(shorter.steps.len());
            shorter.steps.drain(at..end);
            match fails(&shorter) {
                Some(found) => best = found,
                None => at += length,
            }
        }
        length /= 2;
    }
    for at in 0..best.0.plan.steps.len() {
        let mut simpler = best.0.plan.clone();
        if let What::Call(_, leaves @ Some(_)) = &mut simpler.steps[at].what {
            *leaves = None;
            best = fails(&simpler).unwrap_or(best);
        }
    }
    best
}
