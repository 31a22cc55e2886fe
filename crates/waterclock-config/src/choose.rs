//! Choosing the policy a command runs, and saying so when it cannot run.

use waterclock::{Factor, Rollout};

use super::error::Invalid;
use super::spec::{LimitSpec, PolicyConfig};
use super::suggest::all_of;
use super::suggest::nearest;
use super::{Config, build, shorthand};

impl Config {
    /// Takes out the policy of that name, or the only one there is.
    pub fn choose(&mut self, name: Option<&str>) -> Result<PolicyConfig, Invalid> {
        let names: Vec<&str> = self.policies.iter().map(|policy| policy.name.as_str()).collect();
        let place = match (name, names.as_slice()) {
            (_, []) => return Err(format!("{} has no policies", self.file).into()),
            (None, [_]) => 0,
            (None, _) => {
                let sentence =
                    format!("choose one of the policies {} with --policy", all_of(&names));
                return Err(sentence.into());
            }
            (Some(name), _) => names.iter().position(|known| *known == name).ok_or_else(|| {
                let hint = match nearest(name, names.iter().copied()) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("it has {}", all_of(&names)),
                };
                format!("there is no policy `{name}` in {}; {hint}", self.file)
            })?,
        };
        Ok(self.policies.swap_remove(place))
    }
}

impl PolicyConfig {
    /// A policy of one limit in a few words.
    pub fn of_shorthand(text: &str) -> Result<PolicyConfig, Invalid> {
        let said = shorthand::parse(text)?;
        let limits = vec![LimitSpec {
            name: said.algorithm.to_owned(),
            algorithm: said.spec(),
            min_interval: None,
            unit: "requests".to_owned(),
            shadow: false,
        }];
        let name = "example";
        Ok(PolicyConfig {
            name: name.to_owned(),
            key: Vec::new(),
            mode: "binary",
            headers: "retry-after",
            on_store_error: "local",
            shadow: false,
            rollout: Rollout::EVERYBODY,
            factor: Factor::ONE,
            tiers: Vec::new(),
            disabled: Vec::new(),
            exempt: Vec::new(),
            block: Vec::new(),
            overrides: Vec::new(),
            lease: None,
            built: build::policy(name, &limits, "binary", false)?,
            limits,
        })
    }
}
