//! Which descriptors get which policy.

mod rule;
mod tree;

pub use self::rule::{Effect, Rule};

use std::collections::HashMap;
use std::sync::Arc;

use self::tree::Node;
use crate::engine::ActivePolicy;
use waterclock_config::RuleConfig;

/// One entry of a descriptor: its key and its value.
pub type Entry<'a> = (&'a str, &'a str);

/// The rules of a configuration, by domain.
#[derive(Default)]
pub struct Rules {
    domains: HashMap<Box<str>, Node>,
}

impl Rules {
    /// The rules of a file, with the policies they name.
    pub(crate) fn new(
        specs: &[RuleConfig],
        policy: impl Fn(&str) -> Option<Arc<ActivePolicy>>,
    ) -> Rules {
        let mut rules = Rules::default();
        for spec in specs {
            // A name without a policy is a complaint about the file, which comes before this.
            let Some(rule) = Rule::new(spec, &policy) else { continue };
            let domain = rules.domains.entry(spec.domain.as_str().into()).or_default();
            domain.insert(&spec.descriptor, Arc::new(rule));
        }
        rules
    }

    /// The most specific rule about a descriptor: entry by entry from the first, one value goes
    /// before a long beginning before a short one before any value.
    #[must_use]
    pub fn find(&self, domain: &str, descriptor: &[Entry<'_>]) -> Option<&Arc<Rule>> {
        self.domains.get(domain)?.find(descriptor)
    }
}
