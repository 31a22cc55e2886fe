//! What every face asks: policies by name, keys, exceptions, one store.

mod address;
mod apply;
mod count;
mod entries;
mod exception;
mod force;
mod hold;
mod key;
mod list;
mod lone;
mod numbers;
mod particular;
mod place;
mod plan;
mod reply;
mod served;
mod shadowed;
mod throttle;

pub use self::exception::{Exception, Exceptions, Instead};
pub use self::hold::{Holding, Terms};
pub use self::key::{BadKey, Key, MAX_KEY, Standing};
pub use self::numbers::Numbers;
pub use self::particular::Particular;
pub use self::place::Place;
pub use self::plan::Plan;
pub use self::reply::{Outcome, Reply};
pub use self::served::{Served, TIER};
pub use self::throttle::{ThrottleNumbers, Variant};

pub(crate) use self::apply::short_of_answers;
pub(crate) use self::count::PolicyCount;

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use waterclock::Cost;

use self::throttle::Throttle;
use crate::observe::{Metrics, Refused};
use waterclock_config::{Config, Invalid};

/// One line of a check, as a face puts it.
pub struct Ask<'a> {
    /// The policy, from the [`Plan`].
    pub served: &'a Served,
    /// What shares a budget, formed by the policy.
    pub key: &'a Key<'a>,
    /// How much, as the policy counts; 0 is a peek.
    pub cost: Cost,
    /// Whose numbers go for the caller, of those that the policy knows.
    pub tier: Option<&'a str>,
    /// Numbers that stand in for the policy's own, for this call.
    pub numbers: Option<Numbers>,
}

/// Policies, exceptions and the store behind them.
pub struct Engine {
    place: Place,
    plan: ArcSwap<Plan>,
    exceptions: Exceptions,
    /// Held while exceptions change, so that the store and they agree.
    changing: tokio::sync::Mutex<()>,
    throttle: Throttle,
    metrics: Arc<Metrics>,
    refused: Refused,
}

impl Engine {
    /// An engine with the policies of a configuration, on the store it names.
    pub async fn new(config: &Config, metrics: Arc<Metrics>) -> Result<Engine, Invalid> {
        let place = Place::open(&config.store)?;
        let plan = Plan::new(config, &metrics)?;
        let engine = Engine {
            place,
            plan: ArcSwap::from_pointee(Plan::empty()),
            exceptions: Exceptions::default(),
            changing: tokio::sync::Mutex::default(),
            throttle: Throttle::new(|family| metrics.tally(family)),
            metrics,
            refused: Refused::new(config.server.show_keys),
        };
        engine.place.greet().await?;
        engine.put_in_force(plan).await?;
        let begun = Throttle::begin(&engine.place).await;
        begun.map_err(|error| Invalid::from(error.to_string()))?;
        let begun = hold::begin(&engine.place).await;
        begun.map_err(|error| Invalid::from(error.to_string()))?;
        if let Some(path) = &config.store.snapshot {
            engine.place.restore(path);
        }
        Ok(engine)
    }

    /// What is in force. Hold it for one request, so that a reload does not change it half way.
    pub fn plan(&self) -> Guard<Arc<Plan>> {
        self.plan.load()
    }

    /// The store.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// What administrators have said about single keys.
    pub fn exceptions(&self) -> &Exceptions {
        &self.exceptions
    }

    /// The counters.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Brings the gauges up to date.
    pub(crate) fn gauge(&self) {
        self.metrics.set_degraded(self.place.is_degraded());
        self.place.failures().for_each(|(kind, total)| self.metrics.set_store_errors(kind, total));
        let (plan, held) = (self.plan(), self.place.reservations());
        let mut gauges = self.metrics.of_policies();
        for served in plan.policies() {
            gauges.keys(served.name(), self.place.keys_of(served.name()));
            gauges
                .reservations(served.name(), held.get(served.name()).copied().unwrap_or_default());
            for limit in served.policy().limits() {
                if let Some(most) = limit.max_cost() {
                    gauges.limit(served.name(), limit.name(), most);
                }
            }
        }
        self.metrics.set_overflowed(self.place.overflowed());
    }
}
