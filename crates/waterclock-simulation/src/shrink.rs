//! Makes a story that fails shorter: whatever can be left out while the same oracle still fails is left out.

use crate::oracle::{Broken, judge};
use crate::plan::Plan;
use crate::plant::Plant;
use crate::run::{History, run};

/// The shortest plan found, its history, and how it fails.
#[must_use]
pub fn shrink(plan: &Plan, plant: Plant, broken: &Broken) -> (History, Broken) {
    let fails = |plan: &Plan| {
        let history = run(plan, plant);
        judge(&history).filter(|found| found.oracle == broken.oracle).map(|found| (history, found))
    };
    let mut best = fails(plan).unwrap_or_else(|| (run(plan, plant), broken.clone()));
    loop {
        let before = best.0.plan.clone();
        for candidate in halves(&before).chain(singles(&before)).chain(simpler(&before)) {
            // Made shorter meanwhile: what is left of the candidates is of the plan before.
            if size(&candidate) < size(&best.0.plan)
                && let Some(found) = fails(&candidate)
            {
                best = found;
                break;
            }
        }
        if best.0.plan == before {
            return best;
        }
    }
}

fn size(plan: &Plan) -> usize {
    let leaving = plan.steps.iter().filter(|step| step.leaves_after.is_some()).count();
    let leases = plan.serving.iter().filter(|serving| serving.lease.is_some()).count();
    1_000 * (plan.steps.len() + plan.faults.len()) + 10 * (leaving + leases + plan.nodes)
}

fn halves(plan: &Plan) -> impl Iterator<Item = Plan> {
    let middle = plan.steps.len() / 2;
    let (first, second) = plan.steps.split_at(middle);
    let with = |steps: &[_]| Plan { steps: steps.to_vec(), ..plan.clone() };
    [with(first), with(second)].into_iter()
}

fn singles(plan: &Plan) -> impl Iterator<Item = Plan> + '_ {
    let faults = (0..plan.faults.len()).map(|i| {
        let mut faults = plan.faults.clone();
        faults.remove(i);
        Plan { faults, ..plan.clone() }
    });
    let steps = (0..plan.steps.len()).map(|i| {
        let mut steps = plan.steps.clone();
        steps.remove(i);
        Plan { steps, ..plan.clone() }
    });
    faults.chain(steps)
}

fn simpler(plan: &Plan) -> impl Iterator<Item = Plan> + '_ {
    let stays = (0..plan.steps.len()).filter(|i| plan.steps[*i].leaves_after.is_some()).map(|i| {
        let mut simpler = plan.clone();
        simpler.steps[i].leaves_after = None;
        simpler
    });
    let unleased = (0..plan.serving.len()).filter(|i| plan.serving[*i].lease.is_some()).map(|i| {
        let mut simpler = plan.clone();
        simpler.serving[i].lease = None;
        simpler
    });
    stays.chain(unleased)
}
