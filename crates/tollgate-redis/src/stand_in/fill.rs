//! As much as fits, whatever the policy's mode: for units that are taken out beforehand, and for
//! units that were admitted without the store.

use tokio::time::Instant;
use tollgate::{Mode, Policy, StoreError, Verb};

use crate::decide::{How, Line};
use crate::held::Held;
use crate::store::Inner;

impl Inner {
    /// Charges as much of the cost as fits: the state after it, and how much that was.
    pub(crate) async fn fill(&self, line: &Line, by: Instant) -> Result<(Held, u64), StoreError> {
        let mut found = self.run(None, How::Fill, std::slice::from_ref(line), by).await?;
        let mut held = found.remove(0).held;
        let filled = held.answer(&filling(&line.entry.policy), Verb::Check, line.cost);
        Ok((held, filled.decision.granted()))
    }
}

/// The policy that takes what there is.
fn filling(policy: &Policy) -> Policy {
    policy.clone().mode(Mode::Nary).expect("every algorithm admits in part")
}
