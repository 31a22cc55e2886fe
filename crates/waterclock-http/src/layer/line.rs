//! A rule that applies to a request, and what comes of it.

use std::sync::Arc;

use http::request::Parts;
use waterclock::{Answer, Charge, Policy};

use super::Charged;
use super::after::{Dues, Held, HeldLine, Reported};
use super::hold::Said;
use crate::fields::HeaderStyle;
use crate::key::{Found, Seen};
use crate::rule::Rule;

/// One rule that applies.
pub(super) struct Line<'r> {
    rule: &'r Rule,
    pub(super) policy: &'r Arc<Policy>,
    key: Vec<u8>,
    pub(super) cost: u64,
    /// Whether the policy is rolled out to this key; in shadow otherwise.
    pub(super) is_enrolled: bool,
}

impl Line<'_> {
    pub(super) fn charge(&self) -> Charge<'_> {
        Charge { policy: self.policy.name(), key: &self.key, cost: self.cost.into() }
    }

    /// Whether something is held until the request has ended.
    pub(super) fn holds(&self) -> bool {
        self.rule.settle.is_some() || self.policy.reserves_only()
    }

    fn held(&self, answer: &Answer) -> HeldLine {
        let (policy, key) = (Arc::clone(self.policy), self.key.clone());
        let units = self.cost.min(answer.decision.granted());
        HeldLine { policy, key, units, settle: self.rule.settle.clone() }
    }
}

impl Rule {
    pub(super) fn find_key<'a>(&'a self, seen: &'a Seen<'a>) -> Found<'a> {
        match &self.key {
            Some(key) => key.find(seen),
            // Builders see to it that there is one.
            None => Found::Now(Ok(Vec::new())),
        }
    }

    pub(super) fn line(&self, key: Vec<u8>, parts: &Parts) -> Line<'_> {
        let is_enrolled =
            self.rollout.is_everybody() || self.rollout.enrols(self.policy.name(), &key);
        let (policy, cost) = (self.policy_for(parts), self.cost_for(parts));
        Line { rule: self, policy, key, cost, is_enrolled }
    }
}

/// What the store said about every line, and what is owed when the request has ended.
#[derive(Default)]
pub(super) struct Decided {
    pub(super) charges: Vec<Charged>,
    pub(super) dues: Dues,
}

impl Decided {
    pub(super) fn add(&mut self, lines: &[Line<'_>], (answers, id): Said) {
        if let Some(id) = id {
            let held = lines.iter().zip(&answers).map(|(line, answer)| line.held(answer));
            self.dues.held.push(Held { id, lines: held.collect() });
        }
        for (line, answer) in lines.iter().zip(answers) {
            let mut charged = Charged::new(line.rule, line.policy, line.cost, answer);
            if !line.is_enrolled {
                charged.answer.decision = charged.answer.decision.in_shadow(&line.cost.into());
                charged.headers = HeaderStyle::None;
            }
            self.charges.push(charged);
            if line.policy.takes_reports() {
                let (policy, key) = (Arc::clone(line.policy), line.key.clone());
                let report = Arc::clone(&line.rule.report);
                self.dues.reports.push(Reported { policy, key, report });
            }
        }
    }
}
