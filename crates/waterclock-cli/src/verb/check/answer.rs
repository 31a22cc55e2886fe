//! An answer as people read it, whoever decided.

use serde::Deserialize;
use waterclock::{Answer, Cost, Policy};

use crate::style::{BAD, GOOD, styled};
use crate::visible::visible;
use waterclock_config::Micros;
use waterclock_server::decision_line::micros_up;

/// What a sentence is made of: decided here, or read from a server's answer.
#[derive(Deserialize)]
pub(super) struct Told {
    allowed: bool,
    granted: Cost,
    remaining: Option<u64>,
    retry_after_us: Option<u64>,
    reset_after_us: u64,
    refused_by: Vec<String>,
    #[serde(default)]
    shadow_refused_by: Vec<String>,
    /// Who decided.
    #[serde(default)]
    pub(super) source: String,
}

impl Told {
    pub(super) fn new(policy: &Policy, answer: &Answer) -> Told {
        let decision = &answer.decision;
        let names = |set| policy.names(set).map(str::to_owned).collect();
        Told {
            allowed: decision.is_allowed(),
            granted: Cost::from(decision.granted()),
            remaining: decision.remaining(),
            retry_after_us: decision.retry_after().map(micros_up),
            reset_after_us: micros_up(decision.reset_after()),
            refused_by: names(decision.refused_by()),
            shadow_refused_by: names(decision.shadow_refused_by()),
            source: answer.source.name().to_owned(),
        }
    }

    /// The same, with names that others wrote made harmless.
    pub(super) fn made_visible(mut self) -> Told {
        for name in self.refused_by.iter_mut().chain(&mut self.shadow_refused_by) {
            *name = visible(name);
        }
        self
    }

    /// A partial grant is no refusal: then no limit is named, and something was granted. Whoever is
    /// blocked is refused by no limit either, and is granted nothing.
    pub(super) fn is_refusal(&self) -> bool {
        !self.allowed && (!self.refused_by.is_empty() || self.granted.is_zero())
    }

    pub(super) fn sentence(&self) -> String {
        let good = |word| styled(GOOD, word);
        if self.allowed {
            let left =
                self.remaining.map_or_else(String::new, |remaining| format!("; {remaining} left"));
            let in_shadow = match &*self.shadow_refused_by {
                [] => String::new(),
                names => format!("; in shadow, {} would have refused", names.join(" and ")),
            };
            if self.source == "policy" {
                // The numbers are those of a fresh key, and say nothing about this one.
                let why = "the key is exempt, nothing limits it, or the store does not answer";
                return format!(
                    "{} by the policy alone, not by the store: {why}{in_shadow}",
                    good("allowed")
                );
            }
            let fresh = Micros(self.reset_after_us);
            return format!("{}{left}; as fresh again in {fresh}{in_shadow}", good("allowed"));
        }
        let retry = match self.retry_after_us {
            Some(wait) => format!("retry in {}", Micros(wait)),
            None => "it will never pass: the cost is above the limit".to_owned(),
        };
        if !self.is_refusal() {
            let granted = &self.granted;
            return format!(
                "{}: {granted} granted; for all of it, {retry}",
                good("allowed in part")
            );
        }
        let refused = styled(BAD, "refused");
        match &*self.refused_by {
            [] => format!("{refused}: the key is blocked"),
            names => format!("{refused} by {}; {retry}", names.join(" and ")),
        }
    }
}
