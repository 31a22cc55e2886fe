//! What a file rules about each event: which policy it meets, and what is told of the decision.

use waterclock::{
    Charge, Cost, CostError, Decision, Migration, Policy, Store, StoreError, Timestamp, Verb,
};
use waterclock_config::PolicyConfig;
use waterclock_core::store::{Decide as _, Logs, View};
use waterclock_server::engine::{Particular, Standing};

use crate::failure::{Failure, say};
use crate::trace::{Event, Op};

/// A policy with what the file says about tiers and single keys.
pub struct Ruling {
    spec: PolicyConfig,
    particular: Particular,
}

impl Ruling {
    /// What only several servers can do is told to be left out.
    pub fn new(spec: PolicyConfig) -> Result<Ruling, Failure> {
        if spec.lease.is_some() {
            let name = &spec.name;
            say(&format!(
                "warning: policy `{name}` leases units to servers; here each is counted at once"
            ));
        }
        let particular = Particular::new(&spec)?;
        Ok(Ruling { spec, particular })
    }

    pub fn spec(&self) -> &PolicyConfig {
        &self.spec
    }

    pub fn into_spec(self) -> PolicyConfig {
        self.spec
    }

    /// Whichever numbers go for a key, it is one budget.
    pub async fn set_variants(&self, store: &impl Store) -> Result<(), StoreError> {
        let tiers = self.spec.shared_tiers().map(|tier| &tier.built);
        for policy in tiers.chain(self.particular.policies().map(|policy| &**policy)) {
            store.set_variant(&self.spec.name, policy.clone(), Migration::Units).await?;
        }
        Ok(())
    }

    /// What an event meets.
    pub fn turn(&self, event: &Event<'_>) -> Result<Turn<'_>, CostError> {
        let cost = event.cost_under(&self.spec.built)?;
        Ok(self.turn_of(&event.key, event.tier.as_deref(), cost))
    }

    /// What is charged, and by which policy, before anything is told. What is given back or forgotten is so whoever
    /// the key is; nothing is where the key is on a list.
    pub fn charge<'e>(&'e self, turn: &'e Turn<'_>, event: &'e Event<'_>) -> Charge<'e> {
        let policy = if event.op.gives_back() { &self.spec.built } else { turn.policy() };
        Charge::new(policy.name(), event.key.as_bytes(), turn.cost().clone())
    }

    /// What a check of a key meets.
    pub fn turn_of(&self, key: &str, tier: Option<&str>, cost: Cost) -> Turn<'_> {
        let (policy, standing) =
            (self.spec.under(tier), self.particular.standing_of(key.as_bytes()));
        Turn { spec: &self.spec, policy, standing, cost }
    }
}

/// What one event meets.
pub struct Turn<'r> {
    spec: &'r PolicyConfig,
    policy: &'r Policy,
    standing: Standing,
    cost: Cost,
}

impl Turn<'_> {
    /// What decides, or would.
    pub fn policy(&self) -> &Policy {
        if let Standing::Override(policy) = &self.standing { policy } else { self.policy }
    }

    /// Whether the policy's own numbers go for the key.
    pub fn is_usual(&self) -> bool {
        self.policy().name() == self.spec.built.name() && !self.is_particular()
    }

    /// How much it asks for.
    pub fn cost(&self) -> &Cost {
        &self.cost
    }

    /// What the file says about this key.
    pub fn standing(&self) -> &Standing {
        &self.standing
    }

    /// Whether the file says something about this key in particular.
    pub fn is_particular(&self) -> bool {
        !matches!(self.standing, Standing::Limited)
    }

    /// What is said where no state is touched: to keys on a list, and in a tier that nothing limits.
    pub fn answer(&self, now: Timestamp) -> Option<Decision> {
        if let Some(answer) = self.standing.answer(self.policy, &self.cost) {
            return Some(answer.decision);
        }
        let policy = self.policy();
        let is_free = policy.limits().is_empty() && policy.name() != self.spec.built.name();
        let logs = Logs::new();
        is_free.then(|| policy.peek(View::new(&[], &logs), now, &self.cost))
    }

    /// What is told of a decision: keys that the policy is not rolled out to are in shadow, unless the file
    /// names them.
    pub fn told(&self, key: &str, decision: Decision) -> Decision {
        if self.is_particular() || self.spec.enrols(key.as_bytes()) {
            decision
        } else {
            decision.in_shadow(&self.cost)
        }
    }
}

impl Event<'_> {
    pub fn verb(&self) -> Verb {
        match self.op {
            Op::Check => Verb::Check,
            Op::Peek => Verb::Peek,
            Op::Refund => Verb::Refund,
            Op::Report(outcome) => Verb::Report(outcome),
            Op::Reset => Verb::Reset,
        }
    }
}
