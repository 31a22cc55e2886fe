//! Which policy an event meets, and what becomes of its decision.

use tollgate::{Decision, Policy, Timestamp, Verb};
use tollgate_core::{Logs, View};
use tollgate_server::config::PolicySpec;

use crate::trace::{Event, Op};

impl Event<'_> {
    /// What decides about it. What is given back or forgotten is so whatever the tier.
    pub(crate) fn under<'s>(&self, spec: &'s PolicySpec) -> &'s Policy {
        match self.op {
            Op::Check | Op::Peek | Op::Report(_) => spec.under(self.tier.as_deref()),
            Op::Refund | Op::Reset => &spec.built,
        }
    }

    pub(crate) fn verb(&self) -> Verb {
        match self.op {
            Op::Check => Verb::Check,
            Op::Peek => Verb::Peek,
            Op::Refund => Verb::Refund,
            Op::Report(outcome) => Verb::Report(outcome),
            Op::Reset => Verb::Reset,
        }
    }

    /// The decision about a tier that nothing limits: it touches no state.
    pub(crate) fn free(&self, spec: &PolicySpec) -> Option<Decision> {
        let policy = self.under(spec);
        let is_free = policy.limits().is_empty() && policy.name() != spec.built.name();
        let logs = Logs::new();
        let now = Timestamp::from_micros(self.t_us);
        is_free.then(|| policy.peek(View::new(&[], &logs), now, self.cost))
    }

    /// What is told of a decision: keys that the policy is not rolled out to are in shadow.
    pub(crate) fn told(&self, spec: &PolicySpec, decision: Decision) -> Decision {
        if spec.enrols(self.key.as_bytes()) { decision } else { decision.in_shadow(self.cost) }
    }
}
