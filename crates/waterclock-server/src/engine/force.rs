//! Configurations come into force, whole or not at all.

use std::sync::Arc;

use super::{Engine, Plan, Served};
use waterclock_config::{Config, Invalid};

impl Engine {
    /// Puts another configuration in force, whole or not at all; what was spent stays spent.
    pub async fn adopt(&self, config: &Config) -> Result<(), Invalid> {
        let plan = Plan::new(config, &self.metrics)?;
        self.put_in_force(plan).await?;
        self.refused.show_keys(config.server.show_keys);
        Ok(())
    }

    pub(super) async fn put_in_force(&self, plan: Plan) -> Result<(), Invalid> {
        let before = self.plan.load_full();
        let mut changed = Vec::new();
        for served in plan.policies() {
            let old = before.policy(served.name());
            if old.is_some_and(|old| old.decides_as(served)) {
                continue;
            }
            changed.push(served);
            if let Err(error) = self.place.set(served).await {
                self.put_back(&before, &changed).await;
                return Err(Invalid::from(error.to_string()));
            }
        }
        let changed: Vec<Arc<Served>> = changed.into_iter().cloned().collect();
        let gone: Vec<String> = before
            .policies()
            .filter(|old| plan.policy(old.name()).is_none())
            .map(|old| old.name().to_owned())
            .collect();
        self.plan.store(Arc::new(plan));
        // Only now that nobody is sent there any more.
        for served in changed {
            if let Some(old) = before.policy(served.name()) {
                self.place.remove_variants(old, &served).await;
            }
        }
        for name in gone {
            self.exceptions.forget(&name);
            self.refused.forget(&name);
            self.place.remove(&name).await;
        }
        Ok(())
    }

    /// Undoes a change that went wrong half way: all of a configuration or nothing of it.
    async fn put_back(&self, before: &Plan, changed: &[&Arc<Served>]) {
        for served in changed {
            match before.policy(served.name()) {
                Some(old) => _ = self.place.set(old).await,
                None => self.place.remove(served.name()).await,
            }
        }
    }
}
