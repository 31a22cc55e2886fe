//! The configuration in force, and its replacement by a reload.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::yield_now;
use tokio::time::sleep;
use waterclock::StoreError;
use waterclock_config::{Config, Invalid, did_you_mean};

use super::kept::KeptPolicies;
use super::{ActivePolicy, Engine};
use crate::observe::Metrics;
use crate::off_workers::off_workers;
use crate::reference::{Domain, Pushed};
use crate::rules::Rules;

/// A name is compared with so many others for a suggestion; clients choose how often.
const MAX_COMPARED: usize = 1_000;

/// Everything that a reload replaces, whole.
#[derive(Clone)]
pub struct Plan {
    /// The policies of the file.
    file: Arc<HashMap<Box<str>, Arc<ActivePolicy>, ahash::RandomState>>,
    /// The policies that the store keeps, those included that a policy of the file hides.
    kept: Arc<KeptPolicies>,
    rules: Arc<Rules>,
    /// The configuration of Envoy's reference service, beside that of the file.
    pushed: Arc<Pushed>,
}

impl Plan {
    /// Nothing; `pushed` is expected or not.
    pub(super) fn empty(pushed: Pushed) -> Plan {
        Plan {
            file: Arc::default(),
            kept: Arc::default(),
            rules: Arc::default(),
            pushed: Arc::new(pushed),
        }
    }

    pub(super) fn new(config: &Config, metrics: &Metrics) -> Result<Plan, Invalid> {
        let mut policies = HashMap::default();
        for policy in &config.policies {
            let active = ActivePolicy::new(policy.clone(), metrics.tally(policy.name()));
            policies.insert(policy.name().into(), Arc::new(active));
        }
        let rules = Rules::new(&config.rules, |name| policies.get(name).cloned());
        let (file, rules) = (Arc::new(policies), Arc::new(rules));
        Ok(Plan { file, rules, ..Plan::empty(Pushed::default()) })
    }

    /// The same with another configuration of the reference service.
    pub(crate) fn with_pushed(
        &self,
        domains: Arc<Vec<Domain>>,
        before: &Pushed,
        metrics: &Metrics,
    ) -> Result<Plan, String> {
        let of_file = |name: &str| self.file.get(name).cloned();
        let pushed = Arc::new(Pushed::new(domains, &of_file, before, metrics)?);
        Ok(Plan { pushed, ..self.clone() })
    }

    /// The same with other policies that the store keeps.
    pub(super) fn with_kept(&self, kept: KeptPolicies) -> Plan {
        let (file, rules) = (Arc::clone(&self.file), Arc::clone(&self.rules));
        Plan { file, kept: Arc::new(kept), rules, pushed: Arc::clone(&self.pushed) }
    }

    /// The policies that the store keeps.
    pub(super) fn kept(&self) -> &KeptPolicies {
        &self.kept
    }

    /// The policy of this name.
    #[must_use]
    #[inline]
    pub fn policy(&self, name: &str) -> Option<&Arc<ActivePolicy>> {
        let of_file = self.file.get(name).or_else(|| self.pushed.policy(name));
        of_file.or_else(|| self.kept.get(name)?.active.as_ref())
    }

    /// Whether the file has a policy of this name.
    #[must_use]
    pub fn is_of_file(&self, name: &str) -> bool {
        self.file.contains_key(name)
    }

    /// What the store keeps under this name, in force or not.
    #[must_use]
    pub fn kept_text(&self, name: &str) -> Option<&str> {
        self.kept.get(name).map(|kept| &*kept.text)
    }

    /// The policy of this name, or an error that suggests another.
    pub fn find(&self, name: &str) -> Result<&Arc<ActivePolicy>, UnknownPolicy> {
        self.policy(name).ok_or_else(|| {
            let name: String = name.chars().take(64).collect();
            let hint = self.hint(&name);
            UnknownPolicy { name, hint }
        })
    }

    /// Which policy was probably meant by a name; empty if there are too many to compare.
    #[must_use]
    pub fn hint(&self, name: &str) -> String {
        let is_short = self.file.len() + self.kept.len() <= MAX_COMPARED;
        let names = self.policies().map(|policy| policy.name());
        if is_short { did_you_mean(name, names) } else { String::new() }
    }

    /// All policies, in no particular order.
    pub fn policies(&self) -> impl Iterator<Item = &Arc<ActivePolicy>> {
        let kept = self.kept.values().filter_map(|kept| kept.active.as_ref());
        let is_of_file = |policy: &&Arc<ActivePolicy>| self.is_of_file(policy.name());
        let is_hidden = move |policy: &&Arc<ActivePolicy>| {
            is_of_file(policy) || self.pushed.policy(policy.name()).is_some()
        };
        let pushed = self.pushed.policies().filter(move |policy| !is_of_file(policy));
        self.file.values().chain(pushed).chain(kept.filter(move |policy| !is_hidden(policy)))
    }

    /// The configuration of Envoy's reference service.
    pub(crate) fn pushed(&self) -> &Arc<Pushed> {
        &self.pushed
    }

    /// Which descriptors get which policy.
    #[must_use]
    pub fn rules(&self) -> &Rules {
        &self.rules
    }
}

/// There is no policy of this name. Displays as a sentence that suggests another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownPolicy {
    name: String,
    hint: String,
}

