//! As much as fits, whatever the policy's mode: for units that are taken out beforehand, and for
//! units that were admitted without the store.

use tokio::time::Instant;
use waterclock::fallback::fitting;
use waterclock::{Cost, Mode, Policy, StoreError, Verb};

use crate::decide::{How, Line};
use crate::held::Held;
use crate::store::Inner;

impl Inner {
    /// Charges as much of the cost as fits: the state after it, and how much that was.
    pub(crate) async fn fill(&self, line: &Line, by: Instant) -> Result<(Held, u64), StoreError> {
        let mut found = self.run(None, How::Fill, std::slice::from_ref(line), by).await?;
        let mut held = found.remove(0).held;
        let filled = held.answer(&filling(&line.entry.policy), Verb::Check, &line.cost);
        Ok((held, filled.decision.granted()))
    }

    /// The same where units differ: of each as much as there is room for. Whoever comes in between may leave less,
    /// and then nothing is charged.
    pub(crate) async fn fill_each(&self, line: &Line, by: Instant) -> Result<Cost, StoreError> {
        let policy = &line.entry.policy;
        let mut found =
            self.run(None, How::Apply(Verb::Peek), std::slice::from_ref(line), by).await?;
        let peeked = found.remove(0).held.answer(policy, Verb::Peek, &line.cost);
        let line = Line { cost: fitting(policy, &peeked.limits, &line.cost), ..line.clone() };
        let check = How::Apply(Verb::Check);
        let mut found = self.run(None, check, std::slice::from_ref(&line), by).await?;
        let checked = found.remove(0).held.answer(policy, Verb::Check, &line.cost);
        Ok(line.cost.granted(checked.decision.granted()))
    }
}

/// The policy that takes what there is.
fn filling(policy: &Policy) -> Policy {
    policy.clone().with_mode(Mode::Partial).expect("every algorithm admits in part")
}
