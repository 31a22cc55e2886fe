//! The same for machines: the policy's numbers, what they mean, and the story.

use serde::Serialize;
use serde_json::Value;
use waterclock_config::{Config, Invalid, LimitSpec, Normalised, PolicyConfig};

use super::story::Story;
use waterclock_config::english::{bound, sentence};

#[derive(Serialize)]
pub(super) struct Account {
    policy: String,
    /// Numbers, as `validate --json` shows them for a whole file.
    settings: Value,
    limits: Vec<Meaning>,
    story: Story,
}

#[derive(Serialize)]
struct Meaning {
    name: String,
    means: String,
    bound: String,
}

impl Account {
    pub(super) fn new(policy: PolicyConfig, story: Story) -> Result<Account, Invalid> {
        let meaning = |limit: &LimitSpec| Meaning {
            name: limit.name.clone(),
            means: sentence(limit),
            bound: bound(limit),
        };
        let (name, limits) = (policy.name.clone(), policy.limits.iter().map(meaning).collect());
        let mut alone = Config::read("the policy", "")?;
        alone.policies.push(policy);
        let mut shown = serde_json::to_value(Normalised::new(&alone, &[])).unwrap_or_default();
        Ok(Account { settings: shown["policies"][&*name].take(), policy: name, limits, story })
    }
}
