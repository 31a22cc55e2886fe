//! A configuration in force: its trees, and the policies that its limits have become.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use waterclock::{FixedWindow, HeaderStyle, Limit as CoreLimit, Mode, Policy};
use waterclock_config::{PolicyConfig, RuleCharge};

use super::names::policy_name;
use super::tree::Node;
use super::{Descriptor, Domain, Hits, Limit, seconds};
use crate::engine::ActivePolicy;
use crate::observe::Metrics;
use crate::rules::{Effect, Entry, ReferenceTerms, Rule};

/// The policy of limits that come with requests, where no limit of the configuration takes them.
const OVERRIDES: &str = "envoy-overrides";

/// Limits of one configuration, each of which becomes a policy.
const MAX_LIMITS: usize = 20_000;

/// A configuration of the reference service that is in force, or none yet.
#[derive(Default)]
pub(crate) struct Pushed {
    domains: Arc<Vec<Domain>>,
    /// One is expected, and none has come yet.
    is_awaited: bool,
    trees: HashMap<Box<str>, Node>,
    policies: HashMap<Box<str>, Arc<ActivePolicy>, ahash::RandomState>,
    /// By policy, so that they survive the next configuration.
    hits: HashMap<Box<str>, Arc<Hits>>,
    /// For limits that come with requests.
    overrides: Option<Arc<Rule>>,
}

impl Pushed {
    /// None yet.
    pub(crate) fn awaited() -> Pushed {
        Pushed { is_awaited: true, ..Pushed::default() }
    }

    /// Domains that have no faults. A limit whose name is that of a policy of the file is decided by it.
    ///
    /// # Errors
    ///
    /// A sentence about limits that are too many or cannot be a policy.
    pub(crate) fn new(
        domains: Arc<Vec<Domain>>,
        of_file: &impl Fn(&str) -> Option<Arc<ActivePolicy>>,
        before: &Pushed,
        metrics: &Metrics,
    ) -> Result<Pushed, String> {
        let mut pushed = Pushed { domains: Arc::clone(&domains), ..Pushed::default() };
        let mut growing = Growing { pushed: &mut pushed, of_file, before, metrics };
        for domain in &*domains {
            let mut root = Node::default();
            growing.level(&domain.name, &domain.descriptors, &mut Vec::new(), &mut root)?;
            growing.pushed.trees.insert(domain.name.as_str().into(), root);
        }
        if !domains.is_empty() {
            let rule = growing.overrides()?;
            pushed.overrides = Some(Arc::new(rule));
        }
        Ok(pushed)
    }

    /// What applies to a descriptor; `brings_limit` if it has a limit of its own, which needs no more than a domain
    /// that is known.
    pub(crate) fn find(
        &self,
        domain: &str,
        descriptor: &[Entry<'_>],
        brings_limit: bool,
    ) -> Option<&Arc<Rule>> {
        let rule = self.trees.get(domain)?.find(descriptor);
        match brings_limit {
            true => rule.filter(|rule| rule.takes_limits()).or(self.overrides.as_ref()),
            false => rule,
        }
    }

    pub(crate) fn policy(&self, name: &str) -> Option<&Arc<ActivePolicy>> {
        self.policies.get(name)
    }

    pub(crate) fn policies(&self) -> impl Iterator<Item = &Arc<ActivePolicy>> {
        self.policies.values()
    }

    /// As they came.
    pub(crate) fn domains(&self) -> &Arc<Vec<Domain>> {
        &self.domains
    }

    /// Whether one is expected, and none has come yet.
    pub(crate) fn is_awaited(&self) -> bool {
        self.is_awaited
    }

    /// The counters of its limits, in the order of their names.
    pub(crate) fn hits(&self) -> Vec<&Hits> {
        let mut hits: Vec<(&str, &Hits)> =
            self.hits.iter().map(|(name, hits)| (&**name, &**hits)).collect();
        hits.sort_unstable_by_key(|(name, _)| *name);
        hits.into_iter().map(|(_, hits)| hits).collect()
    }
}

struct Growing<'g, F> {
    pushed: &'g mut Pushed,
    of_file: &'g F,
    before: &'g Pushed,
    metrics: &'g Metrics,
}