impl fmt::Display for UnknownPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "there is no policy `{}`{}", self.name, self.hint)
    }
}

impl std::error::Error for UnknownPolicy {}

impl Engine {
    /// The plan of a new configuration. Takes long if it has many policies.
    pub(crate) fn prepare(&self, config: &Config) -> Result<Plan, Invalid> {
        Plan::new(config, &self.metrics)
    }

    /// Replaces the configuration, whole or not at all. What was spent stays spent, and policies that the store keeps
    /// stay.
    pub(crate) async fn activate(&self, plan: Plan) -> Result<(), Invalid> {
        let _one_at_a_time = self.kept.version.lock().await;
        let before = self.plan.load_full();
        let plan = Plan { kept: Arc::clone(&before.kept), ..plan };
        let pushed = Arc::clone(&before.pushed);
        let plan = match pushed.domains().is_empty() {
            true => Plan { pushed, ..plan },
            // Policies of the file may decide in place of its own.
            false => self.push_into(plan, Arc::clone(pushed.domains()), pushed).await?,
        };
        self.replace(plan).await.map_err(|(_, error)| Invalid::from(error.to_string()))
    }

    /// Puts a configuration of the reference service in force, whole or not at all. It must have no faults.
    pub(crate) async fn push(&self, domains: Vec<Domain>) -> Result<(), Invalid> {
        let _one_at_a_time = self.kept.version.lock().await;
        let before = self.plan.load_full();
        let pushed = Arc::clone(&before.pushed);
        let plan = self.push_into((*before).clone(), Arc::new(domains), pushed).await?;
        self.replace(plan).await.map_err(|(_, error)| Invalid::from(error.to_string()))
    }

    async fn push_into(
        &self,
        plan: Plan,
        domains: Arc<Vec<Domain>>,
        before: Arc<Pushed>,
    ) -> Result<Plan, Invalid> {
        let metrics = Arc::clone(&self.metrics);
        let built = off_workers(move || plan.with_pushed(domains, &before, &metrics)).await;
        built.map_err(Invalid::from)
    }

    /// Replaces the plan, whole or not at all: then the error is that of the policy that the store cannot run.
    ///
    /// Gives the store the policies that changed, swaps the plan, then removes what is gone: no request is sent to
    /// a policy that the store does not know.
    pub(super) async fn replace(&self, plan: Plan) -> Result<(), (Box<str>, StoreError)> {
        let (before, plan) = (self.plan.load_full(), Arc::new(plan));
        let changes = {
            let (before, plan) = (Arc::clone(&before), Arc::clone(&plan));
            off_workers(move || Changes::between(&before, &plan)).await
        };
        for (done, policy) in changes.changed.iter().enumerate() {
            // Requests come between any two policies.
            yield_now().await;
            if let Err(error) = self.set_policy(policy).await {
                self.roll_back(&before, &changes.changed[..=done]).await;
                return Err((policy.name().into(), error));
            }
        }
        self.plan.store(plan);
        for policy in &changes.changed {
            if let Some(old) = before.policy(policy.name()) {
                yield_now().await;
                self.remove_old_variants(old, policy).await;
            }
        }
        for old in &changes.gone {
            yield_now().await;
            self.refused.forget(old.name());
            self.remove_policy(old.name()).await;
            // Those of the file are as many as an operator chose; these may come and go.
            if !before.is_of_file(old.name()) {
                self.metrics.forget_policy(old.name());
            }
        }
        self.lines.nudge_all(None);
        drop_later(before, changes);
        Ok(())
    }

    async fn roll_back(&self, before: &Plan, changed: &[Arc<ActivePolicy>]) {
        for policy in changed {
            yield_now().await;
            match before.policy(policy.name()) {
                Some(old) => _ = self.set_policy(old).await,
                None => self.remove_policy(policy.name()).await,
            }
        }
    }
}

/// What a plan changes of the one before.
struct Changes {
    /// New policies, and those that decide otherwise than before.
    changed: Vec<Arc<ActivePolicy>>,
    gone: Vec<Arc<ActivePolicy>>,
}

impl Changes {
    fn between(before: &Plan, plan: &Plan) -> Changes {
        let decides_like_before = |policy: &Arc<ActivePolicy>| {
            let old = before.policy(policy.name());
            old.is_some_and(|old| Arc::ptr_eq(old, policy) || old.decides_like(policy))
        };
        let is_gone = |old: &Arc<ActivePolicy>| plan.policy(old.name()).is_none();
        let mut changes = Changes {
            changed: plan.policies().filter(|new| !decides_like_before(new)).cloned().collect(),
            gone: before.policies().filter(|old| is_gone(old)).cloned().collect(),
        };
        // A reload takes the same steps each time.
        changes.changed.sort_by(|a, b| a.name().cmp(b.name()));
        changes.gone.sort_by(|a, b| a.name().cmp(b.name()));
        changes
    }
}

/// Drops a plan away from the threads that answer, once no request uses it.
fn drop_later(plan: Arc<Plan>, changes: Changes) {
    tokio::spawn(async move {
        off_workers(move || drop(changes)).await;
        // A request that holds it for longer than this drops it.
        for _ in 0..100 {
            if Arc::strong_count(&plan) == 1 {
                break;
            }
            sleep(Duration::from_millis(10)).await;
        }
        off_workers(move || drop(plan)).await;
    });
}