impl<F: Fn(&str) -> Option<Arc<ActivePolicy>>> Growing<'_, F> {
    fn level<'d>(
        &mut self,
        domain: &str,
        descriptors: &'d [Descriptor],
        path: &mut Vec<&'d Descriptor>,
        into: &mut Node,
    ) -> Result<(), String> {
        for descriptor in descriptors {
            path.push(descriptor);
            let mut node = Node::default();
            if let Some(limit) = &descriptor.limit {
                let rule = self.rule(domain, path, limit)?;
                node.rule = Some(Arc::new(rule));
            }
            self.level(domain, &descriptor.below, path, &mut node)?;
            path.pop();
            into.insert(&descriptor.key, &descriptor.value, node);
        }
        Ok(())
    }

    fn rule(&mut self, domain: &str, path: &[&Descriptor], limit: &Limit) -> Result<Rule, String> {
        if self.pushed.hits.len() >= MAX_LIMITS {
            return Err(format!("more than {MAX_LIMITS} limits"));
        }
        let here = path.last().copied();
        let name = policy_name(domain, path);
        let hits = match self.before.hits.get(&*name) {
            Some(known) => Arc::clone(known),
            None => Arc::new(Hits::new(domain, path)),
        };
        let shadow = here.is_some_and(|here| here.shadow);
        let named = [limit.name.as_str(), &name].into_iter().find_map(|name| (self.of_file)(name));
        let effect = match named {
            _ if limit.unlimited => Effect::Admit,
            Some(policy) => Effect::Limit(policy),
            None if limit.requests == 0 => Effect::Refuse,
            None => {
                let policy = self.window(&name, limit, shadow);
                Effect::Limit(policy.map_err(|error| format!("domain `{domain}`: {error}"))?)
            }
        };
        self.pushed.hits.insert(name.into(), Arc::clone(&hits));
        let shares = path.iter().any(|entry| entry.shares_budget);
        let own = path.iter().filter(|entry| !entry.shares_budget);
        Ok(Rule::of_reference(
            effect,
            ReferenceTerms {
                unit: limit.unit,
                shadow,
                quota: here.is_some_and(|here| here.quota),
                metadata: here.and_then(|here| here.metadata.clone()),
                hits: Some(hits),
            },
            shares.then(|| own.map(|entry| entry.key.as_str().into()).collect()),
            (!limit.name.is_empty()).then(|| limit.name.as_str().into()),
            limit.replaces.iter().map(|name| name.as_str().into()).collect(),
        ))
    }

    fn window(
        &mut self,
        name: &str,
        limit: &Limit,
        shadow: bool,
    ) -> Result<Arc<ActivePolicy>, String> {
        let per = Duration::from_secs(seconds(limit.unit).unwrap_or(1));
        self.policy(name, limit.requests.into(), per, shadow)
    }

    /// Decides as the reference service does, until the request brings other numbers.
    fn overrides(&mut self) -> Result<Rule, String> {
        let policy = self.policy(OVERRIDES, u32::MAX.into(), Duration::from_secs(1), false)?;
        let terms = ReferenceTerms::default();
        Ok(Rule::of_reference(Effect::Limit(policy), terms, None, None, Vec::new()))
    }

    fn policy(
        &mut self,
        name: &str,
        requests: u64,
        per: Duration,
        shadow: bool,
    ) -> Result<Arc<ActivePolicy>, String> {
        let window = FixedWindow::aligned(requests, per).map_err(|error| error.to_string())?;
        let window = CoreLimit::from(window).with_name("fixed-window");
        let policy = Policy::new(name, [window])
            .and_then(|policy| policy.with_mode(Mode::CountRefusals))
            .map_err(|error| error.to_string())?
            .with_shadow(shadow);
        let mut config = PolicyConfig::new(policy);
        config.headers = HeaderStyle::None;
        let active = Arc::new(ActivePolicy::new(config, self.metrics.tally(name)));
        self.pushed.policies.insert(name.into(), Arc::clone(&active));
        Ok(active)
    }
}

/// How a policy is charged: as the reference service counts if it counts refusals, too.
pub(crate) fn charge_of(effect: &Effect) -> RuleCharge {
    match effect {
        Effect::Limit(policy) if policy.scope().policy().mode() != Mode::CountRefusals => {
            RuleCharge::Check
        }
        _ => RuleCharge::Count,
    }
}
